r"""Random Fourier features of the RBF kernel; sites that share a seed draw the same features.

For frequencies v of the normal distribution with variance ``2 gamma``, the mean of ``cos(v'(x - z))`` is
``exp(-gamma |x - z|^2)`` (Rahimi, Recht, "Random features for large-scale kernel machines", NIPS 2007), so that

    phi(x) = D^{-1/2} [cos(v_1'x), ..., cos(v_D'x), sin(v_1'x), ..., sin(v_D'x)]

has length one and the kernel as its expected product. Frequencies are drawn in blocks of as many as
there are columns; within a block they are orthogonal, with lengths of the chi distribution. Each is
distributed as before, and the error of the kernel is smaller (Yu, Suresh, Choromanski,
Holtmann-Rice, Kumar, "Orthogonal random features", NIPS 2016).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dimargin.kernels.column_statistics import row_chunks
from dimargin.system.arrays import Floats
from dimargin.system.memory import check_memory


def fourier_frequencies(n_features: int, n_components: int, gamma: float, seed: int) -> Floats:
    """Draw `n_components` frequencies, of shape (n_features, n_components).

    The same seed gives the same frequencies, up to rounding.

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
        # Only the factorisation with a positive diagonal is unique.
        directions = directions * np.where(np.diag(triangle) < 0, -1.0, 1.0)
        blocks.append(directions * np.linalg.norm(rng.normal(size=(n_features, n_features)), axis=0))
    return np.asarray(np.sqrt(2 * gamma) * np.concatenate(blocks, axis=1)[:, :n_components])


def fourier_features(X: Any, frequencies: Floats) -> Floats:
    """Return the features, of shape (n, 2 n_components), of dense or CSR rows.

    Raises MemoryError if they do not fit into memory.

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
    for some in row_chunks(n, 4096):
        angles = np.asarray(X[some] @ frequencies)
        np.cos(angles, out=features[some, :half])
        np.sin(angles, out=features[some, half:])
    features /= np.sqrt(half)
    return features
