"""Steps of model files for tables: imputers, encoders, and the ColumnTransformer that joins them.

Fitted transformers of scikit-learn have private attributes that differ between its versions. So a
transformer is stored as its parameters and public attributes, and restored by fitting it to the
smallest table that yields these attributes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from dimargin.estimators.preprocessing import CategoryEncoder
from dimargin.estimators.preprocessing.column_kinds import first_step, numbers_as_they_are
from dimargin.io.models.text_steps import VECTORIZERS

TABLE_STEPS: dict[str, type[BaseEstimator]] = {
    step.__name__: step for step in (ColumnTransformer, SimpleImputer, OneHotEncoder, CategoryEncoder)
}
_STORED_PARAMETERS = {
    "SimpleImputer": ("strategy", "keep_empty_features", "add_indicator"),
    **dict.fromkeys(("OneHotEncoder", "CategoryEncoder"), ("handle_unknown", "drop", "sparse_output")),
    "ColumnTransformer": ("remainder", "sparse_threshold", "verbose_feature_names_out"),
}
_NO_TRANSFORMER = ("passthrough", "drop")  # A ColumnTransformer accepts these words instead of transformers.


def stored(step: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return parameters and attributes of a fitted step; raises TypeError if files cannot store it.

    The parameters of a ColumnTransformer contain its fitted transformers.
    """
    check_is_fitted(step)
    if not isinstance(step, ColumnTransformer):
        parameters, attributes = (_stored_imputer if isinstance(step, SimpleImputer) else _stored_encoder)(step)
        names = getattr(step, "feature_names_in_", None)
        return parameters, attributes if names is None else {**attributes, "feature_names_in_": names}
    if not hasattr(step, "feature_names_in_"):
        raise TypeError("a ColumnTransformer can be saved only if it was fitted to a data frame with named columns")
    transformers = []
    for name, unfitted, columns in step.transformers:
        plain = isinstance(unfitted, FunctionTransformer) and unfitted.func is None
        inner = unfitted if isinstance(unfitted, str) else "passthrough" if plain else step.named_transformers_[name]
        transformers.append((name, inner, columns))
        is_list = isinstance(columns, list) and all(isinstance(column, str) for column in columns)
        if not (is_list or _is_column_of_texts(inner, columns)):
            raise TypeError(
                f"cannot save the transformer {name!r}: expected a list of column names, or the name of one column for "
                f"a vectorizer, got {columns!r}"
            )
    if step.remainder not in _NO_TRANSFORMER or step.transformer_weights:
        raise TypeError("cannot save a ColumnTransformer with an estimator as remainder, or with weights")
    parameters = {"transformers": transformers, **_stored_parameters(step)}
    return parameters, {"feature_names_in_": step.feature_names_in_, "sparse_output_": bool(step.sparse_output_)}


def _is_column_of_texts(inner: Any, columns: Any) -> bool:
    """Return whether a transformer is given a column as texts: its name alone, not in a list."""
    return isinstance(first_step(inner), VECTORIZERS) and isinstance(columns, str)


def _stored_parameters(step: Any) -> dict[str, Any]:
    return {name: getattr(step, name) for name in _STORED_PARAMETERS[type(step).__name__]}


def _stored_imputer(step: SimpleImputer) -> tuple[dict[str, Any], dict[str, Any]]:
    values = np.asarray(step.statistics_).tolist()
    if not all(isinstance(value, (bool, int, float)) and math.isfinite(value) for value in values):
        raise TypeError(f"cannot save a SimpleImputer whose statistics are not finite numbers: {step.statistics_!r}")
    if not (isinstance(step.missing_values, float) and np.isnan(step.missing_values)):
        raise TypeError(f"cannot save a SimpleImputer with missing_values={step.missing_values!r}; expected NaN")
    had_missing = step.indicator_.features_ if step.add_indicator else np.empty(0)
    attributes = {"statistics_": np.array(values, dtype=np.float64), "had_missing": had_missing.astype(np.int64)}
    return _stored_parameters(step), attributes


def _stored_encoder(step: OneHotEncoder) -> tuple[dict[str, Any], dict[str, Any]]:
    if step.min_frequency is not None or step.max_categories is not None:
        raise TypeError(
            "cannot save a OneHotEncoder that groups rare categories; use it without min_frequency and max_categories"
        )
    if not (step.drop is None or isinstance(step.drop, str)):
        raise TypeError(f"cannot save a OneHotEncoder with drop={step.drop!r}; expected None, 'first' or 'if_binary'")
    return _stored_parameters(step), {"categories_": [np.asarray(values) for values in step.categories_]}


# ---- restored --------------------------------------------------------------------------------------------------------


