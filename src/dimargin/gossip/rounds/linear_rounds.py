"""Base class of site programs that learn linear machines in common rounds."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from dimargin.gossip.programs.algorithm import Problem
from dimargin.gossip.rounds.synchronous import Synchronous
from dimargin.problems.hinge import HingeRows
from dimargin.system.arrays import Floats


class LinearRounds(Synchronous):
    """Site program that learns a linear machine of all rows.

    The objective is the mean over all sites of
    ``f_i(w) = alpha/2 |w|^2 + m/N sum_j max(0, 1 - y_j w.x_j)``, where m is the number of sites, N
    that of all rows, and the sum is over the rows of site i.
    """

    state: ClassVar[tuple[str, ...]] = ("weights",)

    def __init__(self, rows: HingeRows, problem: Problem, seed: tuple[int, ...] = (0,)) -> None:
        super().__init__(problem.settings, seed)
        self.rows, self.problem = rows, problem
        self.weights = np.zeros((rows.signs.shape[0], rows.X.shape[1]))  # At the end of the last round.
        self.dual: Floats | None = None  # Coefficients of the rows, in [0, 1], of shape (n_outputs, n).

    @property
    def average(self) -> Floats:
        """Last iterate; subclasses may average."""
        return self.weights

    @property
    def row_weight(self) -> float:
        """Weight m/N of the loss of a row in the objective of its site."""
        return self.problem.n_sites / self.problem.n_rows

    def gradient(self, weights: Floats, batch_size: int | None = None) -> Floats:
        """Return a subgradient of the site's objective, for all its rows or a batch drawn with replacement."""
        n = self.rows.n_rows
        if batch_size is None or not n:
            return self.problem.alpha * weights - self.row_weight * self.rows.evaluate(weights).pull
        chosen = self.rng.integers(n, size=batch_size)
        pull = self.rows.evaluate(weights, chosen).pull * (n / batch_size)
        return np.asarray(self.problem.alpha * weights - self.row_weight * pull)

    def shape_fault(self, vectors: Any) -> str | None:
        """Return why the shape of a neighbour's weights is wrong, or None."""
        if vectors.shape != self.weights.shape:
            return f"its weights have shape {vectors.shape}, expected {self.weights.shape}"
        return None

    def bounded(self, vectors: Floats) -> Floats:
        """Return vectors, shortened if their norm exceeds a million times the largest norm of an optimum.

        This keeps neighbours from making this site send weights that others refuse.
        """
        length, longest = float(np.linalg.norm(vectors)), 1e6 * self.problem.alpha**-0.5
        # The factor below one keeps the next site from shortening them again because of rounding.
        return vectors if length <= longest else np.asarray(vectors * (0.999 * longest / length))
