r"""Growing core-sets: rows are added until the machine of the core-set is good enough for all rows.

Core vector machines (Tsang, Kwok, Cheung, JMLR 2005) add the point farthest from the centre of the
core-set's ball; for margin machines that is the row of the smallest margin. Here a core-set may
double at a time, by the most violating rows, but only by those that cause the gap; rows whose
coefficient has become zero leave. The machine of the core-set is solved by block coordinate descent
to a tolerance in proportion to the gap over all rows, and a fused pass updates the margins of all
other rows. At a gap of 1e-3 the core-set is 4% smaller than the support of the exact solver
(squared hinge on svmguide1, cod-rna and covtype; bench/scripts/bench_cited.py).

With `epsilon` the solve stops by the ball. The squared hinge with ``phi_i(g) = -g + g^2 / (2 C_i)``
is a ball (core-set paper, equations 6 and 7; the diagonal of the kernel need not be constant):
``x = g / sum g`` solves

    minimise  x' K~ x  over the simplex,  K~ = Q + diag(1 / C),
    rho = x' K~ x,   r^2 = eta - rho,   distance_i^2 = eta + rho - 2 (K~ x)_i,   eta = max_i K~_ii,

and the core-set suffices when every row is within ``1 + epsilon`` times r. That says little about
the machine: its relative error can be ``2 epsilon r^2 / rho``, with rho a thousand times smaller
than r^2 (docs/algorithms.md#allowance-of-a-core-set).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from dimargin.problems.dual import DualProblem
from dimargin.problems.objectives import Objectives
from dimargin.problems.solution import History, Solution, Status
from dimargin.solvers.dual_solver import DualSolver
from dimargin.solvers.loop import Limits, Solver, Verdict, solve
from dimargin.solvers.single_precision import with_rounding
from dimargin.solvers.stopwatch import Stopwatch
from dimargin.system.arrays import TINY, Floats, Indices


@dataclass
class _State:
    problem: DualProblem
    limits: Limits
    core: Indices
    dual: Floats
    margins: Floats
    travelled: Floats  # Accumulated rounding of the margins, see `DualProblem.objectives`.
    objectives: Objectives
    spent: int = 0
    passes: int = 0
    unchecked: bool = True
    size: int = 0  # Number of rows with a coefficient.
    stopwatch: Stopwatch = field(default_factory=Stopwatch)  # Times the passes.
    ratio: float = np.inf  # Distance of the farthest row over the radius, of the worst output.
    precision: float = 1.0  # Relative error of the machine that epsilon allows.
    tightening: float = 1.0  # Factor of the tolerance, reduced while core-set rows are outside.
    is_unchanged: bool = False  # Whether the last solve changed no coefficient.
    is_complete: bool = False  # Whether no row should be added, or adding rows changes nothing.
    is_late: bool = False  # Whether the time limit allows no further pass.
    found: Solution | None = None

    def seconds_of_pass(self, n_columns: int) -> float:
        """Return the seconds of a pass over columns, with a quarter more than was measured."""
        return 1.25 * self.stopwatch.seconds_for(self.problem.n_rows * n_columns)

    @property
    def affordable(self) -> int:
        """Largest size of a core-set that the time allows, with half of it for the solve."""
        deadline, seconds = self.limits.deadline, 2 * self.seconds_of_pass(1)
        if deadline is None or not seconds:
            return self.problem.n_rows
        return int(max(deadline - time.perf_counter(), 0.0) / seconds)


@dataclass(frozen=True)
class GrowingRows(Solver[DualProblem, _State, Solution]):
    """Grow a core-set, solving for it alone, until its machine is good enough for all rows.

    Parameters
    ----------
    inner : DualSolver
        Solver of the problem of the core-set and, in the end, of the whole problem. A problem of at
        most ``inner.small`` rows starts with all of them.
    epsilon : float, optional
        Stop when every row is within ``1 + epsilon`` times the radius, whatever the gap; by default
        when the relative gap is within the tolerance. For the squared hinge only.

    Attributes
    ----------
    first_rows : int
        Rows of a first core-set, by which later ones may always grow.
    min_tightening : float
        Below this factor of the tolerance the kernel values are not precise enough.
    """

    first_rows: ClassVar[int] = 256
    min_tightening: ClassVar[float] = 1e-6
    inner: DualSolver[Any]
    epsilon: float | None = None

    def init(self, problem: DualProblem, start: Floats | None, limits: Limits) -> _State:
        """Return the state at a first core-set: the support of the start, or some rows."""
        dual = margins = np.zeros(problem.labels.shape)
        if start is not None and start.any():
            dual = problem.feasible(np.array(start, dtype=np.float64))
            core, margins = np.flatnonzero(dual.any(axis=0)), problem.margins(dual)
        elif self.epsilon is None:
            small = problem.n_rows <= self.inner.small
            core = np.arange(problem.n_rows if small else min(self.first_rows, problem.n_rows))
        else:  # The core-set starts with one row of every sign.
            core = np.unique([(row == sign).argmax() for row in problem.labels for sign in (1, -1)])
        objectives, spent = problem.objectives(dual, margins), problem.kernel.evaluations
        return _State(problem, limits, core, dual.copy(), margins.copy(), problem.reach(dual), objectives, spent)

    def step(self, state: _State) -> None:
        """Solve for the core-set, and update the margins of all rows."""
        problem, core, limits = state.problem, state.core, self._local_limits(state)
        if limits.out_of_time and state.passes:
            state.is_late = state.unchecked = True
            return
        found = solve(problem.restrict(core, problem.mass), self.inner, state.dual[:, core], limits)
        change = problem.labels[:, core] * (found.dual - state.dual[:, core])
        moved = np.flatnonzero(change.any(axis=0))
        state.is_unchanged = not len(moved)
        others = np.setdiff1d(np.arange(problem.n_rows), core, assume_unique=True)
        before = problem.kernel.evaluations
        with state.stopwatch.timing(problem.kernel):
            products = problem.kernel.multiply(core[moved], change[:, moved], others)
        computed = problem.kernel.evaluations - before
        state.margins[:, others] += problem.labels[:, others] * products
        state.margins[:, core], state.dual[:, core] = found.margins, found.dual
        state.travelled += problem.kernel.product_sizes(core[moved], change[:, moved])
        if found.travelled is not None:
            state.travelled = np.maximum(state.travelled, found.travelled)
        state.spent += found.kernel_evaluations + computed
        state.passes += 1
        state.unchecked = True

    def _local_limits(self, state: _State) -> Limits:
        limits = state.limits
        # The core-set is solved to a fifth of the gap over all rows, but not below 0.3 times the
        # tolerance.
        tol = max(0.3 * limits.tol, min(0.2 * state.objectives.worst_gap, 0.1))
        if self.epsilon is not None:  # A hundredth of the error that epsilon allows.
            tol = state.tightening * 0.01 * state.precision
        in_time_for_pass = limits.earlier(state.seconds_of_pass(len(state.core)))
        return replace(in_time_for_pass, tol=tol, stop_requested=lambda entry: False)

    def check(self, state: _State) -> Objectives | None:
        """Return the objectives over all rows, and add the most violating ones to the core-set."""
        if not state.unchecked:
            return None
        state.unchecked = False
        state.objectives = state.problem.objectives(state.dual, state.margins, travelled=state.travelled)
        support = np.flatnonzero(state.dual.any(axis=0))
        state.size = len(support)
        if not len(support):
            state.is_complete = state.is_unchanged  # The rows may be so large that no step helps.
            return state.objectives
        new = self._causing_gap(state, support) if self.epsilon is None else self._farthest(state, support)
        state.core, state.is_complete = np.union1d(support, new), not len(new) or state.is_unchanged
        return state.objectives

    def _causing_gap(self, state: _State, support: Indices) -> Indices:
        """Return the rows outside the core-set that cause most of the gap."""
        problem = state.problem
        shares = problem.gaps(state.dual, problem.shifted(state.margins, state.objectives.intercept))
        shares[:, support] = 0.0
        max_added = min(max(self.first_rows, len(support)), max(state.affordable - len(support), 0))
        new = [np.empty(0, dtype=np.int64)]
        for share, primal in zip(shares, np.abs(state.objectives.primal), strict=True):
            worst = np.argsort(-share, kind="stable")[:max_added]
            left = share.sum() - np.cumsum(share[worst])
            # Rows that remain outside may cause 0.6 times the tolerance.
            enough = 1 + int(np.searchsorted(-left, -0.6 * state.limits.tol * primal))
            new.append(worst[:enough][share[worst[:enough]] > 0])
        return np.concatenate(new)

    def _farthest(self, state: _State, support: Indices) -> Indices:
        """Return the rows farthest from the centre, of every output whose ball is too small."""
        problem, conjugate = state.problem, state.problem.conjugate
        assert self.epsilon is not None
        is_loose = False  # Whether a row of the core-set is outside its ball.
        longest = float((problem.kernel.diagonal() + conjugate.curvature_right).max())
        # The core-set grows by a fifth, since few rows may suffice for the ball.
        max_added = min(1 + int(0.2 * len(support)), max(state.affordable - len(support), 0))
        new, ratios, precisions = [np.empty(0, dtype=np.int64)], [], []
        for dual, margins in zip(state.dual, state.margins, strict=True):
            total = max(float(dual.sum()), TINY)
            products = (margins + conjugate.curvature_right * dual) / total
            rho = float(dual @ products) / total
            # The radius of a single row is zero.
            squared_radius = max(longest - rho, np.finfo(float).eps * longest)
            distances = longest + rho - 2 * products
            limit = squared_radius * (1 + self.epsilon) ** 2
            ratios.append(max(float(distances.max()) / squared_radius, 1.0) ** 0.5)
            precisions.append(2 * self.epsilon * squared_radius / max(rho, TINY))
            is_loose |= bool(distances[state.core].max() > limit)
            distances[support] = 0.0
            worst = np.argsort(-distances, kind="stable")[:max_added]
            new.append(worst[distances[worst] > limit])
        state.tightening = max(state.tightening * (0.1 if is_loose else 1.0), 0.1 * self.min_tightening)
        state.ratio, state.precision = max(ratios), min(1.0, *precisions)
        return np.concatenate(new)

    def verdict(self, state: _State, objectives: Objectives) -> Verdict:
        """Return status and reason if the core-set suffices, or a limit is reached, else None."""
        if state.is_late:
            return "max_time", "the time limit leaves no time for another pass"
        if self.epsilon is not None:
            reached = f"every row is within {state.ratio:.6g} times the radius of the core-set's ball"
            if state.ratio <= 1 + self.epsilon:
                return "converged", reached
            if state.tightening < self.min_tightening and state.is_complete:
                return "precision", f"{reached}: epsilon={self.epsilon:g} is below the precision of the kernel values"
        elif objectives.worst_gap <= state.limits.tol or state.is_complete:
            if not state.limits.allow(state.seconds_of_pass(state.size)):
                return "max_time", "the time limit leaves no time for the pass that certifies the gap"
            # The margins were summed in float32: the inner solver recomputes and certifies the gap.
            state.found = solve(state.problem, self.inner, state.dual, state.limits)
            return state.found.status, state.found.reason
        if state.passes >= state.limits.max_iter:
            return "max_iter", f"max_iter={state.limits.max_iter} passes were done"
        return None

    def finish(self, state: _State, status: Status, reason: str, history: History) -> Solution:
        """Return the solution of the last core-set, with objectives over all rows."""
        found, passes = state.found, max(1, state.passes)
        if found is not None:  # Its status and reason are those given.
            evaluations = state.spent + found.kernel_evaluations
            return replace(found, passes=passes, kernel_evaluations=evaluations, history=history, travelled=None)
        if self.epsilon is not None and status == "converged":
            precise = DualProblem.of(state.problem, state.problem.kernel.in_float64())
            margins = precise.margins(state.dual)
            state.spent += precise.kernel.evaluations
            state.margins, state.objectives = margins, precise.objectives(state.dual, margins)
        elif not state.problem.kernel.double:
            rounded = with_rounding(
                state.problem,
                state.dual,
                state.margins,
                state.objectives,
                state.travelled,
                np.random.default_rng(self.inner.random_state),
                state.limits.tol,
                float(state.spent),
            )
            state.spent += rounded.evaluations
            state.margins, state.objectives = rounded.margins, rounded.objectives
        return Solution(
            dual=state.dual,
            margins=state.margins,
            objectives=state.objectives,
            status=status,
            reason=reason,
            passes=passes,
            kernel_evaluations=state.spent,
            history=history,
        )

    def evaluations(self, state: _State) -> int:
        """Return the number of kernel values computed so far."""
        return state.spent

    def facts(self, state: _State) -> dict[str, float]:
        """Return the size of the core-set and, with `epsilon`, the ratio of the farthest row."""
        return {"core_set": state.size} | ({} if self.epsilon is None else {"farthest": state.ratio})
