"""Checks that the parts of a model file fit together, before anything is computed with them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import get_scorer_names

from dimargin.estimators import CoreSetSVDD, MarginRegressor, MulticlassKernelClassifier
from dimargin.estimators.preprocessing import CalendarFeatures, FourierFeatures, SparseScaler
from dimargin.estimators.preprocessing.calendar_features import check_format
from dimargin.estimators.preprocessing.sparse_scaler import SCALERS
from dimargin.estimators.wide_attributes import kept_of
from dimargin.kernels.column_statistics import SparseColumns
from dimargin.kernels.functions import MAX_DEGREE
from dimargin.kernels.row_transform import RowTransform
from dimargin.kernels.user import UserKernel
from dimargin.problems.one_vs_one import PAIR_SCORES
from dimargin.strategies import Committee, Router


def check_step(step: Any, has_width: bool = True) -> None:
    """Raise ValueError for wrong types of attributes that steps need or commands print."""
    width = getattr(step, "n_features_in_", None)
    names = vars(step).get("feature_names_in_", np.array([""], dtype=object))
    threads = vars(step).get("n_jobs")
    sound = (
        (_is_whole(width) and 0 < width < 2**62 if width is not None else not has_width)
        and isinstance(names, np.ndarray)
        and ("feature_names_in_" not in vars(step) or names.shape == (width,))
        and all(isinstance(name, str) for name in names.flat)
        and (threads is None or (_is_whole(threads) and threads != 0))
        and isinstance(vars(step).get("kernel", ""), str)
    )
    _require(sound, "its width, column names, kernel or n_jobs are invalid")
    _check_certificate(vars(step))


def _require(sound: bool, reason: str) -> None:
    if not sound:
        raise ValueError(reason)


def _check_certificate(attributes: dict[str, Any]) -> None:
    history = attributes.get("history_", [])
    objectives = [attributes.get(name, 0.0) for name in ("objective_", "dual_objective_")]
    shape = np.shape(attributes.get("intercept_", 0.0))  # A machine has an intercept for each problem.
    of_problems = () if shape == (1,) else shape
    sound = (
        all(isinstance(attributes.get(name, ""), str) for name in ("status_", "certificate_"))
        and _is_amount(attributes.get("duality_gap_", 0.0))
        and all(_is_amount(value) and np.shape(value) in ((), of_problems) for value in objectives)
        and _is_whole(attributes.get("n_iter_", 1))
        and isinstance(history, list)
        and all(isinstance(entry, dict) for entry in history)
    )
    _require(sound, "its certificate or history is invalid")


def _n_outputs(machine: Any) -> int:
    """Return the number of decision functions; raises ValueError for invalid classes."""
    if isinstance(machine, MarginRegressor):
        return 1
    classes = machine.classes_
    sound = (
        isinstance(classes, np.ndarray)
        and classes.ndim == 1
        and len(classes) >= 2
        and (classes.dtype.kind in "biufU" or all(isinstance(label, (str, int, float)) for label in classes.tolist()))
        and len(set(classes.tolist())) == len(classes)
        and (classes.dtype.kind != "f" or bool(np.isfinite(classes).all()))
    )
    _require(sound, "its classes are not two or more distinct labels")
    return 1 if len(classes) == 2 else len(classes)


def check_machine(machine: Any) -> None:
    """Raise ValueError for arrays of a kernel machine that the core would read out of bounds."""
    n_outputs = _n_outputs(machine)
    if len(machine.dual_coef_) == n_outputs - 1 > 1:
        _check_pairs(machine, n_outputs)
        return
    sound = (
        _fits_vectors(machine, n_outputs)
        and _is_real(machine.intercept_, (n_outputs,))
        and (machine._router is None or _fits_router(machine._router, machine.support_vectors_))
        and (machine._router is None or _fits_outputs(machine._router, n_outputs))
    )
    _require(sound, "its arrays do not fit together")


def _check_pairs(machine: Any, n_classes: int) -> None:
    """Raise ValueError unless the arrays of a machine for every pair of classes fit together."""
    counts = machine.n_support_
    sound = (
        isinstance(machine, MulticlassKernelClassifier)
        and machine.pair_scores in PAIR_SCORES
        and _fits_vectors(machine, n_classes - 1)
        and _is_real(machine.intercept_, (n_classes * (n_classes - 1) // 2,))
        and machine._router is None
        and counts.dtype.kind == "i"
        and counts.shape == (n_classes,)
        and bool((counts >= 0).all())
        and int(counts.sum(dtype=np.int64)) == machine.dual_coef_.shape[1]
    )
    _require(sound, "the arrays of its pairs of classes do not fit together")


def _fits_vectors(machine: Any, n_outputs: int) -> bool:
    if not (_is_matrix(machine.support_vectors_) and _is_matrix(machine.dual_coef_)):
        return False
    n_vectors, n_features = machine.support_vectors_.shape
    given = machine.kernel == "precomputed"  # Predictions use the columns `support_` of given kernel values.
    return (
        machine.dual_coef_.shape == (n_outputs, n_vectors)
        and _is_whole(machine._n_given)
        and machine.support_.dtype.kind == "i"
        and machine.support_.shape == (n_vectors,)
        and bool(((machine.support_ >= 0) & (machine.support_ < machine._n_given)).all())
        and n_features == (0 if given else machine.n_features_in_)
        and (not given or machine._n_given == machine.n_features_in_)
        and isinstance(machine._transform, UserKernel) == given
        and _fits_transform(machine.support_vectors_, machine._transform)
    )


def check_linear_machine(machine: Any) -> None:
    """Raise ValueError for arrays of a linear machine that do not fit together."""
    n_outputs, width = _n_outputs(machine), machine.n_features_in_
    coefficients = kept_of(machine, "coef_")
    sound = (
        _is_wide(coefficients, (n_outputs, width))
        and _is_real(machine.intercept_, (n_outputs,))
        and _fits_partial(vars(machine).get("_partial"), coefficients)
    )
    _require(sound, "its arrays do not fit together")


def check_path(machine: Any) -> None:
    """Raise ValueError for arrays of a linear machine with a path of values that do not fit together."""
    check_linear_machine(machine)
    name = machine.parameter
    value, values, path = getattr(machine, f"{name}_"), getattr(machine, f"{name}s_"), kept_of(machine, "path_", None)
    sound = (
        _is_real(values)
        and values.ndim == 1
        and _is_number(value, machine.best_score_)
        and value in values
        and all(
            isinstance(own, np.ndarray) and own.dtype.kind == "f" and own.ndim == 2 and own.shape[1:] == values.shape
            for own in (machine.scores_, machine.duality_gaps_)
        )
        and machine.scores_.shape == machine.duality_gaps_.shape
    )
    _require(sound, f"its {name}_, {name}s_, scores_ or duality_gaps_ do not fit together")
    shape = (*machine.scores_.shape, _n_outputs(machine), machine.n_features_in_ + 1)
    stored = getattr(path, "values", path)  # A cut-off path has NaN.
    _require(path is None or (path.shape == shape and stored.dtype.kind == "f"), "its path_ does not fit")
    if machine.scoring is not None and machine.scoring not in get_scorer_names():
        raise ValueError(f"scoring must be None or the name of a scorer of scikit-learn, got {machine.scoring!r}")


def _fits_partial(partial: Any, coefficients: Any) -> bool:
    """Return whether the state of partial_fit, if any, has the form of the coefficients."""
    if partial is None:
        return True
    n_outputs, width = coefficients.shape
    sound = len(partial) == 2 and _is_wide(partial[0], (n_outputs, width + 1)) and _finite(partial[1])
    if not sound or isinstance(coefficients, np.ndarray) or isinstance(partial[0], np.ndarray):
        return bool(sound and isinstance(coefficients, np.ndarray) and isinstance(partial[0], np.ndarray))
    return np.array_equal(partial[0].columns, np.append(coefficients.columns, width))


def check_detector(detector: Any) -> None:
    """Raise ValueError for attributes of a detector that do not fit or cannot give scores."""
    sound = (
        detector.support_vectors_.shape[0] > 0
        and _fits_vectors(detector, 1)
        and _finite(detector.offset_, detector._square)
        and _is_number(detector.objective_, detector.dual_objective_, detector.duality_gap_)
        and isinstance(detector.status_, str)
        and isinstance(detector.certificate_, str)
        and (not isinstance(detector, CoreSetSVDD) or _fits_ball(detector))
    )
    _require(sound, "its attributes do not fit together")


def _fits_ball(detector: CoreSetSVDD) -> bool:
    # A ball also needs the diagonal of the kernel matrix, which precomputed values lack.
    sound = detector.kernel != "precomputed" and _finite(detector.radius_) and detector.radius_ >= 0
    center = kept_of(detector, "center_")
    return sound and (center is None or _is_wide(center, (detector.n_features_in_,)))


def _is_matrix(values: Any) -> bool:
    """Return whether a value is a dense or CSR matrix of finite floating-point numbers."""
    return len(values.shape) == 2 and _is_real(values.data if sp.issparse(values) else values)


def _is_real(values: Any, shape: tuple[int, ...] | None = None) -> bool:
    """Return whether a value is an array of finite floats, of the given shape if there is one."""
    sound = isinstance(values, np.ndarray) and values.dtype.kind == "f" and bool(np.isfinite(values).all())
    return sound and shape in (None, values.shape)


def _is_wide(value: Any, shape: tuple[int, ...]) -> bool:
    """Return whether a value is an array of finite floats of this shape, dense or sparse."""
    if isinstance(value, SparseColumns):
        return value.shape == shape and _is_real(value.values)
    return _is_real(value, shape)


def _is_number(*values: Any, of: Any = (int, float)) -> bool:
    return all(isinstance(value, of) for value in values)


def _is_whole(*values: Any) -> bool:
    return all(isinstance(value, int) and not isinstance(value, bool) for value in values)


def _is_amount(value: Any) -> bool:
    """Return whether a value is a number, or an array of numbers for the classes."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fi" and value.ndim == 1
    return isinstance(value, float) or (_is_whole(value) and abs(value) < 2**63)


