"""Kernel k-means on a stored Gram matrix."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from dimargin.system.arrays import Floats, Indices


def kernel_kmeans(gram: Floats, weights: Floats, n_clusters: int, rng: np.random.Generator) -> Indices:
    """Cluster by Lloyd's iterations on a Gram matrix, from the best of five starts of k-means++.

    They minimise ``sum_i w_i |phi(x_i) - mu_c(i)|^2``, by
    ``|phi(x) - mu|^2 = k(x,x) - 2 sum_j s_j k(x,x_j) + sum_jk s_j s_k k(x_j,x_k)``, where ``s`` are
    the weights of a cluster's rows, normalised to a sum of one.

    For a Gram matrix of shape (m, m) and m positive weights it returns the cluster of each row. The
    `n_clusters` clusters, or fewer if fewer rows differ, but at least one, are numbered from zero.

    References
    ----------
    D. Arthur, S. Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007.

    Examples
    --------
    >>> import numpy as np
    >>> points = np.array([[0.0, 1.0], [0.1, 1.0], [3.0, 0.0]])
    >>> labels = kernel_kmeans(points @ points.T, np.ones(3), 2, np.random.default_rng(0))
    >>> bool(labels[0] == labels[1] != labels[2])
    True
    """
    runs = [_lloyd(gram, weights, _seeds(gram, weights, n_clusters, rng)) for _ in range(5)]
    labels = min(runs, key=lambda run: run[1])[0]
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _seeds(gram: Floats, weights: Floats, n_clusters: int, rng: np.random.Generator) -> Indices:
    """Draw rows by k-means++, by weight times squared distance to the nearest row already drawn."""
    diagonal = gram.diagonal()
    distances = np.ones(len(gram))
    chosen: list[int] = []
    for _ in range(min(n_clusters, len(gram))):
        chances = np.cumsum(weights * distances)
        row = min(int(np.searchsorted(chances, rng.random() * chances[-1], side="right")), len(gram) - 1)
        squares = np.maximum(diagonal + diagonal[row] - 2 * gram[row], 0.0)
        distances = np.minimum(distances, squares) if chosen else squares
        chosen.append(row)
    return np.array(chosen)


def _lloyd(gram: Floats, weights: Floats, seeds: Indices) -> tuple[Indices, float]:
    """Return labels and the value of their objective."""
    diagonal, every, k = gram.diagonal(), np.arange(len(gram)), len(seeds)
    labels = (diagonal[seeds] - 2 * gram[:, seeds]).argmin(axis=1)
    for _ in range(30):  # On real data 5 to 20 iterations lead to convergence.
        before, squares = labels, _squared_distances(gram, weights, labels, k)
        labels = squares.argmin(axis=1)
        own = squares[every, labels]
        for empty in np.setdiff1d(np.arange(k), labels):
            furthest = int(own.argmax())
            if own[furthest] <= 1e-12 * diagonal.max():  # A distance this small is rounding.
                break
            labels[furthest], own[furthest] = empty, 0.0
        if np.array_equal(labels, before):
            break
    return labels, float(weights @ _squared_distances(gram, weights, labels, k)[every, labels])


def _squared_distances(gram: Floats, weights: Floats, labels: Indices, k: int) -> Floats:
    """Return squared distances, of shape (m, k), to cluster means; infinite for empty clusters."""
    sums, every = np.bincount(labels, weights, k), np.arange(len(gram))
    shares = weights / sums[labels]
    products = sp.csr_array((shares, (labels, every)), shape=(k, len(gram))) @ gram
    norms = np.bincount(labels, shares * products[labels, every], k)
    norms[sums == 0] = np.inf
    return np.asarray(np.maximum(gram.diagonal()[:, None] + norms - 2 * products.T, 0.0))
