"""Messages of sites that share rows, and what each site knows of the rows that a neighbour has."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.messages import Array, Count, Digest, Message, Numbers, SiteName
from dimargin.gossip.programs.candidates import Candidates, Name, Named, points_of, stored, unsound
from dimargin.problems.losses import MAX_PARAMETER

ANSWERS = 64  # parcels that one message acknowledges at most; more wait for the next
_PATIENCE = 4  # rounds in which the answer to a parcel may come before its rows are sent again
_MAX_ANSWERS = 64 * ANSWERS  # So many answers may wait.
_MEMORY = 64  # rounds after which an answer is expected no more

_Places = Annotated[Array, Numbers(low=0, high=LIMITS.count, dtype="<i8")]


class SharedRows(Message, frozen=True, omit_defaults=True, tag="shared rows"):
    """Message that a site sends a neighbour in every round, with a parcel of k rows where there is something new."""

    quiet: Count  # rounds since the last change that the sender knows of
    has_heard: bool = False  # whether the sender has heard the receiver since it began
    # digests of the receiver's parcels that have come since the last message
    acknowledged: Annotated[list[Digest], Meta(max_length=ANSWERS)] = msgspec.field(default_factory=list)
    # the parcel, as in `Candidates`: the site of each row, its number there, its class, and the
    # rows
    sites: Annotated[list[SiteName], Meta(max_length=LIMITS.points)] = msgspec.field(default_factory=list)
    rows: _Places | None = None
    labels: Annotated[Array, Numbers(low=-LIMITS.labels, high=LIMITS.labels)] | None = None
    X: Annotated[Array, Numbers((1, 2))] | None = None
    indices: _Places | None = None
    indptr: _Places | None = None

    def contradiction(self) -> str | None:
        """Return why the parcel is none; None if it is sound or there is none."""
        given = [self.rows is not None, self.labels is not None, self.X is not None, bool(self.sites)]
        if any(given) != all(given):
            return "its parcel of rows is incomplete"
        candidates = self.candidates()
        fault = None if candidates is None else candidates.contradiction()
        return fault and of_parcel(fault)

    def candidates(self) -> Candidates | None:
        """Return the parcel as points, each of weight one, for checks that are those of core-sets."""
        if self.rows is None or self.labels is None or self.X is None:
            return None
        return Candidates(
            self.sites, self.rows, self.X, self.labels, np.ones(len(self.sites)), 0,
            indices=self.indices, indptr=self.indptr,
        )  # fmt: skip

    def points(self, width: int) -> Named | None:
        """Return the rows of the parcel, of this many features; None if there is none."""
        candidates = self.candidates()
        return None if candidates is None else points_of(msgspec.structs.asdict(candidates), width)


def read_parcel(
    message: SharedRows, known: Named, site: str, n_rows: int, codes: Collection[float]
) -> tuple[str | None, Named | None]:
    """Return why no correct site would send a message, or None, and the rows of its parcel, if it has one.

    The receiver `site` knows some rows, of which its own are all that it has; all sites together
    have `n_rows`.
    """
    candidates = message.candidates()
    if candidates is None:
        return None, None
    fault = unsound(candidates, known, MAX_PARAMETER, (1.0, 1.0), codes)
    if fault is not None:
        return of_parcel(fault), None
    points = points_of(msgspec.structs.asdict(candidates), known.X.shape[1])
    if len(set(points.names)) < len(points.names):
        return "its parcel of rows names a row twice", None
    new = set(points.names).difference(known.names)
    if any(name.site == site for name in new):
        return "it says of a row that it is of this site, which has no such row: another site has its name", None
    if len(known.names) + len(new) > n_rows:
        return f"with its rows there would be more than the {n_rows} of all sites", None
    if (name := known.differing(points)) is not None:
        return f"row {name.row} of site {name.site!r} is another row here than it says", None
    return None, points


def of_parcel(fault: str) -> str:
    """Return what is said of a core-set in words for a parcel of rows."""
    return fault.replace("its core-set", "its parcel of rows")


def parcel_fields(points: Named) -> dict[str, Any]:
    """Return rows as fields of a message; none where there are no rows."""
    if not points.names:
        return {}
    sites, rows = [name.site for name in points.names], [name.row for name in points.names]
    return {"sites": sites, "rows": np.array(rows, dtype=np.int64), "labels": points.labels, **stored(points.X)}


@dataclass
class RowEdge:
    """One end of an edge, over which rows are sent until the other end has answered that it has them.

    A parcel is answered by its digest, so that answers stay true when a site loses its memory of
    whom it has told what.
    """

    known: set[Name] = field(default_factory=set)  # rows that the neighbour has, as far as this site knows
    # digest of every parcel that was not answered yet, its rows, and the round in which it was sent
    on_the_way: dict[str, tuple[tuple[Name, ...], int]] = field(default_factory=dict)
    to_answer: list[str] = field(default_factory=list)  # digests of parcels that have come
    has_heard: bool = False  # whether this site has heard the neighbour
    is_heard: bool = False  # whether the neighbour has heard this site

    def lacks(self, names: Iterable[Name], now: int) -> list[Name]:
        """Return the rows that the neighbour may lack and that are not on the way in this round."""
        recent = [names for names, sent in self.on_the_way.values() if now - sent < _PATIENCE]
        travelling = {name for names in recent for name in names}
        return [name for name in names if name not in self.known and name not in travelling]

    def is_settled(self, names: Iterable[Name]) -> bool:
        """Return whether the neighbour has all these rows."""
        return self.known.issuperset(names)

    def send(self, points: Named, now: int) -> None:
        """Remember that a parcel was sent in this round."""
        self.on_the_way = {key: one for key, one in self.on_the_way.items() if now - one[1] < _MEMORY}
        self.on_the_way[points.digest] = points.names, now

    def hear(self, message: SharedRows, points: Named | None) -> None:
        """Note what a message says of the rows that the neighbour has."""
        if self.is_heard and not message.has_heard:  # it has begun anew, without memory
            self.known.clear()
        self.has_heard, self.is_heard = True, message.has_heard
        for digest in message.acknowledged:
            self.known.update(self.on_the_way.pop(digest, ((), 0))[0])
        if points is not None:
            self.known.update(points.names)
            if points.digest not in self.to_answer and len(self.to_answer) < _MAX_ANSWERS:
                self.to_answer.append(points.digest)  # others come again, as they are not answered

    def answers(self) -> list[str]:
        """Return digests to acknowledge now, and forget them; a parcel that comes again is answered again."""
        now, self.to_answer = self.to_answer[:ANSWERS], self.to_answer[ANSWERS:]
        return now
