"""Base class of site programs that solve a problem on their own rows in every round."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import numpy as np

from dimargin.gossip.programs.algorithm import Problem
from dimargin.gossip.rounds.compression import Compression
from dimargin.gossip.rounds.local_svm import LocalSVM
from dimargin.gossip.rounds.public_copies import Difference, PublicCopies
from dimargin.gossip.rounds.smooth_solver import solve_smooth
from dimargin.problems.hinge import HingeRows
from dimargin.system.arrays import Floats


class LocalSolves(PublicCopies):
    """Site program that solves a problem on its own rows in every round, and sends neighbours the solution.

    `distance` of a subclass is the term of the problem that draws the solution to those of the
    neighbours. `exchange` uses the public copies of the solutions, which both ends of an edge have;
    without compression they are the solutions. The problem is solved to a relative duality gap of
    `tol`, or in `max_steps` Newton steps per round and output.
    """

    state: ClassVar[tuple[str, ...]] = (*PublicCopies.state, "dual")
    dual: Floats

    def __init__(
        self,
        rows: HingeRows,
        problem: Problem,
        seed: tuple[int, ...],
        compression: Compression | None,
        tol: float,
        max_steps: int,
    ) -> None:
        super().__init__(rows, problem, seed, compression)
        self.dual = np.zeros(rows.signs.shape)
        self._local: LocalSVM | None = None
        self._accuracy = tol, max_steps

    @abstractmethod
    def distance(self) -> tuple[Floats, Floats]:
        """Return curvature h and slope s of ``sum_j h_j/2 w_j^2 - s.w``, which is added to the losses of the rows.

        They are of shape (n_features,) and (n_outputs, n_features).
        """

    @abstractmethod
    def exchange(self, name: str, theirs: Floats) -> None:
        """Update the state of an edge by the public copies of this site and of a neighbour, `theirs`."""

    @property
    @abstractmethod
    def known(self) -> Collection[str]:
        """Neighbours with which the site has exchanged solutions."""

    def begin(self) -> None:
        """Solve the site's problem, unless it has neighbours and knows no solution of them yet."""
        if self.known or not self.members:
            self._solve()
        self.publish(self.weights)

    def _solve(self) -> None:
        curvature, slope = self.distance()
        if not curvature.any():  # There are no rows here, and no neighbours.
            return
        if self.rows.loss.smooth:
            terms = self.row_weight, curvature, slope / curvature
            found, self.dual = solve_smooth(self.rows, *terms, self.weights, *self._accuracy)
            self.weights = self.bounded(found)
            return
        if self._local is None or not np.array_equal(curvature, self._local.curvature):
            self._local = LocalSVM(self.rows, self.row_weight, curvature, self.row_weight * self.dual)
        self.weights = self.bounded(self._local.solve(slope / curvature, *self._accuracy))
        self.dual = np.clip(self._local.dual / self.row_weight, 0.0, 1.0)

    def advance(self, messages: Mapping[str, Difference]) -> None:
        """Exchange solutions."""
        for name, copy in self.update_copies(messages).items():
            self.exchange(name, copy)

    # ---- state ---------------------------------------------------------------------------------------------------

    def checkpoint(self) -> dict[str, Any]:
        """Return the state, with that of the solver, so that a site goes on with the same numbers."""
        local = self._local
        solver = {} if local is None else {"curvature": local.curvature, "starts": local.starts}
        return {**super().checkpoint(), "solver": solver}

    def restore(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint; the solver starts anew if there are other rows."""
        super().restore(state)
        solver, self._local = state.get("solver"), None
        if solver and self.dual.shape == self.rows.signs.shape:
            self._local = LocalSVM(self.rows, self.row_weight, solver["curvature"], self.row_weight * self.dual)
            self._local.starts = solver["starts"]
