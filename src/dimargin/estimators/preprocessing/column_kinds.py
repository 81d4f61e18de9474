"""Helpers for scikit-learn's ColumnTransformer and its kinds of columns."""

from __future__ import annotations

from typing import Any

import sklearn
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from dimargin.estimators.nested_steps import flat_steps
from dimargin.estimators.preprocessing.calendar_features import CalendarFeatures


def check_version() -> None:
    """Raise ValueError if scikit-learn is too old for Arrow tables."""
    if tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 7):
        raise ValueError(f"non-numeric columns need scikit-learn 1.7 or newer; {sklearn.__version__} is installed")


def numbers_as_they_are() -> FunctionTransformer:
    """Return an identity transformer; "passthrough" does not work with Arrow tables."""
    return FunctionTransformer(validate=True, feature_names_out="one-to-one")


def first_step(step: Any) -> Any:
    """Return the first step of a pipeline, which reads the columns; any other transformer, or text, itself."""
    steps = flat_steps(step)
    return steps[0][1] if steps else step


def columns_of(transformer: ColumnTransformer) -> tuple[list[str], list[str]]:
    """Return the names of the columns that a fitted transformer reads as numbers, and as text."""
    numbers, texts = list[str](), list[str]()
    for _, transformation, columns in transformer.transformers_:
        step = first_step(transformation)
        if isinstance(columns, str):  # A vectorizer is given one column as texts.
            texts.append(columns)
        elif isinstance(step, OneHotEncoder):
            for name, categories in zip(columns, step.categories_, strict=True):
                (numbers if categories.dtype.kind in "biuf" else texts).append(name)
        elif isinstance(step, CalendarFeatures):
            texts += columns
        elif step != "drop":
            numbers += columns
    return numbers, texts
