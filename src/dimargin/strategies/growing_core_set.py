"""The core-set strategy: one partition, of which no more rows are solved for than needed."""

from __future__ import annotations

from functools import partial

from dimargin.solvers import GrowingRows
from dimargin.strategies.exact import Exact
from dimargin.strategies.solves import SolverWrapper


class CoreSet(Exact):
    """Let a core-set grow until its machine is good enough for all rows.

    Parameters
    ----------
    epsilon : float or None, default=None
        If None, the core-set grows until the relative duality gap is within the tolerance, else until every row is
        within ``1 + epsilon`` times the radius of its ball. The latter is for the squared hinge without an
        unregularised intercept only.
    """

    def __init__(self, epsilon: float | None = None) -> None:
        self.epsilon = epsilon

    def _wrap_solver(self) -> SolverWrapper:
        return partial(GrowingRows, epsilon=self.epsilon)
