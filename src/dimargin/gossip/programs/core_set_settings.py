"""Settings of core-set consensus, and the core-set that a site has chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from dimargin.gossip.programs.candidates import Name, Named
from dimargin.gossip.programs.learner import LearnerSettings
from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.row_transform import RowTransform
from dimargin.solvers.balls.fixed_size import FixedSizeCoreSet
from dimargin.solvers.balls.growing_core_set import GrowingCoreSet
from dimargin.solvers.balls.spaces import FeatureSpace, KernelSpace, MarginSpace, Points
from dimargin.solvers.loop import Limits, solve
from dimargin.system.arrays import Floats

Rank = tuple[float, tuple[Name, ...]]


@dataclass(frozen=True)
class CoreSetSettings(LearnerSettings):
    """Settings of core-set consensus.

    The machine is the smallest ball around points (with softness: data description), or the margin
    machine that counts all points as equally long (L2-SVM; one-class machine if all signs are one).
    """

    machine: Literal["ball", "margin"] = "ball"
    # Share by which points may exceed a ball's radius, or relative error of a machine's objective.
    epsilon: float = 0.1
    size: int | None = None  # Number k of points that exchanges keep; None lets core-sets grow.
    C: float = np.inf  # The softness is 1 / C; infinite for a hard ball.
    kernel: Kernel | None = None  # None uses the space of the features.
    intercept: bool = False  # Whether one is added to the kernel.
    positive: int = 1  # Code of the label whose rows have a sign of plus one in a margin machine.
    codes: tuple[int, ...] = (-1, 1)  # Codes of all labels.
    output: int = 0  # Number of this machine, if sites train several.
    quiet_rounds: int = 20  # A site stops after so many rounds without a change anywhere.
    answer_rounds: int = 4  # A neighbour that has not answered after so many rounds is sent the points again.
    mass_bounds: tuple[float, float] = (0.0, np.inf)  # Bounds of a row's weight; a site that exceeds them is refused.

    @classmethod
    def for_gap(
        cls, machine: Literal["ball", "margin"], C: float, tol: float, kernel: Kernel, intercept: bool = False
    ) -> CoreSetSettings:
        """Return settings for sites that train a machine to a relative duality gap of `tol`."""
        plain = machine == "ball" and kernel.name == "linear"
        epsilon = 0.5 * tol  # The ball of the core-set may use half of the tolerance.
        return cls(machine, epsilon, C=C, kernel=None if plain else kernel, intercept=intercept)

    def space(self, points: Named) -> Points:
        """Return the points in the space of the machine."""
        softness = None if np.inf == self.C else 1 / (self.C * points.masses)
        if self.kernel is None and self.machine == "ball":
            return FeatureSpace(points.X, softness)
        transform = RowTransform.fit(points.X, self.kernel or Kernel("linear")).in_float64()
        matrix = KernelMatrix(replace(transform, offset=float(self.intercept)), points.X)
        if self.machine == "margin":
            return MarginSpace(matrix, softness, self.signs(points))
        return KernelSpace(matrix, softness)

    def signs(self, points: Named) -> Floats:
        """Return the signs of points, plus or minus one, for a margin machine."""
        return np.where(points.labels == self.positive, 1.0, -1.0)

    def is_separated(self, chosen: Chosen) -> bool:
        """Return whether a margin machine has a hyperplane; only at an infinite C points may have none.

        If the points of the core-set have none, those of all sites have none either.
        """
        if self.machine == "ball" or np.isfinite(self.C):
            return True
        # A smaller squared margin, relative to the longest squared length, is only rounding.
        return -chosen.value > 1e-12 * self.space(chosen.points).constant

    def bounds(self, chosen: Chosen) -> tuple[float, float]:
        """Return bounds of the objective over the rows of all sites that have agreed on a core-set.

        The first, the dual objective, always holds. The second holds if no site has a row that is
        farther out than `epsilon` allows: margins are then at least ``1 - epsilon/2`` times their
        targets, and squared distances, less what softness allows, exceed the squared radius by at
        most ``((1 + epsilon)^2 - 1) r^2``. See docs/algorithms.md#allowance-of-a-core-set. Both are
        infinite if the points must be separated and no hyperplane separates them.
        """
        if not self.is_separated(chosen):
            return np.inf, np.inf
        if self.machine == "margin":
            dual = -0.5 / chosen.value
            return dual, dual / (1 - self.epsilon / 2) ** 2
        slack = float((chosen.weights**2 / chosen.points.masses).sum()) / self.C
        return chosen.value, chosen.value + ((1 + self.epsilon) ** 2 - 1) * abs(chosen.value - slack)

    def improved(self, points: Points, start: Any, limits: Limits) -> Any:
        """Return the indices of a core-set that is at least as good as the one at the start."""
        # Exchanges at a fixed size end by themselves; this epsilon always holds, and adds no point.
        solver = GrowingCoreSet(self.epsilon) if self.size is None else FixedSizeCoreSet(self.size, 1e6)
        return solve(points, solver, start, limits).indices


@dataclass(frozen=True)
class Chosen:
    """Core-set and its ball, which is a function of the core-set, so that equal points have equal balls.

    The value is the optimum of the dual: the squared radius, less the constant by which softness
    and equal lengths raise it. The constant differs between core-sets if rows have weights. For a
    margin machine the value is minus rho.
    """

    points: Named  # Points of positive weight, sorted by name.
    weights: Floats
    value: float

    @classmethod
    def of(cls, points: Named, settings: CoreSetSettings) -> Chosen:
        """Compute the exact ball around points, and keep those of positive weight."""
        points = points.take(sorted(range(len(points.names)), key=points.names.__getitem__))
        every, space = np.arange(len(points.names)), settings.space(points)
        ball = space.enclose(every, every, 0.0)
        return cls(points.take(ball.indices), ball.weights, ball.value - space.constant)

    @property
    def rank(self) -> Rank:
        """Key by which all sites order core-sets; the largest is the best."""
        return rank(self.value, self.points.names)


def rank(value: float, names: tuple[Name, ...]) -> Rank:
    """Return the key that orders core-sets by value to twelve digits, and equal ones by the names of their points."""
    return float(f"{value:.11e}"), names
