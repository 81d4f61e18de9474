"""Proximal Newton for linear machines with a loss that has no derivative, such as the hinge.

Where dual coordinate descent is slow, because columns are few or have very different scales, the
proximal point method on the dual is fast (Rockafellar, "Monotone operators and the proximal point
algorithm", SIAM J. Control Optim. 14, 1976). Step k solves

    minimise over g  1/2 |w|^2 + sum_i [ phi_i(g_i) + width_k/2 (g_i - g_i^k)^2 / C_i ],

where C_i is the length of the interval of g_i. It is the dual of the primal with a smooth loss, the
Moreau envelope of the loss, shifted by ``g_i^k width_k / C_i``. Generalised Newton
(`dimargin.solvers.newton`) minimises that primal in a few passes over the rows, and g^(k+1) answers
its margins. For the linear SVM this is a form of the augmented Lagrangian method of Yan and Li ("An
efficient augmented Lagrangian method for support vector machine", 2019, arXiv:1912.06800). The
width of the envelope in margins is halved from step to step; with a faster fall Newton's method has
many steps to make. For a loss with a derivative the envelope is the loss, and one step is enough.

In the first step g^k is the middle of the interval. Its envelope differs from the loss, but for a
constant, only at margins within half the width of the kink. The relative gap is therefore of the
order of the square of the width, for the hinge about 0.05 times (a9a, phishing, ijcnn1), and one
step often suffices. The step starts at minima of wider envelopes, which Newton's method finds in few
steps of its own.

The weights of the rounded g differ from Newton's, by much where columns have very different scales.
A check therefore compares the primal objectives of both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dimargin.problems.losses import Loss, PiecewiseConjugate
from dimargin.shards.shards import Shards
from dimargin.solvers.linear_dual import DualState, LinearDualSolver, facts_of, own_rows
from dimargin.solvers.loop import Limits, solve
from dimargin.solvers.newton import Newton
from dimargin.solvers.primal import Parameters, Shard, margins_at
from dimargin.system.arrays import Floats


@dataclass(frozen=True)
class _Envelope(Loss):
    """Smooth loss of a proximal step, for one output and the rows of a shard; see the module."""

    base: PiecewiseConjugate
    centre: Floats  # Dual coefficients before the step, of shape (n,).
    curvature: Floats  # ``width / C``, of shape (n,).
    selection = "greedy"

    def value(self, margins: Floats, weights: Floats, mass: float, total: float) -> Floats:
        """See `Loss`."""
        return self.conjugate(weights, mass, total).response(margins)[2]

    def conjugate(self, weights: Floats, mass: float, total: float) -> PiecewiseConjugate:
        """See `Loss`; the constant ``curvature centre^2 / 2`` is left out."""
        base, shift = self.base, self.curvature * self.centre
        return PiecewiseConjugate(
            base.slope_right - shift, base.curvature_right + self.curvature,
            base.slope_left - shift, base.curvature_left + self.curvature, base.lower, base.upper,
        )  # fmt: skip


def _smoothed(shard: Shard, task: tuple[int, Floats, float]) -> Shard:
    """Task that returns the rows with the loss of a proximal step, for one output."""
    output, dual, width = task
    losses, own = shard.losses, own_rows(shard)
    base = losses.conjugate
    loss = _Envelope(base, dual[output, own], width / (base.upper - base.lower))
    # The conjugate has the targets already.
    return replace(shard, losses=replace(losses, labels=losses.labels[output : output + 1], loss=loss, targets=None))


def _answered(shard: Shard, parameters: Parameters) -> Floats:
    """Task that returns the dual coefficients that answer the margins."""
    return shard.losses.conjugate.response(margins_at(shard, parameters))[0]


@dataclass(frozen=True)
class ProximalNewton(LinearDualSolver[DualState]):
    """Proximal point method on the dual, with generalised Newton for its steps.

    Parameters
    ----------
    intercept, dual
        See `LinearDualSolver`.
    explicit : bool, default=True
        Whether Newton forms the Hessian, see `dimargin.solvers.newton.Newton`.

    Attributes
    ----------
    shrinkage : float
        Factor of the width from step to step.
    inner_tol : float
        Relative gap of Newton's solution of a step, in relation to the gap before the step. With a
        larger one the weights of the dual coefficients are far from Newton's.
    first_width : float
        Least width of the first step, in margins.
    wider : tuple of float
        Widths of the envelopes before it, in relation to its own.
    relative_gap : float
        Relative gap after a first step from the middle of the intervals, in relation to the square of
        its width. Coefficients whose gap is smaller before the step are its centre themselves.

    Examples
    --------
    The maximum margin of two points is halfway between them.

    >>> import numpy as np
    >>> from threading import Event
    >>> from dimargin.kernels.row_transform import StoredRows
    >>> from dimargin.problems.losses import HingeLoss
    >>> from dimargin.problems.margin_losses import MarginLosses
    >>> from dimargin.shards.local_engine import LocalEngine
    >>> from dimargin.solvers import LinearFeatures
    >>> X, y = np.array([[1.0], [3.0]]), np.array([[-1.0, 1.0]])
    >>> losses = MarginLosses(y, np.ones(2), HingeLoss(10.0), 2.0, 2.0, intercept=True)
    >>> shards = LocalEngine(1, Event()).scatter([Shard(LinearFeatures(StoredRows(X)), losses)])
    >>> solution = solve(shards, ProximalNewton(intercept=True), np.zeros((1, 2)), Limits(tol=1e-9))
    >>> solution.parameters.round(6)
    array([[ 1., -2.]])
    """

    explicit: bool = True
    shrinkage: ClassVar[float] = 0.5
    inner_tol: ClassVar[float] = 1e-6
    first_width: ClassVar[float] = 0.125
    wider: ClassVar[tuple[float, ...]] = (8.0, 3.0)
    relative_gap: ClassVar[float] = 0.05

    def init(self, problem: Shards[Shard], start: Floats, limits: Limits) -> DualState:
        """Return the state at weights of shape (n_outputs, m + 1), and with their coefficients."""
        _, facts = facts_of(problem, start, limits)
        return self.start(DualState(**facts), start)

    def step(self, state: DualState) -> None:
        """Make one proximal step for every output that has not converged."""
        limits, is_first = state.limits, np.isinf(state.width)
        gaps = np.ones(len(state.dual)) if state.best is None else state.best.objectives.unrounded
        if is_first:
            state.width = float(np.clip(4 * np.sqrt(limits.tol), self.first_width, 1.0))
        if state.other is None:
            state.other = state.weights.copy()
        for q in np.flatnonzero(gaps > 0.5 * limits.tol).tolist():
            if is_first and gaps[q] > self.relative_gap * state.width**2:
                self._center(state, q)
            inner = 0.1 * limits.tol if is_first else self.inner_tol * min(1.0, float(gaps[q]))
            shards = self._minimise_envelope(state, q, state.width, max(1e-13, inner))
            parameters = state.other[q : q + 1, :-1], state.other[q : q + 1, -1]
            state.dual[q] = np.concatenate(shards.collect(_answered, parameters), axis=1)[0]
            state.weights[q, -1] = state.other[q, -1]
            if limits.reached:
                break
        state.width *= self.shrinkage

    def _center(self, state: DualState, q: int) -> None:
        """Set coefficients to the middle of their intervals, and weights to the minimum of wider envelopes."""
        if state.losses.loss.smooth:  # Then the envelope is the loss.
            state.dual[q] = 0.0
            return
        state.dual[q] = 0.5 * (state.losses.conjugate.lower + state.losses.conjugate.upper)
        for factor in self.wider:
            self._minimise_envelope(state, q, factor * state.width, 0.1)

    def _minimise_envelope(self, state: DualState, q: int, width: float, tol: float) -> Shards[Shard]:
        """Set weights of an output to the minimum of an envelope, and return the shards with its loss."""
        assert state.other is not None
        shards = state.shards.map(_smoothed, (q, state.dual, width), cheap=True)
        newton = Newton(state.weights.shape[1] - 1, self.intercept, explicit=self.explicit)
        within = replace(state.limits, tol=tol, max_iter=60, stop_requested=lambda entry: False)
        solution = solve(shards, newton, state.other[q : q + 1], within)
        state.other[q] = solution.parameters[0]
        state.passes += solution.passes
        state.visits += solution.history[-1]["epochs"] / len(state.dual)
        return shards
