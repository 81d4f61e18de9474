"""Tables as scikit-learn's ColumnTransformer takes them, and what kinds of columns one expects."""

from __future__ import annotations

import sklearn
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from dimargin.estimators.preprocessing.calendar_features import CalendarFeatures


def check_version() -> None:
    """Raise ValueError where scikit-learn is too old for tables of Arrow."""
    if tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 7):
        raise ValueError(f"columns that are no numbers need scikit-learn 1.7 or newer; this is {sklearn.__version__}")


def numbers_as_they_are() -> FunctionTransformer:
    """Return a transformer that gives numbers as they are; "passthrough" cannot do so with tables of Arrow."""
    return FunctionTransformer(validate=True, feature_names_out="one-to-one")


def columns_of(transformer: ColumnTransformer) -> tuple[list[str], list[str]]:
    """Return the names of the columns that a fitted transformer takes as numbers, and of those it takes as text."""
    numbers, texts = list[str](), list[str]()
    for _, step, columns in transformer.transformers_:
        if isinstance(step, OneHotEncoder):
            for name, categories in zip(columns, step.categories_, strict=True):
                (numbers if categories.dtype.kind in "biuf" else texts).append(name)
        elif isinstance(step, CalendarFeatures):
            texts += columns
        elif step != "drop":
            numbers += columns
    return numbers, texts
