"""Dual coordinate descent on rows for machines with a linear kernel, before block coordinate descent.

A step of dual coordinate descent (`dimargin.solvers.coordinate_descent`) costs the length of a row,
and one of block coordinate descent a kernel value for every row. The dual coefficients are the same.
Where coordinate descent is slow, proximal Newton steps take over, or block coordinate descent, with
more than 1,024 columns, and where few rows are support vectors of the hinge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import Event
from typing import Any, ClassVar

import numpy as np

from dimargin.kernels.row_transform import StoredRows
from dimargin.problems.dual import DualProblem
from dimargin.problems.objectives import Objectives
from dimargin.problems.solution import History, Solution, Status
from dimargin.shards.local_engine import LocalEngine
from dimargin.solvers.block_coordinate_descent import BlockCoordinateDescent
from dimargin.solvers.coordinate_descent import CoordinateDescent
from dimargin.solvers.coordinate_descent import State as RowState
from dimargin.solvers.dual_solver import DualSolver
from dimargin.solvers.linear_features import LinearFeatures
from dimargin.solvers.loop import Limits, Solver, Verdict
from dimargin.solvers.primal import Shard
from dimargin.system.arrays import Floats


def is_faster_by_rows(n_rows: int, n_features: int, n_values: int) -> bool:
    """Return whether steps on the rows are faster than on kernel values, for `n_values` stored values.

    They are for rows with few of many columns, and for many rows with few columns, where Newton's method
    takes over. A step on rows of many dense columns costs about as much as one on kernel values.
    """
    few = 4 * n_features <= n_rows and n_features <= 1024
    # A smaller problem is solved up to rounding.
    return n_rows > BlockCoordinateDescent.small and (few or n_features > 64 + 10 * n_values / n_rows)


@dataclass
class _State:
    problem: DualProblem
    limits: Limits
    descent: CoordinateDescent
    rows: RowState
    blocks: Any = None  # State of block coordinate descent, once it has taken over.


@dataclass(frozen=True)
class RowDescent(Solver[DualProblem, _State, Solution]):
    """Dual coordinate descent on the rows of a linear kernel, and then another solver where it is slow.

    Parameters
    ----------
    inner : DualSolver
        Solver that takes over where steps on the rows are slow, make no progress, or have made half of
        the passes of the limits.

    Attributes
    ----------
    max_support : float
        Largest share of coefficients that are not zero with which block coordinate descent takes over in
        place of Newton's method.
    max_rows : int
        Largest number of rows with which it does.
    """

    inner: DualSolver[Any]
    max_support: ClassVar[float] = 0.15
    max_rows: ClassVar[int] = 20_000

    def init(self, problem: DualProblem, start: Floats | None, limits: Limits) -> _State:
        """Return the state at zero or at a start."""
        losses = problem.of_rows(slice(None), problem.mass)
        rows = problem.kernel.vectors(np.arange(problem.n_rows))
        shards = LocalEngine(problem.kernel.n_threads, Event()).scatter(
            [Shard(LinearFeatures(StoredRows(rows)), losses)]
        )
        dual = None if start is None else np.array(start, dtype=np.float64)
        descent = CoordinateDescent(
            problem.intercept, dual, problem.kernel.n_threads, self.inner.random_state, keeps_dual=True
        )
        if rows.shape[1] <= 1024:
            descent = descent.helped_by_newton(problem.n_rows, rows.shape[1], int(rows.size), losses.loss.smooth)
        within = replace(limits, max_iter=limits.max_iter // 2)
        zero = np.zeros((len(problem.labels), rows.shape[1] + 1))
        return _State(problem, limits, descent, descent.init(shards, zero, within))

    def step(self, state: _State) -> None:
        """Make steps of the solver that is in charge."""
        if state.blocks is None:
            state.descent.step(state.rows)
        else:
            self.inner.step(state.blocks)

    def check(self, state: _State) -> Objectives | None:
        """Return the objectives of the best coefficients so far."""
        if state.blocks is not None:
            return self.inner.check(state.blocks)
        objectives = state.descent.check(state.rows)
        if objectives is None or objectives.worst_gap <= state.limits.tol:
            return objectives
        rows = state.rows
        hands_over = rows.is_slow and (state.descent.newton is None or self._suits_blocks(state))
        if hands_over or state.descent.verdict(rows, objectives) is not None:
            limits = replace(state.limits, max_iter=max(state.limits.max_iter - rows.passes, 1))
            best = rows.best
            assert best is not None
            state.blocks = self.inner.init(state.problem, best.coefficients, limits)
            return self.inner.check(state.blocks) or objectives
        return objectives

    def _suits_blocks(self, state: _State) -> bool:
        """Return whether few rows have a loss that is not smooth, so that few blocks have to be solved.

        Proximal Newton takes 2 to 5 times as long on digits and usps, where 3 to 5% of the rows have a
        coefficient, and block coordinate descent 5 to 25 times where 22 to 68% have one (svmguide1 and
        two synthetic data sets).
        """
        problem, share = state.problem, np.count_nonzero(state.rows.dual) / state.rows.dual.size
        return bool(not problem.loss.smooth and problem.n_rows <= self.max_rows and share <= self.max_support)

    def verdict(self, state: _State, objectives: Objectives) -> Verdict:
        """See `Solver`."""
        if state.blocks is not None:
            return self.inner.verdict(state.blocks, objectives)
        return state.descent.verdict(state.rows, objectives)

    def evaluations(self, state: _State) -> int:
        """Return the number of kernel values computed so far."""
        return 0 if state.blocks is None else self.inner.evaluations(state.blocks)

    def facts(self, state: _State) -> dict[str, Any]:
        """Return the facts of `inner`, or that no kernel matrix was factored before it has taken over."""
        return {"factorizations": 0} if state.blocks is None else self.inner.facts(state.blocks)

    def finish(self, state: _State, status: Status, reason: str, history: History) -> Solution:
        """Return the best coefficients."""
        if state.blocks is not None:
            solution = self.inner.finish(state.blocks, status, reason, history)
            return replace(solution, passes=solution.passes + state.rows.passes)
        found = state.descent.finish(state.rows, status, reason, history)
        assert found.dual is not None
        margins = state.problem.labels * state.rows.shards.collect(_scores, found.weights)[0]
        return Solution(**vars(found.bare()), dual=found.dual, margins=margins)


def _scores(shard: Shard, weights: Floats) -> Floats:
    return np.asarray(shard.features.scores(weights))
