"""Agreement of sites on a schema of their rows, before they learn and whenever new rows widen it.

Every site sends its neighbours a card: the union of its schema and those of the cards that it has
received, and the number of rows of each site. A neighbour whose schema is the same already gets a
digest of it instead (`Check`). Unions do not depend on order, so that all cards
become the same. When they have been the same for a while, or the expected number of sites is known,
a site *seals* the schema and starts the learner. A sealed schema's limits stay, whichever sites
join later. New labels or features make all sites resume from their present models under the wider
schema, and so do two networks that sealed their schemas apart and meet. A site whose terms or
feature names differ is refused, by name, until it sends a card that fits; the order of features
that have names may differ. Labels that differ only in case, such as "Yes" and "yes", are reported
with the sites that have them.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from msgspec.structs import asdict
from numpy.typing import NDArray

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.messages import Array, Count, Digest, Message, Numbers, SiteName, Text
from dimargin.gossip.neighbourhood import Neighbourhood
from dimargin.gossip.program import Action, Report, Send, SiteProgram, Wake
from dimargin.gossip.programs.learner import Learner, LearnerFactory
from dimargin.gossip.schema import Schema, similar_labels, sorted_labels
from dimargin.problems.hinge import stacked

_CARD_TIMER = "card"

_Number = Meta(ge=-LIMITS.count, le=LIMITS.count)
_Label = Text | Annotated[int, _Number] | Annotated[float, _Number]
_Limits = Annotated[Array, Numbers()]
_Sites = Meta(max_length=LIMITS.sites)


_Rows = Annotated[dict[SiteName, Annotated[list[Count], Meta(min_length=2, max_length=2)]], _Sites]


class Card(Message, frozen=True, tag="card"):
    """Message with a site's knowledge of the rows of all sites; the first five fields are as in `Schema`."""

    may_be_compressed = True

    terms: Annotated[dict[Text, Text | int | float | bool | None], Meta(max_length=LIMITS.terms)]
    feature_names: Annotated[list[Text], Meta(max_length=LIMITS.features)] | None
    labels: Annotated[list[_Label], Meta(max_length=LIMITS.labels)]
    low: _Limits
    high: _Limits
    # The version and the number of rows of every site, by name; the version grows with every count.
    rows: _Rows
    sealed: bool  # Whether the sender learns under this schema.
    # Labels of the sender's own rows; former versions do not send them.
    own_labels: Annotated[list[_Label], Meta(max_length=LIMITS.labels)] = []  # noqa: RUF012

    def schema(self) -> Schema:
        """Return the schema of the card; raise ValueError if it is invalid."""
        return Schema.from_plain(asdict(self))

    def contradiction(self) -> str | None:
        """Return why the schema is invalid, or None."""
        try:
            self.schema()
        except ValueError as error:
            return f"its card is damaged: {error}"
        if not set(self.own_labels) <= set(self.labels):
            return "its card is damaged: it has own labels that are not among all labels"
        return None


class Check(Message, frozen=True, tag="check", omit_defaults=True):
    """Message in place of a card whose schema the receiver has already."""

    digest: Digest  # Digest of the sender's schema.
    counts: Annotated[int, Meta(ge=0, lt=2**32)]  # Checksum of the numbers of rows that the sender knows.
    sealed: bool = False
    rows: _Rows = {}  # noqa: RUF012  # As in `Card`; empty if the receiver has the same numbers.
    own_labels: Annotated[list[_Label], Meta(max_length=LIMITS.labels)] = []  # noqa: RUF012


@dataclass(frozen=True)
class AgreementSettings:
    """Settings of one site's agreement with others; they need not be equal at all sites."""

    # Number of known sites at which learning starts; None starts when nothing new has come for
    # `settle` seconds.
    n_sites: int | None = None
    # Smallest number of known sites at which learning starts without `n_sites`: 2 for a site that
    # was given the address of another one, and must not learn by itself unnoticed.
    min_sites: int = 1
    settle: float = 3.0
    interval: float = 0.25  # Seconds between cards.
    max_messages: float = np.inf  # Cards per second that one neighbour may send before it is refused for good.
    seed: tuple[int, ...] = (0,)  # Seed of the learner.


