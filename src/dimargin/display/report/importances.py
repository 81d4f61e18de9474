"""Permutation importances of columns, computed within a fixed budget of work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.inspection import permutation_importance
from sklearn.utils import _safe_indexing

from dimargin.display.regression_scores import regression_scores
from dimargin.display.report.data_frames import is_table, with_columns_from
from dimargin.display.unwrap import innermost, uncalibrated
from dimargin.estimators.nested_steps import rows_for_machine
from dimargin.estimators.wide_attributes import kept_of, on
from dimargin.kernels.column_statistics import narrowed, on_columns, stored_columns
from dimargin.system.arrays import Floats, Indices


@dataclass(frozen=True)
class Budget:
    """Limits of the work for permutation importances.

    Attributes
    ----------
    repeats : int
        Permutations of each column; five show whether an importance differs from zero.
    max_columns : int
        Columns of an array that are shuffled.
    min_rows, max_rows : int
        Sampled rows. More than 1,000 would hardly change the order of the columns.
    max_multiplications : float
        The sample is smaller if it would take more; these take ten seconds on two cores.
    """

    repeats: int = 5
    max_columns: int = 40
    min_rows: int = 100
    max_rows: int = 1000
    max_multiplications: float = 5e10


@dataclass(frozen=True)
class Importances:
    """Importances of columns, in descending order.

    Attributes
    ----------
    columns : ndarray of int of shape (n_columns,)
    means, deviations : ndarray of shape (n_columns,)
        Mean and standard deviation, over the permutations, of the loss in balanced accuracy, or in
        R2 of a regressor.
    score : float
        Balanced accuracy or R2 without shuffling.
    n_rows : int
        Number of sampled rows.
    """

    columns: Indices
    means: Floats
    deviations: Floats
    score: float
    n_rows: int


def importances(model: Any, X: Any, y: NDArray[Any], random_state: int, budget: Budget = Budget()) -> Importances:
    """Compute permutation importances.

    Parameters
    ----------
    model : fitted classifier or regressor
    X : ndarray, CSR array, data frame or table of shape (n, n_features)
        An array with more than `budget.max_columns` columns is reduced to those with the largest
        variance after preprocessing (for a linear machine, times its squared coefficients). Tables
        keep all.
    y : ndarray of shape (n,)
    random_state : int
    budget : Budget

    Returns
    -------
    Importances
    """
    rng = np.random.default_rng(random_state)
    n, width = X.shape
    n_columns = width if is_table(X) else min(width, budget.max_columns)
    affordable = int(budget.max_multiplications / (n_columns * budget.repeats * _work_of_row(model, X)))
    n_rows = min(n, budget.max_rows, max(budget.min_rows, affordable))
    chosen = np.sort(rng.choice(n, n_rows, replace=False))
    rows, labels = _safe_indexing(X, chosen), np.asarray(y)[chosen]
    columns = np.arange(width) if n_columns == width else _most_varying_columns(model, rows, n_columns)
    wrapped = _WithShuffledColumns(model, rows, columns)
    measure = _r2 if isinstance(innermost(model), RegressorMixin) else _balanced_accuracy
    own = np.tile(np.arange(n_rows)[:, None], len(columns))  # Shuffling these indices shuffles the values.
    found = permutation_importance(
        wrapped, own, labels, scoring=measure, n_repeats=budget.repeats, random_state=random_state
    )
    order = np.argsort(-found.importances_mean, kind="stable")
    score = float(measure(wrapped, own, labels))
    return Importances(columns[order], found.importances_mean[order], found.importances_std[order], score, n_rows)


def _balanced_accuracy(model: Any, X: Any, y: NDArray[Any]) -> float:
    # scikit-learn's recall_score would often take longer than the prediction.
    _, codes = np.unique(y, return_inverse=True)
    return float((np.bincount(codes, weights=model.predict(X) == y) / np.bincount(codes)).mean())


def _r2(model: Any, X: Any, y: NDArray[Any]) -> float:
    return regression_scores(y, model.predict(X))["r2"] or 0.0


def _work_of_row(model: Any, X: Any) -> float:
    """Return the approximate cost of predicting a row, in multiplications."""
    per_row = X.nnz / X.shape[0] if sp.issparse(X) else X.shape[1]
    machine = innermost(uncalibrated(model))
    n_support = max(1, len(getattr(machine, "support_", [])))
    # Evaluating the kernel function costs as much as 16 multiplications; storing a decision value
    # and counting it as a vote costs as much as 40.
    per_vector = per_row + 16 + len(getattr(machine, "dual_coef_", []))
    return float(n_support * per_vector + 40 * len(getattr(machine, "intercept_", [])))


def _most_varying_columns(model: Any, rows: Any, n_columns: int) -> Indices:
    """Return the columns whose shuffling changes the input of the machine most."""
    inside, occurring = narrowed(rows_for_machine(uncalibrated(model), rows))
    mean = np.asarray(inside.mean(axis=0)).ravel()
    squares = inside.multiply(inside).mean(axis=0) if sp.issparse(inside) else (inside**2).mean(axis=0)
    variance = np.asarray(squares).ravel() - mean**2
    coefficients = kept_of(innermost(uncalibrated(model)), "coef_", None)
    if coefficients is not None:
        variance = variance * (on(coefficients, occurring) ** 2).sum(axis=0)
    return np.sort(occurring[np.argsort(-variance, kind="stable")[:n_columns]])


class _WithShuffledColumns(ClassifierMixin, BaseEstimator):
    """Model for fixed rows; its input selects the row to take each value from."""

    def __init__(self, model: Any, rows: Any, columns: Indices) -> None:
        self.model, self.rows, self.columns = model, rows, columns
        self.classes_ = getattr(model, "classes_", None)
        if sp.issparse(rows):
            rows = sp.csr_array(rows)
            self._occurring = np.union1d(stored_columns(rows), columns)
            narrow = on_columns(rows, self._occurring)
            others, k = np.ones(narrow.shape[1]), np.arange(len(columns))
            places = np.searchsorted(self._occurring, columns)
            others[places] = 0.0
            self._values = narrow[:, places].toarray()
            self._others = sp.csr_array(narrow.multiply(others[None]))
            self._places = sp.csr_array((np.ones(len(k)), (k, places)), shape=(len(k), narrow.shape[1]))

    def fit(self, X: Any, y: Any) -> _WithShuffledColumns:
        """Do nothing, because the model is already fitted."""
        return self

    def predict(self, X: Any) -> Any:
        """Predict each row, with the value of column k taken from row ``X[i, k]``."""
        if sp.issparse(self.rows):
            values = sp.csr_array(np.take_along_axis(self._values, X, axis=0))
            narrow = sp.csr_array(self._others + values @ self._places)
            indices = self._occurring[narrow.indices]
            full = sp.csr_array((narrow.data, indices, narrow.indptr), shape=self.rows.shape)
        elif is_table(self.rows):
            full = with_columns_from(self.rows, X)
        else:
            full = self.rows.copy()
            full[:, self.columns] = np.take_along_axis(self.rows[:, self.columns], X, axis=0)
        return self.model.predict(full)
