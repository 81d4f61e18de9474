"""Steps of model files that take tables: imputers, encoders, and the transformer of columns that joins them.

scikit-learn keeps facts of its own in fitted transformers, which differ between its versions. So a transformer is
stored as its parameters and what it learnt, and made again by fitting it to the smallest table from which it learns
just that.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from dimargin.estimators.preprocessing import CalendarFeatures, FourierFeatures
from dimargin.estimators.preprocessing.column_kinds import numbers_as_they_are

TABLE_STEPS: dict[str, type[BaseEstimator]] = {
    step.__name__: step for step in (ColumnTransformer, SimpleImputer, OneHotEncoder)
}
_IMPUTER = ("strategy", "keep_empty_features", "add_indicator")
_ENCODER = ("handle_unknown", "drop", "sparse_output")
_COLUMNS = ("remainder", "sparse_threshold", "verbose_feature_names_out")
_AS_THEY_ARE = ("passthrough", "drop")


def stored(step: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters and attributes of a fitted step; raises TypeError for what files have no place for.

    The fitted transformers of a ColumnTransformer are in its parameters.
    """
    check_is_fitted(step)
    if not isinstance(step, ColumnTransformer):
        parameters, attributes = (_stored_imputer if isinstance(step, SimpleImputer) else _stored_encoder)(step)
        names = getattr(step, "feature_names_in_", None)
        return parameters, attributes if names is None else {**attributes, "feature_names_in_": names}
    if not hasattr(step, "feature_names_in_"):
        raise TypeError("a ColumnTransformer can be saved if it was fitted to a data frame, whose columns have names")
    transformers = []
    for name, unfitted, columns in step.transformers:
        plain = isinstance(unfitted, FunctionTransformer) and unfitted.func is None
        inner = unfitted if isinstance(unfitted, str) else "passthrough" if plain else step.named_transformers_[name]
        transformers.append((name, inner, columns))
        if not (isinstance(columns, list) and all(isinstance(column, str) for column in columns)):
            raise TypeError(
                f"cannot save the transformer {name!r}: a list of names of columns expected, got {columns!r}"
            )
    if step.remainder not in _AS_THEY_ARE or step.transformer_weights:
        raise TypeError("cannot save a ColumnTransformer with an estimator as remainder, or with weights")
    parameters = {"transformers": transformers, **_chosen(step, _COLUMNS)}
    return parameters, {"feature_names_in_": step.feature_names_in_, "sparse_output_": bool(step.sparse_output_)}


def _chosen(step: Any, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(step, name) for name in names}


def _stored_imputer(step: SimpleImputer) -> tuple[dict[str, Any], dict[str, Any]]:
    values = np.asarray(step.statistics_).tolist()
    if not all(isinstance(value, (bool, int, float)) and math.isfinite(value) for value in values):
        raise TypeError(f"cannot save a SimpleImputer whose statistics are not finite numbers: {step.statistics_!r}")
    if not (isinstance(step.missing_values, float) and np.isnan(step.missing_values)):
        raise TypeError(f"cannot save a SimpleImputer with missing_values={step.missing_values!r}; NaN expected")
    had_missing = step.indicator_.features_ if step.add_indicator else np.empty(0)
    attributes = {"statistics_": np.array(values, dtype=np.float64), "had_missing": had_missing.astype(np.int64)}
    return _chosen(step, _IMPUTER), attributes


def _stored_encoder(step: OneHotEncoder) -> tuple[dict[str, Any], dict[str, Any]]:
    if step.min_frequency is not None or step.max_categories is not None:
        raise TypeError(
            "cannot save a OneHotEncoder that groups rare categories: give it no min_frequency, no max_categories"
        )
    if not (step.drop is None or isinstance(step.drop, str)):
        raise TypeError(f"cannot save a OneHotEncoder with drop={step.drop!r}; None, 'first' or 'if_binary' expected")
    return _chosen(step, _ENCODER), {"categories_": [np.asarray(values) for values in step.categories_]}


# ---- made again ------------------------------------------------------------------------------------------------------


def restored(kind: str, parameters: dict[str, Any], attributes: dict[str, Any]) -> Any:
    """Return the fitted step; raises ValueError, TypeError or KeyError for what `stored` cannot have returned."""
    makers: dict[str, Callable[..., Any]] = {
        "SimpleImputer": _imputer, "OneHotEncoder": _encoder, "ColumnTransformer": _column_transformer,
    }  # fmt: skip
    known = {"SimpleImputer": _IMPUTER, "OneHotEncoder": _ENCODER, "ColumnTransformer": ("transformers", *_COLUMNS)}
    if set(parameters) != set(known[kind]):
        raise ValueError(f"parameters {sorted(parameters)} of a {kind}; {sorted(known[kind])} expected")
    names = None if kind == "ColumnTransformer" else attributes.pop("feature_names_in_", None)
    step = makers[kind](parameters, **attributes)
    if names is not None:
        step.feature_names_in_ = names
    return step