class Agreement(SiteProgram):
    """Site program that agrees on a schema with other sites, and then learns.

    Its rows, dense or CSR, may be of one class, or none. The terms must be equal at all sites.
    """

    def __init__(
        self,
        name: str,
        X: Any,
        y: NDArray[Any],
        schema: Schema,
        factory: LearnerFactory,
        settings: AgreementSettings = AgreementSettings(),
    ) -> None:
        self.name, self.X, self.y, self.schema = name, X, y, schema
        self._names = schema.feature_names  # In the order of the columns of X.
        self._labels_of = {name: schema.labels}  # Labels of the rows of this site and of neighbours, by site.
        self.similar_labels: dict[str, str] = {}  # Warnings about labels that differ only in case, by the first label.
        self._factory, self.shares, self.messages = factory, factory.shares, (Card, Check, *factory.messages)
        self._settings, self._has_complained = settings, False
        self.rows: dict[str, list[int]] = {name: [1, len(y)]}
        self.sealed = False
        self.learner: Learner | None = None
        self.neighbourhood = Neighbourhood(max(settings.settle, 4 * settings.interval), settings.max_messages)
        self._cards: dict[str, str] = {}  # Digests of the schemas of the last cards, by neighbour.
        self._counts: dict[str, int] = {}  # Checksums of the numbers of rows that neighbours know.
        self._widened: Counter[str] = Counter()  # Number of cards that have widened the schema, by neighbour.
        self._changed_at = 0.0
        self._ticks = 0

    # ---- events --------------------------------------------------------------------------------------------------

    def start(self, now: float, neighbours: Collection[str]) -> Iterator[Action]:
        """Send the card to all neighbours; a restored site resumes learning."""
        self.neighbourhood.change(neighbours)
        self._changed_at = now
        yield from self._compare_labels()
        if self.learner is not None:
            yield from self.learner.start(now, self.neighbourhood.spoken_to)
        yield from self._send_card(self.neighbourhood.spoken_to)
        yield Wake(self._settings.interval, _CARD_TIMER)

    def wake(self, now: float, name: str) -> Iterator[Action]:
        """Send the card, and seal the schema if it is settled; pass other timers on to the learner."""
        if name != _CARD_TIMER:
            if self.learner is not None:
                yield from self.learner.wake(now, name)
            return
        self._ticks += 1
        if not self.sealed and self._is_settled(now):
            yield from self._seal(now)
        if not self.sealed and now - self._changed_at >= 2 * self._settings.settle and not self._has_complained:
            self._has_complained = True
            yield Report("waiting for others", {"sites": len(self.rows), "labels": list(self.schema.labels)})
        # A sealed schema rarely changes. Before that, neighbours with the same knowledge hear less often.
        names = self.neighbourhood.spoken_to
        if not self.sealed and self._ticks % 4:
            names = [name for name in names if not self._knows_all(name)]
        if not self.sealed or self._ticks % 20 == 0:
            yield from self._send_card(names)
        yield Wake(self._settings.interval, _CARD_TIMER)

    def receive(self, now: float, sender: str, message: Message) -> Iterator[Action]:
        """Take a card, or pass another message on to the learner."""
        if not self.hears(sender):
            return
        if isinstance(message, Card):
            yield from self._take_card(now, sender, message)
        elif isinstance(message, Check):
            yield from self._take_check(now, sender, message)
        elif self.learner is not None:
            yield from self.learner.receive(now, sender, message)

    def refuse(self, now: float, sender: str, reason: str) -> Iterator[Action]:
        """Refuse a sender permanently, and undo its part in the learner; its labels and features stay."""
        self._cards.pop(sender, None)
        self.neighbourhood.refuse(sender, reason)
        if self.learner is not None:
            self.learner.leave(sender)
        yield Report("refused", {"site": sender, "reason": reason})
        yield from self._update_learner_neighbours(now)

    def neighbours_changed(self, now: float, neighbours: Collection[str]) -> Iterator[Action]:
        """Handle a change of the neighbours, and send the card to new ones."""
        new = [name for name in neighbours if name not in self.neighbourhood.names]
        self.neighbourhood.change(neighbours)
        yield from self._send_card([name for name in new if name not in self.neighbourhood.refused])
        yield from self._update_learner_neighbours(now)

    def append(self, now: float, X: Any, y: NDArray[Any], schema: Schema) -> Iterator[Action]:
        """Add rows of this site, with their own schema.

        Raises ValueError if they do not fit the earlier rows.
        """
        fault = self.schema.difference(schema)
        if fault is not None:
            raise ValueError(f"the new rows do not fit the earlier ones: {fault}")
        before, united = self.schema, self.schema.union(schema, limits=not self.sealed)
        self.X, self.y = stacked(self.X, X), np.concatenate([self.y, y.astype(np.result_type(self.y, y))])
        self.rows[self.name] = [self.rows[self.name][0] + 1, len(self.y)]
        self.schema = united
        self._labels_of[self.name] = sorted_labels([*self._labels_of[self.name], *schema.labels])
        yield from self._compare_labels()
        if self.learner is None:
            self._changed_at = now
        elif self.schema.digest != before.digest:
            yield from self._replace_learner(now, before)
        else:
            self.learner.append(self._factory.rows(self.schema.arranged(X, self._names), y, self.schema))
        yield from self._send_card(self.neighbourhood.spoken_to)

    # ---- agreeing ------------------------------------------------------------------------------------------------

    def _take_card(self, now: float, sender: str, card: Card) -> Iterator[Action]:
        """Check a card, and merge its schema into this site's."""
        fault = self.neighbourhood.hear(now, sender)
        if fault is not None:
            yield from self.refuse(now, sender, fault)
            return
        other = card.schema()
        fault = self.schema.difference(other) or self._size_fault(other)
        if fault is not None:
            yield from self._refuse_until_it_fits(now, sender, fault)
            return
        if sender in self.neighbourhood.refused:
            self.neighbourhood.readmit(sender)
            yield Report("taken in again", {"site": sender})
            yield from self._update_learner_neighbours(now)
        yield from self._unite(now, sender, other, card)

    def _take_check(self, now: float, sender: str, check: Check) -> Iterator[Action]:
        """Take a check like the card that it stands for, or send this site's card if it stands for another one."""
        if check.digest == self.schema.digest and sender not in self.neighbourhood.refused:
            labels = check.own_labels or list(self._labels_of.get(sender, ()))
            card = Card(**self.schema.plain(), rows=check.rows, sealed=check.sealed, own_labels=labels)
            yield from self._take_card(now, sender, card)
            self._counts[sender] = check.counts
            return
        fault = self.neighbourhood.hear(now, sender)
        if fault is not None:
            yield from self.refuse(now, sender, fault)
        else:
            self._cards.pop(sender, None)
            yield from self._send_card([sender])

    def _refuse_until_it_fits(self, now: float, name: str, reason: str) -> Iterator[Action]:
        """Refuse a site until it sends a card that fits, and send it this site's card once, so that it learns why."""
        self.neighbourhood.heard.pop(name, None)
        if self.neighbourhood.refused.get(name) != reason:
            yield from self.refuse(now, name, reason)
            self.neighbourhood.redeemable.add(name)
            yield from self._send_card([name])

    def _size_fault(self, other: Schema) -> str | None:
        """Return why the union of both schemas would exceed a limit, or None."""
        try:
            size = self._factory.message_size(self.schema.union(other))
        except ValueError as error:
            return f"its schema cannot be united with the one here: {error}"
        if size > LIMITS.message:
            return f"its features and labels make messages of {size} bytes, expected at most {LIMITS.message}"
        return None

    def _update_learner_neighbours(self, now: float) -> Iterator[Action]:
        if self.learner is not None:
            yield from self.learner.neighbours_changed(now, self.neighbourhood.spoken_to)

    def _unite(self, now: float, sender: str, other: Schema, card: Card) -> Iterator[Action]:
        before, known = self.schema, self.rows.keys()
        if card.sealed and not self.sealed:  # The limits of a sealed schema stay.
            united = other.union(before, limits=False)
        else:
            united = before.union(other, limits=card.sealed or not self.sealed)
        is_new = united.digest != before.digest
        if is_new and self._widened[sender] >= LIMITS.widenings:
            yield from self.refuse(now, sender, f"its cards have widened the schema {LIMITS.widenings} times")
            return
        self._widened[sender] += is_new
        self.schema, self.rows = united, self._updated_counts(sender, card)
        self._counts[sender] = _checksum(card.rows)
        self._labels_of[sender] = sorted_labels(card.own_labels)
        yield from self._compare_labels()
        if is_new or known != self.rows.keys():
            self._changed_at = now
        self._cards[sender] = other.digest
        if self.sealed and is_new:
            yield from self._replace_learner(now, before)
        elif card.sealed and not self.sealed:
            yield from self._seal(now)
        if is_new or other.digest != self.schema.digest or (self.sealed and not card.sealed):
            yield from self._send_card([sender])

    def _compare_labels(self) -> Iterator[Action]:
        """Report labels that differ only in case, with the sites that have them."""
        for group in similar_labels(self.schema.labels):
            text = (
                f"the labels {' and '.join(map(self._with_sites, group))} differ in case, blanks or Unicode form only; "
                "they are learnt as different classes"
            )
            if self.similar_labels.get(group[0]) != text:
                self.similar_labels[group[0]] = text
                yield Report("warning", {"with": "labels", "reason": text})

    def _with_sites(self, label: str) -> str:
        sites = sorted(name for name, labels in self._labels_of.items() if label in labels)
        named, left_out = sites[:5], len(sites) - 5
        more = f" and {left_out} more" if left_out > 0 else ""
        return f"{label!r} ({', '.join(named) or 'a site that is not a neighbour'}{more})"

    def _updated_counts(self, sender: str, card: Card) -> dict[str, list[int]]:
        """Return the numbers of rows of all sites, updated by a card.

        A site knows its own number, and trusts neighbours about theirs. For other sites, it takes
        the newest number that anybody knows.
        """
        rows = dict(self.rows)
        for name, (version, count) in card.rows.items():
            is_known_directly = name == self.name or (name != sender and name in self._cards)
            if is_known_directly or (name not in rows and len(rows) >= LIMITS.sites):
                continue
            if name == sender or version > rows.get(name, [0, 0])[0]:
                rows[name] = [version, count]
        return rows

    def _is_settled(self, now: float) -> bool:
        """Return whether to seal the schema: there are enough labels and sites, and neighbours agree on it."""
        if len(self.schema.labels) < self._factory.min_labels or not self.schema.n_features:
            return False
        digest = self.schema.digest
        self.neighbourhood.gone(now)
        if any(self._cards.get(name) != digest for name in self.neighbourhood.heard):
            return False
        settings = self._settings
        if settings.n_sites is not None:
            return len(self.rows) >= settings.n_sites
        return len(self.rows) >= settings.min_sites and now - self._changed_at >= settings.settle

    def _seal(self, now: float) -> Iterator[Action]:
        if len(self.schema.labels) < self._factory.min_labels:
            return
        self.sealed = True
        yield Report("agreed", self._facts())
        self.learner = self._new_learner()
        yield from self.learner.start(now, self.neighbourhood.spoken_to)

    def _replace_learner(self, now: float, before: Schema) -> Iterator[Action]:
        yield Report("schema grew", self._facts())
        last = self.learner
        self.learner = self._new_learner()
        if last is not None:
            self.learner.inherit(last.checkpoint(), self.schema, before)
        yield from self.learner.start(now, self.neighbourhood.spoken_to)

    def _new_learner(self) -> Learner:
        rows = self._factory.rows(self.schema.arranged(self.X, self._names), self.y, self.schema)
        learner = self._factory.learner(self.name, rows, self.schema, self.counts, self._settings.seed)
        learner.neighbourhood.share_refusals(self.neighbourhood)
        return learner

    def _facts(self) -> dict[str, Any]:
        return {
            "schema": self.schema.digest,
            "features": self.schema.n_features,
            "labels": list(self.schema.labels),
            "sites": self.counts,
            "rows": self.n_rows,
        }

    @property
    def counts(self) -> dict[str, int]:
        """Number of rows of every known site, by name."""
        return {name: count for name, (_, count) in sorted(self.rows.items())}

    @property
    def n_rows(self) -> int:
        """Number of rows of all known sites together."""
        return sum(self.counts.values())

    def _knows_all(self, name: str) -> bool:
        """Return whether a neighbour's last card or check shows that it knows all that this site does."""
        return self._cards.get(name) == self.schema.digest and self._counts.get(name) == _checksum(self.rows)

    def _send_card(self, names: Iterable[str]) -> Iterator[Action]:
        """Send the card, or a check to those that have the same schema."""
        plain, digest, counts = self.schema.plain(), self.schema.digest, _checksum(self.rows)
        own = list(self._labels_of[self.name])
        for name in names:
            if self._cards.get(name) != digest:
                yield Send(name, Card(**plain, rows=self.rows, sealed=self.sealed, own_labels=own))
            else:
                is_news = self._counts.get(name) != counts
                yield Send(name, Check(digest, counts, self.sealed, *((self.rows, own) if is_news else ())))

    @property
    def needs_durable_state(self) -> bool:
        """Return what the learner needs."""
        return self.learner is not None and self.learner.needs_durable_state

    # ---- progress and state --------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return this site's progress, for display."""
        progress: dict[str, Any] = {"round": 0, "steps": 0, "neighbours": sorted(self.neighbourhood.heard)}
        if self.learner is not None:
            progress = self.learner.status()
        return {**progress, "refused": dict(self.neighbourhood.refused), "sealed": self.sealed, **self._facts()}

    def checkpoint(self) -> dict[str, Any]:
        """Return the schema, and the learner's checkpoint."""
        learner = None if self.learner is None else self.learner.checkpoint()
        return {"schema": self.schema.plain(), "rows": self.rows, "sealed": self.sealed, "learner": learner}

    def restore(self, state: dict[str, Any]) -> None:
        """Resume with the rows that this site has now, which may be more; refused sites may try again."""
        before = Schema.from_plain(state["schema"])
        fault = self.schema.difference(before)
        if fault is not None:
            raise ValueError(f"the state belongs to other rows: {fault}")
        own = self.schema
        self.sealed = bool(state["sealed"])
        self.schema = before.union(own, limits=not self.sealed)
        # An earlier version of this program may have accepted invalid counts, even of this site.
        counts = {
            name: [version, count] for name, (version, count) in state["rows"].items() if _is_count(version, count)
        }
        version, count = counts.pop(self.name, [0, -1])
        self.rows = dict(islice(counts.items(), LIMITS.sites - 1))
        self.rows[self.name] = [version + (count != len(self.y)), len(self.y)]
        if state["learner"] is not None:
            self.learner = self._new_learner()
            if self.schema.digest == before.digest:
                self.learner.restore(state["learner"])
            else:
                self.learner.inherit(state["learner"], self.schema, before)


def _checksum(rows: dict[str, list[int]]) -> int:
    """Return a checksum of the numbers of rows of sites, and of their versions."""
    return zlib.crc32(repr(sorted((name, *numbers) for name, numbers in rows.items())).encode())


def _is_count(*numbers: Any) -> bool:
    """Return whether all numbers are valid counts that can still grow."""
    return all(isinstance(number, int) and 0 <= number < LIMITS.count for number in numbers)
