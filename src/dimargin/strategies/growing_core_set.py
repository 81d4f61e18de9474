"""One partition, of which no more rows are solved for than it takes."""

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
        None: until the relative duality gap is within the tolerance. Else until every row is within ``1 + epsilon``
        times the radius of the core-set's ball; of the squared hinge without an unregularised intercept only.
    """

    def __init__(self, epsilon: float | None = None) -> None:
        self.epsilon = epsilon

    def _wrap_solver(self) -> SolverWrapper:
        return partial(GrowingRows, epsilon=self.epsilon)
