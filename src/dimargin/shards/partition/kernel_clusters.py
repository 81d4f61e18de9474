"""Rule that assigns rows to clusters in the kernel's space; clusters.py describes the algorithm."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dimargin.kernels.column_statistics import row_chunks
from dimargin.kernels.user import Transform, kernel_matrix
from dimargin.kernels.wide_rows import KeptColumns
from dimargin.system.arrays import Floats, Indices


@dataclass(frozen=True)
class Split:
    """Centres among which rows are divided: means of sampled rows in the kernel's space."""

    vectors: Any  # sampled rows, an array or CSR array of shape (m, n_features), grouped by centre
    shares: Floats  # weight of each vector in the mean of its centre, of shape (m,)
    bounds: Indices  # centre j is the mean of ``vectors[bounds[j]:bounds[j + 1]]``
    norms: Floats  # squared norms of the centres, of shape (n_centres,)
    # The cluster of the rows nearest to each centre, or ``-1 - j`` if split j divides them further.
    targets: Indices

    def nearest(self, transform: Transform, X: Any, n_threads: int) -> tuple[Indices, int]:
        """Return the nearest centre of each row, and the number of kernel values computed."""
        matrix = kernel_matrix(transform, self.vectors, X, n_threads)
        smallest, nearest = np.full(X.shape[0], np.inf), np.zeros(X.shape[0], dtype=np.int64)
        step = 16  # One product with all 64 centres of covtype takes longer.
        for first in range(0, len(self.norms), step):
            bounds = self.bounds[first : first + step + 1]
            columns, n_centres = np.arange(bounds[0], bounds[-1]), len(bounds) - 1
            means = np.zeros((n_centres, len(columns)))
            means[np.repeat(np.arange(n_centres), np.diff(bounds)), columns - bounds[0]] = -2 * self.shares[columns]
            for centre, products in enumerate(matrix.multiply(columns, means), start=first):
                products += self.norms[centre]
                nearer = products < smallest
                nearest[nearer] = centre
                np.minimum(smallest, products, out=smallest)
        return nearest, matrix.evaluations

    def keep(self, centres: Indices, targets: Indices) -> Split:
        """Return a split with only these centres, and new targets."""
        kept = np.concatenate([np.arange(self.bounds[c], self.bounds[c + 1]) for c in centres])
        bounds = np.concatenate([[0], np.cumsum(np.diff(self.bounds)[centres])])
        return Split(self.vectors[kept], self.shares[kept], bounds, self.norms[centres], targets)


@dataclass(frozen=True)
class KernelClusters:
    """Rule that assigns each row to a cluster.

    Examples
    --------
    >>> import numpy as np
    >>> from dimargin.kernels.functions import Kernel
    >>> from dimargin.kernels.row_transform import RowTransform
    >>> centres, ones = np.array([[0.0], [5.0]]), np.ones(2)  # each the mean of one row
    >>> split = Split(centres, ones, np.arange(3), ones, targets=np.arange(2))
    >>> rule = KernelClusters(RowTransform.fit(centres, Kernel("rbf", gamma=1.0)), (split,))
    >>> rule.assign(np.array([[4.0], [-1.0]]))
    array([1, 0])
    """

    transform: Transform  # transform of rows for the kernel of the clustering
    splits: tuple[Split, ...]  # the first is for all rows, the others divide a part further

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return 1 + max(int(split.targets.max()) for split in self.splits)

    def on_given(self, columns: KeptColumns) -> KernelClusters:
        """Return the rule for rows as the caller passed them, from that for their kept columns."""
        splits = tuple(replace(split, vectors=columns.widen(split.vectors)) for split in self.splits)
        return replace(self, splits=splits)

    def assign(self, X: Any, n_threads: int = 1) -> Indices:
        """Return the cluster of each row of X, of shape (n,), independently of the other rows."""
        clusters = np.full(X.shape[0], -1)
        for s, split in enumerate(self.splits):
            rows = np.flatnonzero(clusters == -1 - s)
            for some in row_chunks(len(rows)):
                nearest, _ = split.nearest(self.transform, X[rows[some]], n_threads)
                clusters[rows[some]] = split.targets[nearest]
        return clusters
