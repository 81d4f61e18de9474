"""Local machines of random parts of the rows, combined: the reference for divide and conquer."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics.pairwise import rbf_kernel

from dimargin.estimators import SVMClassifier


class RandomClusters(ClassifierMixin, BaseEstimator):
    """Exact machines of random parts of the rows, each with the C of the whole problem, of which the sum predicts.

    It is `DivideAndConquer` above level 0 with parts drawn at random in place of clusters, for the
    paper's Figure 1. ``history_`` has the bound of Theorem 1
    (`dimargin_bench.experiments.theorem_1`), from all n^2 kernel values.

    Parameters
    ----------
    n_clusters : int, default=4
    C : float, default=1
    gamma : float, default=1
        Of the kernel "rbf".
    random_state : int, default=0

    Attributes
    ----------
    part_ : ndarray of shape (n_samples,)
        Part of every row; each has its share of both classes.
    dual_coef_ : ndarray of shape (1, n_support)
    support_ : ndarray of shape (n_support,)
    history_ : list of one dict
    """

    kernel, degree, coef0 = "rbf", 3, 0.0

    def __init__(self, n_clusters: int = 4, C: float = 1.0, gamma: float = 1.0, random_state: int = 0) -> None:
        self.n_clusters, self.C, self.gamma, self.random_state = n_clusters, C, gamma, random_state

    def fit(self, X: Any, y: Any) -> RandomClusters:
        """Train a machine on every part."""
        self.classes_ = np.unique(y)
        signs = np.where(y == self.classes_[1], 1.0, -1.0)
        # dealt class by class, so that none has one class only
        order = np.lexsort((np.random.default_rng(self.random_state).random(len(y)), signs))
        part = np.empty(len(y), dtype=np.int64)
        part[order] = np.arange(len(y)) % self.n_clusters
        local = SVMClassifier(fit_intercept=False, C=self.C, gamma=self.gamma, strategy="exact", random_state=0)
        signed, gap = np.zeros(len(y)), 0.0
        for k in range(self.n_clusters):
            rows = np.flatnonzero(part == k)
            machine = clone(local).fit(X[rows], signs[rows])
            signed[rows[machine.support_]] = machine.dual_coef_[0]
            gap += machine.objective_ - machine.dual_objective_
        self.part_, self.support_ = part, np.flatnonzero(signed)
        self.dual_coef_, self._vectors = signed[None, self.support_], X[self.support_]
        outside = sum(rbf_kernel(X[part == k], X[part != k], self.gamma).sum() for k in range(self.n_clusters))
        bound = gap + self.C**2 * outside / 2
        self.history_ = [{"partitions": self.n_clusters, "theorem_1_bound": bound}]
        return self

    def predict(self, X: Any) -> Any:
        """Return the class that the sum of all machines says."""
        values = rbf_kernel(X, self._vectors, self.gamma) @ self.dual_coef_[0]
        return self.classes_[(values > 0).astype(int)]
