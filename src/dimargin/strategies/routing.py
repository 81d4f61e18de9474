"""Prediction by the local machines of a clustered level: every row by that of its nearest cluster."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.wide_rows import KeptColumns
from dimargin.shards.partition import KernelClusters
from dimargin.system.arrays import Floats, Indices


@dataclass(frozen=True)
class Router:
    """Early prediction: the machine of the nearest cluster decides for a row (DC-SVM paper, section 4).

    Examples
    --------
    >>> from dimargin.kernels.functions import Kernel
    >>> from dimargin.kernels.row_transform import RowTransform
    >>> from dimargin.shards.partition import Split
    >>> X = np.array([[0.0], [0.5], [4.0], [4.5]])
    >>> transform, half = RowTransform.fit(X, Kernel("rbf", gamma=0.1)), np.full(4, 0.5)
    >>> pairs = Split(X, half, np.array([0, 2, 4]), norms=np.ones(2), targets=np.arange(2))  # Means of two rows.
    >>> router = Router(KernelClusters(transform, (pairs,)), np.array([0, 0, 1, 1]))
    >>> queries = np.array([[1.0], [5.0]])
    >>> K = KernelMatrix(transform, X, queries)
    >>> router.decision_values(K, queries, np.array([[1.0, 0.0, -1.0, 0.0]])).round(3)  # exp(-0.1), -exp(-0.1)
    array([[ 0.905, -0.905]])
    """

    rule: KernelClusters  # The clusters of the training rows.
    clusters: Indices  # The cluster of every support vector, of shape (n_vectors,).
    intercepts: Floats | None = field(default=None, kw_only=True)  # Only older models have intercepts of clusters.

    def take(self, index: Indices) -> Self:
        """Return the router for some of the vectors."""
        return replace(self, clusters=self.clusters[index])

    def on_given(self, columns: KeptColumns | None) -> Self:
        """Return the router for rows with all columns, if it was built on rows with only `columns`."""
        return self if columns is None else replace(self, rule=self.rule.on_given(columns))

    def decision_values(self, kernel: KernelMatrix, X: Any, coefficients: Floats) -> Floats:
        """Return decision values, of shape (n_outputs, n_rows), computing the kernel values of a row's cluster only.

        `kernel` has shape (n_rows, n_vectors), with the rows of `X`, dense or CSR. The
        coefficients, of shape (n_outputs, n_vectors), are multiplied by labels.
        """
        values = np.zeros((len(coefficients), X.shape[0]))
        nearest = self.rule.assign(X, kernel.n_threads)
        queries = self.members(nearest)
        for rows, own in zip(queries, self.members(self.clusters), strict=True):
            values[:, rows] = kernel.multiply(own, coefficients[:, own], rows)
        return values if self.intercepts is None else values + self.intercepts[nearest].T

    def members(self, clusters: Indices) -> list[Indices]:
        """Return, for every cluster, its positions in `clusters`, ascending."""
        bounds = np.cumsum(np.bincount(clusters, minlength=self.rule.n_clusters))[:-1]
        return np.split(np.argsort(clusters, kind="stable"), bounds)