def _finite(*values: Any) -> bool:
    return _is_number(*values) and all(map(math.isfinite, values))


def _fits_transform(X: Any, transform: Any) -> bool:
    if isinstance(transform, UserKernel):
        return bool(X.shape[1] == 0)
    if not isinstance(transform, RowTransform):
        return False
    kernel, center = transform.kernel, transform.center
    return (
        _finite(kernel.gamma, kernel.coef0)
        and kernel.gamma > 0
        and _is_number(kernel.degree, of=int)
        and 0 <= transform.size < 1e150  # Kernel values of rows with larger norms are not computed.
        and 0 < kernel.degree <= MAX_DEGREE
        and (center is None or (_is_real(center, X.shape[1:]) and not sp.issparse(X)))
    )


def _fits_router(router: Router, vectors: Any) -> bool:
    """Return whether the router can assign rows like these vectors to valid clusters."""
    rule = router.rule
    n_splits, n_centres = len(rule.splits), sum(len(split.norms) for split in rule.splits)
    if not (n_splits and 0 < rule.n_clusters <= n_centres and _are_indices(router.clusters, 0, rule.n_clusters)):
        return False
    return len(router.clusters) == vectors.shape[0] and all(
        sp.issparse(split.vectors) == sp.issparse(vectors)
        and split.vectors.ndim == 2
        and split.vectors.shape[1] == vectors.shape[1]
        and split.vectors.dtype.kind == "f"
        and _fits_transform(split.vectors, rule.transform)
        and _is_real(split.shares, split.vectors.shape[:1])
        and _is_real(split.norms, (len(split.bounds) - 1,))
        and split.targets.shape == split.norms.shape
        and _are_indices(split.bounds, 0, len(split.shares) + 1)
        and (split.bounds[0], split.bounds[-1]) == (0, len(split.shares))
        and (np.diff(split.bounds) > 0).all()
        and _are_indices(split.targets, -n_splits, rule.n_clusters)  # A target is a later split or a cluster.
        and ((split.targets >= 0) | (split.targets < -1 - index)).all()
        for index, split in enumerate(rule.splits)
    )


