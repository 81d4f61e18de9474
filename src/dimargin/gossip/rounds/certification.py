r"""Certificates of the objective of all rows, which a network computes for one candidate of weights at a time.

A site, the root, sends its weights w through the network (`Probe`). Every site takes the neighbour
that it first hears from as its parent, and passes the weights on to the others. A site that has
heard from all of them adds what they have sent to the sums over its own rows, and sends these to
its parent (`Tally`); so every site's rows are counted once (propagation of information with
feedback: Segall, "Distributed network protocols", IEEE Trans. Information Theory 1983). The root
then knows, for the dual coefficients ``a_i`` that the sites have at that moment,

    P(w) = alpha/2 |w|^2 + 1/N sum_i loss(y_i w.x_i)
    D(a) = 1/N sum_i gain(a_i) - |1/N sum_i a_i y_i x_i|^2 / (2 alpha)

over the N rows of all sites that the network connects, and tells all (`Verdict`). Any coefficients
give a lower bound, so that the certificate holds whatever the progress of the sites; sites that
have agreed have nearly optimal ones. Weights travel as whole numbers of two bytes, for small
tolerances four: the candidate is what arrives. So does the difference
``sum_i a_i y_i x_i - alpha n w`` of sums, and with it the norm of its rounding error.

The residuals of ADMM are added up as well, and the verdict says by which factor all sites multiply
their penalties, so that both residuals become equal (Boyd et al. 2011, 3.4.1, with their ratio
instead of a factor of two, at most five).

A certificate is as true as what the sites say of their rows. If several sites start a certificate,
the one of the largest round is completed, of equal rounds the one whose root has the first name. A
site sends again what is not answered within four intervals, then every eight.

No row may be counted twice, and no site be left out unnoticed. So a site gives a candidate up if a
neighbour leaves before the verdict, since it may return without memory and be counted elsewhere, and a
site that was restarted says nothing about the candidate that it knew. Such a candidate is never
completed; the next one is.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Self

import msgspec
import numpy as np
from msgspec import Meta

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.messages import Array, Count, Digest, Message, Numbers, SiteName
from dimargin.gossip.program import Action, Send
from dimargin.problems.hinge import HingeRows
from dimargin.system.arrays import FEW_ROUNDINGS, UNIT, Floats

_Sums = Annotated[Array, Numbers(low=-LIMITS.sum, high=LIMITS.sum)]
_LARGEST_FACTOR = 5.0


class Rounded(msgspec.Struct, frozen=True, array_like=True):
    """Array of whole numbers of two or four bytes, and the factor by which they are multiplied."""

    scale: Annotated[float, Meta(ge=0, le=LIMITS.number)]
    data: Annotated[bytes, Meta(max_length=LIMITS.message)]

    @classmethod
    def of(cls, values: Floats, n_bytes: int) -> Self:
        """Round to the nearest multiples of the largest size divided by the largest whole number."""
        most = 2 ** (8 * n_bytes - 1) - 1
        scale = min(float(np.abs(values).max(initial=0.0)) / most, LIMITS.number)
        whole = np.clip(np.rint(values / scale), -most, most) if scale else np.zeros(values.shape)
        return cls(scale, whole.astype(f"<i{n_bytes}").tobytes())

    def values(self, shape: tuple[int, ...]) -> Floats:
        """Return the array, of the given shape."""
        n_bytes = len(self.data) // math.prod(shape)
        return np.frombuffer(self.data, f"<i{n_bytes}").reshape(shape) * self.scale

    def fault(self, shape: tuple[int, int]) -> str | None:
        """Return why this is no array of the given shape, or None."""
        if len(self.data) in (2 * math.prod(shape), 4 * math.prod(shape)):
            return None
        return f"has {len(self.data)} bytes, expected two or four for each of {math.prod(shape)} numbers"


class About(Message, frozen=True):
    """Base class of the messages about one candidate, which is known by its root and the root's round."""

    schema: Digest
    round: Count
    root: SiteName

    @property
    def key(self) -> tuple[int, str]:
        """Round and root."""
        return self.round, self.root

    def fault(self, shape: tuple[int, int], largest_round: int) -> str | None:
        """Return why no correct site would send this to one whose weights have the given shape, or None."""
        if self.round > largest_round:
            return f"its certificate is of round {self.round}, expected at most {largest_round}"
        return self.shape_fault(shape)

    @abstractmethod
    def shape_fault(self, shape: tuple[int, int]) -> str | None:
        """Return why the arrays do not belong to weights of the given shape, or None."""


