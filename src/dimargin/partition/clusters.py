"""Clusters in the kernel's space: two-step kernel k-means (DC-SVM paper, section 4; handbook, section 3.3).

    1  kernel k-means on a sample of m rows, whose Gram matrix is small
    2  every row to the nearest centre:  argmin_c |mu_c|^2 - 2 <phi(x), mu_c>,   mu_c the mean of the sample's part

A row costs m kernel values, whatever the number of clusters, and the same formula takes rows that were not there in
training: `KernelClusters` is that rule, and nothing else decides which model of a level answers.

Where the paper is mended. *The kernel*: to a local one (large gamma) nearly all rows of a sample are equally far from
each other, so that any clustering of it is as good as another, and most rows end where the centre is most diffuse. On
covtype with gamma = 32 and 64 clusters from a sample of 1,000, one cluster took 298,016 of 464,809 rows, and 0.59 of
the kernel's sum lay inside clusters; with clusters by the same kernel with gamma = 0.25 none had more than 4 times
the mean, and 0.88 lay inside. Theorem 1's bound is what lies between clusters: the second clustering is better *for
the first kernel*. So a stationary kernel clusters with gamma lowered to one over the median distance in the sample
(``wide=False`` is the paper's way). *The start* is k-means++ in the kernel's space, the best of five, for random
labels collapse. *Empty clusters* take the row furthest from its centre, and those that no row is nearest to are
dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import euclidean_distances, manhattan_distances

from dimargin.kernels import Floats, Indices, Kernel, KernelMatrix, RowTransform
from dimargin.partition.kmeans import kernel_kmeans
from dimargin.user_kernels import Transform, UserKernel, kernel_matrix

_ROWS_AT_ONCE = 16384  # bounds the scratch memory
_SIDE_BY_SIDE = 16  # centres in one product: with all 64 at once covtype takes 2.4 s, with 16 at a time 0.9 s
_PER_CLUSTER = 10  # rows of the sample
_AT_ONCE = 256  # clusters, so that the sample stays small
_ROUNDING = 1e-12  # distance between equal rows, of the largest
_FOR_A_MEDIAN = 500  # rows whose distances give it


@dataclass(frozen=True)
class Split:
    """Centres among which rows are divided.

    Attributes
    ----------
    vectors : ndarray or CSR array of shape (m, n_features)
        Rows of the sample, those of a centre together.
    shares : ndarray of shape (m,)
        Weight of each vector in the mean of its centre.
    bounds : ndarray of shape (n_centres + 1,)
        Centre j is the mean of ``vectors[bounds[j]:bounds[j + 1]]``.
    norms : ndarray of shape (n_centres,)
        Squared norms of the centres in the kernel's space.
    targets : ndarray of shape (n_centres,)
        Where a row goes whose nearest centre this is: to the cluster of this number, or, if it is negative, on to the
        split ``-1 - target``.
    """

    vectors: Any
    shares: Floats
    bounds: Indices
    norms: Floats
    targets: Indices

    def nearest(self, transform: Transform, X: Any, n_threads: int) -> tuple[Indices, int]:
        """Place of the centre nearest to every row, and the number of kernel values that it took."""
        matrix = kernel_matrix(transform, self.vectors, X, n_threads)
        smallest, nearest = np.full(X.shape[0], np.inf), np.zeros(X.shape[0], dtype=np.int64)
        for first in range(0, len(self.norms), _SIDE_BY_SIDE):
            bounds = self.bounds[first : first + _SIDE_BY_SIDE + 1]
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
        """These centres alone, with targets."""
        kept = np.concatenate([np.arange(self.bounds[c], self.bounds[c + 1]) for c in centres])
        bounds = np.concatenate([[0], np.cumsum(np.diff(self.bounds)[centres])])
        return Split(self.vectors[kept], self.shares[kept], bounds, self.norms[centres], targets)


@dataclass(frozen=True)
class KernelClusters:
    """The rule that takes a row to its cluster.

    Attributes
    ----------
    transform : RowTransform or UserKernel
        Of the kernel that the rows are clustered with.
    splits : tuple of Split
        All rows meet the first; parts that were to be divided further meet another.

    Examples
    --------
    >>> import numpy as np
    >>> from dimargin.kernels import Kernel, KernelMatrix, RowTransform
    >>> X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1]])
    >>> K = KernelMatrix(RowTransform.fit(X, Kernel("rbf", gamma=1.0)), X)
    >>> rule, clusters = cluster_rows(K, np.ones(5), 2, np.random.default_rng(0))
    >>> clusters
    array([0, 0, 0, 1, 1])
    >>> rule.assign(np.array([[4.0], [-1.0]]))
    array([1, 0])
    """

    transform: Transform
    splits: tuple[Split, ...]

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return 1 + max(int(split.targets.max()) for split in self.splits)

    def assign(self, X: Any, n_threads: int = 1) -> Indices:
        """Cluster of every row of X, of shape (n,); the same for a row whatever the others are."""
        clusters = np.full(X.shape[0], -1)
        for s, split in enumerate(self.splits):
            rows = np.flatnonzero(clusters == -1 - s)
            for first in range(0, len(rows), _ROWS_AT_ONCE):
                some = rows[first : first + _ROWS_AT_ONCE]
                clusters[some] = split.targets[split.nearest(self.transform, X[some], n_threads)[0]]
        return clusters


def cluster_rows(
    kernel: KernelMatrix,
    weights: Floats,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    sample_size: int = 1000,
    candidates: Indices | None = None,
    wide: bool = True,
    max_size: int | None = None,
) -> tuple[KernelClusters, Indices]:
    """Two-step kernel k-means on all rows.

    Parameters
    ----------
    kernel : KernelMatrix of shape (n, n)
        Of rows, not of values computed beforehand. The kernel values that this takes are added to its count.
    weights : ndarray of shape (n,)
        Positive row weights: in a sample of all rows, a weight of two equals the row given twice.
    n_clusters : int
        Wanted; fewer where fewer rows of the sample differ, or no row is nearest to a centre. More than 256 are found
        in steps, 256 parts that are then divided in proportion to their rows, and there may be some more or fewer.
    rng : numpy.random.Generator
    sample_size : int, default=1000
        Rows of the sample, as in the paper; ten a cluster where that is more (the paper's 1,000 for 256 clusters are
        four a cluster, which leaves many empty).
    candidates : ndarray, optional
        Rows that the sample is drawn from; all by default.
    wide : bool, default=True
        Whether a stationary kernel is widened, see the module.
    max_size : int, optional
        Clusters with more rows are divided by kernel k-means of their own rows, and their parts again where needed:
        there are then more than `n_clusters`, and the rule for unseen rows is that of training, split by split. Rows
        that the kernel cannot tell apart stay together.

    Returns
    -------
    rule : KernelClusters
    clusters : ndarray of shape (n,)
        ``rule.assign`` of the rows. Cluster 0 is the largest.
    """
    candidates = np.arange(kernel.shape[0]) if candidates is None else candidates
    sample = _draw(kernel, candidates, sample_size, n_clusters, rng)
    transform = _transform(kernel, sample, weights, wide)
    splits: list[Split] = []
    clusters = np.full(kernel.shape[0], -1)
    waiting = [(np.arange(kernel.shape[0]), sample, n_clusters)]
    n_found = 0
    while waiting:
        rows, sample, n_parts = waiting.pop(0)
        split = _split(kernel, transform, sample, weights, min(n_parts, _AT_ONCE), rng)
        nearest = np.empty(len(rows), dtype=np.int64)
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            some = slice(first, first + _ROWS_AT_ONCE)
            nearest[some], evaluations = split.nearest(transform, kernel.rows(rows[some]), kernel.n_threads)
            kernel.evaluations += evaluations
        occupied = np.unique(nearest)
        targets = np.empty(len(split.norms), dtype=np.int64)
        for centre in occupied:
            inside = rows[nearest == centre]
            n_inside = 1 if n_parts <= _AT_ONCE else round(n_parts * len(inside) / len(rows))
            if max_size is not None:
                n_inside = max(n_inside, -(-len(inside) // max_size))
            if n_inside > 1 and len(occupied) > 1:
                targets[centre] = -2 - len(splits) - len(waiting)
                waiting.append((inside, _draw(kernel, inside, sample_size, n_inside, rng), n_inside))
            else:
                targets[centre] = n_found
                n_found += 1
        clusters[rows] = targets[nearest]
        splits.append(split.keep(occupied, targets[occupied]))
    number = np.empty(n_found, dtype=np.int64)
    number[np.argsort(-np.bincount(clusters), kind="stable")] = np.arange(n_found)
    for split in splits:
        final = split.targets >= 0
        split.targets[final] = number[split.targets[final]]
    return KernelClusters(transform, tuple(splits)), number[clusters]


def largest_sample(sample_size: int, n_clusters: int) -> int:
    """Rows of the sample, if there are so many, that so many clusters are found on."""
    return max(sample_size, _PER_CLUSTER * min(n_clusters, _AT_ONCE))


def _draw(kernel: KernelMatrix, rows: Indices, sample_size: int, n_clusters: int, rng: np.random.Generator) -> Indices:
    """A sample of the rows to find clusters on, in an order that depends on their content alone."""
    size = largest_sample(sample_size, n_clusters)
    chosen = rows if len(rows) <= size else np.sort(rng.choice(rows, size, replace=False))
    X = kernel.rows(chosen)
    if sp.issparse(X):
        keys = [(X.indices[a:b].tobytes(), X.data[a:b].tobytes()) for a, b in pairwise(X.indptr)]
        return chosen[sorted(range(len(chosen)), key=keys.__getitem__)]
    return np.asarray(chosen[np.lexsort(X.T)])


def _transform(kernel: KernelMatrix, sample: Indices, weights: Floats, wide: bool) -> Transform:
    """Rows prepared for the kernel to cluster with."""
    if isinstance(kernel.transform, UserKernel):
        return kernel.transform
    X, given = kernel.rows(sample), kernel.transform.kernel
    if wide and given.stationary:
        given = replace(given, gamma=_wide_gamma(X, given, weights[sample]))
    transform = RowTransform.fit(X, given, weights[sample])
    # where the precision would depend on the rows that are asked about together, it is always the higher one
    return transform if given.stationary and not sp.issparse(X) else transform.in_float64()


def _wide_gamma(X: Any, kernel: Kernel, weights: Floats) -> float:
    """One over the median of the positive distances between rows, if that is less than gamma."""
    some = slice(None, None, -(-X.shape[0] // _FOR_A_MEDIAN))
    X, weights = X[some], weights[some]
    if kernel.name == "rbf":
        distances = euclidean_distances(X if sp.issparse(X) else X - X.mean(axis=0), squared=True)
    else:
        distances = manhattan_distances(X)
    positive = distances > _ROUNDING * distances.max()
    if not positive.any():
        return kernel.gamma
    values, shares = distances[positive], np.outer(weights, weights)[positive]
    order = np.argsort(values, kind="stable")
    shares = np.cumsum(shares[order])
    median = values[order[np.searchsorted(shares, 0.5 * shares[-1])]]
    return min(kernel.gamma, float(1 / median))


def _split(
    kernel: KernelMatrix,
    transform: Transform,
    sample: Indices,
    weights: Floats,
    n_clusters: int,
    rng: np.random.Generator,
) -> Split:
    """Centres by kernel k-means on the sample."""
    X, every = kernel.rows(sample), np.arange(len(sample))
    matrix = kernel_matrix(transform.in_float64(), X, n_threads=kernel.n_threads)
    gram = matrix.block(every, every)
    kernel.evaluations += matrix.evaluations
    labels = kernel_kmeans(gram, weights[sample], n_clusters, rng)
    order = np.argsort(labels, kind="stable")
    bounds = np.searchsorted(labels[order], np.arange(labels.max() + 2))
    shares = weights[sample] / np.bincount(labels, weights[sample])[labels]
    parts = [order[a:b] for a, b in pairwise(bounds)]
    norms = [shares[part] @ gram[np.ix_(part, part)] @ shares[part] for part in parts]
    return Split(X[order], shares[order], bounds, np.array(norms), np.zeros(len(norms), dtype=np.int64))
