r"""Core-set consensus: sites agree on the few points that determine a ball or a margin machine.

Site i holds a core-set C_i, hears those of others, and does, whenever it likes (core-set paper, algorithm 2):

    S   <- own points + C_i + the C_j that it heard of
    C_0 <- the best of C_i and these C_j:  the largest radius, and of equal ones the first by the names of its points
    C_i <- a better core-set of S than C_0, if there is one;  else C_0

so that radii never fall, and where the network is strongly connected, if only over time, all sites end with the same
set: who has a better one tells the others. What is mended (handbook, 5.3 and 6, 40 to 46):

* The paper assumes that sets of one radius are one set. They are not, at the beginning (all radii are zero) or where
  points have no weight: hence the total order, of radii rounded to 12 digits.
* Points travel with their names (site and row), as they were and not as they lie in a space that has a coordinate for
  each: equal points of different names are two points, and one name stands for one point.
* A site with several points keeps all of them in S, always; with the random few of the paper's first step alone,
  consensus would be on the core-set of those.
* Termination: rounds since the last change that anybody told of are gossiped along; when all is quiet for
  `quiet_rounds`, 2 diameter + 1 where the network is static (Notarstefano, Bullo, IEEE TAC 2011), a site stops.

A better core-set is the end of Badoiu and Clarkson's exchanges where the size k is given (``ceil(1/epsilon)``; d + 1
points of d numbers give the exact ball, which is the constraints consensus of the paper's predecessor), and else a
core-set that grows until its ball, with `epsilon`, holds all of S. Sites need not agree on an epsilon for machines:
``epsilon rho / (2 r^2)`` is a function of the core-set, so that who has the same set has the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from dimargin.balls.active_set import Floats
from dimargin.balls.fixed_size import FixedSizeCoreSet
from dimargin.balls.growing import GrowingCoreSet
from dimargin.balls.spaces import FeatureSpace, KernelSpace, MarginSpace, Points
from dimargin.kernels import Kernel, KernelMatrix, RowTransform
from dimargin.network.messages import Message
from dimargin.network.neighbourhood import Neighbourhood
from dimargin.network.program import Action, Report, Send, SiteProgram, Stop, Wake
from dimargin.network.programs.candidates import FIELDS, Candidates, Name, Named, points_of, unsound
from dimargin.solvers.loop import Limits, solve

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
    quiet_rounds : int
        Rounds without a change anywhere after which a site stops.
    interval : float
        Seconds between rounds.
    norm_bound : float
        Of points; who sends longer ones is refused.
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
    quiet_rounds: int = 20
    interval: float = 1.0
    norm_bound: float = np.inf
    most_messages: float = np.inf
    schema: str = ""

    def space(self, points: Named) -> Points:
        """The points as they lie in the space of the machine."""
        softness = None if np.inf == self.C else 1 / (self.C * points.masses)
        if self.kernel is None and self.machine == "ball":
            return FeatureSpace(points.X, softness)
        transform = RowTransform.fit(points.X, self.kernel or Kernel("linear")).in_float64()
        matrix = KernelMatrix(replace(transform, offset=float(self.intercept)), points.X)
        return KernelSpace(matrix, softness) if self.machine == "ball" else MarginSpace(matrix, softness, points.signs)

    def improved(self, points: Points, start: Any) -> Any:
        """Places of a better core-set than those to begin with, and at least as good."""
        solver = GrowingCoreSet(self.epsilon) if self.size is None else FixedSizeCoreSet(self.size, _ANY)
        return solve(points, solver, start, _LIMITS).places


@dataclass(frozen=True)
class Chosen:
    """A core-set and its ball, which is a function of it: whoever has the same points has the same numbers.

    Attributes
    ----------
    points : Named
        Those of positive weight, in the order of their names.
    weights : ndarray of shape (k,)
    value : float
        Squared radius; of a margin machine minus rho, which differs from it by a constant.
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
        value = -space.rho(ball.value) if isinstance(space, MarginSpace) else ball.value
        return cls(points.take(ball.places), ball.weights, value)

    @property
    def rank(self) -> tuple[float, tuple[Name, ...]]:
        """By which core-sets are ordered, everywhere alike: the largest is the best."""
        return float(f"{self.value:.11e}"), self.points.names


