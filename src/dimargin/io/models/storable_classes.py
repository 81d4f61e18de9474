"""The registry of classes that a model file may hold: what is stored of each, and what a file must say of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest, SelectPercentile, VarianceThreshold
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.validation import check_is_fitted

from dimargin.estimators import (
    MACHINES,
    CoreSetSVDD,
    CoreSetSVMClassifier,
    GossipSVMClassifier,
    OneClassCoreSetSVM,
)
from dimargin.estimators.kernel_machine import KernelMachine
from dimargin.estimators.nested_steps import flat_steps
from dimargin.estimators.preprocessing import CalendarFeatures, FourierFeatures, SparseScaler
from dimargin.estimators.search import (
    LinearODMClassifierCV,
    LinearSVMClassifierCV,
    ODMClassifierCV,
    SVMClassifierCV,
)
from dimargin.io.models import calibrated_steps, search_steps, soundness, table_steps, text_steps
from dimargin.io.models.declared_values import Array, Declared
from dimargin.io.models.named_values import ELEMENTWISE, SCORE_FUNCTIONS, load_registrations

Parts = tuple[dict[str, Any], dict[str, Any]]
"""Parameters and attributes."""


def _nothing(step: Any) -> None:
    """Do nothing."""


def _same_width(step: Any) -> int | None:
    return getattr(step, "n_features_in_", None)


@dataclass(frozen=True, kw_only=True)
class Storable:
    """Class of the registry.

    Attributes
    ----------
    kind : type
    attributes : mapping of str to declaration
        Fitted attributes besides ``n_features_in_`` and ``feature_names_in_``.
    parameters : mapping of str to declaration, or None
        All parameters that a file holds. None are those of ``get_params``, whose values `check`
        looks at.
    check : callable
        Raises ValueError for a step that is not sound, whether it was fitted or read from a file.
    to_parts : callable or None
        Returns the parameters and attributes that a file holds of a fitted step, or raises
        TypeError or ValueError. None takes them from the step.
    from_parts : callable or None
        Returns the step for values of `to_parts`. None makes it by its parameters, and sets its
        attributes.
    finish : callable
        Sets what a file does not hold of a step that was checked.
    n_features_out : callable
        Returns the number of columns of a step's output, None if it is not known.
    takes_texts : bool
    has_width : bool
        Whether a fitted step always has ``n_features_in_``.
    has_state : bool
        Whether a step has to be fitted.
    predicts : bool
        Whether a step predicts labels, and so is the last one.
    """

    kind: type[BaseEstimator]
    attributes: Mapping[str, Declared] = field(default_factory=dict)
    parameters: Mapping[str, Declared] | None = None
    check: Callable[[Any], None] = _nothing
    to_parts: Callable[[Any], Parts] | None = None
    from_parts: Callable[[dict[str, Any], dict[str, Any]], Any] | None = None
    finish: Callable[[Any], None] = _nothing
    n_features_out: Callable[[Any], int | None] = _same_width
    takes_texts: bool = False
    has_width: bool = True
    has_state: bool = True
    predicts: bool = False

    def is_fitted(self, step: Any) -> bool:
        """Return whether a step of the class can be used."""
        try:
            check_is_fitted(step)
        except NotFittedError:
            return not self.has_state
        return True


# ---- machines and their searches -------------------------------------------------------------------------------------


def _unchecked(*names: str) -> dict[str, Declared]:
    """Declare attributes of which only the check of the class knows what they must be."""
    return dict.fromkeys(names, object)


_CERTIFICATE_ATTRS = (
    "objective_", "dual_objective_", "duality_gap_", "certificate_", "status_", "n_iter_", "history_",
)  # fmt: skip
_KERNEL_ATTRS = _unchecked(
    "classes_", "support_", "support_vectors_", "dual_coef_", "intercept_", "n_support_", *_CERTIFICATE_ATTRS,
    "_transform", "_router", "_n_given",
)  # fmt: skip
_LINEAR_ATTRS = _unchecked("classes_", "coef_", "intercept_", *_CERTIFICATE_ATTRS, "_partial")
_PATH_ATTRS = _unchecked("best_score_", "scores_", "duality_gaps_", "path_")
_GOSSIP_ATTRS = _unchecked(
    "classes_", "coef_", "intercept_", "site_coef_", "site_average_coef_", "site_intercept_",
    "site_average_intercept_", "site_of_rows_", "epsilon_", "delta_", *_CERTIFICATE_ATTRS,
)  # fmt: skip
_DETECTOR_ATTRS = _unchecked(
    "support_", "support_vectors_", "dual_coef_", "offset_", *_CERTIFICATE_ATTRS, "_transform", "_square", "_n_given",
)  # fmt: skip


def _machine(kind: type[BaseEstimator], attributes: dict[str, Declared], check: Callable[[Any], None]) -> Storable:
    return Storable(kind=kind, attributes=attributes, check=check, predicts=True)


def _machines() -> list[Storable]:
    kernel, linear, detector = soundness.check_machine, soundness.check_linear_machine, soundness.check_detector
    return [
        *(
            _machine(kind, _KERNEL_ATTRS, kernel)
            if issubclass(kind, KernelMachine)
            else _machine(kind, _LINEAR_ATTRS, linear)
            for kind in MACHINES.values()
        ),
        *(
            _machine(kind, _LINEAR_ATTRS | _PATH_ATTRS | _unchecked(f"{name}_", f"{name}s_"), soundness.check_path)
            for kind, name in ((LinearSVMClassifierCV, "C"), (LinearODMClassifierCV, "lam"))
        ),
        _machine(CoreSetSVMClassifier, _KERNEL_ATTRS, kernel),
        _machine(GossipSVMClassifier, _GOSSIP_ATTRS, linear),
        _machine(CoreSetSVDD, _DETECTOR_ATTRS | _unchecked("radius_", "center_"), detector),
        _machine(OneClassCoreSetSVM, _DETECTOR_ATTRS, detector),
        Storable(
            kind=CalibratedClassifierCV, to_parts=calibrated_steps.stored,
            from_parts=partial(calibrated_steps.restored, lambda steps, is_pipeline: model_of(steps, is_pipeline)),
            has_width=False, predicts=True,
        ),
    ]  # fmt: skip


def _search(
    kind: type[BaseEstimator],
    declared: dict[str, Declared],
    check: Callable[[Any], None],
    finish: Callable[[Any], None] = _nothing,
) -> Storable:
    def to_parts(step: Any) -> Parts:
        return search_steps.stored_parameters(step), {name: getattr(step, name) for name in declared}

    return Storable(kind=kind, attributes=declared, check=check, to_parts=to_parts, finish=finish, has_width=False)


def _searches() -> list[Storable]:
    own, grid, set_scorer = search_steps.check_machine_search, search_steps.check_grid_search, search_steps.set_scorer
    return [
        *(_search(kind, search_steps.MACHINE_SEARCH, own) for kind in (ODMClassifierCV, SVMClassifierCV)),
        *(_search(kind, search_steps.GRID_SEARCH, grid, set_scorer) for kind in (GridSearchCV, RandomizedSearchCV)),
        _search(HalvingGridSearchCV, search_steps.HALVING, grid, set_scorer),
        Storable(
            kind=Pipeline,
            parameters={"steps": object},
            check=search_steps.check_pipeline,
            to_parts=lambda step: (search_steps.stored_pipeline(step), {}),
            has_width=False,
        ),
    ]


# ---- steps before a machine ------------------------------------------------------------------------------------------


def _valid(step: Any) -> None:
    """Raise ValueError for parameters that scikit-learn refuses."""
    step._validate_params()


def _scaler(kind: type[BaseEstimator], *names: str) -> Storable:
    return Storable(kind=kind, attributes=_unchecked(*names), check=partial(soundness.check_scaler, attributes=names))


def _n_names(step: Any) -> int:
    return len(step.get_feature_names_out())


def _n_joined(step: ColumnTransformer) -> int:
    return max((part.stop for part in step.output_indices_.values()), default=0)


def _n_components(step: Any) -> int:
    return int(step.components_.shape[0])


def _decomposition(kind: type[BaseEstimator], components: str, **others: Declared) -> Storable:
    each = Array((components,))
    declared = {
        "components_": Array((components, "n_features_in_")), "explained_variance_": each,
        "explained_variance_ratio_": each, "singular_values_": each, **others,
    }  # fmt: skip
    return Storable(kind=kind, attributes=declared, check=_valid, n_features_out=_n_components)


def _selector(kind: type[BaseEstimator], **declared: Declared) -> Storable:
    return Storable(
        kind=kind, attributes=declared, check=_valid, n_features_out=lambda step: int(step.get_support().sum())
    )


_MAX_JOBS = 1024  # joblib starts as many threads as it is told to.


def _check_nystroem(step: Nystroem) -> None:
    _valid(step)
    if not isinstance(step.kernel, str) or step.kernel_params:
        raise ValueError(f"kernel of the Nystroem must be a name, without kernel_params, got {step.kernel!r}")
    for name in ("gamma", "coef0", "degree"):
        if not math.isfinite(getattr(step, name) or 0):
            raise ValueError(f"{name} of the Nystroem must be a finite number or None, got {getattr(step, name)!r}")
    if abs(step.n_jobs or 1) > _MAX_JOBS:
        raise ValueError(f"n_jobs of the Nystroem must be at most {_MAX_JOBS}, got {step.n_jobs}")


def _finish_nystroem(step: Nystroem) -> None:
    step._n_features_out = _n_components(step)


def _check_function(step: FunctionTransformer) -> None:
    _valid(step)
    if {step.func, step.inverse_func} & set(SCORE_FUNCTIONS.values()):
        raise ValueError("func of the FunctionTransformer must be a function of rows")
    if step.kw_args or step.inv_kw_args or callable(step.feature_names_out):
        raise ValueError(
            "kw_args, inv_kw_args and a function as feature_names_out of the FunctionTransformer are not stored; "
            "register a function that needs no arguments by dimargin.io.models.register_function"
        )


def _width_of_function(step: FunctionTransformer) -> int | None:
    keeps = step.func is None or step.func in ELEMENTWISE.values() or step.feature_names_out == "one-to-one"
    return _same_width(step) if keeps else None


def _vectorizer(kind: type[CountVectorizer]) -> Storable:
    return Storable(
        kind=kind, to_parts=text_steps.stored_vectorizer,
        from_parts=lambda parameters, attributes: text_steps.restored_vectorizer(kind, parameters, **attributes),
        n_features_out=lambda step: len(step.vocabulary_), takes_texts=True, has_width=False,
    )  # fmt: skip


def _steps() -> list[Storable]:
    scores = Array(("n_features_in_",), finite=False)
    each = Array(("components",), kinds="i")
    return [
        _scaler(MinMaxScaler, "scale_", "min_", "data_min_", "data_max_", "data_range_", "n_samples_seen_"),
        _scaler(StandardScaler, "scale_", "mean_", "var_", "n_samples_seen_"),
        _scaler(MaxAbsScaler, "scale_", "max_abs_", "n_samples_seen_"),
        _scaler(RobustScaler, "scale_", "center_"),
        Storable(
            kind=QuantileTransformer, attributes=_unchecked("quantiles_", "references_", "n_quantiles_"),
            check=soundness.check_quantiles,
        ),
        Storable(
            kind=CalendarFeatures, attributes=_unchecked("days_", "has_times_"), check=soundness.check_calendar,
            n_features_out=_n_names,
        ),
        Storable(
            kind=FourierFeatures, attributes=_unchecked("frequencies_"), check=soundness.check_fourier,
            n_features_out=_n_names,
        ),
        Storable(kind=SparseScaler, attributes=_unchecked("columns_", "scale_"), check=soundness.check_sparse_scaler),
        _decomposition(
            PCA, "n_components_", mean_=Array(("n_features_in_",)), noise_variance_=float, n_components_=int,
            n_samples_=int,
        ),
        _decomposition(TruncatedSVD, "components"),
        Storable(
            kind=Nystroem,
            attributes={
                "components_": Array(("components", "n_features_in_"), kinds="fiu", sparse=True),
                "normalization_": Array(("components", "components")), "component_indices_": each,
            },
            check=_check_nystroem, finish=_finish_nystroem, n_features_out=_n_components,
        ),
        *(_selector(kind, scores_=scores, pvalues_=(scores, None)) for kind in (SelectKBest, SelectPercentile)),
        _selector(VarianceThreshold, variances_=scores),
        Storable(
            kind=FunctionTransformer, check=_check_function, n_features_out=_width_of_function, has_width=False,
            has_state=False,
        ),
        *map(_vectorizer, (CountVectorizer, TfidfVectorizer)),
        Storable(
            kind=TfidfTransformer, attributes={"idf_": (Array(("n_features_in_",)), None)},
            check=text_steps.check_weights,
        ),
        Storable(
            kind=HashingVectorizer, check=text_steps.check_texts, n_features_out=lambda step: int(step.n_features),
            takes_texts=True, has_width=False, has_state=False,
        ),
        *(
            Storable(
                kind=kind, to_parts=table_steps.stored,
                n_features_out=_n_joined if kind is ColumnTransformer else _n_names,
                from_parts=partial(table_steps.restored, kind.__name__, lambda step: _width_after_columns(step)),
            )
            for kind in table_steps.TABLE_STEPS.values()
        ),
    ]  # fmt: skip


# ---- the registry ----------------------------------------------------------------------------------------------------

STORABLE_CLASSES = {entry.kind.__name__: entry for entry in (*_machines(), *_searches(), *_steps())}
"""Entries of the classes that model files hold without further registrations, by the name of the class."""
REGISTERED: dict[str, Storable] = {}
"""Entries of the classes that users have registered."""


def entry_named(name: str) -> Storable:
    """Return the entry of the class with this name in a file; raises ValueError for an unknown name."""
    if name not in STORABLE_CLASSES and name not in REGISTERED:
        load_registrations()
    if (entry := STORABLE_CLASSES.get(name) or REGISTERED.get(name)) is None:
        raise ValueError(f"{name!r} is not a class of model files; register it by dimargin.io.models.register_step")
    return entry


def entry_of(name: str, step: Any) -> Storable:
    """Return the entry of the class of a step; raises TypeError, which names all classes, for another class."""
    kind = type(step).__name__
    entry = STORABLE_CLASSES.get(kind) or REGISTERED.get(kind)
    if entry is None or entry.kind is not type(step):
        raise TypeError(
            f"cannot save the {type(step).__qualname__} {name!r}; model files hold "
            f"{', '.join((*STORABLE_CLASSES, *REGISTERED))}, and transformers that you registered by "
            "dimargin.io.models.register_step"
        )
    return entry


def model_of(steps: list[tuple[str, Any]], is_pipeline: bool) -> Any:
    """Return the model of steps that were read from a file; raises ValueError if they do not fit together."""
    pipeline = Pipeline(steps)
    search_steps.check_pipeline(pipeline)
    if len(steps) != 1 and not is_pipeline:
        raise ValueError("the steps before the machine are not steps of a pipeline")
    model = pipeline if is_pipeline else steps[0][1]
    flat = flat_steps(model)
    if not (flat and entry_of(*flat[-1]).predicts):
        raise ValueError("the last step is not a machine")
    _check_fits(*flat[-1], _width_after(flat[:-1]))
    return model


def _width_after(steps: list[tuple[str, Any]]) -> int | None:
    """Return the number of columns that transformers make, None if unknown; raises ValueError if they do not fit."""
    width: int | None = None
    for k, (name, step) in enumerate(steps):
        entry = entry_of(name, step)
        if entry.predicts:
            raise ValueError(f"the step {name!r} is a machine, but not the last step")
        if k and isinstance(step, ColumnTransformer):
            raise ValueError(f"the ColumnTransformer {name!r} is not the first step")
        _check_fits(name, step, width)
        width = entry.n_features_out(step)
    return width


def _width_after_columns(step: Any) -> int | None:
    """Return the number of columns that a transformer in a ColumnTransformer makes, as `_width_after`."""
    steps = flat_steps(step, "transformer")
    if any(isinstance(inner, ColumnTransformer) for _, inner in steps):
        raise ValueError("a ColumnTransformer is a transformer of another one")
    return _width_after(steps)


def _check_fits(name: str, step: Any, width: int | None) -> None:
    """Raise ValueError unless a step is fitted, and takes rows of this width."""
    entry = entry_of(name, step)
    if not entry.is_fitted(step):
        raise ValueError(f"the step {name!r} is not fitted")
    taken = getattr(step, "n_features_in_", None)
    if width is not None and (entry.takes_texts or (taken is not None and taken != width)):
        raise ValueError(f"its steps have different widths: {name!r} takes other columns than it gets")
