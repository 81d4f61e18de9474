"""What sites that agree on a core-set look for, and what they hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from dimargin.balls.fixed_size import FixedSizeCoreSet
from dimargin.balls.growing import GrowingCoreSet
from dimargin.balls.spaces import FeatureSpace, KernelSpace, MarginSpace, Points
from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.rows import RowTransform
from dimargin.network.programs.candidates import Name, Named
from dimargin.solvers.loop import Limits, solve
from dimargin.system.arrays import Floats

Rank = tuple[float, tuple[Name, ...]]

_SHARE = 0.5  # of the tolerance, that the core-set's ball may lack
_ANY = 1e6  # epsilon of exchanges that end of themselves
_LIMITS = Limits(max_iter=100_000)


@dataclass(frozen=True)
class CoreSetSettings:
    """What all sites do alike.

    Attributes
    ----------
    machine : {"ball", "margin"}
        The smallest ball around points (with softness: data description), or the margin machine whose points all count
        as equally long (L2-SVM; one-class machine where all signs are one).
    epsilon : float
        Of a ball: every point within ``1 + epsilon`` times the radius. Of a machine: relative error of its objective.
    size : int or None
        k of the exchanges; None lets core-sets grow.
    C : float
        Softness is ``1 / C``; infinite for a hard ball.
    kernel : Kernel or None
        None is the space of the features.
    intercept : bool
        Whether the kernel is raised by one.
    positive : int
        Code of the label whose rows have a sign of plus one in a margin machine.
    codes : tuple of int
        All codes of labels that there are.
    output : int
        Number of this machine, where sites look for several.
    quiet_rounds : int
        Rounds without a change anywhere after which a site stops.
    interval : float
        Seconds between rounds.
    lease : float
        Seconds in which an answer comes, of a site that is not busy; infinite where those that one sends to do not send
        back.
    norm_bound : float
        Of points; who sends longer ones is refused.
    mass_bounds : (float, float)
        Least and largest weight of a row; who sends others is refused.
    most_messages : float
        A second, of one neighbour; who sends more is refused likewise.
    schema : str
    """

    machine: Literal["ball", "margin"] = "ball"
    epsilon: float = 0.1
    size: int | None = None
    C: float = np.inf
    kernel: Kernel | None = None
    intercept: bool = False
    positive: int = 1
    codes: tuple[int, ...] = (-1, 1)
    output: int = 0
    quiet_rounds: int = 20
    interval: float = 1.0
    lease: float = np.inf
    norm_bound: float = np.inf
    mass_bounds: tuple[float, float] = (0.0, np.inf)
    most_messages: float = np.inf
    schema: str = ""

    @classmethod
    def for_gap(
        cls, machine: Literal["ball", "margin"], C: float, tol: float, kernel: Kernel, intercept: bool = False
    ) -> CoreSetSettings:
        """For sites that shall find a machine to a relative duality gap of `tol`."""
        plain = machine == "ball" and kernel.name == "linear"
        return cls(machine, _SHARE * tol, C=C, kernel=None if plain else kernel, intercept=intercept)

    def space(self, points: Named) -> Points:
        """The points as they lie in the space of the machine."""
        softness = None if np.inf == self.C else 1 / (self.C * points.masses)
        if self.kernel is None and self.machine == "ball":
            return FeatureSpace(points.X, softness)
        transform = RowTransform.fit(points.X, self.kernel or Kernel("linear")).in_float64()
        matrix = KernelMatrix(replace(transform, offset=float(self.intercept)), points.X)
        return (
            KernelSpace(matrix, softness)
            if self.machine == "ball"
            else MarginSpace(matrix, softness, self.signs(points))
        )

    def signs(self, points: Named) -> Floats:
        """Plus or minus one, of a margin machine."""
        return np.where(points.labels == self.positive, 1.0, -1.0)

    def bounds(self, chosen: Chosen) -> tuple[float, float]:
        """Bounds of the objective over the rows of all sites that have agreed on a core-set.

        The first, the dual objective, holds whatever the rows are. The second holds if no site has a row that is
        farther out than `epsilon` allows, and follows from that (handbook, F6): margins are then at least
        ``1 - epsilon/2`` times what they should be; squared distances, as far as softness does not pay for them, exceed
        the squared radius by ``((1 + epsilon)^2 - 1) r^2`` at most.
        """
        if self.machine == "margin":
            dual = -0.5 / chosen.value
            return dual, dual / (1 - self.epsilon / 2) ** 2
        slack = float((chosen.weights**2 / chosen.points.masses).sum()) / self.C
        return chosen.value, chosen.value + ((1 + self.epsilon) ** 2 - 1) * abs(chosen.value - slack)

    def improved(self, points: Points, start: Any) -> Any:
        """Indices of a better core-set than those to begin with, and at least as good."""
        solver = GrowingCoreSet(self.epsilon) if self.size is None else FixedSizeCoreSet(self.size, _ANY)
        return solve(points, solver, start, _LIMITS).indices


@dataclass(frozen=True)
class Chosen:
    """A core-set and its ball, which is a function of it: whoever has the same points has the same numbers.

    Attributes
    ----------
    points : Named
        Those of positive weight, in the order of their names.
    weights : ndarray of shape (k,)
    value : float
        Squared radius, less the constant by which softness and equal lengths raise it, which differs from core-set to
        core-set where rows have weights: the optimum of the dual. Minus rho of a margin machine.
    """

    points: Named
    weights: Floats
    value: float

    @classmethod
    def of(cls, points: Named, settings: CoreSetSettings) -> Chosen:
        """By the exact ball around the points."""
        points = points.take(sorted(range(len(points.names)), key=points.names.__getitem__))
        every, space = np.arange(len(points.names)), settings.space(points)
        ball = space.enclose(every, every, 0.0)
        return cls(points.take(ball.indices), ball.weights, ball.value - space.constant)

    @property
    def rank(self) -> Rank:
        """By which core-sets are ordered, everywhere alike: the largest is the best."""
        return rank(self.value, self.points.names)


def rank(value: float, names: tuple[Name, ...]) -> Rank:
    """Of a core-set: by its value to twelve digits, and of equal ones by the names of its points."""
    return float(f"{value:.11e}"), names