class Probe(About, frozen=True, tag="probe", rename={"schema": "x", "round": "r", "root": "o", "weights": "w"}):
    """Message with the candidate's weights."""

    weights: Rounded

    def shape_fault(self, shape: tuple[int, int]) -> str | None:
        """Return why there are more or fewer weights, or None."""
        fault = self.weights.fault(shape)
        return None if fault is None else f"its candidate {fault}"


class Tally(
    About, frozen=True, tag="tally", omit_defaults=True,
    rename={"schema": "x", "round": "r", "root": "o", "sites": "s", "rows": "n", "sums": "v", "pull": "p"},
):  # fmt: skip
    """Message with the sums over the rows of a site and of those behind it; without sites, it adds nothing."""

    sites: Count = 0
    rows: Count = 0
    # Losses, gains, prices and rounding errors, each of shape (n_outputs,), and the squares of both
    # residuals, joined.
    sums: _Sums | None = None
    pull: Rounded | None = None  # Sum of a y x, less alpha n w.

    def shape_fault(self, shape: tuple[int, int]) -> str | None:
        """Return why the sums, if there are any, have another shape, or None."""
        if not self.sites:
            return None
        if self.sums is None or self.pull is None or self.sums.shape != (4 * shape[0] + 2,):
            return f"its sums are not those of {shape[0]} outputs"
        fault = self.pull.fault(shape)
        return None if fault is None else f"its sum of rows {fault}"


class Verdict(
    About, frozen=True, tag="verdict",
    rename={"schema": "x", "round": "r", "root": "o", "objective": "p", "dual_objective": "d", "sites": "s",
            "rows": "n", "factor": "f"},
):  # fmt: skip
    """Message with the certificate of a candidate, and the factor of all penalties."""

    objective: _Sums
    dual_objective: _Sums
    sites: Count
    rows: Count
    factor: Annotated[float, Meta(ge=1 / _LARGEST_FACTOR, le=_LARGEST_FACTOR)] = 1.0

    def shape_fault(self, shape: tuple[int, int]) -> str | None:
        """Return why there are objectives of another number of outputs, or None."""
        if self.objective.shape == self.dual_objective.shape == shape[:1]:
            return None
        return f"its certificate is not that of {shape[0]} outputs"

    def contradiction(self) -> str | None:
        """Return that the bounds contradict each other, or None."""
        if self.objective.shape == self.dual_objective.shape and not (self.dual_objective <= self.objective).all():
            return "its dual objective is above the objective"
        return None


MESSAGES = (Probe, Tally, Verdict)


class Certificate(NamedTuple):
    """Weights, of shape (n_outputs, n_features), with bounds of their objective and of the optimum."""

    weights: Floats
    objective: Floats  # Objective over the rows of all sites, of shape (n_outputs,), rounding included.
    dual_objective: Floats  # Lower bound of the optimum, of shape (n_outputs,).
    sites: int
    rows: int

    @property
    def gap(self) -> float:
        """The largest relative duality gap of all outputs."""
        return float((1 - self.dual_objective / np.maximum(self.objective, 1e-300)).max())


