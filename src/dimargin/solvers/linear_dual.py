"""Base of the solvers of linear machines that have dual coefficients, with their certificate.

The dual of the primal in `dimargin.solvers.primal`, for rows as features, is

    minimise  1/2 |w|^2 + sum_i phi_i(g_i),   w = sum_i g_i y_i x_i,

for any loss with a piecewise quadratic conjugate phi (`dimargin.problems.losses`), the hinge
included. A check makes the coefficients g feasible, computes w and all margins again, and sets the
intercept to the minimum of the primal; the certificate includes a bound of their rounding. The
solvers therefore need not be accurate themselves.
"""

from __future__ import annotations

from abc import abstractmethod
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
    own = dual[:, own_rows(shard)]
    labels = shard.losses.labels
    return (shard.features.combine(np.tile(labels, (len(own) // len(labels), 1)) * own),)


def _margins(shard: Shard, weights: Floats) -> Floats:
    """Return margins without intercept, of shape (n_outputs, n)."""
    return np.asarray(shard.losses.labels * shard.features.scores(weights))


def primal_at(losses: MarginLosses, norms: Floats, scores: Floats, parameters: Floats) -> tuple[Floats, Floats]:
    """Return primal objectives at weights and intercepts, and bounds of their rounding.

    The margins without intercept are `scores`, and `norms` are those of the rows.
    """
    return primal_of(loss_sums(losses, norms, scores, parameters), parameters)


def loss_sums(losses: MarginLosses, norms: Floats, scores: Floats, parameters: Floats) -> Sums:
    """Return the sums of `primal_of` over rows: their losses, and bounds of the rounding of these."""
    weights, intercepts = parameters[:, :-1], parameters[:, -1]
    margins = losses.shifted(scores, intercepts)
    chain = UNIT * (weights.shape[1] + 2)
    reach = chain * np.linalg.norm(weights, axis=1)[:, None] * norms + UNIT * np.abs(margins)
    if losses.targets is not None:
        reach += UNIT * np.abs(losses.residuals(margins))
    values = losses.values(margins)
    ends = np.maximum(*(losses.values(moved) for moved in interval_ends(margins, reach)))
    return values.sum(axis=1), (ends - values).sum(axis=1)


def primal_of(sums: Sums, parameters: Floats) -> tuple[Floats, Floats]:
    """Return primal objectives and bounds of their rounding from sums over all rows."""
    losses, rounding = sums
    primal = 0.5 * (parameters[:, :-1] ** 2).sum(axis=1) + losses
    return primal, rounding + ROUNDINGS * primal


def dual_sums(losses: MarginLosses, norms: Floats, dual: Floats) -> Sums:
    """Return the sums of `dual_of` over rows."""
    conjugate, sizes = losses.conjugate, np.abs(dual)
    return (
        conjugate.value(dual).sum(axis=1), conjugate.magnitude(dual).sum(axis=1), sizes @ norms, sizes.sum(axis=1),
        (losses.labels * dual).sum(axis=1), (sizes * np.abs(conjugate.slopes(dual))).sum(axis=1),
    )  # fmt: skip


def dual_of(sums: Sums, weights: Floats, n_sums: int, intercept: bool) -> tuple[Floats, Floats]:
    """Return dual objectives at feasible coefficients and their computed weights, and bounds of their rounding.

    The weights err by at most the `n_sums` roundings of their sums. The sum of the signed
    coefficients may differ from zero by rounding: what is certified are coefficients whose heavier
    side (`MarginLosses.sides`) is smaller by a share that makes it zero.
    """
    value, magnitude, reach, size, signed, slopes = sums
    length = np.sqrt((weights**2).sum(axis=1))
    objective = -0.5 * length**2 - value
    error = n_sums * UNIT * reach
    rounding = (length + 0.5 * error) * error + ROUNDINGS * (length**2 + magnitude)
    if intercept:
        excess = np.abs(signed) + ROUNDINGS * size
        share = 2 * excess / np.maximum(size, TINY)
        rounding += share * ((length + error) * reach + slopes) + share**2 * (0.5 * reach**2 + magnitude)
    return objective, rounding


def nonnegative(dual: Floats, rounding: Floats) -> tuple[Floats, Floats]:
    """Return the better lower bounds of these dual objectives and zero, because no loss is negative."""
    is_useful = dual > rounding
    return np.where(is_useful, dual, 0.0), np.where(is_useful, rounding, 0.0)


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
class BestState:
    """State of a solve that keeps the best bounds of the optimum."""

    limits: Limits
    shards: Shards[Any]
    longest_sum: int  # Longest chain of additions in a margin or a weight.
    passes: int = 0
    checks: int = 0
    visits: float = 0.0  # Number of passes over all rows so far.
    progress: Progress = field(default_factory=Progress)  # Of checks and primal objectives.
    best: Best | None = None  # Best certificate so far.


@dataclass(kw_only=True)
class DualState(BestState):
    """State of a solve on one machine; an output is one of the machine's decision functions."""

    losses: MarginLosses  # Those of all rows.
    norms: Floats  # Norms of the rows, of shape (n,).
    dual: Floats  # Dual coefficients, of shape (n_outputs, n).
    weights: Floats  # Weights and intercepts, of shape (n_outputs, m + 1).
    margins: Floats  # Margins at the last check, of shape (n_outputs, n).
    other: Floats | None = None  # Other weights and intercepts, which may have a smaller primal objective.
    width: float = np.inf  # Width of the next envelope (`dimargin.solvers.proximal_newton`); infinite before the first.


AnyState = TypeVar("AnyState", bound=BestState)
State = TypeVar("State", bound=DualState)


@dataclass(frozen=True)
class BestSolver(Solver[Shards[Shard], AnyState, PrimalSolution], Generic[AnyState]):
    """Base of the solvers that keep the best bounds of the optimum.

    Parameters
    ----------
    intercept : bool, default=False
        Whether there is an unregularised intercept, as in the shards' losses.

    Attributes
    ----------
    patience : int
        With more checks without progress, rounding prevents it.
    """

    intercept: bool = False
    patience: ClassVar[int] = 4

    @abstractmethod
    def measure(self, state: AnyState) -> Objectives:
        """Compute the objectives of the iterate, and return the best."""

    def check(self, state: AnyState) -> Objectives | None:
        """Return the best certificate so far, or None before the first pass from zero."""
        if state.passes == 0 and state.limits.max_iter > 0 and state.best is None:
            return None
        if state.passes:
            self.measure(state)
        objectives = self._best(state).objectives
        state.checks += 1
        state.progress.note_objectives(state.checks, objectives)
        return objectives

    def _best(self, state: AnyState) -> Best:
        if state.best is None:
            self.measure(state)
        assert state.best is not None
        return state.best

    def verdict(self, state: AnyState, objectives: Objectives) -> Verdict:
        """Return status and reason if the solve converged, stalled or used its passes, else None."""
        ended = gap_verdict(objectives, state.limits.tol, self._has_stalled(state))
        if ended is None and state.passes >= state.limits.max_iter:
            return "max_iter", f"max_iter={state.limits.max_iter} passes were made"
        return ended

    def _has_stalled(self, state: AnyState) -> bool:
        return state.progress.has_stalled(state.checks, self.patience)

    def evaluations(self, state: AnyState) -> int:
        """Return zero, since no kernel values are computed."""
        return 0

    def facts(self, state: AnyState) -> dict[str, Any]:
        """Return the number of passes over all rows so far."""
        return {"epochs": state.visits}

    def finish(self, state: AnyState, status: Status, reason: str, history: History) -> PrimalSolution:
        """Return the weights with the smallest primal objective of all checks."""
        best = self._best(state)
        return PrimalSolution(
            weights=best.parameters[:, :-1], objectives=best.objectives, status=status, reason=reason,
            passes=state.passes, kernel_evaluations=0, history=history,
            dual=getattr(state, "dual", None) if best.coefficients is None else best.coefficients,
        )  # fmt: skip


@dataclass(frozen=True)
class LinearDualSolver(BestSolver[State], Generic[State]):
    """Base of the solvers, over shards of `LinearFeatures` in this process.

    Parameters
    ----------
    intercept
        See `BestSolver`.
    dual : ndarray of shape (n_outputs, n), optional
        Initial dual coefficients, also those of a loss of another weight, see `_stretched`; by
        default those that answer the margins of the initial weights.
    keeps_dual : bool, default=False
        Whether the weights of the result have to be those that follow from its dual coefficients, as
        in a kernel machine. By default they are the best of all, and so is the dual objective.
    """

    dual: Floats | None = None
    keeps_dual: bool = field(default=False, kw_only=True)

    def start(self, state: State, weights: Floats) -> State:
        """Return the state with initial coefficients, measured unless they are all zero.

        With initial coefficients, the initial weights are another candidate for the primal objective.
        """
        if self.dual is not None:
            state.dual = _stretched(state, self.dual)
            state.other = weights.copy() if weights.any() else None
        elif weights.any():
            margins = gathered(state.shards, weights[:, :-1]) + state.losses.labels * weights[:, -1:]
            state.dual = state.losses.conjugate.response(margins)[0]
        if state.dual.any():
            self.measure(state)
            state.other = None
        return state

    def measure(self, state: State) -> Objectives:
        """Compute weights and objectives from feasible coefficients near those of the state, and keep the best.

        The solve goes on from its own coefficients: feasible ones may have left the bounds by little,
        all on one side, and would be far from the minimum in these directions.
        """
        losses, norms, q = state.losses, state.norms, len(state.dual)
        state.dual = np.clip(state.dual, losses.conjugate.lower, losses.conjugate.upper)
        feasible = losses.feasible(state.dual)
        both = np.concatenate([feasible, state.dual]) if losses.intercept else feasible
        both_weights = state.shards.aggregate(_combined, both)[0]
        weights, own_weights = both_weights[:q], both_weights[-q:]
        sums = dual_sums(losses, norms, feasible)
        dual, of_dual = nonnegative(*dual_of(sums, weights, state.longest_sum, losses.intercept))
        scores = gathered(state.shards, weights)
        parameters = np.column_stack([weights, losses.intercepts(scores)])
        own_intercepts = state.weights[:, -1] if state.passes else parameters[:, -1]
        state.weights = np.column_stack([own_weights, own_intercepts])
        state.margins = losses.shifted(scores, own_intercepts)
        tried = [(parameters, scores)]
        if state.other is not None and not self.keeps_dual:
            tried.append((state.other, gathered(state.shards, state.other[:, :-1])))
        for parameters, scores in tried:
            primal = primal_at(losses, norms, scores, parameters)
            coefficients = feasible if self.keeps_dual else None
            state.best = Best(parameters, *primal, dual, of_dual, coefficients).better(state.best)
        assert state.best is not None
        return state.best.objectives

    def _has_stalled(self, state: State) -> bool:
        # Proximal steps make little progress until their width is that of the remaining errors of margins.
        is_narrowing = 2.0**-16 < state.width < 1.0
        return not is_narrowing and super()._has_stalled(state)


def facts_of(problem: Shards[Shard], start: Floats, limits: Limits) -> tuple[Shard, dict[str, Any]]:
    """Return all rows as one shard, and the fields of a state at zero."""
    shards = problem.collect()
    whole = joined_shard(shards)
    longest = max(max(shard.losses.n_rows, shard.features.stored.X.shape[1]) for shard in shards)
    return whole, {
        "limits": limits, "shards": problem, "losses": whole.losses, "norms": np.sqrt(whole.features.squares()),
        "longest_sum": longest + len(shards), "dual": np.zeros(whole.losses.labels.shape),
        "weights": np.zeros_like(start), "margins": np.zeros(whole.losses.labels.shape),
    }  # fmt: skip


def _stretched(state: DualState, dual: Floats) -> Floats:
    """Return the multiple of coefficients whose dual objective is largest.

    The multiple keeps the sum of signed coefficients zero, and those within the box there, unless it
    is smaller than one. If the weight of the loss, such as C, has grown by a factor, the multiple is
    this factor where the old losses are large in relation to ``|w|^2``, and near one where they are
    small, as the coefficients of separable rows hardly depend on C. A multiple that is within a
    percent of one changes the dual objective by less than 1e-4 of its value, and is one.
    """
    conjugate = state.losses.conjugate
    weights = state.shards.aggregate(_combined, dual)[0]
    slope, curvature = conjugate.piece(dual)
    square = (weights**2).sum(axis=1) + (curvature * dual**2).sum(axis=1)
    linear = -(slope * dual).sum(axis=1)
    best = linear / np.maximum(square, 1e-100 * np.abs(linear) + TINY)
    ends = np.where(dual < 0, conjugate.lower, conjugate.upper)
    room = np.divide(ends, dual, out=np.full(dual.shape, np.inf), where=dual != 0).min(axis=1)
    best = np.where(np.abs(best - 1) < 0.01, 1.0, np.clip(best, 0.0, np.maximum(room, 1.0)))
    return np.asarray(best[:, None] * dual)


def gathered(shards: Shards[Shard], weights: Floats) -> Floats:
    """Return the margins of all rows without intercept."""
    return np.concatenate(shards.collect(_margins, weights), axis=1)
