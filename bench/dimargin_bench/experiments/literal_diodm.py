"""Algorithm 1 of the DiODM paper as it is printed, and with its warm starts mended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from dimargin.problems.dual import DualProblem
from dimargin.problems.objectives import Objectives
from dimargin.problems.solution import History, Solution, Status
from dimargin.shards.partition import Dealt, StratifiedPartition
from dimargin.solvers import DualSolver, Limits
from dimargin.solvers.loop import Verdict, converged
from dimargin.strategies import DiODM, LevelModel
from dimargin.strategies.levels import Step, model
from dimargin.strategies.solves import Solved
from dimargin.strategies.strategy import Training
from dimargin.system.arrays import Floats
from dimargin.system.memory import check_memory
from dimargin_bench.kernel_rivals.single_coordinate import CoordinateDual


class LandmarkPartition(StratifiedPartition):
    """Lines 1 and 2: every stratum, the rows nearest to one landmark, is divided evenly, whatever the labels.

    The paper does not say where the remainders of strata go: here each continues where the last one
    ended.
    """

    crosses_labels: ClassVar[bool] = False


@dataclass
class _Sweeps:
    """State of coordinate descent, with the variables of every output."""

    problem: DualProblem
    limits: Limits
    duals: list[CoordinateDual]
    rng: np.random.Generator
    n_sweeps: int = 0

    @property
    def dual(self) -> Floats:
        """Coefficients ``zeta - beta``, of shape (n_outputs, n)."""
        return np.array([dual.signed for dual in self.duals])


class CoordinateDescent(DualSolver[_Sweeps]):
    """Line 9: dual coordinate descent by the paper's equation 3, from the start as it is given.

    A step takes one of the ``2 m`` variables ``alpha = [zeta; beta]``, and every sweep takes all in a
    new random order; the paper does not say in which, nor where to stop: the relative duality gap
    decides. Between levels, ``zeta - beta`` is kept; one of the two is zero at the optimum. Kernel
    values are counted as if each step computed the row that it reads; in fact the kernel matrix is
    in memory.
    """

    def init(self, problem: DualProblem, start: Floats | None, limits: Limits) -> _Sweeps:
        """Return the state at the start, or at zero (line 3)."""
        pieces, every = problem.conjugate, np.arange(problem.n_rows)
        if problem.intercept or np.isfinite([*pieces.upper, *pieces.lower]).any():
            raise NotImplementedError("Algorithm 1 is that of the ODM without intercept")
        check_memory(2 * 8 * problem.n_rows**2, None, "the kernel matrix of a part")
        problem = problem.with_kernel(problem.kernel.in_float64())
        K = problem.kernel.block(every, every)
        dual = np.zeros(problem.labels.shape) if start is None else start
        curvature = np.concatenate([pieces.curvature_right, pieces.curvature_left])
        linear = np.concatenate([pieces.slope_right, -pieces.slope_left])
        variables = np.concatenate([np.maximum(dual, 0.0), np.maximum(-dual, 0.0)], axis=1)
        duals = [
            CoordinateDual(y[:, None] * K * y, curvature, linear, alpha)
            for y, alpha in zip(problem.labels, variables, strict=True)
        ]
        return _Sweeps(problem, limits, duals, np.random.default_rng(self.random_state))

    def step(self, state: _Sweeps) -> None:
        """Sweep over the variables of every output."""
        for dual in state.duals:
            dual.sweep(state.rng.permutation(2 * dual.n))
            dual.margins = dual.Q @ dual.signed  # without the rounding of the updates
        state.n_sweeps += 1

    def check(self, state: _Sweeps) -> Objectives:
        """Return the objectives after a sweep."""
        return state.problem.objectives(state.dual, np.array([dual.margins for dual in state.duals]))

    def verdict(self, state: _Sweeps, objectives: Objectives) -> Verdict:
        """Return status and reason if the gap is small enough, or the sweeps are used up, else None."""
        if objectives.worst_gap <= state.limits.tol:
            return converged(objectives.worst_gap, state.limits.tol)
        if state.n_sweeps >= state.limits.max_iter:
            return "max_iter", f"max_iter={state.limits.max_iter} sweeps were done"
        return None

    def evaluations(self, state: _Sweeps) -> int:
        """Return the number of kernel values in the rows that steps have read."""
        return sum(dual.n * dual.n_changes for dual in state.duals)

    def finish(self, state: _Sweeps, status: Status, reason: str, history: History) -> Solution:
        """Return the last iterate."""
        return Solution(
            dual=state.dual,
            margins=np.array([dual.margins for dual in state.duals]),
            objectives=self.check(state),
            status=status,
            reason=reason,
            passes=max(1, state.n_sweeps),
            kernel_evaluations=self.evaluations(state),
            history=history,
        )


class CoordinateDiODM(DiODM):
    """Algorithm 1 with strata and coordinate descent as printed (lines 1, 2 and 9), and starts that are rescaled.

    It differs from `dimargin.DiODM` in that strata ignore the labels, steps take single variables,
    and landmarks are chosen among all rows (equation 5), unless `sample_size` is given. `stop_level`
    1 is the end of the paper's loop, and 0 solves the whole problem, too.
    """

    solver: ClassVar[type[DualSolver[Any]]] = CoordinateDescent

    def _leaves(self, training: Training, p: int, L: int) -> Dealt:
        rng = np.random.default_rng(training.random_state)
        n, S = training.facts.n_rows, training.shape.n_landmarks or 50
        return LandmarkPartition(S, self.sample_size or n, self.landmark_choice).deal(training.rows, n, p**L, rng)


class ConcatenatingDiODM(CoordinateDiODM):
    """Algorithm 1 of the DiODM paper as printed, for the ODM without intercept, with `stop_level` 1.

    Lines 11 and 12 concatenate the coefficients of merged parts, and the next solve starts from
    there: they are as many times too large as parts are merged (docs/algorithms.md#merging). Line
    14 returns those of the last parts, concatenated, so that decision values are as many times too
    large as there are parts. The loop ends with p parts (line 4).

    Where the paper cannot be followed: line 5 asks whether alpha has converged before anything is
    solved, when it is zero by line 3, so that here the leaves are solved first; line 8 counts parts
    by the variable that is also the branching. What the paper does not say is chosen: there are 50
    landmarks, and parts are solved to a gap of `level_tol`, the last ones to the estimator's `tol`.
    """

    rescales_starts: ClassVar[bool] = False

    def _levels(self, training: Training, history: History) -> Iterator[Step]:
        for step in super()._levels(training, history):
            yield replace(step, found=partial(_concatenated, step, training.facts.total))


def _concatenated(step: Step, total: float) -> LevelModel:
    """Return the sum of the machines of a level, in place of their mean."""
    machines = step.level.parts.collect(_machine_of)
    results = [replace(own, machine=machine) for own, machine in zip(step.level.results, machines, strict=True)]
    return model(replace(step.level, results=results), total)


def _machine_of(solved: Solved, _: None) -> LevelModel:
    """Task that returns the machine of a part, whose share of the whole does not count."""
    return LevelModel.of(solved.part, solved.solution.dual, solved.solution.objectives.intercept)
