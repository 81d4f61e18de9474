"""Accuracy of every site in a gossip run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dimargin.kernels.column_statistics import rows_on
from dimargin.system.arrays import Floats, Indices


def accuracies_of_sites(X: Any, y: Any, classes: NDArray[Any]) -> Callable[..., Floats]:
    """Return a function that a gossip run calls to evaluate its sites.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    classes : ndarray of shape (n_classes,)
        Labels of the training rows, sorted.

    Returns
    -------
    callable
        A function of weights with shape (n_sites, n_outputs, n_features), plus a last column if
        there is an intercept. It returns accuracies of shape (n_sites,). An optional second
        argument holds the indices of the columns of X that the weights refer to.

    Raises
    ------
    ValueError
        If `y` has labels that are not in `classes`.

    Examples
    --------
    >>> accuracies = accuracies_of_sites(np.array([[1.0], [-1.0]]), ["ham", "spam"], np.array(["ham", "spam"]))
    >>> accuracies(np.array([[[-2.0]], [[2.0]], [[0.0]]]))
    array([1. , 0. , 0.5])
    """
    y = np.asarray(y)
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(f"labels must be among the classes {classes.tolist()}, got {unknown.tolist()} too")
    codes, X = np.searchsorted(classes, y), sp.csr_array(X) if sp.issparse(X) else X

    def accuracy(rows: Any, weights: Floats) -> float:
        n_features = rows.shape[1]
        values = np.asarray(rows @ weights[:, :n_features].T) + weights[:, n_features:].sum(axis=1)
        predicted = values.argmax(axis=1) if len(weights) > 1 else values[:, 0] > 0
        return float(np.mean(predicted == codes))

    def accuracies(weights: Floats, columns: Indices | None = None) -> Floats:
        rows = rows_on(X, columns)
        return np.array([accuracy(rows, own) for own in weights])

    return accuracies
