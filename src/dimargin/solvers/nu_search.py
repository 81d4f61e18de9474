"""Search of the parameter at which the coefficients have the sum that nu asks for.

The coefficients of a C-SVM, divided by C, solve the nu-SVM of ``nu = sum_i g_i / (C W)``, and those of an
epsilon-SVR the nu-SVR of ``nu = sum_i |g_i| / (C W)`` (Chang and Lin, "Training nu-support vector classifiers",
Neural Computation 13, 2001, theorem 3; "Training nu-support vector regression", 14, 2002). Both shares fall with the
parameter: C, or epsilon. The solution is piecewise linear in 1/C or epsilon, and convex combinations of
feasible coefficients are feasible. Between two parameters with a larger and a smaller share, the combination with the
right share is therefore certified; regula falsi brings the parameters together until its gap is small. No second
solver is needed, and every solve starts at the solution before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from dimargin.problems.objectives import Objectives
from dimargin.problems.solution import Solution, Status
from dimargin.solvers.loop import Limits
from dimargin.system.arrays import Floats

MAX_SOLVES = 60
ROUGH_TOL = 0.02
"""Gap of solves while all shares are on one side of nu."""


@dataclass(frozen=True)
class Point:
    """Solution at a parameter: C in logarithm, or epsilon."""

    at: float
    share: float  # sum of the coefficients, relative to the largest possible one
    coefficients: Floats  # between minus and plus the weights of the rows, of shape (n,)
    margins: Floats  # Margins of the coefficients, of shape (n,).
    solution: Solution
    tol: float = 0.0  # Gap to which it was solved.


@dataclass(frozen=True)
class NuResult:
    """Coefficients with the right share, their certificate, and what they cost."""

    coefficients: Floats
    at: float  # the parameter between the two solutions
    objectives: Objectives
    status: Status
    reason: str
    passes: int
    kernel_evaluations: int


@dataclass
class NuSearch:
    """Search of coefficients with the share `nu`.

    Parameters
    ----------
    solve_at : callable
        Solves at a parameter, from another solution, within limits.
    certify : callable
        Returns the certificate of coefficients with the right share; an estimate, if their margins are given.
    largest : ndarray of shape (n,) or None
        Feasible coefficients of the largest share; None if smaller shares are feasible as well.
    nu : float
    total : float
        Weight of all rows.
    bounds : tuple of float
        Least and largest parameter.
    is_logarithm : bool, default=False
        Whether the parameter is the logarithm of C, in whose inverse coefficients are piecewise linear.
    """

    solve_at: Callable[[float, Point | None, Limits], Point]
    certify: Callable[[Floats, Floats | None], Objectives]
    largest: Floats | None
    nu: float
    total: float
    bounds: tuple[float, float]
    is_logarithm: bool = False
    above: Point | None = None  # the solution of the least share that is at least nu
    below: Point | None = None  # the solution of the largest share that is smaller
    last: Point | None = None
    nearest: list[Point] = field(default_factory=list)  # the two solutions with the shares nearest to nu
    slope: float = 0.0  # Slope of the share between the last two solutions.
    width: float = math.inf  # Width of the last interval between both sides.
    n_slow: int = 0  # number of solves in turn that have not halved it
    best: tuple[Floats, float, Objectives] | None = None  # The best ones by their estimates.
    passes: int = 0
    kernel_evaluations: int = 0

    def run(self, start: float, step: float, limits: Limits) -> NuResult:
        """Return coefficients within a gap of ``limits.tol``, or the best within the limits.

        If the share is still larger than nu at the largest parameter, the margin is zero or nearly so, and the gap is
        large relative to the objective.
        """
        inner, at = replace(limits, tol=0.3 * limits.tol), start
        # Small problems are solved up to rounding in any case.
        rough = inner if limits.tol < 1e-9 else replace(limits, tol=max(inner.tol, ROUGH_TOL))
        for _ in range(MAX_SOLVES):
            self._solve(at, rough if self.above is None or self.below is None else inner)
            if self.best is not None and self.best[2].met(limits.tol).all():
                found = self._result("converged", "the relative gap is within the tolerance")
                if found.objectives.met(limits.tol).all():
                    return found
            if limits.reached:
                return self._ended("max_time", "the time limit was reached")
            if self._is_at_end(at):
                break
            at, step = self._next(at, step)
            if self._has_rough_ends(inner.tol):  # Then nu need not be between them.
                step = 0.1 * abs(self.above.at - self.below.at)  # type: ignore[union-attr]
                self.above, self.below, self.nearest, rough = None, None, [], inner
        return self._ended("precision", "no parameter between two solutions has a smaller gap")

    def _solve(self, at: float, limits: Limits) -> None:
        last = replace(self.solve_at(at, self.last, limits), tol=limits.tol)
        self.passes += last.solution.passes
        self.kernel_evaluations += last.solution.kernel_evaluations
        if self.last is not None and last.at != self.last.at:
            self.slope = (last.share - self.last.share) / (last.at - self.last.at)
        self.last = last
        self.nearest = sorted([*self.nearest, last], key=lambda point: abs(point.share - self.nu))[:2]
        if last.share >= self.nu:
            self.above = last
        else:
            self.below = last
        if self.above is not None and (self.below is not None or self.above.share <= self.nu * (1 + 1e-12)):
            self._keep(*_mixed(self.above, self.below, self.nu))

    def _has_rough_ends(self, tol: float) -> bool:
        ends = [end for end in (self.above, self.below) if end is not None]
        return len(ends) == 2 and max(end.tol for end in ends) > tol

    def _keep(self, coefficients: Floats, margins: Floats, at: float) -> None:
        objectives = self.certify(coefficients, margins)
        if self.best is None or objectives.worst_gap < self.best[2].worst_gap:
            self.best = coefficients, at, objectives

    def _is_at_end(self, at: float) -> bool:
        """Return whether no parameter is left to try."""
        above, below = self.above, self.below
        if above is None or below is None:
            return at <= self.bounds[0] if above is None else at >= self.bounds[1]
        return abs(above.at - below.at) <= 1e-9 * max(abs(above.at), abs(below.at))

    def _next(self, at: float, step: float) -> tuple[float, float]:
        """Return the next parameter, and the step if it is again on the same side."""
        above, below = self.above, self.below
        if above is None or below is None:
            assert self.last is not None
            needed = 1.1 * abs((self.last.share - self.nu) / self.slope) if self.slope < 0 else step
            far = min(max(needed, step), 2 * step)
            at = at - far if above is None else at + far
            return min(max(at, self.bounds[0]), self.bounds[1]), 2 * step
        low, high = sorted((above.at, below.at))
        near, guess = self._secant()
        self.n_slow = self.n_slow + 1 if high - low > 0.5 * self.width else 0
        self.width = high - low
        if self.n_slow % 2:  # A step beyond brings the other end near.
            guess += 3 * (guess - near)
        is_lost = self.n_slow and self.n_slow % 2 == 0
        return (guess if low < guess < high and not is_lost else 0.5 * (low + high)), step

    def _secant(self) -> tuple[float, float]:
        """Return the parameter of the solution nearest to nu, and the one that the secant to the next has nu at."""
        first, second = self.nearest
        part = (self.nu - first.share) / (second.share - first.share) if second.share != first.share else math.nan
        if not self.is_logarithm:
            return first.at, first.at + part * (second.at - first.at)
        # The share is piecewise linear in 1/C.
        ratio = 1 + part * (math.exp(first.at - second.at) - 1)
        return first.at, first.at - math.log(ratio) if ratio > 0 else math.nan

    def _ended(self, status: Status, reason: str) -> NuResult:
        """Return the best coefficients of a search without both solutions."""
        assert self.last is not None
        if self.best is None and self.above is not None:
            self._keep(*_mixed(self.above, None, self.nu))
        elif self.best is None and self.largest is None:
            self._keep(self.last.coefficients, self.last.margins, self.last.at)
        elif self.best is None and self.largest is not None:
            share = float(np.abs(self.largest).sum()) / self.total
            mixed, _, at = _mixed(replace(self.last, coefficients=self.largest, share=share), self.last, self.nu)
            self.best = mixed, at, self.certify(mixed, None)
        return self._result(status, reason)

    def _result(self, status: Status, reason: str) -> NuResult:
        assert self.best is not None
        coefficients, at, _ = self.best
        objectives = self.certify(coefficients, None)
        return NuResult(coefficients, at, objectives, status, reason, self.passes, self.kernel_evaluations)


def _mixed(above: Point, below: Point | None, nu: float) -> tuple[Floats, Floats, float]:
    """Return the combination of two solutions with the right share, its margins, and the parameter between them."""
    if below is None or above.share == below.share:
        factor = min(1.0, nu / above.share)
        return factor * above.coefficients, factor * above.margins, above.at
    part = (nu - below.share) / (above.share - below.share)
    pairs = (above.coefficients, below.coefficients), (above.margins, below.margins)
    mixed, margins = (part * one + (1 - part) * other for one, other in pairs)
    return mixed, margins, part * above.at + (1 - part) * below.at
