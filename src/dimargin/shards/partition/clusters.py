"""Clusters in the kernel's space: two-step kernel k-means (DC-SVM paper, section 3).

    1  kernel k-means on a sample of m rows, whose Gram matrix is small
    2  every row to the nearest centre:  argmin_c |mu_c|^2 - 2 <phi(x), mu_c>,   mu_c the mean of the sample's part

A row costs m kernel values, whatever the number of clusters. The same formula (`KernelClusters`)
assigns unseen rows, and it alone decides which model of a level predicts them.

This differs from the paper in three ways (docs/algorithms.md#kernel-clusters). *The kernel*: under
a local kernel (large gamma) nearly all rows of a sample are equally far apart, so that any
clustering is as good as another. Therefore a stationary kernel clusters with gamma lowered to one
over the median distance in the sample (``wide=False`` follows the paper). *The start* is k-means++
in the kernel's space, the best of five, because random labels collapse. *Empty clusters* take the
row furthest from its centre; those that no row is nearest to are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from dimargin.kernels.column_statistics import narrowed, row_chunks
from dimargin.kernels.functions import Kernel
from dimargin.kernels.row_transform import RowTransform
from dimargin.kernels.user import Transform, UserKernel, kernel_matrix
from dimargin.shards.partition.dealing import sent
from dimargin.shards.partition.kernel_clusters import KernelClusters, Split
from dimargin.shards.partition.kmeans import kernel_kmeans
from dimargin.shards.parts import Part, first_of_groups, first_rows, whole_of
from dimargin.shards.shards import Shards, Sums
from dimargin.system.arrays import Floats, Indices

_MAX_CENTRES = 256  # A split has at most this many centres, so that its sample stays small.


@dataclass(frozen=True)
class Clustered:
    """Rows in clusters."""

    rule: KernelClusters
    parts: Shards[Part]  # one per cluster, largest first: pieces of the problem, with its mass
    evaluations: int  # number of kernel values that the clustering took
    spent: Shards[Any]  # shards that are not needed once the parts exist


def cluster_rows(
    rows: Shards[Part],
    n_rows: int,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    sample: Part | None = None,
    sample_size: int = 1000,
    wide: bool = True,
    max_size: int | None = None,
) -> Clustered:
    """Cluster all rows by two-step kernel k-means.

    Parameters
    ----------
    rows : Shards of Part
        All rows, `n_rows` of them; their kernel must not be precomputed.
    n_clusters : int
        Number of clusters; fewer are found if fewer rows of the sample differ, or no row is nearest
        to a centre. More than 256 are found in steps, 256 parts that are then divided in proportion
        to their rows, so that their number may differ slightly.
    sample : Part, optional
        Rows to find the first clusters on; by default the first `sample_size` in the order of their
        keys. A row of weight two counts twice.
    sample_size : int, default=1000
        Number of rows of a sample, as in the paper, but at least ten per cluster (the paper's 1,000
        for 256 clusters are four each, which leaves many empty).
    wide : bool, default=True
        Whether a stationary kernel is widened, see the module.
    max_size : int, optional
        Clusters with more rows are divided by kernel k-means of their own rows, repeatedly if
        needed: there are then more than `n_clusters`, and unseen rows follow the same splits. Rows
        that the kernel cannot tell apart stay together.
    """
    if sample is None:
        sample = first_rows(rows, largest_sample(sample_size, n_clusters), n_rows)
    sample = _in_content_order(sample)
    transform, n_threads = _transform(sample, wide), rows.n_threads * rows.n_together
    # Centres are numbered over all splits; all rows start at an extra centre 0, for split 0.
    targets, evaluations, n_found, splits = np.array([-1]), 0, 0, list[tuple[int, Split, Indices]]()
    assigned: Shards[Any] = rows.map(_start)
    waiting = [(sample, n_clusters)]
    while waiting:
        first, current, divided = len(splits), list[tuple[int, Split]](), dict[int, int]()
        for own, n_parts in waiting:
            split, spent = _split(transform, own, min(n_parts, _MAX_CENTRES), rng, n_threads)
            current.append((len(targets), split))
            targets = np.append(targets, np.zeros_like(split.targets))
            evaluations += spent
        before, assigned = assigned, assigned.map(_assign, (transform, targets, first, current, rows.n_threads))
        sums, spent_by_rows = assigned.aggregate(_counted, len(targets))
        before.release()
        sizes, evaluations = sums.astype(np.int64), evaluations + int(spent_by_rows[0])
        for (base, split), (_, n_parts) in zip(current, waiting, strict=True):
            inside = sizes[base : base + len(split.norms)]
            splits.append((base, split, np.flatnonzero(inside)))
            for centre, n_inside in enumerate(_parts_of(inside, n_parts, max_size)):
                if n_inside > 1:
                    targets[base + centre] = -1 - first - len(current) - len(divided)
                    divided[base + centre] = n_inside
                elif inside[centre]:
                    targets[base + centre] = n_found
                    n_found += 1
        waiting = _samples(assigned, sizes, divided, sample_size, n_rows)
    final = targets >= 0
    number = np.empty(n_found, dtype=np.int64)
    number[np.argsort(-np.bincount(targets[final], sizes[final]), kind="stable")] = np.arange(n_found)
    targets[final] = number[targets[final]]
    rule = KernelClusters(transform, tuple(split.keep(kept, targets[base + kept]) for base, split, kept in splits))
    return Clustered(rule, assigned.shuffle(_split_by_cluster, whole_of, n_found, targets), evaluations, assigned)


def _parts_of(inside: Indices, n_parts: int, max_size: int | None) -> list[int]:
    """Return into how many clusters each centre's rows are divided, by `n_parts` and `max_size`."""
    if np.count_nonzero(inside) == 1:  # The kernel cannot tell these rows apart.
        return [1] * len(inside)
    share = n_parts / inside.sum() if n_parts > _MAX_CENTRES else 0.0
    return [max(1, round(share * size), 0 if max_size is None else -(-size // max_size)) for size in inside.tolist()]


def _samples(
    assigned: Shards[_Assigned], sizes: Indices, divided: dict[int, int], sample_size: int, n_rows: int
) -> list[tuple[Part, int]]:
    """Return a sample and the number of clusters for each centre whose rows are divided further."""
    if not divided:
        return []
    centres, groups = list(divided), np.full(len(sizes), -1)
    groups[centres] = np.arange(len(centres))
    wanted = [largest_sample(sample_size, n_parts) for n_parts in divided.values()]
    samples = first_of_groups(assigned, partial(_at_centres, groups), wanted, sizes[centres].tolist(), n_rows)
    return list(zip(map(_in_content_order, samples), divided.values(), strict=True))


def largest_sample(sample_size: int, n_clusters: int) -> int:
    """Return the size of the sample, if there are enough rows: at least ten rows per cluster."""
    return max(sample_size, 10 * min(n_clusters, _MAX_CENTRES))


def _transform(sample: Part, wide: bool) -> Transform:
    """Return the transform of rows for the kernel of the clustering."""
    kernel, weights = sample.problem.kernel, sample.problem.weights
    if isinstance(kernel.transform, UserKernel):
        return kernel.transform
    X, given = kernel.rows(np.arange(sample.n_rows)), kernel.transform.kernel
    if wide and given.stationary:
        given = replace(given, gamma=_wide_gamma(X, given, weights))
    transform = RowTransform.fit(X, given, weights)
    # Where the precision would depend on which rows are assigned together, it is always float64.
    return transform if given.stationary and not sp.issparse(X) else transform.in_float64()


def _with_short_indices(X: Any) -> Any:
    """Return CSR rows with 32-bit indices, which L1 distances of scikit-learn 1.6 need."""
    X = narrowed(X)[0]
    short = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
    return X if X.indices.dtype == np.int32 else sp.csr_array(short, shape=X.shape)


def _wide_gamma(X: Any, kernel: Kernel, weights: Floats) -> float:
    """Return one over the median of the positive distances between rows, or a smaller gamma."""
    # A process that imports an estimator class would take a twentieth longer with this import.
    from sklearn.metrics.pairwise import euclidean_distances, manhattan_distances

    some = slice(None, None, -(-X.shape[0] // 500))  # About 500 rows suffice for a median.
    X, weights = X[some], weights[some]
    if kernel.order == 2:
        distances = euclidean_distances(narrowed(X)[0] if sp.issparse(X) else X - X.mean(axis=0), squared=True)
    else:
        distances = manhattan_distances(_with_short_indices(X) if sp.issparse(X) else X)
    positive = distances > 1e-12 * distances.max()  # Smaller distances are rounding.
    if not positive.any():
        return kernel.gamma
    values, shares = distances[positive], np.outer(weights, weights)[positive]
    order = np.argsort(values, kind="stable")
    shares = np.cumsum(shares[order])
    median = values[order[np.searchsorted(shares, 0.5 * shares[-1])]]
    return float(1 / median) if kernel.gamma * median > 1 else kernel.gamma  # 1/median may overflow


def _split(
    transform: Transform, sample: Part, n_clusters: int, rng: np.random.Generator, n_threads: int
) -> tuple[Split, int]:
    """Return centres by kernel k-means on the sample, and the number of kernel values computed."""
    every, weights = np.arange(sample.n_rows), sample.problem.weights
    X = sample.problem.kernel.rows(every)
    matrix = kernel_matrix(transform.in_float64(), X, n_threads=n_threads)
    gram = matrix.block(every, every)
    labels = kernel_kmeans(gram, weights, n_clusters, rng)
    order = np.argsort(labels, kind="stable")
    bounds = np.searchsorted(labels[order], np.arange(labels.max() + 2))
    shares = weights / np.bincount(labels, weights)[labels]
    parts = [order[a:b] for a, b in pairwise(bounds)]
    norms = [shares[part] @ gram[np.ix_(part, part)] @ shares[part] for part in parts]
    split = Split(X[order], shares[order], bounds, np.array(norms), np.zeros(len(norms), dtype=np.int64))
    return split, matrix.evaluations


def _in_content_order(sample: Part) -> Part:
    """Return the sample with its rows in an order that depends only on their content."""
    X = sample.problem.kernel.rows(np.arange(sample.n_rows))
    if sp.issparse(X):
        keys = [(X.indices[a:b].tobytes(), X.data[a:b].tobytes()) for a, b in pairwise(X.indptr)]
        order = np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)
    else:
        order = np.lexsort(X.T)
    return sample.take(order, sample.problem.mass)


# ---- tasks of shards -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Assigned:
    """Rows, each with the nearest centre of its last split."""

    part: Part
    centres: Indices
    evaluations: int = 0


def _start(part: Part, _: None) -> _Assigned:
    return _Assigned(part, np.zeros(part.n_rows, dtype=np.int64))


def _assign(before: _Assigned, value: tuple[Transform, Indices, int, list[tuple[int, Split]], int]) -> _Assigned:
    """Assign rows at centres that are divided further to the centres of the next splits."""
    transform, targets, first, current, n_threads = value
    centres, evaluations, kernel = before.centres.copy(), 0, before.part.problem.kernel
    for number, (base, split) in enumerate(current, start=first):
        rows = np.flatnonzero(targets[before.centres] == -1 - number)
        for some in row_chunks(len(rows)):
            nearest, spent = split.nearest(transform, kernel.rows(rows[some]), n_threads)
            centres[rows[some]] = base + nearest
            evaluations += spent
    return _Assigned(before.part, centres, evaluations)


def _counted(rows: _Assigned, n_centres: int) -> Sums:  # Spark checkpoints contain this name.
    return np.bincount(rows.centres, minlength=n_centres).astype(float), np.array([rows.evaluations], dtype=float)


def _at_centres(groups: Indices, rows: _Assigned) -> tuple[Part, Indices]:
    return rows.part, groups[rows.centres]


def _split_by_cluster(rows: _Assigned, targets: Indices) -> list[tuple[int, Part]]:
    return sent(rows.part, targets[rows.centres], int(targets.max()) + 1)
