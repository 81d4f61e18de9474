"""Base of the solvers of linear machines that have dual coefficients, with their certificate.

The dual of the primal in `dimargin.solvers.primal`, for rows as features, is

    minimise  1/2 |w|^2 + sum_i phi_i(g_i),   w = sum_i g_i y_i x_i,

for any loss with a piecewise quadratic conjugate phi (`dimargin.problems.losses`), the hinge
included. A check makes the coefficients g feasible, computes w and all margins again, and sets the
intercept to the minimum of the primal; the certificate includes a bound of their rounding. The
solvers therefore need not be accurate themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from dimargin.problems.margin_losses import MarginLosses, interval_ends
from dimargin.problems.objectives import ROUNDINGS, Objectives
from dimargin.problems.solution import History, Status
from dimargin.shards.shards import Shards, Sums
from dimargin.solvers.linear_features import LinearFeatures
from dimargin.solvers.loop import Limits, Solver, Verdict
from dimargin.solvers.primal import PrimalSolution, Shard
from dimargin.solvers.progress import Progress, gap_verdict
from dimargin.system.arrays import TINY, UNIT, Floats


def joined_shard(shards: Sequence[Shard], _: None = None) -> Shard:
    """Join the rows of shards into one, without a copy if they are stored together."""
    losses = MarginLosses.joined([shard.losses for shard in shards])
    return Shard(LinearFeatures.joined([shard.features for shard in shards]), losses, shards[0].first)


def own_rows(shard: Shard) -> slice:
    """Return the positions of a shard's rows among all."""
    return slice(shard.first, shard.first + shard.losses.n_rows)


def _combined(shard: Shard, dual: Floats) -> Sums:
    """Sum ``g_i y_i x_i`` over the rows of a shard, for the coefficients of all rows."""
    return (shard.features.combine(shard.losses.labels * dual[:, own_rows(shard)]),)


def _margins(shard: Shard, weights: Floats) -> Floats:
    """Return margins without intercept, of shape (n_outputs, n)."""
    return np.asarray(shard.losses.labels * shard.features.scores(weights))


def primal_at(losses: MarginLosses, norms: Floats, scores: Floats, parameters: Floats) -> tuple[Floats, Floats]:
    """Return primal objectives at weights and intercepts, and bounds of their rounding.

    The margins without intercept are `scores`, and `norms` are those of the rows.
    """
    weights, intercepts = parameters[:, :-1], parameters[:, -1]
    margins, squares = losses.shifted(scores, intercepts), (weights**2).sum(axis=1)
    chain = UNIT * (weights.shape[1] + 2)
    reach = chain * np.sqrt(squares)[:, None] * norms + UNIT * np.abs(margins)
    values = losses.values(margins)
    ends = np.maximum(*(losses.values(moved) for moved in interval_ends(margins, reach)))
    primal = 0.5 * squares + values.sum(axis=1)
    return primal, (ends - values).sum(axis=1) + ROUNDINGS * primal


def _dual_at(losses: MarginLosses, norms: Floats, dual: Floats, weights: Floats, n_sums: int) -> tuple[Floats, Floats]:
    """Return dual objectives at feasible coefficients and their computed weights, and bounds of their rounding.

    The weights err by at most the `n_sums` roundings of their sums. The sum of the signed
    coefficients may differ from zero by rounding: what is certified are coefficients whose heavier
    side (`MarginLosses.sides`) is smaller by a share that makes it zero.
    """
    conjugate, sizes = losses.conjugate, np.abs(dual)
    length, reach = np.sqrt((weights**2).sum(axis=1)), sizes @ norms
    objective = -0.5 * length**2 - conjugate.value(dual).sum(axis=1)
    error = n_sums * UNIT * reach
    magnitude = conjugate.magnitude(dual).sum(axis=1)
    rounding = (length + 0.5 * error) * error + ROUNDINGS * (length**2 + magnitude)
    if losses.intercept:
        excess = np.abs((losses.labels * dual).sum(axis=1)) + ROUNDINGS * sizes.sum(axis=1)
        share = 2 * excess / np.maximum(sizes.sum(axis=1), TINY)
        slopes = (sizes * np.abs(conjugate.slopes(dual))).sum(axis=1)
        rounding += share * ((length + error) * reach + slopes) + share**2 * (0.5 * reach**2 + magnitude)
    # No loss is negative, so that zero is a bound as well.
    is_useful = objective > rounding
    return np.where(is_useful, objective, 0.0), np.where(is_useful, rounding, 0.0)