@dataclass
class Sums:
    """Sums over the rows of some sites for a candidate, with a bound of the norm of the rounding error of the pull."""

    sites: int
    rows: int
    scalars: Floats  # Losses, gains, prices and bounds of rounding, of shape (4, n_outputs).
    pull: Floats  # Sum of a y x, less alpha n w, of shape (n_outputs, n_features).
    residuals: Floats  # Squares of the primal and the dual residual.

    @classmethod
    def of(cls, rows: HingeRows, dual: Floats, residuals: Floats, weights: Floats, alpha: float) -> Self:
        """Return the sums of one site."""
        loss = rows.evaluate(weights).loss + rows.loss_rounding(weights)
        gains, prices = rows.gains(dual).sum(axis=1), rows.prices(dual).sum(axis=1)
        pull = np.asarray((rows.X.T @ (rows.signs * dual).T).T) - alpha * rows.n_rows * weights
        return cls(1, rows.n_rows, np.array([loss, gains, prices, rows.pull_rounding(dual)]), pull, residuals)

    def add(self, tally: Tally) -> None:
        """Add those of a neighbour, and of the sites behind it."""
        assert tally.sums is not None and tally.pull is not None
        self.sites, self.rows = self.sites + tally.sites, self.rows + tally.rows
        self.scalars = self.scalars + tally.sums[:-2].reshape(self.scalars.shape)
        self.residuals = self.residuals + tally.sums[-2:]
        self.pull = self.pull + tally.pull.values(self.pull.shape)

    def tally(self, schema: str, key: tuple[int, str], n_bytes: int) -> Tally:
        """Return the message with these sums."""
        pull, scalars = Rounded.of(self.pull, n_bytes), self.scalars.copy()
        scalars[3] += np.linalg.norm(self.pull - pull.values(self.pull.shape), axis=1)
        return Tally(schema, *key, self.sites, self.rows, np.append(scalars, self.residuals), pull)

    @property
    def factor(self) -> float:
        """Factor of the penalties: the ratio of the residuals."""
        primal, dual = np.sqrt(np.maximum(self.residuals, 0.0))
        return float(np.clip(primal / dual, 1 / _LARGEST_FACTOR, _LARGEST_FACTOR)) if primal > 0 < dual else 1.0

    def certificate(self, rows: HingeRows, weights: Floats, alpha: float) -> Certificate:
        """Return the certificate of the weights, if these are the sums of all sites; `rows` has the loss."""
        n = max(self.rows, 1)
        loss, gain, price, rounding = self.scalars / n
        pull = alpha * weights + self.pull / n
        sizes = alpha * np.linalg.norm(weights, axis=1) + np.linalg.norm(self.pull, axis=1) / n
        dual = rows.best_dual(gain, price, pull, alpha, rounding + (self.sites + FEW_ROUNDINGS) * UNIT * sizes)
        objective = 0.5 * alpha * (weights**2).sum(axis=1) + loss
        return Certificate(weights, objective, np.minimum(dual, objective), self.sites, self.rows)


Own = tuple[HingeRows, Floats, Floats]
"""Rows of a site, its dual coefficients, and the squares of its residuals."""


