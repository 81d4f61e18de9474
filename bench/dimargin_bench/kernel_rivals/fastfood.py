"""FastFood: random features of the RBF kernel in loglinear time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.stats import chi
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state, gen_batches

from dimargin.estimators.input_checks import check_number
from dimargin.system.arrays import Floats
from dimargin_bench.kernel_rivals.checked_rows import ROWS_AT_ONCE, query_rows, training_rows, width


@dataclass(eq=False, repr=False)
class FastFood(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Random Fourier features of the RBF kernel, whose frequencies are products of Hadamard and diagonal matrices.

    For rows with d features, filled up with zeros to ``D = 2^k >= d``, a block of D frequencies is
    ``V = S H G P H B / (sigma sqrt(D))`` (Le et al. 2013, section 4): B random signs, P a
    permutation, G standard normal, H the Hadamard matrix with entries of plus and minus one,
    ``S_ii = s_i / |G|_F`` with ``s_i`` of the chi distribution with D degrees of freedom, and
    ``sigma = 1 / sqrt(2 gamma)``. As ``H H' = D I``, row i of ``H G P H B`` has the norm
    ``sqrt(D) |G|_F``, so that frequency i has the norm ``s_i / sigma``, that of a normal vector: it
    is in this form, H not normalised, that the factor ``1 / sqrt(D)`` is right. Blocks are stacked.
    For n frequencies the features are ``n^{-1/2} [cos Vx, sin Vx]``, whose inner products have the
    kernel value as mean and an error that falls as ``n^{-1/2}``. They take O(n log d) time a row,
    and O(n) numbers instead of the O(n d) of `sklearn.kernel_approximation.RBFSampler`.

    Parameters
    ----------
    n_components : int, default=500
        Frequencies, the paper's n. Each gives a cosine and a sine, so that there are twice as many
        features.
    gamma : {"scale", "auto"} or float, default="scale"
        Of the kernel ``exp(-gamma |x - z|^2)``, as in scikit-learn.
    random_state : int, RandomState or None, default=None
    whole_blocks : bool, default=False
        Whether the frequencies are those of whole blocks, of one or of the number that comes closest
        to `n_components`. By default the last ones of the last block are left out.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when X had column names.
    gamma_ : float
    n_frequencies_ : int
    signs_, normals_, scales_ : ndarray of shape (n_blocks, D)
        The diagonals of B and G, and that of S with all other factors.
    permutations_ : ndarray of shape (n_blocks, D)

    References
    ----------
    Q. Le, T. Sarlos, A. Smola, "Fastfood: approximating kernel expansions in loglinear time", ICML
    2013.

    Examples
    --------
    >>> import numpy as np
    >>> from dimargin_bench.kernel_rivals import FastFood
    >>> from sklearn.metrics.pairwise import rbf_kernel
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> features = FastFood(n_components=2048, gamma=0.5, random_state=0).fit_transform(X)
    >>> bool(np.abs(features @ features.T - rbf_kernel(X, gamma=0.5)).mean() < 0.02)
    True
    """

    n_components: int = 500
    gamma: str | float = "scale"
    random_state: Any = None
    whole_blocks: bool = False

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the frequencies.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For a parameter or data out of range; the message names the parameter, row or column.
        """
        check_number("n_components", self.n_components, 1, low_included=True, whole=True)
        X = training_rows(self, X)
        self.gamma_ = width(self.gamma, X)
        rng = check_random_state(self.random_state)
        length = 1 << (X.shape[1] - 1).bit_length()
        n_blocks = max(1, round(self.n_components / length)) if self.whole_blocks else -(-self.n_components // length)
        shape = n_blocks, length
        self.n_frequencies_ = n_blocks * length if self.whole_blocks else int(self.n_components)
        self.signs_ = rng.choice([-1.0, 1.0], size=shape)
        self.permutations_ = np.argsort(rng.random_sample(shape), axis=1)
        self.normals_ = rng.standard_normal(shape)
        lengths = chi.rvs(length, size=shape, random_state=rng)
        norms = np.linalg.norm(self.normals_, axis=1, keepdims=True)
        self.scales_: Floats = lengths * np.sqrt(2 * self.gamma_ / length) / norms
        return self

    def transform(self, X: Any) -> Floats:
        """Return the features of rows.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, 2 * frequencies)
            All cosines, then all sines.
        """
        X = query_rows(self, X)
        half = self.n_frequencies_
        features = np.empty((len(X), self._n_features_out))
        for batch in gen_batches(len(X), max(1, ROWS_AT_ONCE * 64 // self.signs_.size)):
            angles = self._angles(X[batch])[:, :half]
            features[batch, :half], features[batch, half:] = np.cos(angles), np.sin(angles)
        features /= np.sqrt(half)
        return features

    @property
    def _n_features_out(self) -> int:
        return 2 * self.n_frequencies_

    def _angles(self, X: Floats) -> Floats:
        """Return ``Vx`` for every row x, of shape (n_samples, n_blocks * D)."""
        n_blocks, length = self.signs_.shape
        padded = np.zeros((len(X), 1, length))
        padded[:, 0, : X.shape[1]] = X
        mixed = walsh_hadamard(padded * self.signs_)
        permuted = np.take_along_axis(mixed, self.permutations_[None], axis=2)
        return (walsh_hadamard(permuted * self.normals_) * self.scales_).reshape(len(X), n_blocks * length)


def walsh_hadamard(values: Floats) -> Floats:
    """Return the products of the Hadamard matrix with vectors along the last axis, whose length is a power of two.

    It has entries of plus and minus one: ``H_1 = [1]``, ``H_2m = [[H_m, H_m], [H_m, -H_m]]``.
    Vectors of length m take O(m log m) time.

    Examples
    --------
    >>> walsh_hadamard(np.array([[1.0, 0.0, 0.0, 0.0], [1.0, 2.0, 3.0, 4.0]]))
    array([[ 1.,  1.,  1.,  1.],
           [10., -2., -4.,  0.]])
    """
    shape, half = values.shape, 1
    while half < shape[-1]:
        pairs = values.reshape(*shape[:-1], -1, 2, half)
        values = np.stack([pairs[..., 0, :] + pairs[..., 1, :], pairs[..., 0, :] - pairs[..., 1, :]], axis=-2)
        half *= 2
    return values.reshape(shape)