@dataclass(frozen=True)
class Best:
    """Smallest primal objective of every output, and largest lower bound of the dual one, each with its rounding."""

    parameters: Floats  # Weights and intercepts of the primal objective, of shape (n_outputs, m + 1).
    primal: Floats
    of_primal: Floats  # Bound of the rounding of the primal objective.
    dual: Floats
    of_dual: Floats  # Bound of the rounding of the dual objective.
    coefficients: Floats | None = None  # Dual coefficients, if the parameters have to be those that follow from them.

    @property
    def objectives(self) -> Objectives:
        """The certificate."""
        gap = np.maximum(self.primal - self.dual, 0.0)
        return Objectives.of(self.primal, gap, self.parameters[:, -1], self.of_primal + self.of_dual)

    def better(self, other: Best | None) -> Best:
        """Return the better bounds of two, output by output."""
        if other is None:
            return self
        upper = self.primal < other.primal
        lower = self.dual - self.of_dual > other.dual - other.of_dual
        coefficients = self.coefficients
        if coefficients is not None and other.coefficients is not None:
            upper = lower = self._apart < other._apart
            coefficients = np.where(upper[:, None], coefficients, other.coefficients)
        return Best(
            np.where(upper[:, None], self.parameters, other.parameters),
            np.where(upper, self.primal, other.primal), np.where(upper, self.of_primal, other.of_primal),
            np.where(lower, self.dual, other.dual), np.where(lower, self.of_dual, other.of_dual), coefficients,
        )  # fmt: skip

    @property
    def _apart(self) -> Floats:
        """Gap with rounding."""
        return np.asarray(self.primal - self.dual + self.of_primal + self.of_dual)


@dataclass(kw_only=True)
class DualState:
    """State of a solve; an output is one of the machine's decision functions."""

    limits: Limits
    shards: Shards[Shard]
    losses: MarginLosses  # Those of all rows.
    norms: Floats  # Norms of the rows, of shape (n,).
    longest_sum: int  # Longest chain of additions in a margin or a weight.
    dual: Floats  # Dual coefficients, of shape (n_outputs, n).
    weights: Floats  # Weights and intercepts, of shape (n_outputs, m + 1).
    other: Floats | None = None  # Other weights and intercepts, which may have a smaller primal objective.
    passes: int = 0
    checks: int = 0
    visits: float = 0.0  # Number of passes over all rows so far.
    width: float = (
        1.0  # Width of the envelope of the next proximal step (`dimargin.solvers.proximal_newton`), in margins.
    )
    progress: Progress = field(default_factory=Progress)  # Of checks and primal objectives.
    best: Best | None = None  # Best certificate so far.


State = TypeVar("State", bound=DualState)


