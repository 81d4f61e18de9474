"""Partitions whose parts all look like the whole: random, and stratified by landmark, or cluster, and label.

A part of such a partition *represents* the whole data set, so its local problem carries the weight of its own rows as
mass (design: ``W_k``), and coefficients are rescaled by ``W_k / W_merged`` when parts are merged.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin
from threadpoolctl import threadpool_limits

from dimargin.kernels import Floats, Indices, Kernel, KernelMatrix, RowTransform
from dimargin.partition.landmarks import nearest_landmark, pivoted_cholesky
from dimargin.solution import DualProblem

_LARGEST_SAMPLE = 20_000
_ROWS_AT_ONCE = 65_536


class Partition(ABC):
    """Deals the rows of a problem into parts whose sizes differ by at most one."""

    @abstractmethod
    def order(self, problem: DualProblem, rng: np.random.Generator) -> Indices:
        """All rows, in the order in which they are dealt."""

    def split(self, problem: DualProblem, n_parts: int, rng: np.random.Generator) -> list[Indices]:
        """Rows of each part, ascending.

        Raises
        ------
        ValueError
            If there are more parts than rows.
        """
        if n_parts > problem.n_rows:
            raise ValueError(
                f"{n_parts} partitions (branching to the power of n_levels) are more than the {problem.n_rows} rows "
                "with positive weight; lower n_levels or branching"
            )
        return _dealt(self.order(problem, rng), n_parts)


@dataclass(frozen=True)
class RandomPartition(Partition):
    """Rows dealt in random order."""

    def order(self, problem: DualProblem, rng: np.random.Generator) -> Indices:
        """A permutation."""
        return rng.permutation(problem.n_rows)


@dataclass(frozen=True)
class StratifiedPartition(Partition):
    """Rows dealt stratum by stratum, a stratum being a landmark crossed with a label.

    The paper ignores the label; with few positives and small parts a class could then vanish from a part.

    Parameters
    ----------
    n_landmarks : int, default=50
        As in the authors' released code; the paper does not say.
    sample_size : int or None, default=None
        Rows from which landmarks are chosen: ``max(2000, 10 n_landmarks)`` when None.
    choice : {"greedy", "random"}, default="greedy"
        See `pivoted_cholesky`.
    """

    n_landmarks: int = 50
    sample_size: int | None = None
    choice: Literal["greedy", "random"] = "greedy"

    def order(self, problem: DualProblem, rng: np.random.Generator) -> Indices:
        """Strata one after the other, each in random order."""
        size = _sample_size(self.n_landmarks) if self.sample_size is None else self.sample_size
        sample = rng.permutation(problem.n_rows)[:size]
        landmarks = pivoted_cholesky(problem.kernel, np.sort(sample), self.n_landmarks, rng, self.choice)
        return _stratum_by_stratum(nearest_landmark(problem.kernel, landmarks), problem.labels, rng)


@dataclass(frozen=True)
class InputClusterPartition(Partition):
    """Rows dealt cluster by cluster, clusters being those of k-means on the features, crossed with the label.

    The distribution preserving partition of DiP-SVM, which clusters every class for itself; here the clusters of all
    rows are crossed with the labels.

    Parameters
    ----------
    n_clusters : int, default=200
        As in the authors' released code of SODM; fewer where the sample has fewer different rows.
    sample_size : int or None, default=None
        Rows that clusters are found on: half of them when None, as in that code, but 20,000 at most.
    """

    n_clusters: int = 200
    sample_size: int | None = None

    def order(self, problem: DualProblem, rng: np.random.Generator) -> Indices:
        """Strata one after the other, each in random order."""
        n = problem.n_rows
        size = min(max(n // 2, 1), _LARGEST_SAMPLE) if self.sample_size is None else min(self.sample_size, n)
        sample = problem.kernel.rows(np.sort(rng.permutation(n)[:size]))
        seed = int(rng.integers(2**31))
        with threadpool_limits(1, user_api="openmp"), warnings.catch_warnings():
            # fewer clusters than asked for, where rows are alike, are what there is to find
            warnings.simplefilter("ignore", ConvergenceWarning)
            means = KMeans(min(self.n_clusters, size), n_init=1, max_iter=50, random_state=seed).fit(sample)
            starts = range(0, n, _ROWS_AT_ONCE)
            rows = (problem.kernel.rows(np.arange(at, min(at + _ROWS_AT_ONCE, n))) for at in starts)
            strata = np.concatenate([means.predict(part) for part in rows])
        return _stratum_by_stratum(strata, problem.labels, rng)


def stratified_rows(
    X: Any, labels: Floats, order: Indices, n_parts: int, n_landmarks: int, rng: np.random.Generator
) -> list[Indices]:
    """Rows of each part, dealt stratum by stratum as by `StratifiedPartition` for the linear kernel.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n, n_features)
    labels : ndarray of shape (n_outputs, n)
    order : ndarray of shape (n,)
        Order of the rows, in all that follows.
    n_parts : int
        One a row at most.
    n_landmarks : int
        At most.
    rng : numpy.random.Generator

    Examples
    --------
    >>> X, labels = np.array([[1.0], [1.1], [5.0], [5.1]]), np.ones((1, 4))
    >>> parts = stratified_rows(X, labels, np.arange(4), 2, 1, np.random.default_rng(0))
    >>> [len(part) for part in parts]
    [2, 2]
    """
    sample = X[order[np.sort(rng.permutation(len(order))[: _sample_size(n_landmarks)])]]
    kernel = KernelMatrix(RowTransform.fit(sample, Kernel("linear")), sample)
    landmarks = pivoted_cholesky(kernel, np.arange(sample.shape[0]), n_landmarks, rng)
    none = np.zeros(len(order), dtype=np.int64)
    strata = pairwise_distances_argmin(X, sample[landmarks])[order] if len(landmarks) else none
    return [order[part] for part in _dealt(_stratum_by_stratum(strata, labels[:, order], rng), n_parts)]


def _sample_size(n_landmarks: int) -> int:
    return max(2000, 10 * n_landmarks)


def _stratum_by_stratum(strata: Indices, labels: Floats, rng: np.random.Generator) -> Indices:
    """Rows ordered by label and stratum, and at random within."""
    shuffled = rng.permutation(len(strata))
    return shuffled[np.lexsort((strata[shuffled], *labels[:, shuffled]))]


def _dealt(order: Indices, n_parts: int) -> list[Indices]:
    # round-robin over the whole order carries the offset from stratum to stratum
    return [np.sort(order[part::n_parts]) for part in range(n_parts)]