def _imputer(parameters: dict[str, Any], statistics_: Any, had_missing: Any) -> SimpleImputer:
    _check_array("statistics_", statistics_, "f", (len(statistics_),))
    _check_array("had_missing", had_missing, "i", (len(had_missing),))
    rows = np.tile(statistics_, (2, 1))
    rows[1, had_missing] = np.nan
    constant = parameters["strategy"] == "constant"
    if constant and len(set(statistics_.tolist())) > 1:
        raise ValueError("the statistics of a constant imputer differ")
    step = SimpleImputer(**parameters, fill_value=float(statistics_[0]) if constant else None)
    return step.fit(rows)


def _encoder(parameters: dict[str, Any], categories_: Any) -> OneHotEncoder:
    if not (isinstance(categories_, list) and categories_):
        raise ValueError("the categories of an encoder are no lists")
    for values in categories_:
        _check_array("categories_", values, "biufUO", (len(values),))
        if not len(values) or len(set(values.tolist())) < len(values):
            raise ValueError("the categories of a column are none, or not different")
    rows = np.empty((1, len(categories_)), dtype=object)
    rows[0] = [values.tolist()[0] for values in categories_]
    step = OneHotEncoder(**parameters, categories=[values.astype(object) for values in categories_])
    step.fit(rows).set_params(categories="auto")
    step.categories_ = categories_  # of the type that they had
    return step


def _check_array(name: str, values: Any, kinds: str, shape: tuple[int, ...]) -> None:
    sound = isinstance(values, np.ndarray) and values.dtype.kind in kinds and values.shape == shape
    if not sound or (values.dtype.kind == "f" and not np.isfinite(values).all()):
        raise ValueError(f"{name} is no array of finite values of one dimension")


def _column_transformer(parameters: dict[str, Any], feature_names_in_: Any, sparse_output_: Any) -> ColumnTransformer:
    names = feature_names_in_.tolist()
    _check_array("feature_names_in_", feature_names_in_, "O", (len(names),))
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError("names of columns are no texts, or not different")
    transformers = [(str(name), inner, list(columns)) for name, inner, columns in parameters["transformers"]]
    fitted = {name: inner for name, inner, _ in transformers if inner not in _AS_THEY_ARE}
    for name, inner, columns in transformers:
        if not set(columns) <= set(names) or len(set(columns)) < len(columns):
            raise ValueError(f"the transformer {name!r} has other columns than there are")
        if name in fitted and not (_is_inner(inner) and _fits(inner, columns)):
            raise ValueError(f"the transformer {name!r} is none, or does not fit its columns")
    place = {name: k for k, name in enumerate(names)}
    frozen = [
        (name, FrozenEstimator(inner) if name in fitted else inner, [place[column] for column in columns])
        for name, inner, columns in transformers
    ]
    step = ColumnTransformer(frozen, **{name: parameters[name] for name in _COLUMNS})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # rows without names, of transformers that know names
        step.fit(_smallest_rows(place, transformers))
    step.transformers_ = [
        (name, _through(fitted.get(name, inner), feature_names_in_[columns]), feature_names_in_[columns].tolist())
        for name, inner, columns in step.transformers_
    ]
    step.set_params(transformers=transformers)
    step.feature_names_in_, step.sparse_output_ = feature_names_in_, bool(sparse_output_)
    return step


def _through(inner: Any, names: NDArray[Any]) -> Any:
    """Return a transformer that gives numbers of tables, too, in place of the one that lets columns pass."""
    if not (inner == "passthrough" or isinstance(inner, FunctionTransformer)):
        return inner
    step = numbers_as_they_are().fit(np.zeros((1, len(names))))
    step.feature_names_in_ = names
    return step


def _fits(inner: Any, columns: Sequence[str]) -> bool:
    named = getattr(inner, "feature_names_in_", np.array(columns, dtype=object))
    return bool(inner.n_features_in_ == len(columns) and named.tolist() == columns)


def _is_inner(step: Any) -> bool:
    return isinstance(step, TransformerMixin) and not isinstance(step, ColumnTransformer)


def _smallest_rows(place: Mapping[str, int], transformers: Sequence[tuple[str, Any, list[str]]]) -> NDArray[Any]:
    """Return an array of one row that the transformers take."""
    rows = np.zeros((1, len(place)), dtype=object)
    for _, inner, columns in transformers:
        if isinstance(inner, OneHotEncoder):
            for name, categories in zip(columns, inner.categories_, strict=True):
                rows[0, place[name]] = categories.tolist()[0]
        elif isinstance(inner, CalendarFeatures):
            rows[0, [place[name] for name in columns]] = ""
    return rows


def widths(step: Any) -> tuple[int, int]:
    """Return how many columns a fitted step takes, and how many it gives."""
    grows = isinstance(step, (*TABLE_STEPS.values(), CalendarFeatures, FourierFeatures))
    given = len(step.get_feature_names_out()) if grows else step.n_features_in_
    return step.n_features_in_, given
