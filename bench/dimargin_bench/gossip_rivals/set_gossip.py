r"""MSG-SVM, SSG-SVM and ASG-SVM: sites that tell one another rows until no site hears of a new one.

Site i trains a machine on its set D_i, at first its own rows, selects some of them
(`row_selection.py`), and sends its neighbours those that they lack; they add them to their sets and
do likewise (Flouri, Beferull-Lozano, Tsakalides, "Training a support vector machine
based classifier in distributed sensor networks", EUSIPCO 2006; "Distributed consensus algorithms
for SVM training in wireless sensor networks", EUSIPCO 2008; "Optimal gossip algorithm for
distributed consensus SVM training in wireless sensor networks", DSP 2009). Sets only ever grow.

Every row counts as much in the machine of a site as it does in that of all sites,

    minimise over w   alpha/2 |w|^2 + 1/N sum over D_i of max(0, 1 - y w.x),

for N, the rows of all sites, and not for the size of D_i. This makes more of "support" than the
papers promise, which call MSG-SVM suboptimal. Where no set changes any more, every support vector
of a site is in the sets of its neighbours. The optimum of D_i is that of its support vectors, so
that neighbours have the same optimum, which is unique in w; all rows of margin below one are then
in all sets, and ``w`` satisfies the conditions of the optimum of the union. So where sites go on
until no set changes, "support" ends with the machine of all rows. Cut short, it misses support
vectors that no site has at first: with "hull", a machine with a hard margin needs no more rounds
than the network is wide. "hull" alone is not lossless where classes overlap, and "ranked", which
sends the rows nearest to the plane alone, ends when these have gone round.

Nothing is lost by a network that loses messages. A parcel of rows is acknowledged, or its rows are
sent again; a row is sent to no neighbour that is known to have it. Sites stop once no set has
changed for ``2 (n_sites - 1) + 1`` rounds, in each of which all neighbours were heard: the rule of
core-set consensus, as sites know no diameter. A neighbour that is silent for a lease is left out,
and told what it lacks when it is heard again.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.messages import Message
from dimargin.gossip.neighbourhood import Neighbourhood
from dimargin.gossip.program import Action, Report, Send, SiteProgram, Stop, Wake
from dimargin.gossip.programs.algorithm import Problem, SiteAlgorithm
from dimargin.gossip.programs.candidates import Name, Named, points_of
from dimargin.gossip.rounds.parameter_checks import check_between
from dimargin.problems.hinge import HingeRows
from dimargin.system.arrays import Floats
from dimargin_bench.gossip_rivals.hinge_machine import HingeMachine
from dimargin_bench.gossip_rivals.hull_vertices import check_hull
from dimargin_bench.gossip_rivals.row_selection import RULES, RowSelection, Rule, codes_of, signs_of
from dimargin_bench.gossip_rivals.shared_rows import RowEdge, SharedRows, parcel_fields, read_parcel

_PARCEL = 8 * 2**20  # bytes of rows in a message, at most or about
_PRESENT = 16  # bytes of a value of a sparse row


@dataclass(frozen=True)
class SetGossip(SiteAlgorithm):
    """Gossip of rows, which leave their sites: MSG-SVM, SSG-SVM or ASG-SVM.

    Parameters
    ----------
    selection : {"support", "hull", "ranked"}, default="support"
        Which of the rows that it holds a site sends to its neighbours: the support vectors of its
        machine (MSG-SVM); the vertices of the convex hull of each class (SSG-SVM), of which there
        are many, nearly all rows in ten dimensions; or of either class the share of the rows that
        are nearest to the hyperplane (ASG-SVM, whose own ranking is not known). Rows are not
        signed: members are trusted to tell rows of their own.
    share : float, default=1e-05
        For "ranked": the threshold, the fraction in (0, 1] of the rows of a class that a site
        holds; at least one row. The default is that of the GADGET paper.
    tol : float, default=1e-4
        Relative duality gap of every machine that a site trains.

    See Also
    --------
    dimargin.GossipSVMClassifier : It runs this with ``share_rows=True``.

    Examples
    --------
    >>> from dimargin import GossipSVMClassifier
    >>> from dimargin_bench.gossip_rivals import SetGossip
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(600, 5, class_sep=1.5, random_state=0)
    >>> machine = GossipSVMClassifier(
    ...     algorithm=SetGossip(), share_rows=True, n_sites=5, topology="ring", alpha=1e-2, random_state=0
    ... ).fit(X, y)
    >>> machine.status_, machine.history_[-1]["rows_shared"] < 300, machine.duality_gap_ < 1e-2
    ('converged', True, True)
    """

    selection: Rule = "support"
    share: float = 1e-5
    tol: float = 1e-4

    shares: ClassVar[Literal["parameters", "rows"]] = "rows"

    def validate(self) -> None:
        """Raise ValueError for a parameter out of its range; the message names it."""
        if self.selection not in RULES:
            raise ValueError(f"selection must be {' or '.join(map(repr, RULES))}, got {self.selection!r}")
        for name in ("share", "tol"):
            check_between(name, getattr(self, name), 0, 1, high_included=True)

    def row_selection(self) -> RowSelection:
        """Return the rule by which a site selects rows."""
        return RowSelection(self.selection, self.share)

    def program(self, problem: Problem, name: str, rows: HingeRows, seed: tuple[int, ...]) -> SetGossipSite:
        """Return the program of the site `name`; it draws nothing.

        Raises ValueError on a directed network, where nobody can acknowledge rows, and for hulls
        that take too long.
        """
        if math.isinf(problem.lease):
            raise ValueError("SetGossip needs a topology of undirected edges: sites acknowledge the rows that come")
        if self.selection == "hull":
            check_hull(problem.n_rows, rows.X.shape[1])
        return SetGossipSite(name, rows, problem, self)


class SetGossipSite(SiteProgram):
    """Program of one site, whose rows are stored (dense or sparse) as at all other sites.

    Attributes
    ----------
    points : Named
        The set D_i: own rows, and those of others in the order in which they came.
    machine : HingeMachine
        Trained on D_i in the last round.
    rounds : int
    rows_sent : int
        Rows in all messages so far, those of others and repetitions included.
    """

    shares = "rows"
    messages = (SharedRows,)

    def __init__(self, name: str, rows: HingeRows, problem: Problem, settings: SetGossip) -> None:
        self.name, self.rows, self._problem, self._settings = name, rows, problem, settings
        self._n_outputs = len(rows.signs)
        self.points = Named.of(name, 0, rows.X, codes_of(rows.signs))
        self._places = {own: k for k, own in enumerate(self.points.names)}
        self.machine = HingeMachine.untrained(rows)
        self.rounds = self.rows_sent = 0
        self.neighbourhood = Neighbourhood(problem.lease)
        self._selection = settings.row_selection()
        self._selected: tuple[Name, ...] = ()
        self._given: set[int] = set()  # own rows that have left
        self._edges: dict[str, RowEdge] = {}
        self._trained = 0  # rows of D_i that the machine was trained on
        self._quiet, self._began = 0, 0.0
        self._heard_since: set[str] = set()  # since the last round that counts as quiet
        self.has_finished = False

    # ---- events --------------------------------------------------------------------------------------------------

    def start(self, now: float, neighbours: Collection[str]) -> Iterator[Action]:
        """Set the timer of the first round."""
        self.neighbourhood.change(neighbours)
        self._began = now
        yield Wake(self._problem.interval)

    def wake(self, now: float, name: str) -> Iterator[Action]:
        """Run a round: train and select where rows have come, and send neighbours what they lack."""
        self.rounds += 1
        for silent in self.neighbourhood.gone(now):
            yield Report("silent", {"site": silent, "seconds": self._problem.lease})
        self._learn()
        present = self._present(now)
        self._count_quiet(present)
        yield from self._tell(present)
        if not self.has_finished and self._quiet > 2 * (self._problem.n_sites - 1) + 1:
            self.has_finished = True
            yield Stop("quiet")
        yield Wake(self._problem.interval)

    def receive(self, now: float, sender: str, message: Message) -> Iterator[Action]:
        """Add the rows of a parcel; its sender is refused if no correct site would send it."""
        assert isinstance(message, SharedRows)
        if sender in self.neighbourhood.refused:
            return
        codes = [-1.0, 1.0] if self._n_outputs == 1 else [float(k) for k in range(self._n_outputs)]
        fault, points = read_parcel(message, self.points, self.name, self._problem.n_rows, codes)
        fault = fault or self.neighbourhood.hear(now, sender)
        if fault is not None:
            yield from self.refuse(now, sender, fault)
            return
        self._edge(sender).hear(message, points)
        self._heard_since.add(sender)
        self._quiet = min(self._quiet, message.quiet)
        if points is not None:
            self._add(points)

    def refuse(self, now: float, sender: str, reason: str) -> Iterator[Action]:
        """Ignore a sender from now on; the rows that it has sent stay, as others may have them by now."""
        self.neighbourhood.refuse(sender, reason)
        self._edges.pop(sender, None)
        self._heard_since.discard(sender)
        yield Report("refused", {"site": sender, "reason": reason})

    # ---- learning ------------------------------------------------------------------------------------------------

    @property
    def weights(self) -> Floats:
        """Weights of the machine of D_i, of shape (n_outputs, n_features)."""
        return self.machine.weights

    @property
    def average(self) -> Floats:
        """Weights of the last machine, since nothing is averaged."""
        return self.machine.weights

    @property
    def dual(self) -> None:
        """None: coefficients belong to the rows of D_i, of which those of several sites do not add up."""
        return None

    @property
    def held(self) -> HingeRows:
        """The rows of D_i with their signs."""
        return HingeRows(self.points.X, signs_of(self.points.labels, self._n_outputs))

    @property
    def rows_shared(self) -> int:
        """Number of own rows that have been sent to others."""
        return len(self._given)

    def _add(self, points: Named) -> None:
        new = points.take([k for k, name in enumerate(points.names) if name not in self._places])
        if new.names:
            self._places |= {name: len(self._places) + k for k, name in enumerate(new.names)}
            self.points = Named.joined([self.points, new])
            self._quiet = 0

    def _learn(self) -> None:
        """Train on D_i, unless all new rows have a margin of one or more, and select rows of it."""
        n, before = len(self.points.names), self._trained
        if n == before:
            return
        held, self.machine = self.held, self.machine.extended(n)
        news = HingeRows(held.X[before:], held.signs[:, before:])
        if news.evaluate(self.weights).active.any():
            weight = 1 / (self._problem.alpha * self._problem.n_rows)
            self.machine = HingeMachine.of(held, weight, self.machine.dual, self._settings.tol)
        self._selected = tuple(self.points.names[k] for k in self._selection.of(held, self.machine))
        self._trained = n

    # ---- messages ------------------------------------------------------------------------------------------------

    def _edge(self, name: str) -> RowEdge:
        return self._edges.setdefault(name, RowEdge())

    def _present(self, now: float) -> list[str]:
        """Return the neighbours that take part: those that are heard and, for a lease, those that may still be."""
        near, is_early = self.neighbourhood, now - self._began <= self._problem.lease
        return [
            name for name in near.spoken_to if name in near.heard or (is_early and not self._edge(name).has_heard)
        ]  # fmt: skip

    def _count_quiet(self, present: list[str]) -> None:
        """Count a round in which all who take part were heard, and nothing is left to tell them."""
        if not all(self._edge(name).is_settled(self._selected) for name in present):
            self._quiet = 0
        if self._heard_since.issuperset(present):
            self._quiet += 1
            self._heard_since.clear()

    def _tell(self, present: list[str]) -> Iterator[Action]:
        """Send those who take part the rows that they lack, and the others a sign of life."""
        for name in self.neighbourhood.spoken_to:
            edge = self._edge(name)
            lacking = edge.lacks(self._selected, self.rounds) if name in present else []
            points = self.points.take([self._places[one] for one in lacking[: self._max_rows]])
            if points.names:
                edge.send(points, self.rounds)
                self.rows_sent += len(points.names)
                self._given.update(one.row for one in points.names if one.site == self.name)
            yield Send(name, SharedRows(self._quiet, edge.has_heard, edge.answers(), **parcel_fields(points)))

    @property
    def _max_rows(self) -> int:
        """Number of rows that fit into a message."""
        X = self.points.X
        values = 8 * X.size if isinstance(X, np.ndarray) else _PRESENT * X.nnz
        label, name = 8, LIMITS.name + 8  # with the number of the row
        return max(1, int(_PARCEL // (values / max(1, X.shape[0]) + label + name)))

    # ---- checkpoints ---------------------------------------------------------------------------------------------

    def checkpoint(self) -> dict[str, Any]:
        """Return the rows of others, own rows that have left, and who has which rows."""
        n_own, n = self.rows.n_rows, len(self.points.names)
        places = {
            name: np.array(sorted(self._places[one] for one in edge.known if one in self._places), dtype=np.int64)
            for name, edge in self._edges.items()
        }
        heard = {name: [edge.has_heard, edge.is_heard] for name, edge in self._edges.items()}
        return {
            "rounds": self.rounds, "sent": self.rows_sent, "given": sorted(self._given),
            "rows": self.points.take(range(n_own, n)).fields(), "known": places, "heard": heard,
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint; the set is trained on anew."""
        self.rounds, self.rows_sent, self._given = state["rounds"], state["sent"], set(state["given"])
        self._add(points_of(state["rows"], self.points.X.shape[1]))
        for name, places in state["known"].items():
            has_heard, is_heard = state["heard"][name]
            known = {self.points.names[k] for k in places}
            self._edges[name] = RowEdge(known, has_heard=has_heard, is_heard=is_heard)
