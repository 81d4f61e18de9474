"""Stochastic variance reduced gradient (SVRG) on the primal of linear machines, over shards.

The primal over n rows is the mean of ``f_i(w) = 1/2 |w|^2 + n loss_i(w)``. A stage (Johnson and
Zhang, NeurIPS 2013; over shards Lee et al., JMLR 2017; acc-DiODM, DiODM paper, Algorithm 2):

    1  h = gradient of P at the anchor w~, by one all-reduce over the shards
    2  w = w~; for the rows i of one shard after another:  w -= eta ( f_i'(w) - f_i'(w~) + h )
    3  w~ = w

The paper's line 15 lacks a parenthesis: eta multiplies all three terms. Rows are taken without
replacement, as from its lists R_j, but the paper neither refills a list nor returns from the last
shard to the first, so that all its stages together take n steps. Here every shard permutes its rows
again in every round, and a stage resumes where the last one ended.

The default step is safe: ``eta = 1 / (4 L)`` with L the largest second derivative of an ``f_i``,
which for the optimal margin distribution machine is ``1 + lam max |x|^2 / (1 - theta)^2`` (rows of
equal weight; with an intercept ``|x|^2 + 1``). An iterate that is worse than its anchor is
discarded, and the step halved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dimargin.problems.objectives import Objectives
from dimargin.shards.shards import Shards
from dimargin.solvers.loop import Limits
from dimargin.solvers.primal import PrimalSolver, PrimalState, Shard
from dimargin.system.arrays import Floats


@dataclass(frozen=True)
class _Visit:
    """State of the inner loop, which visits one shard after another in a round."""

    seed: tuple[int, ...]  # Seed of the round.
    index: int  # Number of shards visited so far in the round.
    wait: int  # Number of rows to skip before the first step.
    left: int  # Number of steps left.
    scale: float  # Rows of all shards; it and the fields below are as in `LinearFeatures.descend`.
    steps: Floats
    anchor: Floats
    gradient: Floats
    change: Floats


def _facts(shard: Shard, _: None) -> tuple[int, float]:
    return shard.losses.n_rows, shard.features.steepest(shard.losses)


def _visit(shard: Shard, visit: _Visit) -> _Visit:
    n = shard.losses.n_rows
    first = min(visit.wait, n)
    last = min(first + visit.left, n)
    change = visit.change
    if first < last:
        order = np.random.default_rng([*visit.seed, visit.index]).permutation(n)[first:last]
        change = shard.features.descend(
            shard.losses, order, visit.scale, visit.steps, visit.anchor, visit.gradient, change
        )
    left = visit.left - (last - first)
    return replace(visit, index=visit.index + 1, wait=visit.wait - first, left=left, change=change)


@dataclass(kw_only=True)
class State(PrimalState):
    """State of a solve; parameters and gradients end with the intercept."""

    n_rows: int  # Number of rows of all shards.
    step_sizes: Floats  # Step sizes, of shape (n_outputs,).
    done: int = 0  # Number of inner steps so far.
    kept: tuple[Objectives, Floats] | None = None  # The last evaluated iterate.
    anchor: tuple[Floats, Floats] | None = None  # The last stage's anchor, and the gradient there.


Stage = TypeVar("Stage", bound=State)


@dataclass(frozen=True)
class SVRG(PrimalSolver[Stage]):
    """Stochastic variance reduced gradient over shards of `LinearFeatures`.

    Parameters
    ----------
    inner_passes : float, default=1.0
        Number of inner steps of a stage, in passes over the rows.
    step_size : {"safe", "barzilai_borwein"}, default="safe"
        Step size ``1 / (4 L)`` or, from the second stage on, ``|dw|^2 / (dw.dh) / T``, where dw and
        dh are the differences of the last two anchors and their gradients, and T is the number of
        inner steps of a stage (Tan et al., NeurIPS 2016).
    random_state : int, default=0

    Attributes
    ----------
    step_divisor : float
        The safe step is the inverse of L divided by this.

    See Also
    --------
    dimargin.solvers.newton.Newton : Solver of the same problem, with an example of how it is
    called.
    """

    inner_passes: float = 1.0
    step_size: Literal["safe", "barzilai_borwein"] = "safe"
    random_state: int = 0
    step_divisor: ClassVar[float] = 4.0
    patience: ClassVar[int] = 11  # The step may have to be halved several times.
    _state: ClassVar[type[State]] = State

    def init(self, problem: Shards[Shard], start: Floats, limits: Limits) -> Stage:
        """Return the state at weights of shape (n_outputs, m + 1), the intercept last."""
        facts = problem.collect(_facts)
        n_rows = sum(n for n, _ in facts)
        smoothness = 1 + n_rows * max(steepest for _, steepest in facts)
        sizes = np.full(len(start), 1 / (self.step_divisor * smoothness))
        state = self._state(limits=limits, shards=problem, iterate=start, n_rows=n_rows, step_sizes=sizes)
        return cast(Stage, state)

    def evaluate(self, state: Stage) -> Objectives:
        """Return the objectives of the iterate, or of the one evaluated before if it was better."""
        if state.objectives is not None:
            return state.objectives
        objectives = self.measured(state)
        if state.kept is not None:
            worse = ~(objectives.primal <= state.kept[0].primal)
            if worse.any():
                return self._discard(state, worse, state.kept[1])
        return objectives

    def _discard(self, state: Stage, worse: NDArray[np.bool_], kept: Floats) -> Objectives:
        state.step_sizes = np.where(worse, state.step_sizes / 2, state.step_sizes)
        state.move_to(np.where(worse[:, None], kept, state.iterate))
        return self.measured(state)

    def gradient(self, state: Stage) -> Floats:
        """Return the gradient of the whole problem at the anchor, known from the last check."""
        return state.gradient.copy()

    def step(self, state: Stage) -> None:
        """Run one stage."""
        n, steps, iterate = state.n_rows, max(1, round(self.inner_passes * state.n_rows)), state.iterate
        if state.objectives is not None:
            state.kept = state.objectives, iterate
        before, state.anchor = state.anchor, (iterate, self.gradient(state))
        if self.step_size == "barzilai_borwein" and before is not None:
            state.step_sizes = _borwein_steps(before, state.anchor, steps, state.step_sizes)
        change, end = np.zeros_like(iterate), state.done + steps
        while state.done < end:
            round_index, wait = divmod(state.done, n)
            left = min(end - state.done, n - wait)
            seed = self.random_state, round_index
            visit = _Visit(seed, 0, wait, left, float(n), state.step_sizes, *state.anchor, change)
            change = state.shards.fold(_visit, visit).change
            state.done += left
        state.move_to(iterate + change)
        state.steps += 1
        state.epochs += 2 * steps / n  # A step computes two gradients of a row.


def _borwein_steps(
    before: tuple[Floats, Floats], now: tuple[Floats, Floats], n_steps: int, otherwise: Floats
) -> Floats:
    moved, turned = (b - a for a, b in zip(before, now, strict=True))
    along, square = (moved * turned).sum(axis=1), (moved**2).sum(axis=1)
    tried = np.divide(square, along * n_steps, out=np.full_like(along, np.inf), where=along > 0)
    return np.where(tried <= 0.5, tried, otherwise)
