"""Generalised Newton method on the primal, for few features and a million rows or more.

Where the derivative of the loss is piecewise linear the primal (`dimargin.solvers.primal`) is
piecewise quadratic: with ``c_i = loss_i''(m_i)`` its generalised Hessian is
``I + sum_i c_i phi_i phi_i'`` (Mangasarian 2002; Keerthi and DeCoste, JMLR 2005, for the squared
hinge). Each step ends at the minimum along the Newton direction, because steps without a line
search may cycle. Near the optimum the ``c_i`` stop changing, and the next step reaches it.

Shards keep nothing between passes, so that a lost shard is rebuilt from its rows alone, and only
sums are communicated. For few features the Hessian is formed: an all-reduce of m x m numbers, to
which only those rows contribute whose ``c_i`` has changed since the last step. For many features a
direction is found by conjugate gradients with a diagonal preconditioner, an all-reduce of m numbers
each, until a tenth of the gradient is left (truncated Newton: Lin, Weng and Keerthi, JMLR 2008).
The preconditioner adds a hundredth of the diagonal to the regulariser: to add all of it costs extra
steps where features are scaled, to add none of it many more where they are not (Hsia, Chiang and
Lin, ACML 2018).

The full step is tried first, in one pass for objective, gradient and Hessian at its end. It is
accepted, as most are, if it lowers the objective and reduces the slope along the direction (the
curvature condition of Wolfe). Otherwise further passes compute the slopes at several steps.

Features psi with a Gram matrix ``L L'`` of their own have the Hessian
``I + L^-1 (sum_i c_i psi_i psi_i') L^-T``. It is not formed: the direction of the coefficients
solves the congruent system with the matrix ``L L' + sum_i c_i psi_i psi_i'``. Where landmarks are
nearly dependent and the loss is steep, rounding makes this matrix indefinite. The Hessian is then
summed from ``L^-1 psi_i``, which prevents that at up to twice the cost.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular
from scipy.linalg.lapack import dtpttr, dtrttp
from scipy.sparse.linalg import LinearOperator, cg

from dimargin.kernels.column_statistics import row_chunks
from dimargin.problems.objectives import Objectives
from dimargin.shards.shards import Shards, Sums
from dimargin.solvers.line_search import next_steps, step_to_minimum
from dimargin.solvers.loop import Limits
from dimargin.solvers.primal import Parameters, PrimalSolver, PrimalState, Shard, evaluate_at, margins_at, sums_of
from dimargin.system.arrays import Floats


def forms_hessian(n_rows: int, n_features: int, n_values: int) -> bool:
    """Return whether forming the Hessian is cheaper than conjugate gradients, for `n_values` stored values."""
    return n_features <= min(1024, 64 + 10 * n_values / max(n_rows, 1))


def chunk_rows(width: int) -> int:
    """Return how many rows' features are held at a time: 2 MiB, or 256 rows if that is more."""
    return max(256, 2**18 // max(width, 1))


@dataclass(frozen=True)
class CurvedShard(Shard):
    """Shard with the second derivatives of the losses, of shape (n_outputs, n)."""

    curvature: Floats = field(kw_only=True)


def _slopes(shard: Shard, line: tuple[Parameters, Parameters, Floats]) -> Sums:
    """Sum the derivatives of losses at steps along a direction, and count the kernel values.

    The sums have shape (n_outputs, n_steps).
    """
    (weights, intercept), (direction, shift), steps = line
    before, q, losses = shard.features.evaluations(), len(weights), shard.losses
    scores = shard.features.scores(np.concatenate([weights, direction]))
    slopes = np.zeros(steps.shape)
    for part in row_chunks(losses.n_rows, 32_768):  # A chunk stays in the cache of the processor.
        labels, conjugate = losses.labels[:, part], losses.conjugate.between(part)
        margins = labels * (scores[:q, part] + intercept[:, None])
        rates = labels * (scores[q:, part] + shift[:, None])
        for k, step in enumerate(steps.T):
            dual = conjugate.response(margins + step[:, None] * rates)[0]
            slopes[:, k] -= np.einsum("qi,qi->q", dual, rates)
    return slopes, np.array([shard.features.evaluations() - before], dtype=float)


def _evaluate_with_hessian(shard: Shard, task: tuple[Parameters, Parameters | None, Floats | None, Limits]) -> Sums:
    """Return the sums of `evaluate_at`, the change of the Hessian, and whether it was given up.

    The packed change is relative to earlier parameters, or the whole Hessian if these are None.
    With a factor L the Hessian is that of ``L^-1 psi``, else that of the features psi.
    """
    parameters, before, factor, limits = task
    losses, features, conjugate = shard.losses, shard.features, shard.losses.conjugate
    (q, width), counted = parameters[0].shape, features.evaluations()
    weights = parameters[0] if before is None else np.concatenate([parameters[0], before[0]])
    shifts = parameters[1] if before is None else np.concatenate([parameters[1], before[1]])
    if factor is None and getattr(features, "adds_squares", False):
        margins = np.tile(losses.labels, (len(weights) // q, 1)) * (features.scores(weights) + shifts[:, None])
        found, change = sums_of(conjugate, losses, margins[:q], features.combine)
        change = change if before is None else change - conjugate.response(margins[q:])[1]
        return *found, np.zeros(1), *_sparse_squares(shard, change, limits)
    step = chunk_rows(width)
    hessian = _Hessian(q, width + losses.intercept, step, limits)
    sums: Sums | None = None
    for part in row_chunks(losses.n_rows, step):
        if limits.reached:
            return *evaluate_at(shard, parameters), hessian.packed(), np.ones(1)
        phi, own = features.rows(part), conjugate.between(part)
        margins = np.tile(losses.labels[:, part], (len(weights) // q, 1)) * (weights @ phi.T + shifts[:, None])
        found, change = sums_of(own, losses, margins[:q], lambda some, phi=phi: some @ phi, part)  # type: ignore[misc]
        sums = found if sums is None else tuple(a + b for a, b in zip(sums, found, strict=True))
        if factor is not None:
            phi = solve_triangular(factor, phi.T, lower=True, check_finite=False).T
        hessian.add_rows(phi, change if before is None else change - own.response(margins[q:])[1])
    evaluations, change = np.array([features.evaluations() - counted], dtype=float), hessian.packed()
    return *(sums or evaluate_at(shard, parameters)[:-1]), evaluations, change, np.full(1, float(hessian.given_up))


def _sparse_squares(shard: Shard, change: Floats, limits: Limits) -> Sums:
    """Return sums of ``c_i phi_i phi_i'`` over sparse rows as packed triangles, and whether a limit ended them."""
    width = shard.features.stored.X.shape[1] + shard.losses.intercept
    packed = np.zeros((len(change), width * (width + 1) // 2))
    for own, one in zip(packed, change, strict=True):
        if limits.reached:
            return packed, np.ones(1)
        own[:] = dtrttp(shard.features.sum_of_squares(one, shard.losses.intercept).T)[0]
    return packed, np.zeros(1)


class _Hessian:
    """Sums of ``c_i phi_i phi_i'``, to which rows are added in large batches.

    Rows whose ``c_i`` is the same for all outputs are added once, to a common sum. These are all
    rows where a solve starts at zero, and afterwards those whose loss is flat for every output.

    All memory is allocated once, since memory freed between chunks may be returned to the system,
    and is expensive to get back. The sums are given up when a limit is reached, which is checked
    before every output, because there may be hundreds of them.
    """

    batch_rows = 1024  # Rows are held until at least this many can be added in one product.

    def __init__(self, n_outputs: int, width: int, max_rows: int, limits: Limits) -> None:
        self._sums, self._common = np.zeros((n_outputs, width, width)), np.zeros((width, width))
        self.given_up, self._limits = False, limits
        max_rows += self.batch_rows
        self._held, self._change, self._n_held = np.empty((max_rows, width)), np.empty((n_outputs, max_rows)), 0
        self._scaled, self._product = np.empty((max_rows, width)), np.empty((width, width))

    def add_rows(self, phi: Floats, change: Floats) -> None:
        """Add at most `max_rows` rows; a column of ones is appended for the intercept."""
        rows = np.flatnonzero(change.any(axis=0))
        new = slice(self._n_held, self._n_held + len(rows))
        self._held[new, : phi.shape[1]] = phi if len(rows) == len(phi) else phi[rows]
        self._held[new, phi.shape[1] :] = 1.0
        self._change[:, new] = change[:, rows]
        self._n_held += len(rows)
        if self._n_held >= self.batch_rows:
            self.flush()

    def flush(self) -> None:
        """Add the rows held so far to the sums."""
        change = self._change[:, : self._n_held]
        is_common = (change == change[0]).all(axis=0)
        self._add_to(self._common, np.where(is_common, change[0], 0.0))
        for sums, own in zip(self._sums, np.where(is_common, 0.0, change), strict=True):
            self._add_to(sums, own)
        self._n_held = 0

    def _add_to(self, sums: Floats, change: Floats) -> None:
        self.given_up |= self._limits.reached
        for add, some in ((np.add, change > 0), (np.subtract, change < 0)):
            rows = np.flatnonzero(some)
            if self.given_up or not len(rows):
                continue
            scaled = np.take(self._held, rows, axis=0, out=self._scaled[: len(rows)], mode="clip")
            scaled *= np.sqrt(np.abs(change[rows]))[:, None]
            # NumPy does half the work for a matrix times its own transpose.
            add(sums, np.matmul(scaled.T, scaled, out=self._product), out=sums)

    def packed(self) -> Floats:
        """Return the sums as LAPACK's packed triangles, one row per output."""
        self.flush()
        common = dtrttp(self._common.T)[0]
        packed = np.zeros((len(self._sums), len(common)))
        for own, one in zip(packed, self._sums if not self.given_up else (), strict=False):
            np.add(dtrttp(one.T)[0], common, out=own)
        return packed


def _with_curvature(shard: Shard, parameters: Parameters) -> CurvedShard:
    curvature = shard.losses.conjugate.response(margins_at(shard, parameters))[1]
    return CurvedShard(shard.features, shard.losses, shard.first, curvature=curvature)


def _diagonal(shard: CurvedShard, _: None) -> Sums:
    """Return the diagonal of the Hessian without the regulariser, and the intercept's entry."""
    return shard.features.combine_squares(shard.curvature), shard.curvature.sum(axis=1)


def _curved(shard: CurvedShard, direction: Floats) -> Sums:
    """Return the Hessian without the regulariser times a direction, the intercept last."""
    curved = shard.curvature * (shard.features.scores(direction[:, :-1]) + direction[:, -1:])
    return shard.features.combine(curved), curved.sum(axis=1)


@dataclass(kw_only=True)
class State(PrimalState):
    """State of a solve."""

    # Packed triangles of ``sum_i c_i psi_i psi_i'``, with the intercept if there is one, of shape
    # (n_outputs, width (width + 1) / 2); empty if no Hessian is formed.
    hessian: Floats
    hessian_at: Parameters | None = None  # Parameters at which the Hessian was computed.
    largest_traces: Floats | float = 0.0  # Of the Hessians since they were last summed from all rows.
    of_weights: bool = False  # True for ``L^-1 psi_i``, which rounding cannot make indefinite.


def _traces(packed: Floats) -> Floats:
    """Return the traces of packed triangles, of shape (n_outputs,)."""
    width = math.isqrt(2 * packed.shape[1])
    return np.asarray(packed[:, np.cumsum(np.arange(1, width + 1)) - 1].sum(axis=1))


@dataclass(frozen=True)
class Newton(PrimalSolver[State]):
    """Generalised Newton method over shards.

    Parameters
    ----------
    explicit : bool, default=True
        Form the Hessian. Otherwise directions are found by conjugate gradients, which take no
        `factor`.
    start_may_suffice : bool, default=False
        Evaluate the start in a pass of its own, without the Hessian, because it is often good enough.

    Attributes
    ----------
    max_line_passes : int
        A line search gives up after this many passes over the rows.
    intercept_ridge : float
        The intercept's curvature is raised by this fraction of the trace of the Hessian, because it
        is zero where no row's loss is curved. The direction need not be exact.

    Examples
    --------
    With theta=0 and upsilon=1 the machine is ridge regression to one, which takes a single step.

    >>> import numpy as np
    >>> from threading import Event
    >>> from dimargin.shards.local_engine import LocalEngine
    >>> from dimargin.problems.losses import ODMLoss
    >>> from dimargin.problems.margin_losses import MarginLosses
    >>> from dimargin.kernels.row_transform import StoredRows
    >>> from dimargin.solvers import LinearFeatures, solve
    >>> X, y = np.array([[1.0], [2.0], [-1.0]]), np.array([[1.0, 1.0, -1.0]])
    >>> losses = MarginLosses(y, np.ones(3), ODMLoss(lam=3.0, upsilon=1.0, theta=0.0), 3.0, 3.0)
    >>> shards = LocalEngine(1, Event()).scatter([Shard(LinearFeatures(StoredRows(X)), losses)])
    >>> solution = solve(shards, Newton(1), np.zeros((1, 2)), Limits(tol=1e-9))
    >>> solution.passes, solution.weights.round(4), 4 / 7  # X'y / (X'X + 1)
    (2, array([[0.5714]]), 0.5714285714285714)
    """

    max_line_passes: ClassVar[int] = 15
    intercept_ridge: ClassVar[float] = 1e-10
    explicit: bool = True
    start_may_suffice: bool = False

    def init(self, problem: Shards[Shard], start: Floats, limits: Limits) -> State:
        """Return the state at weights of shape (n_outputs, m + 1), the intercept last."""
        width = self.n_features + self.intercept if self.explicit else 0
        hessian = np.zeros((len(start), width * (width + 1) // 2))
        return State(limits=limits, shards=problem, iterate=start, hessian=hessian)

    def measured(self, state: PrimalState) -> Objectives:
        """See `PrimalSolver`; the Hessian is formed in the same pass, except at a start that may suffice."""
        if not self.explicit or not isinstance(state, State) or (self.start_may_suffice and not state.checks):
            return super().measured(state)
        parameters, before = self.parameters(state), state.hessian_at
        *sums, change, given_up = state.shards.aggregate(
            _evaluate_with_hessian,
            (parameters, before, self.factor if state.of_weights else None, state.limits),
            wide=True,
        )
        state.hessian_at = None if given_up[0] else parameters
        if given_up[0]:
            state.hessian[:] = 0.0
            return self.certified(state, tuple(sums))
        state.hessian += change
        traces = _traces(state.hessian)
        largest = traces if before is None else np.maximum(traces, state.largest_traces)
        if (traces < 1e-6 * largest).any():  # What is left may be rounding errors, as large as those of the largest.
            state.hessian[:], state.hessian_at = 0.0, None
            return self.measured(state)
        state.largest_traces = largest
        return self.certified(state, tuple(sums))

    def step(self, state: State) -> None:
        """Move to the minimum along the Newton direction, or stay if a limit is reached before."""
        if self.explicit and state.hessian_at is None:
            state.objectives = None  # The next check evaluates again.
            return
        try:
            direction = self._by_hessian(state) if self.explicit else self._by_conjugate_gradients(state)
        except _IndefiniteError:
            if self.factor is None or state.of_weights:
                raise
            state.of_weights, state.hessian, state.hessian_at = True, np.zeros_like(state.hessian), None
            state.objectives = None
            return
        iterate, before = state.iterate, self.evaluate(state)
        first, gradient = (state.gradient * direction).sum(axis=1), state.gradient.copy()
        state.move_to(iterate + direction)
        after = self.evaluate(state)
        slopes = (state.gradient * direction).sum(axis=1)
        # The full step may leave nine tenths of the slope, as in the curvature condition of Wolfe.
        enough = (after.primal <= before.primal) & (np.abs(slopes) <= 0.9 * np.abs(first))
        state.steps += 1
        if enough.all() or (state.limits.reached and (after.primal <= before.primal).all()):
            return
        state.move_to(iterate)
        if state.limits.reached:
            state.objectives, state.gradient = before, gradient
            return
        steps = self._line_search(state, direction, first, slopes)
        state.move_to(iterate + steps[:, None] * direction)

    def _by_hessian(self, state: State) -> Floats:
        """Return the Newton directions; the systems for coefficients need no product with ``L^-1``."""
        m, width, factor = self.n_features, self.n_features + self.intercept, None if state.of_weights else self.factor
        directions, slopes = np.zeros_like(state.gradient), state.gradient[:, :width].copy()
        if factor is not None:
            slopes[:, :m] = slopes[:, :m] @ factor.T
        for direction, packed, slope in zip(directions, state.hessian, slopes, strict=True):
            hessian = dtpttr(width, packed)[0]  # Only its upper triangle is used.
            trace = hessian.trace()
            if factor is None:
                hessian[range(m), range(m)] += 1.0
            else:
                hessian[:m, :m] += self._gram
            hessian[m:, m:] += self.intercept_ridge * (1.0 + trace)
            direction[:width] = -_solve_positive(hessian, slope, 1e-14 * trace, tries=20 if factor is None else 1)
        if factor is not None:
            directions[:, :m] = directions[:, :m] @ factor
        return directions

    @cached_property
    def _gram(self) -> Floats:
        """Gram matrix of the features, ``L L'``."""
        assert self.factor is not None
        return self.factor @ self.factor.T

    def _by_conjugate_gradients(self, state: State) -> Floats:
        """Solve for the directions of all outputs as one system; cut short, they still descend."""
        shards = state.shards.map(_with_curvature, self.parameters(state))
        shape, slopes = state.gradient.shape, state.gradient.ravel()
        squares, curvature = shards.aggregate(_diagonal)
        own = np.ones(shape)
        own[:, -1] = self.intercept_ridge * (1.0 + squares.sum(axis=1)) if self.intercept else 1.0
        scaling = (own + 0.01 * np.column_stack([squares, curvature * self.intercept])).ravel()
        state.epochs += 1

        def multiply(vector: Floats) -> Floats:
            direction = vector.reshape(shape)
            moments, sums = shards.aggregate(_curved, direction)
            state.epochs += 1
            return np.asarray((own * direction + np.column_stack([moments, sums * self.intercept])).ravel())

        found = np.zeros_like(slopes)

        def remember(vector: Floats) -> None:
            found[:] = vector
            if state.limits.reached:
                raise _EnoughError

        size = len(slopes)
        with suppress(_EnoughError):
            cg(
                LinearOperator((size, size), matvec=multiply, dtype=float),
                -slopes,
                rtol=0.1,
                maxiter=250,
                M=LinearOperator((size, size), matvec=lambda vector: vector / scaling, dtype=float),
                callback=remember,
            )
        shards.release()
        return found.reshape(shape)

    def _line_search(self, state: State, direction: Floats, first: Floats, last: Floats) -> Floats:
        """Return steps at which slopes, `first` at step zero and `last` at step one, nearly vanish.

        Several steps within the bracket are tried per pass, because reading the rows costs more
        than the work on their scores.
        """
        weights = direction[:, :-1]
        line = self.parameters(state), (self.coefficients(weights), direction[:, -1])
        along, square = (state.weights * weights).sum(axis=1), (weights**2).sum(axis=1)
        known = [[(0.0, slope), (1.0, end)] for slope, end in zip(first.tolist(), last.tolist(), strict=True)]
        for _ in range(self.max_line_passes):
            tried = np.array([next_steps(points) for points in known])
            slopes, evaluations = state.shards.aggregate(_slopes, (*line, tried))
            slopes = slopes + along[:, None] + tried * square[:, None]
            state.spent += int(evaluations[0])
            state.epochs += 1
            for points, *found in zip(known, tried, slopes, strict=True):
                points.extend(zip(*map(np.ndarray.tolist, found), strict=True))
            found = [step_to_minimum(points) for points in known]
            if all(np.isfinite(step) for step in found):
                return np.array(found)
        return np.array([max((step for step, slope in points if slope <= 0), default=0.0) for points in known])


class _EnoughError(Exception):
    """Raised to end conjugate gradients when a limit is reached."""


class _IndefiniteError(LinAlgError):
    """Raised if rounding has made a matrix indefinite."""


def _solve_positive(matrix: Floats, right: Floats, ridge: float, tries: int) -> Floats:
    """Solve with a positive definite matrix, and add a ridge while rounding makes it indefinite.

    Raises
    ------
    _IndefiniteError
        If the matrix is still indefinite after `tries` attempts.
    """
    # A smaller ridge would be lost to rounding.
    ridge = max(ridge, np.finfo(float).eps * float(np.abs(matrix).max(initial=0.0)))
    for _ in range(tries):
        try:
            return np.asarray(cho_solve(cho_factor(matrix, check_finite=False), right, check_finite=False))
        except LinAlgError:
            matrix = matrix + np.diag(np.full(len(matrix), ridge))
            ridge *= 10
    raise _IndefiniteError("the Hessian is not positive definite: are all features finite?")
