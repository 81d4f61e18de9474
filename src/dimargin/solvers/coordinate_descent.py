"""Dual coordinate descent for linear machines, on rows in the memory of one machine.

A step minimises the dual (`dimargin.solvers.linear_dual`) in one coefficient g_i, and updates w: it
costs the length of a row (Hsieh, Chang, Lin, Keerthi, Sundararajan, "A dual coordinate descent method
for large-scale linear SVM", ICML 2008, algorithm 3). A pass takes blocks of eight consecutive rows in
random order, because rows in the order of memory are read two to three times faster than rows in
random order; text needs a tenth more passes for it, and a9a a third. Later passes leave out the rows
whose coefficients stay at a bound or a kink by more than the largest violation of the pass before; a
check chooses among all rows again, by the violations at its margins.

An unregularised intercept b needs ``sum_i y_i g_i = 0``, which no step in one coefficient keeps.
Steps therefore minimise the augmented Lagrangian: b is a weight of a constant feature of size
``rho^(1/2)`` about a centre, ``b = centre + rho sum_i y_i g_i``, and after every pass the centre moves
to b. With a large rho, b would change as much as the margins in every pass, and with a small one
it would move slowly. With 200/n of the mean ``|x_i|^2``, reuters takes two fifths more passes than
without intercept, and synthetic text, a9a, ijcnn1 and phishing at most a tenth more.

Passes of one output take one thread. Parts of the rows with weights of their own, whose changes are
added up, were tried: on synthetic text of 20,000 rows two parts that are added up once a pass do not
converge, and with steps of half the size they take 53 passes in place of 14 if they are added up
sixteen times a pass. Parts of eight rows lose nothing, but each thread has to add the others' rows to
its weights, too, so that two threads would gain less than half.

The sum of the rows' gaps ``loss_i(m_i) + phi_i(g_i) + g_i m_i`` when they are visited estimates the
duality gap at no cost. It decides when a check is due, not what is certified.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dimargin import _core
from dimargin.problems.objectives import Objectives
from dimargin.shards.shards import Shards
from dimargin.solvers.linear_dual import DualState, LinearDualSolver, facts_of
from dimargin.solvers.loop import Limits
from dimargin.solvers.newton import forms_hessian
from dimargin.solvers.primal import Shard
from dimargin.solvers.progress import is_near_rounding
from dimargin.solvers.proximal_newton import ProximalNewton
from dimargin.system.arrays import TINY, Floats


@dataclass(kw_only=True)
class State(DualState):
    """State of a solve; an output is one of the machine's decision functions."""

    rows: _core.Rows32 | _core.Rows64  # All rows, in the compiled core.
    n_values: int  # Number of stored values of the rows.
    squares: Floats  # Squared norms of the rows with the feature of the intercept, of shape (n,).
    rho: float  # Square of the constant feature of the intercept; zero without intercept.
    active: NDArray[np.uint8]  # One for the rows of the next pass, of shape (n_outputs, n).
    slack: Floats  # Largest slopes of the last pass or check, of shape (n_outputs, 2); infinite at first.
    sums: Floats  # Sums of phi(g) and of y g, of shape (2, n_outputs).
    gaps: Floats  # Estimates of the relative gaps, of shape (n_outputs,).
    factors: Floats  # Gaps of the last check in relation to their estimates, of shape (n_outputs,), at least one.
    doubted: NDArray[np.bool_]  # Whether the estimates have been too small twice, of shape (n_outputs,).
    rng: np.random.Generator
    is_slow: bool = False  # Whether proximal Newton steps have taken over.
    last: tuple[float, float] = (0.0, 1.0)  # Visits and worst gap of the last check.
    next_check: int = 8  # Number of passes after which a check is due at the latest.


