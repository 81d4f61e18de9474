r"""Random Fourier features of the RBF kernel, which sites that share a seed draw alike.

For frequencies v of the normal distribution with variance ``2 gamma``, the mean of ``cos(v'(x - z))`` is
``exp(-gamma |x - z|^2)`` (Rahimi, Recht, "Random features for large-scale kernel machines", NIPS 2007), so that

    phi(x) = D^{-1/2} [cos(v_1'x), ..., cos(v_D'x), sin(v_1'x), ..., sin(v_D'x)]

has the kernel as its expected product, and the length one. Frequencies come in blocks of as many as there are columns,
orthogonal to one another within a block, with lengths of the chi distribution: each is distributed as before, and the
error of the kernel is smaller (Yu, Suresh, Choromanski, Holtmann-Rice, Kumar, "Orthogonal random features", NIPS 2016).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dimargin.system.arrays import Floats
from dimargin.system.memory import check_memory

_ROWS_AT_ONCE = 4096


def fourier_frequencies(n_features: int, n_components: int, gamma: float, seed: int) -> Floats:
    """Draw `n_components` frequencies, of shape (n_features, n_components).

    Who draws with the same seed has the same, up to rounding.

    Examples
    --------
    >>> V = fourier_frequencies(3, 6, gamma=0.5, seed=0)
    >>> V.shape, bool(abs(V[:, 0] @ V[:, 1]) < 1e-12)
    ((3, 6), True)
    """
    rng = np.random.default_rng(seed)
    blocks = []
    for _ in range(-(-n_components // n_features)):
        normal = rng.normal(size=(n_features, n_features))
        directions, triangle = np.linalg.qr(normal)
        directions = directions * np.where(np.diag(triangle) < 0, -1.0, 1.0)  # which makes them unique
        blocks.append(directions * np.linalg.norm(rng.normal(size=(n_features, n_features)), axis=0))
    return np.asarray(np.sqrt(2 * gamma) * np.concatenate(blocks, axis=1)[:, :n_components])


def fourier_features(X: Any, frequencies: Floats) -> Floats:
    """Return the features of rows, dense or CSR, of shape (n, 2 n_components); MemoryError if they would not fit.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(4, 3))
    >>> features = fourier_features(X, fourier_frequencies(3, 2000, gamma=0.5, seed=0))
    >>> exact = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    >>> bool(np.abs(features @ features.T - exact).max() < 0.05)
    True
    """
    n, half = X.shape[0], frequencies.shape[1]
    check_memory(16 * n * half, None, "Fourier features of all rows")
    features = np.empty((n, 2 * half))
    for first in range(0, n, _ROWS_AT_ONCE):
        some = slice(first, first + _ROWS_AT_ONCE)
        angles = np.asarray(X[some] @ frequencies)
        np.cos(angles, out=features[some, :half])
        np.sin(angles, out=features[some, half:])
    features /= np.sqrt(half)
    return features
