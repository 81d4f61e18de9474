"""Whether what a model file holds fits together; nothing is computed with it before."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from dimargin.estimators import CoreSetSVDD
from dimargin.kernels import RowTransform
from dimargin.strategies import Committee, Router
from dimargin.user_kernels import UserKernel

_LARGEST = 1e150  # norm of prepared rows: beyond, no kernel's values are computed


def check_machine(machine: Any) -> None:
    """Raise ValueError for arrays that the compiled core would read beyond their ends."""
    n_vectors, n_features = machine.support_vectors_.shape
    n_outputs = 1 if len(machine.classes_) == 2 else len(machine.classes_)
    sound = (
        machine.dual_coef_.shape == (n_outputs, n_vectors)
        and machine.intercept_.shape == (n_outputs,)
        and machine.support_.shape == (n_vectors,)
        and n_features == (0 if machine.kernel == "precomputed" else machine.n_features_in_)
        and len(machine.classes_) >= 2
        and _fits_transform(machine.support_vectors_, machine._transform)
        and all(a.dtype.kind == "f" for a in (machine.dual_coef_, machine.intercept_, machine.support_vectors_))
        and np.isfinite(machine.dual_coef_).all()
        and (machine._router is None or _fits(machine._router, machine.support_vectors_))
        and (machine._router is None or _fits_outputs(machine._router, n_outputs))
    )
    if not sound:
        raise ValueError("its arrays do not fit together")


def check_linear_machine(machine: Any) -> None:
    """Raise ValueError for arrays that do not fit together."""
    n_outputs = 1 if len(machine.classes_) == 2 else len(machine.classes_)
    partial = vars(machine).get("_partial", (np.zeros((n_outputs, machine.n_features_in_ + 1)), 0.0))
    sound = (
        len(machine.classes_) >= 2
        and machine.coef_.shape == (n_outputs, machine.n_features_in_)
        and machine.intercept_.shape == (n_outputs,)
        and all(a.dtype.kind == "f" and np.isfinite(a).all() for a in (machine.coef_, machine.intercept_))
        and len(partial) == 2
        and partial[0].shape == (n_outputs, machine.n_features_in_ + 1)
    )
    if not sound:
        raise ValueError("its arrays do not fit together")


def check_detector(detector: Any) -> None:
    """Raise ValueError for attributes that do not fit together, or that scores cannot be computed from."""
    n_vectors = detector.support_vectors_.shape[0]
    sound = (
        n_vectors > 0
        and _is_matrix(detector.support_vectors_)
        and _is_matrix(detector.dual_coef_)
        and detector.dual_coef_.shape == (1, n_vectors)
        and detector.support_.dtype.kind == "i"
        and detector.support_.shape == (n_vectors,)
        and _is_number(detector.n_features_in_, detector._n_given, of=int)
        and ((detector.support_ >= 0) & (detector.support_ < detector._n_given)).all()
        and _fits_kernel(detector)
        and _finite(detector.offset_, detector._square)
        and _is_number(detector.objective_, detector.dual_objective_, detector.duality_gap_)
        and isinstance(detector.status_, str)
        and isinstance(detector.certificate_, str)
        and (not isinstance(detector, CoreSetSVDD) or _fits_ball(detector))
    )
    if not sound:
        raise ValueError("its attributes do not fit together")


def _fits_kernel(detector: Any) -> bool:
    vectors, transform = detector.support_vectors_, detector._transform
    if detector.kernel != "precomputed":
        return vectors.shape[1] == detector.n_features_in_ and _fits_transform(vectors, transform)
    # prediction takes columns of given values by `support_`; a ball needs the diagonal too, which is not among them
    given = isinstance(transform, UserKernel) and detector.n_features_in_ == detector._n_given
    return given and _fits_transform(vectors, transform) and not isinstance(detector, CoreSetSVDD)


def _fits_ball(detector: CoreSetSVDD) -> bool:
    center = detector.center_
    sound = _finite(detector.radius_) and detector.radius_ >= 0
    return sound and (center is None or (center.shape == (detector.n_features_in_,) and _is_real(center)))


def _is_matrix(values: Any) -> bool:
    """Whether this is an array or a CSR array of two dimensions, of finite floating-point numbers."""
    return len(values.shape) == 2 and _is_real(values.data if sp.issparse(values) else values)


def _is_real(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.dtype.kind == "f" and bool(np.isfinite(values).all())


def _is_number(*values: Any, of: Any = (int, float)) -> bool:
    return all(isinstance(value, of) for value in values)


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
        and 0 <= transform.size < _LARGEST
        and 0 < kernel.degree < 2**31
        and (center is None or (center.shape == X.shape[1:] and not sp.issparse(X) and _is_real(center)))
    )


def _fits(router: Router, vectors: Any) -> bool:
    """Whether the rule can be asked about rows like these vectors, and answers with a cluster that there is."""
    rule = router.rule
    n_splits, n_centres = len(rule.splits), sum(len(split.norms) for split in rule.splits)
    if not (n_splits and 0 < rule.n_clusters <= n_centres and _whole(router.clusters, 0, rule.n_clusters)):
        return False
    return len(router.clusters) == vectors.shape[0] and all(
        sp.issparse(split.vectors) == sp.issparse(vectors)
        and split.vectors.ndim == 2
        and split.vectors.shape[1] == vectors.shape[1]
        and split.vectors.dtype.kind == split.shares.dtype.kind == split.norms.dtype.kind == "f"
        and _fits_transform(split.vectors, rule.transform)
        and split.shares.shape == split.vectors.shape[:1]
        and split.norms.shape == split.targets.shape == (len(split.bounds) - 1,)
        and np.isfinite(split.shares).all()
        and np.isfinite(split.norms).all()
        and _whole(split.bounds, 0, len(split.shares) + 1)
        and (split.bounds[0], split.bounds[-1]) == (0, len(split.shares))
        and (np.diff(split.bounds) > 0).all()
        and _whole(split.targets, -n_splits, rule.n_clusters)  # on to a later split, or to a cluster
        and ((split.targets >= 0) | (split.targets < -1 - place)).all()
        for place, split in enumerate(rule.splits)
    )


def _fits_outputs(router: Router, n_outputs: int) -> bool:
    own = router.intercepts
    if own is not None and not (
        own.dtype.kind == "f" and own.shape == (router.rule.n_clusters, n_outputs) and np.isfinite(own).all()
    ):
        return False
    return not isinstance(router, Committee) or _fits_committee(router, n_outputs)


def _fits_committee(committee: Committee, n_outputs: int) -> bool:
    slopes, prior = committee.slopes, committee.prior
    return (
        slopes.dtype.kind == prior.dtype.kind == "f"
        and (slopes.shape, prior.shape) == ((committee.rule.n_clusters, n_outputs), (n_outputs,))
        and bool(np.isfinite(slopes).all() and np.isfinite(prior).all())
    )


def _whole(values: Any, low: int, high: int) -> bool:
    """Whether these are whole numbers from `low` to below `high`."""
    return values.dtype == np.int64 and values.ndim == 1 and bool(((low <= values) & (values < high)).all())


def check_scaler(scaler: Any, attributes: tuple[str, ...]) -> None:
    """Raise ValueError for attributes of another number of columns."""
    for name in attributes:
        values = getattr(scaler, name, None)
        if isinstance(values, np.ndarray) and values.ndim and values.shape != (scaler.n_features_in_,):
            raise ValueError(f"{name} of the {type(scaler).__name__} does not fit its {scaler.n_features_in_} columns")