@dataclass(frozen=True)
class CoordinateDescent(LinearDualSolver[State]):
    """Dual coordinate descent.

    Parameters
    ----------
    intercept, dual
        See `LinearDualSolver`.
    n_threads : int, default=1
        Number of threads for the outputs. The result does not depend on it.
    random_state : int, default=0
        Seed of the orders of the rows.
    newton : ProximalNewton, optional
        Solver whose steps take over where coordinate descent is slow.
    max_forecast : int, default=2000
        Passes over all rows that the solve may need, forecast from the gaps of two checks; with more,
        `newton` takes over. They cost about as much as the steps of Newton's method (digits).

    Attributes
    ----------
    max_wait : int
        Largest number of passes between checks.
    min_passes : int
        Passes before a forecast is relied on, or a third of `max_forecast` if that is less, or a 64th
        if that is more.
    rows_per_block : int
    values_per_call : int
        Number of values that are visited before the limits are looked at.
    passes_before_all : int
        After this many passes the next one visits all rows again. Those that the first passes leave out,
        by slopes near zero weights, are too many: texts take a fifth more visits without it.
    margin : float
        A check is due when the estimated gap is below this fraction of the tolerance.

    Examples
    --------
    The maximum margin of two points is halfway between them.

    >>> import numpy as np
    >>> from threading import Event
    >>> from dimargin.kernels.row_transform import StoredRows
    >>> from dimargin.problems.losses import HingeLoss
    >>> from dimargin.problems.margin_losses import MarginLosses
    >>> from dimargin.shards.local_engine import LocalEngine
    >>> from dimargin.solvers import LinearFeatures, solve
    >>> X, y = np.array([[1.0], [3.0]]), np.array([[-1.0, 1.0]])
    >>> losses = MarginLosses(y, np.ones(2), HingeLoss(10.0), 2.0, 2.0, intercept=True)
    >>> shards = LocalEngine(1, Event()).scatter([Shard(LinearFeatures(StoredRows(X)), losses)])
    >>> solution = solve(shards, CoordinateDescent(intercept=True), np.zeros((1, 2)), Limits(tol=1e-9))
    >>> solution.parameters.round(6)
    array([[ 1., -2.]])
    """

    n_threads: int = 1
    random_state: int = 0
    newton: ProximalNewton | None = None
    max_forecast: int = 2000
    max_wait: ClassVar[int] = 256
    min_passes: ClassVar[int] = 32
    rows_per_block: ClassVar[int] = 8
    values_per_call: ClassVar[int] = 2**24
    passes_before_all: ClassVar[int] = 3
    margin: ClassVar[float] = 0.8

    def helped_by_newton(self, n_rows: int, n_features: int, n_values: int, smooth: bool) -> CoordinateDescent:
        """Return this solver with Newton's method, which takes over the later, the dearer its steps are."""
        newton = ProximalNewton(self.intercept, explicit=n_features <= 1024, keeps_dual=self.keeps_dual)
        # Where the Hessian is cheap, Newton's method costs as much as about 25 passes (a9a, phishing, ijcnn1).
        passes = 25 if forms_hessian(n_rows, n_features, n_values) else self.max_forecast
        if n_features > 1024 and not smooth:  # Conjugate gradients take ten thousand products or more.
            passes *= 10
        return replace(self, newton=newton, max_forecast=passes)

    def init(self, problem: Shards[Shard], start: Floats, limits: Limits) -> State:
        """Return the state at weights of shape (n_outputs, m + 1), and with their coefficients."""
        whole, facts = facts_of(problem, start, limits)
        stored = whole.features.stored
        squares, (q, n) = facts["norms"] ** 2, whole.losses.labels.shape
        rho = self.intercept * float(squares.mean() or 1.0) * min(1.0, 200 / n)
        state = State(
            **facts, rows=stored.core, n_values=int(stored.X.size), squares=squares + rho, rho=rho,
            active=np.ones((q, n), dtype=np.uint8), slack=np.full((q, 2), np.inf), sums=np.zeros((2, q)),
            gaps=np.full(q, np.inf), factors=np.ones(q), doubted=np.zeros(q, dtype=bool),
            rng=np.random.default_rng(self.random_state),
        )  # fmt: skip
        return self.start(state, start)

    def step(self, state: State) -> None:
        """Make passes until the estimated gaps are small, or a check is due; or a step of Newton's method."""
        if state.is_slow and self.newton is not None:
            self.newton.step(state)
            return
        while True:
            self._pass(state)
            if state.limits.reached or state.passes >= min(state.next_check, state.limits.max_iter):
                break
            if (state.gaps <= self.margin * state.limits.tol).all():
                break
        if state.passes >= state.next_check:
            state.next_check += min(state.next_check, self.max_wait)

    def _pass(self, state: State) -> None:
        """Visit the active rows of the outputs whose estimated gap is not small."""
        losses, conjugate, rho = state.losses, state.losses.conjugate, state.rho
        busy = np.flatnonzero(state.gaps > self.margin * state.limits.tol)
        if state.passes == self.passes_before_all:
            state.active[busy] = 1
        sums = np.zeros((len(state.dual), 6))
        blocks = state.rng.permutation(-(-losses.n_rows // self.rows_per_block))
        n_calls = 1 + state.n_values // self.values_per_call
        for some in np.array_split(blocks, n_calls) if n_calls > 1 else (blocks,):
            _core.descend(
                state.rows, losses.labels, conjugate.rows, state.squares, rho, state.slack, busy, some,
                self.rows_per_block, state.weights, state.dual, state.active, sums, self.n_threads,
            )  # fmt: skip
            if state.limits.reached:
                break
        state.passes += 1
        state.visits += float(sums[:, 5].sum()) / state.dual.size
        state.slack[busy] = sums[busy, :2]
        state.sums += sums[:, 3:5].T
        if self.intercept:
            state.weights[busy, -1] += rho * state.sums[1, busy]
        dual = -0.5 * (state.weights[busy, :-1] ** 2).sum(axis=1) - state.sums[0, busy]
        gaps = state.factors[busy] * sums[busy, 2]
        state.gaps[busy] = np.where(state.doubted[busy], np.inf, gaps / np.maximum(dual, 1e-30 * gaps + TINY))

    def measure(self, state: State) -> Objectives:
        """See `LinearDualSolver`; the next pass takes the rows whose coefficients may move at the new margins."""
        estimates, tol = state.gaps / state.factors, state.limits.tol
        objectives = super().measure(state)
        met, gaps = objectives.met(tol), objectives.unrounded
        # Rows that were left out may have made an estimate too small.
        missed = ~met & (state.gaps <= self.margin * tol)
        state.doubted |= missed & (state.factors > 1.0)
        state.factors = np.where(missed, np.clip(gaps / np.maximum(estimates, gaps / 64 + TINY), 1.0, 64.0), 1.0)
        state.gaps = np.where(met, 0.0, np.inf)
        self._activate(state)
        losses = state.losses
        state.sums = np.array(
            [losses.conjugate.value(state.dual).sum(axis=1), (losses.labels * state.dual).sum(axis=1)]
        )
        visits, gap = state.last
        state.last = state.visits, float(objectives.unrounded.max())
        enough = max(min(self.min_passes, self.max_forecast // 3), self.max_forecast // 64)
        if state.passes >= enough and not met.all():
            rate = np.log(max(gap / state.last[1], 1.0)) / max(state.visits - visits, TINY)
            needed = np.log(state.last[1] / state.limits.tol) if state.limits.tol else np.inf
            if not state.is_slow and needed > rate * (self.max_forecast - state.visits):
                state.is_slow, state.progress.done = True, state.checks
        return objectives

    def _has_stalled(self, state: State) -> bool:
        # While all rows of a class are at their bounds, only the intercept moves.
        is_late = state.is_slow or state.passes >= 4 * self.max_wait
        is_near = is_late or is_near_rounding(self._best(state).objectives, state.limits.tol)
        return is_near and super()._has_stalled(state)

    def _activate(self, state: State) -> None:
        """Choose the rows of the next pass by the slopes of the dual objective."""
        conjugate, dual = state.losses.conjugate, state.dual
        (slope, curvature), (slope_left, curvature_left) = conjugate.piece(dual), conjugate.piece(dual, True)
        right = np.where(dual < conjugate.upper, state.margins + slope + curvature * dual, np.inf)
        left = np.where(dual > conjugate.lower, state.margins + slope_left + curvature_left * dual, -np.inf)
        state.slack = np.maximum([-right.min(axis=1, initial=0.0), left.max(axis=1, initial=0.0)], 0.0).T.copy()
        stays = (right > state.slack[:, 1:]) & (-left > state.slack[:, :1])
        state.active[:] = ~stays