def _fits_outputs(router: Router, n_outputs: int) -> bool:
    """Return whether a router has the terms of decision values for every cluster and output."""
    shape = (router.rule.n_clusters, n_outputs)
    sound = router.intercepts is None or _is_real(router.intercepts, shape)
    if isinstance(router, Committee):
        sound = sound and _is_real(router.slopes, shape) and _is_real(router.prior, (n_outputs,))
    return sound


def _are_indices(values: Any, low: int, high: int) -> bool:
    """Return whether a value is an array of integers from `low` to below `high`."""
    return values.dtype == np.int64 and values.ndim == 1 and bool(((low <= values) & (values < high)).all())


def check_calendar(step: CalendarFeatures) -> None:
    """Raise ValueError for attributes that do not fit the columns, or an invalid date format."""
    shape = (step.n_features_in_,)
    times = step.has_times_
    if not (_is_real(step.days_, shape) and isinstance(times, np.ndarray) and times.dtype == bool):
        raise ValueError("the attributes of the CalendarFeatures are not numbers")
    # The limit on days since 1970 is beyond the year 9999.
    if times.shape != shape or not (np.abs(step.days_) < 4e6).all():
        raise ValueError("attributes of the CalendarFeatures do not fit its columns")
    check_format(step.format)


def check_quantiles(step: Any) -> None:
    """Raise ValueError for attributes of a QuantileTransformer that do not fit together."""
    step._validate_params()
    n, shape = step.n_quantiles_, np.shape(step.quantiles_)
    if not (_is_whole(n) and n > 0 and shape == (n, step.n_features_in_) and _is_real(step.references_, (n,))):
        raise ValueError("quantiles of the QuantileTransformer do not fit its columns")
    if not (_is_real(step.quantiles_) and (np.diff(step.quantiles_, axis=0) >= 0).all()):
        raise ValueError("quantiles of the QuantileTransformer are not ascending numbers")