class CoreSetConsensus(SiteProgram):
    """One site.

    Parameters
    ----------
    name : str
    X : ndarray of shape (n, n_features)
        Its points; none will do.
    signs : ndarray of shape (n,)
        Of a margin machine; ones otherwise.
    settings : CoreSetSettings
    masses : ndarray of shape (n,), optional
        Weights of the rows; ones by default.

    Attributes
    ----------
    chosen : Chosen or None
        The core-set; None before there is a point.
    rounds : int
    changes : int
        How often it has changed.
    """

    shares: ClassVar[Literal["parameters", "rows"]] = "rows"
    messages: ClassVar[tuple[type[Message], ...]] = (Candidates,)

    def __init__(
        self, name: str, X: Floats, signs: Floats, settings: CoreSetSettings, masses: Floats | None = None
    ) -> None:
        self.name, self.settings = name, settings
        names = tuple((name, k) for k in range(len(X)))
        masses = np.ones(len(X)) if masses is None else masses
        self.own = Named(names, np.asarray(X, dtype=np.float64), signs, masses)
        self.chosen: Chosen | None = None
        self.rounds = self.changes = 0
        self.neighbourhood = Neighbourhood(np.inf, settings.most_messages)
        self._heard: dict[str, Chosen] = {}  # since the last round, by sender
        self._quiet, self._stopped = 0, False
        self._given: set[int] = set()  # rows that have left
        self._is_new = True  # whether there are points that were not looked at

    # ---- events --------------------------------------------------------------------------------------------------

    def start(self, now: float, neighbours: Collection[str]) -> Iterator[Action]:
        """Begin with the own points."""
        self.neighbourhood.change(neighbours)
        yield Wake(self.settings.interval)

    def wake(self, now: float, name: str) -> Iterator[Action]:
        """A round."""
        self.rounds += 1
        self._quiet += 1
        self._improve()
        if self.chosen is not None:
            message = self._message(self.chosen)
            for neighbour in self.neighbourhood.spoken_to:
                yield Send(neighbour, message)
        if not self._stopped and self.chosen is not None and self._quiet > self.settings.quiet_rounds:
            self._stopped = True
            yield Stop("quiet")
        yield Wake(self.settings.interval)

    def receive(self, now: float, sender: str, message: Message) -> Iterator[Action]:
        """Keep a neighbour's core-set for the next round."""
        assert isinstance(message, Candidates)
        near = self.neighbourhood
        if sender in near.refused or message.schema != self.settings.schema:
            return
        fault = near.hear(now, sender) or self._fault(message)
        if fault is not None:
            near.refuse(sender, fault)
            self._heard.pop(sender, None)
            yield Report("refused", {"site": sender, "reason": fault})
            return
        points = points_of(message)
        if self.chosen is not None and points.names == self.chosen.points.names:
            self._quiet = min(self._quiet, message.quiet)
            return
        self._quiet = 0
        if sender not in self._heard or points.names != self._heard[sender].points.names:
            self._heard[sender] = Chosen.of(points, self.settings)

    def neighbours_changed(self, now: float, neighbours: Collection[str]) -> Iterator[Action]:
        """Tell others from now on."""
        self.neighbourhood.change(neighbours)
        yield from ()

    # ---- consensus -----------------------------------------------------------------------------------------------

    def _improve(self) -> None:
        """The paper's step."""
        before, heard = self.chosen, list(self._heard.values())
        self._heard.clear()
        known = heard if before is None else [before, *heard]
        if (not known and not self.own.names) or not (heard or self._is_new):
            return
        self._is_new = False
        points = self._pooled(known)
        places = {name: k for k, name in enumerate(points.names)}
        best = max(known, key=lambda one: one.rank, default=None)
        start = None if best is None else np.array([places[name] for name in best.points.names])
        better = Chosen.of(points.take(self.settings.improved(self.settings.space(points), start)), self.settings)
        self.chosen = better if best is None or better.rank > best.rank else best
        if before is None or self.chosen.points.names != before.points.names:
            self._quiet = 0
            self.changes += 1

    def _pooled(self, known: list[Chosen]) -> Named:
        """All own points, and those of others that are in a core-set, each once and in the order of their names."""
        parts = Named.joined([one.points for one in known] or [self.own.take([])])
        foreign = {name: k for k, name in enumerate(parts.names) if name[0] != self.name}
        return Named.joined([parts.take([foreign[name] for name in sorted(foreign)]), self.own])

    def _message(self, chosen: Chosen) -> Candidates:
        points = chosen.points
        self._given.update(row for site, row in points.names if site == self.name)
        rows = np.array([row for _, row in points.names], dtype=np.int64)
        sites = [site for site, _ in points.names]
        return Candidates(sites, rows, points.X, points.signs, points.masses, self._quiet, self.settings.schema)

    def _fault(self, message: Candidates) -> str | None:
        """Why a message cannot be from a sound site; None if it can."""
        fault = unsound(message, self.own.X.shape[1], self.settings.norm_bound)
        if fault is not None:
            return fault
        points = points_of(message)
        mine = points.take([k for k, name in enumerate(points.names) if name[0] == self.name])
        strange = next((row for _, row in mine.names if not 0 <= row < len(self.own.names)), None)
        if strange is None and mine.names:
            differing = self.own.take([row for _, row in mine.names]).differing(mine)
            strange = None if differing is None else differing[1]
        if strange is not None:
            return f"it says that row {strange} of this site is a point which it is not: another site has its name"
        for one in [*([] if self.chosen is None else [self.chosen]), *self._heard.values()]:
            if (name := one.points.differing(points)) is not None:
                return f"row {name[1]} of site {name[0]!r} is another point than others say"
        return None

    # ---- what it has come to -------------------------------------------------------------------------------------

    @property
    def rows_shared(self) -> int:
        """How many of the own rows have left this site."""
        return len(self._given)

    def status(self) -> dict[str, Any]:
        """For a person."""
        return {
            "round": self.rounds, "steps": self.changes, "neighbours": sorted(self.neighbourhood.heard),
            "refused": dict(self.neighbourhood.refused), "rows_shared": self.rows_shared,
            "core_set": 0 if self.chosen is None else len(self.chosen.points.names), "quiet": self._quiet,
        }  # fmt: skip

    def checkpoint(self) -> dict[str, Any]:
        """The core-set, and what has left."""
        points = self.own.take([]) if self.chosen is None else self.chosen.points
        return {
            "rounds": self.rounds, "changes": self.changes, "given": sorted(self._given),
            "names": [list(name) for name in points.names], "X": points.X, "signs": points.signs,
            "masses": points.masses,
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Go on; the own points are looked at again, for there may be more."""
        self.rounds, self.changes, self._given = state["rounds"], state["changes"], set(state["given"])
        if len(state["names"]):
            names = tuple((str(site), int(row)) for site, row in state["names"])
            self.chosen = Chosen.of(Named(names, *(state[name] for name in FIELDS)), self.settings)