def restored(
    kind: str,
    width_after: Callable[[Any], int | None],
    parameters: dict[str, Any],
    attributes: dict[str, Any],
) -> Any:
    """Return the fitted step for values of `stored`; raises ValueError, TypeError or KeyError.

    `width_after` checks a transformer of a ColumnTransformer, and returns the number of columns that
    it makes.
    """
    makers: dict[str, Callable[..., Any]] = {
        "SimpleImputer": _imputer,
        **{kind.__name__: partial(_encoder, kind) for kind in (OneHotEncoder, CategoryEncoder)},
        "ColumnTransformer": partial(_column_transformer, width_after),
    }  # fmt: skip
    known = {*_STORED_PARAMETERS[kind], *(["transformers"] if kind == "ColumnTransformer" else [])}
    if set(parameters) != known:
        raise ValueError(f"a {kind} has the parameters {sorted(parameters)}, expected {sorted(known)}")
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
        raise ValueError("the statistics of an imputer with a constant differ")
    step = SimpleImputer(**parameters, fill_value=float(statistics_[0]) if constant else None)
    return step.fit(rows)


def _encoder(make: type[OneHotEncoder], parameters: dict[str, Any], categories_: Any) -> OneHotEncoder:
    if not (isinstance(categories_, list) and categories_):
        raise ValueError("the categories of an encoder are not a list of arrays")
    for values in categories_:
        _check_array("categories_", values, "biufUO", (len(values),))
        if not len(values) or len(set(values.tolist())) < len(values):
            raise ValueError("the categories of a column are empty or not distinct")
    rows = np.empty((1, len(categories_)), dtype=object)
    rows[0] = [values.tolist()[0] for values in categories_]
    step = make(**parameters, categories=[values.astype(object) for values in categories_])
    step.fit(rows).set_params(categories="auto")
    step.categories_ = categories_  # The fit has changed their types to object.
    return step


def _check_array(name: str, values: Any, kinds: str, shape: tuple[int, ...]) -> None:
    sound = isinstance(values, np.ndarray) and values.dtype.kind in kinds and values.shape == shape
    if not sound or (values.dtype.kind == "f" and not np.isfinite(values).all()):
        raise ValueError(f"{name} is not a one-dimensional array of finite values")


def _column_transformer(
    width_after: Callable[[Any], int | None],
    parameters: dict[str, Any],
    feature_names_in_: Any,
    sparse_output_: Any,
) -> ColumnTransformer:
    names = feature_names_in_.tolist()
    _check_array("feature_names_in_", feature_names_in_, "O", (len(names),))
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError("the column names are not texts, or are not distinct")
    transformers = [
        (str(name), inner, columns if _is_column_of_texts(inner, columns) else list(columns))
        for name, inner, columns in parameters["transformers"]
    ]
    fitted = {name: inner for name, inner, _ in transformers if inner not in _NO_TRANSFORMER}
    listed = {name: [columns] if isinstance(columns, str) else columns for name, _, columns in transformers}
    for name, inner, given in transformers:
        columns = listed[name]
        if not set(columns) <= set(names) or len(set(columns)) < len(columns):
            raise ValueError(f"the transformer {name!r} has unknown or repeated columns")
        if name in fitted and not _fits(first_step(inner), given):
            raise ValueError(f"transformer {name!r}: expected a fitted transformer for {len(columns)} columns")
    place = {name: k for k, name in enumerate(names)}
    stand_ins = [
        (name, _stand_in(name, width_after(inner)) if name in fitted else inner, [place[key] for key in listed[name]])
        for name, inner, _ in transformers
    ]
    step = ColumnTransformer(stand_ins, **{name: parameters[name] for name in _STORED_PARAMETERS["ColumnTransformer"]})
    step.fit(np.zeros((1, len(names))))
    texts = {name: columns for name, _, columns in transformers if isinstance(columns, str)}
    step.transformers_ = [
        (
            name,
            fitted[name] if name in fitted else _through(inner, feature_names_in_[columns]),
            texts.get(name, feature_names_in_[columns].tolist()),
        )
        for name, inner, columns in step.transformers_
    ]
    step.set_params(transformers=transformers)
    step.feature_names_in_, step.sparse_output_ = feature_names_in_, bool(sparse_output_)
    return step


def _stand_in(name: str, width: int | None) -> FunctionTransformer:
    """Return a transformer that makes a row of zeros, with which a ColumnTransformer is fitted."""
    if width is None:
        raise ValueError(
            f"the number of columns of the transformer {name!r} is not known; a function that keeps it needs "
            "feature_names_out='one-to-one'"
        )
    return FunctionTransformer(lambda rows: np.zeros((len(rows), width)))


def _through(inner: Any, names: NDArray[Any]) -> Any:
    """Replace "passthrough" by a transformer that converts columns of tables to numbers."""
    if not (inner == "passthrough" or isinstance(inner, FunctionTransformer)):
        return inner
    step = numbers_as_they_are().fit(np.zeros((1, len(names))))
    step.feature_names_in_ = names
    return step


def _fits(inner: Any, columns: Sequence[str]) -> bool:
    if isinstance(columns, str) or isinstance(inner, VECTORIZERS):
        return _is_column_of_texts(inner, columns)
    named = getattr(inner, "feature_names_in_", np.array(columns, dtype=object))
    return bool(inner.n_features_in_ == len(columns) and named.tolist() == columns)
