"""Platt's sigmoids for the pairs of classes, as LIBSVM has them for its probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import KFold

from dimargin.estimators.calibration import fitted_to
from dimargin.estimators.svm import SVMClassifier
from dimargin.problems.one_vs_one import pairs_of
from dimargin.system.arrays import Floats, Indices

N_FOLDS = 5  # LIBSVM's number.


Train = Callable[[Indices, Indices, Floats], SVMClassifier]


def pair_sigmoids(train_on: Train, X: Any, codes: Indices, weights: Floats, seed: int) -> tuple[Floats, Floats]:
    """Return the slopes A and intercepts B of the sigmoids of all pairs of classes.

    The probability of the first class against the second is ``1 / (1 + exp(A f + B))`` (Platt, "Probabilistic outputs
    for support vector machines", 1999), where the decision value f is positive for the first class. The sigmoids are
    fitted to decision values of rows that were left out of training, in five folds of all classes at a time.

    Parameters
    ----------
    train_on : callable
        Trains a machine of one class against another on the rows of these indices, with numbers of classes 0, 1, ...,
        and weights.
    X : ndarray or CSR array of shape (n, n_features), or (n, n) of kernel values
    codes : ndarray of shape (n,)
        Numbers of the classes.
    weights : ndarray of shape (n,)
        Weights of the rows, not negative.
    seed : int
        Seed of the folds.

    Returns
    -------
    A, B : ndarray of shape (n_pairs,)
    """
    used, pairs = np.flatnonzero(weights > 0), pairs_of(int(codes.max()) + 1)
    values = np.zeros((len(codes), len(pairs)))
    for train, test in KFold(min(N_FOLDS, len(used)), shuffle=True, random_state=seed).split(used):
        values[used[test]] = _held_out_values(train_on, X, codes, weights, (used[train], used[test]))
    sigmoids = np.empty((len(pairs), 2))
    for number, (first, second) in enumerate(pairs.tolist()):
        rows = used[np.isin(codes[used], (first, second))]
        found = fitted_to(values[rows, number], (codes[rows] == first).astype(np.int64), weights[rows], "sigmoid")
        (sigmoid,) = found.calibrated_classifiers_[0].calibrators
        sigmoids[number] = sigmoid.a_, sigmoid.b_
    return sigmoids[:, 0].copy(), sigmoids[:, 1].copy()


def _held_out_values(train_on: Train, X: Any, codes: Indices, weights: Floats, fold: tuple[Indices, Indices]) -> Floats:
    """Return decision values of the rows of a fold, of shape (n_rows, n_pairs), positive for the first class.

    They are one and minus one where only one class of a pair is left in training, as in LIBSVM.
    """
    (train, test), pairs = fold, pairs_of(int(codes.max()) + 1)
    present, own_codes = np.unique(codes[train], return_inverse=True)
    is_there = np.isin(pairs, present)
    values = np.repeat((is_there[:, 0].astype(float) - is_there[:, 1])[None], len(test), axis=0)
    if len(present) > 1:
        own = train_on(train, own_codes, weights[train])
        rows = X[np.ix_(test, train[own.support_])] if own.kernel == "precomputed" else X[test]
        found = -own._values_of_batch(sp.csr_array(rows) if sp.issparse(rows) else rows)
        values[:, is_there.all(axis=1)] = found.T
    return values
