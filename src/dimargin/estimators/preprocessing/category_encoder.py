"""Categories that training has not seen: a count of them, and an encoder that warns of them."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder

from dimargin.estimators.preprocessing.column_kinds import first_step


def unseen_categories(step: Any, X: Any) -> Iterator[str]:
    """Yield a sentence about each column of X with categories that a fitted step was not trained on.

    The step is a ColumnTransformer for the data frame or table X, or a OneHotEncoder; for any
    other one nothing is yielded. Missing values are not categories.
    """
    if isinstance(step, ColumnTransformer):
        parts = [(first_step(part), columns) for _, part, columns in step.transformers_]
    else:
        parts = [(step, range(X.shape[1]))]
    for encoder, columns in parts:
        if isinstance(encoder, OneHotEncoder) and isinstance(columns, Sequence):
            yield from _unseen(encoder, columns, X)


def _unseen(encoder: OneHotEncoder, columns: Sequence[Any], X: Any) -> Iterator[str]:
    names = getattr(X, "column_names", getattr(X, "columns", range(X.shape[1])))
    rare = getattr(encoder, "infrequent_categories_", [None] * len(columns))
    for k, column in enumerate(columns):
        name = names[column] if isinstance(column, int) else column
        known = set(encoder.categories_[k].tolist())
        counts = Counter(value for value in _values(X, name) if value not in known)
        if counts:
            fate = "ignores" if rare[k] is None else "encodes as an infrequent one"
            shown = ", ".join(f"{value!r:.60}" for value in [*counts][:3])
            more = f" and {len(counts) - 3} more" if len(counts) > 3 else ""
            yield (
                f"in {counts.total()} of {X.shape[0]} rows, column {name!r:.60} has a category that the training data "
                f"did not have and that the model {fate}: {shown}{more}"
            )


def _values(X: Any, name: Any) -> Iterator[Any]:
    """Yield the texts and numbers of a column that are not missing."""
    if hasattr(X, "columns"):
        column = X[name]
        values = column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()
    else:
        values = X[:, name].tolist()
    for value in values:
        if isinstance(value, str) or (isinstance(value, (int, float)) and value == value):
            yield value


class CategoryEncoder(OneHotEncoder):
    """Scikit-learn's OneHotEncoder, which also warns of categories that it was not fitted to.

    The warning names the column, the categories and the number of rows with them. It does not count
    missing values, unlike that of ``OneHotEncoder(handle_unknown="warn")``. Models that
    `dimargin train --categories` saves have this encoder, with ``handle_unknown="ignore"``.

    Parameters
    ----------
    categories, drop, sparse_output, dtype, handle_unknown, min_frequency, max_categories, feature_name_combiner
        As in OneHotEncoder.

    Attributes
    ----------
    categories_ : list of ndarray
        The categories of every column.

    Examples
    --------
    >>> import warnings
    >>> encoder = CategoryEncoder(handle_unknown="ignore").fit([["nurse"], ["smith"]])
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     encoder.transform([["nurse"], ["pilot"]]).toarray().tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    >>> print(caught[0].message)
    in 1 of 2 rows, column 0 has a category that the training data did not have and that the model ignores: 'pilot'
    """

    def transform(self, X: Any) -> Any:
        """Return the columns of 0 and 1, and warn of categories that are not in ``categories_``.

        Parameters
        ----------
        X : array-like, data frame or table of shape (n_samples, n_features)

        Returns
        -------
        ndarray or sparse matrix of shape (n_samples, n_encoded_features)
        """
        encoded = super().transform(X)
        for remark in unseen_categories(self, X if hasattr(X, "columns") else np.asarray(X, dtype=object)):
            warnings.warn(remark, UserWarning, stacklevel=2)
        return encoded
