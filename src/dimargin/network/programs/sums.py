"""Sums over rows that sites gossip: the layout of Push-Sum's vectors in GADGET."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from dimargin.system.arrays import Floats


class Sums(NamedTuple):
    """Sums over the rows of a site, or what Push-Sum makes of those of all sites.

    Attributes
    ----------
    pull : ndarray of shape (n_outputs, n_features)
        Sum of y x over the rows of margin below one; with local gradients the weights, times the number of rows.
    rows : float
        Number of rows.
    statistics : ndarray of shape (3, n_features), or (3, 0) where the step size needs none
        Curvature, first and second moment of the features.
    loss, active : ndarray of shape (n_outputs,)
        Loss, and number of rows of margin below one.
    """

    pull: Floats
    rows: float
    statistics: Floats
    loss: Floats
    active: Floats

    @classmethod
    def of(cls, vector: Floats, shape: tuple[int, int]) -> Self:
        """Return the parts of a vector, as views of it, for weights of a shape."""
        k, n_outputs = shape[0] * shape[1], shape[0]
        statistics = vector[k + 1 : len(vector) - 2 * n_outputs].reshape(3, -1)
        loss, active = vector[len(vector) - 2 * n_outputs :].reshape(2, n_outputs)
        return cls(vector[:k].reshape(shape), float(vector[k]), statistics, loss, active)

    @staticmethod
    def size(shape: tuple[int, int]) -> int:
        """Return the length of a vector with statistics."""
        return (shape[0] + 3) * shape[1] + 1 + 2 * shape[0]

    @property
    def vector(self) -> Floats:
        """The vector of these parts."""
        parts = self.pull.ravel(), [self.rows], self.statistics.ravel(), self.loss, self.active
        return np.concatenate(parts)