@dataclass(frozen=True)
class LinearDualSolver(Solver[Shards[Shard], State, PrimalSolution], Generic[State]):
    """Base of the solvers, over shards of `LinearFeatures` in this process.

    Parameters
    ----------
    intercept : bool, default=False
        Whether there is an unregularised intercept, as in the shards' losses.
    dual : ndarray of shape (n_outputs, n), optional
        Initial dual coefficients; by default those that answer the margins of the initial weights.
    keeps_dual : bool, default=False
        Whether the weights of the result have to be those that follow from its dual coefficients, as
        in a kernel machine. By default they are the best of all, and so is the dual objective.

    Attributes
    ----------
    patience : int
        With more checks without progress, rounding prevents it.
    """

    intercept: bool = False
    dual: Floats | None = None
    keeps_dual: bool = field(default=False, kw_only=True)
    patience: ClassVar[int] = 4

    def start(self, state: State, weights: Floats) -> State:
        """Return the state with initial coefficients, measured unless they are all zero."""
        if self.dual is not None:
            state.dual = self.dual.copy()
        elif weights.any():
            margins = gathered(state.shards, weights[:, :-1]) + state.losses.labels * weights[:, -1:]
            state.dual = state.losses.conjugate.response(margins)[0]
        if state.dual.any():
            self.measure(state)
        return state

    def check(self, state: State) -> Objectives | None:
        """Return the best certificate so far, or None before the first pass from zero."""
        if state.passes == 0 and state.limits.max_iter > 0 and state.best is None:
            return None
        if state.passes:
            self.measure(state)
        objectives = self._best(state).objectives
        state.checks += 1
        state.progress.note_objectives(state.checks, objectives)
        return objectives

    def _best(self, state: State) -> Best:
        if state.best is None:
            self.measure(state)
        assert state.best is not None
        return state.best

    def measure(self, state: State) -> Objectives:
        """Make the coefficients feasible, compute weights and objectives from them, and keep the best."""
        losses, norms = state.losses, state.norms
        state.dual = losses.feasible(state.dual)
        weights = state.shards.aggregate(_combined, state.dual)[0]
        dual, of_dual = _dual_at(losses, norms, state.dual, weights, state.longest_sum)
        scores = gathered(state.shards, weights)
        state.weights = np.column_stack([weights, losses.intercepts(scores)])
        tried = [(state.weights.copy(), scores)]  # Passes change the weights.
        own = state.dual.copy() if self.keeps_dual else None
        if state.other is not None and not self.keeps_dual:
            tried.append((state.other, gathered(state.shards, state.other[:, :-1])))
        for parameters, scores in tried:
            primal = primal_at(losses, norms, scores, parameters)
            state.best = Best(parameters, *primal, dual, of_dual, own).better(state.best)
        assert state.best is not None
        return state.best.objectives

    def verdict(self, state: State, objectives: Objectives) -> Verdict:
        """Return status and reason if the solve converged, stalled or used its passes, else None."""
        # Proximal steps make little progress until their width is that of the remaining errors of margins.
        is_narrowing = 2.0**-16 < state.width < 1.0
        has_stalled = not is_narrowing and state.progress.has_stalled(state.checks, self.patience)
        ended = gap_verdict(objectives, state.limits.tol, has_stalled)
        if ended is None and state.passes >= state.limits.max_iter:
            return "max_iter", f"max_iter={state.limits.max_iter} passes were made"
        return ended

    def evaluations(self, state: State) -> int:
        """Return zero, since no kernel values are computed."""
        return 0

    def facts(self, state: State) -> dict[str, Any]:
        """Return the number of passes over all rows so far."""
        return {"epochs": state.visits}

    def finish(self, state: State, status: Status, reason: str, history: History) -> PrimalSolution:
        """Return the weights with the smallest primal objective of all checks."""
        best = self._best(state)
        return PrimalSolution(
            weights=best.parameters[:, :-1], objectives=best.objectives, status=status, reason=reason,
            passes=state.passes, kernel_evaluations=0, history=history,
            dual=state.dual if best.coefficients is None else best.coefficients,
        )  # fmt: skip


def facts_of(problem: Shards[Shard], start: Floats, limits: Limits) -> tuple[Shard, dict[str, Any]]:
    """Return all rows as one shard, and the fields of a state at zero."""
    shards = problem.collect()
    whole = joined_shard(shards)
    longest = max(max(shard.losses.n_rows, shard.features.stored.X.shape[1]) for shard in shards)
    return whole, {
        "limits": limits, "shards": problem, "losses": whole.losses, "norms": np.sqrt(whole.features.squares()),
        "longest_sum": longest + len(shards), "dual": np.zeros(whole.losses.labels.shape),
        "weights": np.zeros_like(start),
    }  # fmt: skip


def gathered(shards: Shards[Shard], weights: Floats) -> Floats:
    """Return the margins of all rows without intercept."""
    return np.concatenate(shards.collect(_margins, weights), axis=1)