def check_fourier(step: FourierFeatures) -> None:
    """Raise ValueError unless the frequencies are finite numbers for all columns and components."""
    components = step.n_components
    if not (_is_whole(components) and 0 < components < 2**62):
        raise ValueError(f"n_components must be a positive integer, got {components!r}")
    if not _is_real(getattr(step, "frequencies_", None), (step.n_features_in_, components)):
        raise ValueError("frequencies_ of the FourierFeatures do not fit its columns and components")


def check_sparse_scaler(step: SparseScaler) -> None:
    """Raise ValueError unless a SparseScaler has ascending valid columns, each with a scale."""
    columns: Any = getattr(step, "columns_", None)
    scale: Any = getattr(step, "scale_", None)
    sound = (
        isinstance(step.method, str)
        and step.method in SCALERS
        and isinstance(columns, np.ndarray)
        and columns.dtype == np.int64
        and columns.ndim == 1
        and len(columns) > 0
        and bool((np.diff(columns, prepend=-1, append=step.n_features_in_) > 0).all())
        and _is_real(scale, columns.shape)
        and bool((scale > 0).all())
    )
    _require(sound, "columns_ and scale_ of the SparseScaler are invalid, or do not fit together and its width")


def check_scaler(scaler: Any, attributes: tuple[str, ...]) -> None:
    """Raise ValueError for attributes that are missing or not one number per column."""
    kind, shape = type(scaler).__name__, (scaler.n_features_in_,)
    scaler._validate_params()
    needed = {
        "scale_": getattr(scaler, "with_std", getattr(scaler, "with_scaling", True)),
        "mean_": getattr(scaler, "with_mean", False),
        "center_": getattr(scaler, "with_centering", False),
        "min_": kind == "MinMaxScaler",
    }
    for name in (name for name, is_needed in needed.items() if is_needed):
        if not _is_real(getattr(scaler, name, None), shape):
            raise ValueError(f"{name} of the {kind} is not a finite number for each of its {shape[0]} columns")
    for name in attributes:
        values = getattr(scaler, name, None)
        if isinstance(values, np.ndarray) and values.ndim and values.shape != shape:
            raise ValueError(f"{name} of the {kind} does not fit its {shape[0]} columns")