class Certification:
    """Part of one site in the certificates of its network."""

    def __init__(self, name: str, schema: str, alpha: float, interval: float, tol: float) -> None:
        self.name, self._schema, self._alpha, self._interval = name, schema, alpha, interval
        self._n_bytes = 2 if tol >= 5e-4 else 4  # Bytes of a number in messages.
        self.key: tuple[int, str] = (0, "")  # Round and root of the newest candidate.
        self.certificate: Certificate | None = None  # The newest one.
        self.factor = 1.0  # Factor of the penalties with it.
        self._weights: Floats | None = None  # The candidate's, while it has no certificate.
        self._parent = ""
        self._sums: Sums | None = None
        self._awaited: set[str] = set()  # Neighbours that have sent no tally.
        self._members: frozenset[str] = frozenset()  # Neighbours when the candidate came.
        self._children: list[str] = []  # Neighbours whose sums are counted here.
        self._verdict: Verdict | None = None
        self._sent_at = self._patience = 0.0  # Time of the last messages, and seconds until they are sent again.

    @property
    def is_open(self) -> bool:
        """Return whether the newest candidate has no certificate yet."""
        return self._weights is not None

    # ---- events --------------------------------------------------------------------------------------------------

    def begin(self, now: float, round: int, weights: Floats, own: Own, members: Collection[str]) -> Iterator[Action]:
        """Ask for a certificate of these weights, rounded; `own` is of this site."""
        yield from self._adopt(
            now, (round, self.name), Rounded.of(weights, self._n_bytes), weights.shape, "", own, members
        )

    def take(self, now: float, sender: str, message: About, own: Own, members: Collection[str]) -> Iterator[Action]:
        """Take a message of a neighbour, whose shape is valid."""
        if isinstance(message, Probe) and self._is_newer(message.key):
            shape = own[0].signs.shape[0], own[0].X.shape[1]
            yield from self._adopt(now, message.key, message.weights, shape, sender, own, members)
        elif message.key != self.key:
            return
        elif isinstance(message, Probe):
            yield from self._answer(sender)
        elif isinstance(message, Tally):
            yield from self._count(sender, message)
        elif isinstance(message, Verdict) and sender == self._parent and self._weights is not None:
            yield from self._decide(message)

    def tick(self, now: float) -> Iterator[Action]:
        """Send again what is not answered."""
        if self._weights is None or now - self._sent_at < self._patience:
            return
        self._sent_at, self._patience = now, 8 * self._interval
        yield from self._send_probes(self._awaited)
        if not self._awaited and self._parent and self._sums is not None:
            yield Send(self._parent, self._sums.tally(self._schema, self.key, self._n_bytes))

    def left(self, name: str) -> None:
        """Give the candidate up if a neighbour has left before the verdict."""
        if self.is_open and name in self._members:
            self._weights = self._sums = None

    # ---- one candidate -------------------------------------------------------------------------------------------

    def _is_newer(self, key: tuple[int, str]) -> bool:
        return key[0] > self.key[0] or (key[0] == self.key[0] and key[1] < self.key[1])

    def _adopt(
        self, now: float, key: tuple[int, str], candidate: Rounded, shape: Any, parent: str,
        own: Own, members: Collection[str],
    ) -> Iterator[Action]:  # fmt: skip
        self.key, self._parent, self._verdict = key, parent, None
        self._candidate, self._weights = candidate, candidate.values(shape)
        self._sums = Sums.of(*own, self._weights, self._alpha)
        self._rows, self._members = own[0], frozenset(members)
        self._awaited, self._children = set(members) - {parent}, []
        self._sent_at, self._patience = now, 4 * self._interval
        yield from self._send_probes(self._awaited)
        yield from self._pass_on()

    def _send_probes(self, names: Collection[str]) -> Iterator[Action]:
        for name in sorted(names):
            yield Send(name, Probe(self._schema, *self.key, self._candidate))

    def _answer(self, sender: str) -> Iterator[Action]:
        """Answer a probe of a known candidate: tell others than the parent that this site is counted elsewhere."""
        is_given_up = self._weights is None and self._verdict is None
        if sender != self._parent and not is_given_up:
            yield Send(sender, Tally(self._schema, *self.key))

    def _count(self, sender: str, tally: Tally) -> Iterator[Action]:
        if sender in self._awaited:
            self._awaited.discard(sender)
            if tally.sites and self._sums is not None:
                self._sums.add(tally)
                self._children.append(sender)
            yield from self._pass_on()
        elif self._verdict is not None and tally.sites:  # The verdict was lost.
            yield Send(sender, self._verdict)

    def _pass_on(self) -> Iterator[Action]:
        """Send the sums to the parent once they are complete; the root decides."""
        if self._awaited or self._sums is None:
            return
        if self._parent:
            yield Send(self._parent, self._sums.tally(self._schema, self.key, self._n_bytes))
            return
        assert self._weights is not None
        found = self._sums.certificate(self._rows, self._weights, self._alpha)
        bounds = found.objective, found.dual_objective
        if not np.isfinite(bounds).all():  # A member has sent enormous sums.
            self._weights = self._sums = None
            return
        yield from self._decide(Verdict(self._schema, *self.key, *bounds, found.sites, found.rows, self._sums.factor))

    def _decide(self, verdict: Verdict) -> Iterator[Action]:
        """Keep the certificate, and tell the sites that have been counted here."""
        assert self._weights is not None
        self.certificate = Certificate(
            self._weights, verdict.objective, verdict.dual_objective, verdict.sites, verdict.rows
        )
        self._verdict, self._weights, self._sums, self.factor = verdict, None, None, verdict.factor
        for name in self._children:
            yield Send(name, verdict)

    # ---- state ---------------------------------------------------------------------------------------------------

    def checkpoint(self) -> dict[str, Any]:
        """Return the newest certificate; one that is not complete is given up."""
        found = None if self.certificate is None else self.certificate._asdict()
        return {"round": self.key[0], "root": self.key[1], "certificate": found}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the certificate that `checkpoint` returned."""
        self.key = state["round"], state["root"]
        found = state["certificate"]
        self.certificate = None if found is None else Certificate(**found)
