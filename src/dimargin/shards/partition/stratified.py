"""Partitions into parts like the whole: random, or stratified by landmark or cluster, and label."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from dimargin.shards.partition.dealing import Partition
from dimargin.shards.partition.landmarks import nearest_landmark, nearest_point, pivoted_cholesky
from dimargin.shards.parts import Part, first_distinct_rows, first_rows
from dimargin.shards.shards import Shards
from dimargin.system.arrays import Floats, Indices


@dataclass(frozen=True)
class RandomPartition(Partition):
    """Partition that assigns rows in the order of their keys, which is random."""

    def strata(self, rows: Shards[Part], n_rows: int, rng: np.random.Generator) -> tuple[None, int]:
        """Return no strata: only the order of the keys counts."""
        return None, 0


@dataclass(frozen=True)
class StratifiedPartition(Partition):
    """Partition that assigns rows by strata: the nearest landmark, crossed with the label.

    The paper ignores the label; with few positive rows a small part could then lack a class.
    """

    n_landmarks: int = 50  # the value of the authors' released code; the paper gives none
    sample_size: int | None = None  # rows to choose from; None: ``max(2000, 10 n_landmarks)``
    choice: Literal["greedy", "random"] = "greedy"  # see `pivoted_cholesky`

    def strata(self, rows: Shards[Part], n_rows: int, rng: np.random.Generator) -> tuple[NearestLandmark, int]:
        """Return strata by the nearest landmark, and the number of kernel values computed."""
        size = max(2000, 10 * self.n_landmarks) if self.sample_size is None else self.sample_size
        sample = first_distinct_rows(rows, size, n_rows)
        kernel = sample.problem.kernel
        landmarks = pivoted_cholesky(kernel, np.arange(sample.n_rows), self.n_landmarks, rng, self.choice)
        return NearestLandmark(sample.take(landmarks, sample.problem.mass)), kernel.evaluations


@dataclass(frozen=True)
class NearestLandmark:
    """Strata of rows near the same landmark."""

    landmarks: Part

    @property
    def n_strata(self) -> int:
        """See `Strata`."""
        return max(1, self.landmarks.n_rows)

    def of(self, part: Part) -> tuple[Indices, int]:
        """See `Strata`."""
        kernel = self.landmarks.problem.kernel.facing(part.problem.kernel, part.problem.kernel.n_threads)
        return nearest_landmark(kernel, np.arange(self.landmarks.n_rows)), kernel.evaluations


@dataclass(frozen=True)
class InputClusterPartition(Partition):
    """Partition that assigns rows by clusters of k-means on the features, crossed with the label.

    This is the distribution preserving partition of DiP-SVM with one difference: DiP-SVM clusters
    each class separately; here the clusters of all rows are crossed with the labels. The defaults
    are those of the authors' released code of SODM.
    """

    n_clusters: int = 200  # fewer if the sample has fewer distinct rows
    sample_size: int | None = None  # rows to find clusters on; None: half of all, at most 20,000

    def strata(self, rows: Shards[Part], n_rows: int, rng: np.random.Generator) -> tuple[NearestCentre, int]:
        """Return strata by the nearest centre of a cluster, which take no kernel values."""
        # Few fits need this class, which takes a twentieth of the time to import the package.
        from sklearn.cluster import KMeans

        size = min(max(n_rows // 2, 1), 20_000) if self.sample_size is None else min(self.sample_size, n_rows)
        sample = first_rows(rows, size, n_rows)
        seed = int(rng.integers(2**31))
        with threadpool_limits(1, user_api="openmp"), warnings.catch_warnings():
            # If rows are equal, fewer clusters than requested are correct.
            warnings.simplefilter("ignore", ConvergenceWarning)
            means = KMeans(min(self.n_clusters, size), n_init=1, max_iter=50, random_state=seed)
            means.fit(sample.problem.kernel.rows(np.arange(size)))
        return NearestCentre(np.asarray(means.cluster_centers_, dtype=np.float64)), 0


@dataclass(frozen=True)
class NearestCentre:
    """Strata of rows near the same centre in the space of the features."""

    centres: Floats  # means of clusters, of shape (n_centres, n_features)

    @property
    def n_strata(self) -> int:
        """See `Strata`."""
        return len(self.centres)

    def of(self, part: Part) -> tuple[Indices, int]:
        """See `Strata`."""
        squares = np.einsum("ij,ij->i", self.centres, self.centres)
        kernel = part.problem.kernel
        return nearest_point(squares, part.n_rows, lambda rows: kernel.rows(rows) @ self.centres.T), 0
