"""Features of rows in the span of landmarks: kernel values with the landmarks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import lapack

from dimargin.kernels.matrix import KernelMatrix
from dimargin.system.arrays import Floats, Indices


def independent_landmarks(kernel: KernelMatrix, landmarks: Indices, tol: float = 1e-7) -> tuple[Indices, Floats]:
    """Return linearly independent landmarks Z, and the factor L of ``k(Z, Z) = L L'``.

    They are chosen by a pivoted Cholesky factorisation (LAPACK's dpstrf), which leaves out
    duplicates, landmarks nearly in the span of others and, for kernels of low rank, all beyond the
    rank. L is a lower triangle of shape (rank, rank). Values of `kernel` must be float64.

    Landmarks are left out below the fraction `tol` of the largest pivot, where coefficients that
    cancel add more rounding than accuracy: with 1e-10 the rounding on rows of few numbers (cod-rna,
    skin_nonskin) exceeded the default tolerance.

    Examples
    --------
    >>> from dimargin.kernels.functions import Kernel
    >>> X = np.array([[1.0], [2.0], [2.0]])
    >>> K = KernelMatrix.of(X, Kernel("linear")).in_float64()
    >>> independent_landmarks(K, np.arange(3))
    (array([1]), array([[2.]]))
    """
    values = kernel.block(landmarks, landmarks)
    floor = tol * values.diagonal().max(initial=0.0)
    factor, order, rank, _ = lapack.dpstrf(values, lower=1, tol=floor)
    return landmarks[order[:rank] - 1], np.tril(factor[:rank, :rank])


@dataclass(frozen=True)
class LandmarkFeatures:
    """Kernel values with landmarks as features, see `dimargin.solvers.primal.Features`."""

    kernel: KernelMatrix  # Its rows are the rows, its columns the landmarks.

    def scores(self, weights: Floats) -> Floats:
        """See `Features`."""
        return self.kernel.multiply(self._landmarks, weights)

    def combine(self, coefficients: Floats) -> Floats:
        """See `Features`."""
        return self._by_landmark.multiply(np.arange(self.kernel.shape[0]), coefficients)

    def rows(self, index: Indices | slice) -> Floats:
        """See `Features`."""
        return self.kernel.block(np.arange(self.kernel.shape[0])[index], self._landmarks)

    def evaluations(self) -> int:
        """See `Features`."""
        return self.kernel.evaluations + self._by_landmark.evaluations

    def total_square(self) -> float:
        """See `Features`: a kernel value is at most the product of the sizes of its rows."""
        return float((self.kernel.row_sizes**2).sum() * (self.kernel.column_sizes**2).sum())

    def rounding(self) -> float:
        """See `Features`."""
        return self.kernel.rounding(self.kernel.shape[1])

    @property
    def _landmarks(self) -> Indices:
        return np.arange(self.kernel.shape[1])

    @cached_property
    def _by_landmark(self) -> KernelMatrix:
        return self.kernel.transposed()
