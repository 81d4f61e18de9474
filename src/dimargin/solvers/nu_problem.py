"""Nu machines of two classes or with targets, as problems for `dimargin.solvers.nu_search`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from dimargin.problems.dual import DualProblem
from dimargin.problems.losses import HingeLoss
from dimargin.problems.margin_losses import MarginLosses
from dimargin.problems.nu import Side, without_rounding
from dimargin.problems.objectives import ROUNDINGS, Objectives
from dimargin.problems.regression_losses import EpsilonInsensitiveLoss
from dimargin.solvers.block_coordinate_descent import BlockCoordinateDescent
from dimargin.solvers.loop import Limits, solve
from dimargin.solvers.nu_search import ROUGH_TOL, NuResult, NuSearch, Point
from dimargin.system.arrays import Floats, Indices

SAMPLE_ROWS = 1000
"""Problems of four times as many rows and more are solved on so many of them first, to know where to begin."""


class NuProblem:
    """Rows of a nu machine, of two classes or with targets.

    Parameters
    ----------
    kernel : KernelMatrix
        Square, over the rows of positive weight.
    labels, weights : ndarray of shape (n,)
    nu : float
    C : float or None, default=None
        Weight of the loss of a regressor; None for other machines.
    targets : ndarray of shape (n,), optional
        Targets of a regressor.
    """

    def __init__(
        self, kernel: Any, labels: Floats, weights: Floats, nu: float, C: float | None = None,
        targets: Floats | None = None,
    ) -> None:  # fmt: skip
        self.kernel, self.labels, self.weights, self.nu = kernel, labels, weights, nu
        self.C, self.targets, self.total = C, targets, float(weights.sum())

    def take(self, index: Indices) -> NuProblem:
        """Return the problem of some of the rows."""
        targets = None if self.targets is None else self.targets[index]
        kernel = self.kernel.take(index)
        return NuProblem(kernel, self.labels[index], self.weights[index], self.nu, self.C, targets)

    def at(self, parameter: float) -> DualProblem:
        """Return the problem at a parameter: the logarithm of C, or epsilon."""
        loss = HingeLoss(math.exp(parameter)) if self.C is None else EpsilonInsensitiveLoss(self.C, parameter)
        losses = MarginLosses(self.labels[None], self.weights, loss, self.total, self.total, True, self.targets)
        return DualProblem.of(losses, self.kernel)

    def price(self, parameter: float) -> float:
        """Return C at a parameter."""
        return math.exp(parameter) if self.C is None else self.C

    def solve_at(self, parameter: float, last: Point | None, limits: Limits) -> Point:
        """Solve at a parameter, from another solution."""
        price = self.price(parameter)
        if last is not None and self.C is None and limits.tol < ROUGH_TOL:
            # The objective lacks the losses, which may be most of that of the C-SVM.
            square = self.price(last.at) ** 2 * float(last.coefficients @ last.margins)
            share = max(0.5 * square / float(last.solution.objectives.primal[0]), 1e-6)
            limits = replace(limits, tol=share * limits.tol)
        start = None if last is None else (price * last.coefficients)[None]
        solution = solve(self.at(parameter), BlockCoordinateDescent(), start, limits)
        coefficients = np.clip(solution.dual[0] / price, -self.weights, self.weights)
        margins = solution.margins[0] / (price if self.C is None else 1.0)
        return Point(parameter, float(np.abs(coefficients).sum()) / self.total, coefficients, margins, solution)

    def sides(self, a: Floats, margins: Floats, errors: Floats) -> list[Side]:
        """Return the sides of coefficients a at margins: one, the two classes, or above and below the band."""
        mass = self.nu * self.total
        if self.targets is not None:
            errors = errors + ROUNDINGS * np.abs(margins - self.targets)
            below, above = (margins - self.targets, np.maximum(a, 0)), (self.targets - margins, np.maximum(-a, 0))
            masses = [float(own.sum()) if self._has_slack(a) else mass / 2 for _, own in (below, above)]
            pairs = zip((below, above), masses, strict=True)
            return [Side(v, errors, own, self.weights, mass) for (v, own), mass in pairs]
        classes = [np.flatnonzero(self.labels == sign) for sign in (1.0, -1.0)]
        return [Side(margins[k], errors[k], a[k], self.weights[k], mass / 2) for k in classes]

    def _has_slack(self, a: Floats) -> bool:
        """Return whether coefficients of a regressor have a smaller share than nu, as they may at epsilon zero."""
        return float(np.abs(a).sum()) < self.nu * self.total * (1 - 1e-9)

    def certify(self, a: Floats, margins: Floats | None = None) -> tuple[Objectives, list[float]]:
        """Return the certificate of coefficients with the share nu, and the levels of the sides.

        With `margins`, which were computed before, it is an estimate that does not count their rounding.
        """
        price, problem = self.C or 1.0, self.at(0.0)
        dual, errors = price * a[None], np.zeros(len(a))
        if margins is None:
            problem = problem.with_kernel(self.kernel.in_float64())
            found = problem.margins(dual)
            margins, errors = found[0], problem.margin_errors(dual, found)[0]
        sides = self.sides(a, margins, errors)
        levels = [side.level() for side in sides]
        if self.targets is not None and (sum(levels) > 0 or self._has_slack(a)):  # The least epsilon is zero.
            intercept = EpsilonInsensitiveLoss(price, 0.0).best_intercept(
                margins - self.targets, np.ones(len(a)), problem.conjugate
            )
            levels = [-intercept, intercept]
        parts = [side.gap(level) for side, level in zip(sides, levels, strict=True)]
        gap, rounding = (price * sum(own) for own in zip(*parts, strict=True))
        half = 0.5 * float((dual[0] * margins).sum())
        linear = 0.0 if self.targets is None else float((dual[0] * self.targets).sum())
        sizes = 0.5 * errors + ROUNDINGS * (np.abs(margins) + (0.0 if self.targets is None else np.abs(self.targets)))
        rounding += float(np.abs(dual[0]) @ sizes)
        primal = np.array([linear - half + gap])
        return Objectives.of(primal, np.array([gap]), np.zeros(1), np.array([rounding])), levels

    def search(self, limits: Limits, seed: int = 0) -> tuple[NuResult, list[float]]:
        """Return the solution, and the levels of the sides."""
        start, step = self._start(limits, seed)
        is_small = len(self.weights) <= BlockCoordinateDescent.small  # Such a problem is solved up to rounding.
        found = self._search_from(start, step, replace(limits, tol=min(limits.tol, 1e-13)) if is_small else limits)
        signs = np.where(found.coefficients < 0, -1.0, 1.0)
        sides = self.labels if self.targets is None else signs
        cleaned = signs * without_rounding(np.abs(found.coefficients), self.weights, sides)
        objectives, levels = self.certify(cleaned)
        if objectives.worst_gap <= max(limits.tol, found.objectives.worst_gap):
            return replace(found, coefficients=cleaned, objectives=objectives), levels
        return found, self.certify(found.coefficients)[1]

    def _search_from(self, start: float, step: float, limits: Limits) -> NuResult:
        bounds = (0.0, math.inf)
        if self.C is None:  # A large problem with a large C takes long, and small ones are solved by Newton's method.
            bounds = start - 80.0, start + (40.0 if len(self.weights) <= BlockCoordinateDescent.small else 14.0)
        given = self.solve_at, lambda *given: self.certify(*given)[0], self.largest, self.nu, self.total
        search = NuSearch(*given, bounds, self.C is None)
        return search.run(start, step, limits)

    def _start(self, limits: Limits, seed: int) -> tuple[float, float]:
        """Return the first parameter, and the first step from it: those of a quarter of the rows, if they are many."""
        n = len(self.weights)
        sizes = [n]
        while sizes[0] >= 4 * SAMPLE_ROWS:
            sizes.insert(0, sizes[0] // 4)
        start, step = self._guess()
        rough, order = replace(limits, tol=ROUGH_TOL), np.random.default_rng(seed).permutation(n)
        drift, before = 0.0, None
        for size in sizes[:-1]:
            sample = self.take(np.sort(order[:size]))
            if not sample.is_feasible:
                continue
            # C is in inverse proportion to the weight of the rows, but for a drift from one sample to the next.
            scale = 0.0 if self.C is not None else math.log(self.total / sample.total)
            at = sample._search_from(start + scale, step, rough).at - scale
            drift, before = (0.0 if before is None else at - before), at
            start = max(at + drift, 0.0) if self.C is not None else at + drift
            step = max(0.5 * abs(drift), 0.02 * abs(at) if self.C is not None else 0.05)
        return start, step

    def _guess(self) -> tuple[float, float]:
        """Return a parameter to start from without knowing a solution."""
        if self.targets is not None:
            return float(np.quantile(np.abs(self.targets), 1 - self.nu)), 0.1
        # Levels are as large as the margins of equal coefficients.
        some = np.arange(0, len(self.weights), max(1, len(self.weights) // 100))
        size = float(np.abs(self.kernel.values(some, some)).mean())
        return -math.log(max(size * self.nu * self.total, 1e-200)), 1.0

    @property
    def largest(self) -> Floats | None:
        """Coefficients of the largest share; None for a regressor, which may have any smaller share."""
        if self.targets is not None:
            return None
        masses = {sign: float(self.weights[self.labels == sign].sum()) for sign in (1.0, -1.0)}
        smaller = min(masses.values())
        return self.weights * np.where(self.labels > 0, smaller / masses[1.0], smaller / masses[-1.0])

    @property
    def is_feasible(self) -> bool:
        """Return whether the smaller class has enough weight."""
        if self.targets is not None:
            return True
        smaller = min(float(self.weights[self.labels == sign].sum()) for sign in (1.0, -1.0))
        return self.nu * self.total / 2 <= smaller * (1 + 1e-12)
