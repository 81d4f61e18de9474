"""Accuracies of the sites of a gossip run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimargin.system.arrays import Floats


def accuracies_of_sites(X: Any, y: Any, classes: NDArray[Any]) -> Callable[[Floats], Floats]:
    """Return the function that a gossip run calls for the accuracies of its sites.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    classes : ndarray of shape (n_classes,)
        Labels of the training rows, sorted.

    Returns
    -------
    callable
        Function from weights of shape (n_sites, n_outputs, n_features), or one more for the intercept, to accuracies of
        shape (n_sites,).

    Raises
    ------
    ValueError
        For labels that are not among the classes.

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
    codes, n_features = np.searchsorted(classes, y), X.shape[1]

    def accuracy(weights: Floats) -> float:
        values = np.asarray(X @ weights[:, :n_features].T) + weights[:, n_features:].sum(axis=1)
        predicted = values.argmax(axis=1) if len(weights) > 1 else values[:, 0] > 0
        return float(np.mean(predicted == codes))

    return lambda weights: np.array([accuracy(own) for own in weights])
