r"""Consensus ADMM: the alternating direction method of multipliers, with consensus between neighbours only.

With ``f_i(w) = n_i alpha/2 |w|^2 + sum of the losses`` of the n_i rows of site i, whose sum over all
sites is N times the objective, and a copy z_ij at both ends of every edge of the network,

    minimise  sum_i f_i(w_i)   subject to   w_i = z_ij = w_j   on every edge

(Boyd, Parikh, Chu, Peleato, Eckstein, "Distributed optimization and statistical learning via the
alternating direction method of multipliers", 2011, section 7; on the edges of a network: Shi, Ling,
Yuan, Wu, Yin, "On the linear convergence of the ADMM in decentralized consensus optimization", IEEE
Trans. Signal Processing 2014). In a round, with the over-relaxation ``a`` of (Boyd et al., 3.4.3):

    w_i  = argmin f_i(w) + sum_j rho_ij/2 |w - z_ij|^2 + y_ij.w       (local_svm.py, smooth_solver.py)
    w_i is sent to all neighbours
    z_ij <- a (w_i + w_j)/2 + (1 - a) z_ij,    y_ij <- y_ij + a rho_ij (w_i - w_j)/2

Sites need to know neither N nor the number of sites: a site that joins, leaves or gets more rows
changes its own f_i. Each proposes a penalty for its edges: `rho` times the mean number of rows of
the sites that it knows at first; real sites take the median, which a false number cannot move. With
``rho="auto"`` this is divided by the number of its neighbours and multiplied by the factors that
come with certificates (certification.py). rho_ij is the mean of both ends' proposals, which messages
contain.

With a compression operator, neighbours receive the changes of public copies p_i of the solutions
(public_copies.py), which replace w_i and w_j in the last line: both ends of an edge know the same
copies, and once the copies stop changing they equal the solutions. The quantised ADMM of Elgabli,
Park, Bedi, Ben Issaid, Bennis, Aggarwal ("Q-GADMM", IEEE Trans. Communications 2021), for sites in
a chain that alternate, also sends such changes, rounded at random.

If members may lie (`liars`), an edge has the term ``L_ij |w_i - w_j|`` in place of its constraint,
which limits the norm of its multipliers (``|w_i - w_j|`` without a square, as in J. Peng, W. Li, Q.
Ling, "Byzantine-robust decentralized stochastic optimization over static and time-varying
networks", Signal Processing 2021; there with subgradients). Both ends then have their own z, which
differ by s_ij:

    s_ij <- a (w_i - w_j) + (1 - a) s_ij
    y_ij <- clip(y_ij + rho_ij/2 s_ij, L_ij) = y_ij + d
    z_ij <- a w_i + (1 - a) z_ij - d/rho_ij,    s_ij <- s_ij - 2 d/rho_ij

Unclipped, this is the iteration above, with s_ij = 0. Since z_ij contains the neighbour's w_j only
through y_ij, a neighbour pulls at a site with a force of at most L_ij, whatever it says to whom,
and f liars with d edges in total change the sum of the gradients of all honest rows by at most
``d L``. Nothing is lost if L_ij is above the multiplier of the optimum: with rows at random this is
about the sampling noise of a site's gradient, divided by its number of neighbours. L_ij is
``(2/liars sum of |a x|^2)^(1/2)`` over the site's rows with their dual coefficients a, divided by
that number, and rounded up to a power of the root of two; the smaller of both ends'
(bench/scripts/bench_liars.py). With other rows at every site, multipliers must be longer than
that, and sites agree less. There are no certificates, since the sums of liars would make them
false, and penalties stay as they begin, the smaller one of both ends.

The form with one z, the mean of all sites (Boyd et al., 7.1), needs a centre or a complete network.
This form sends as many numbers over every edge, on any network. The scaled multipliers u of both
ends cancel, so that an edge that closes leaves nothing behind.

It converges for ``0 < a < 2``; 1.5 to 1.8 are usual. Table 7 of the GADGET paper has a = 2.4 and
10.5, outside of this range, and its ADMM runs at every site on its own rows only, another problem.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.messages import Message
from dimargin.gossip.program import Action, Stop
from dimargin.gossip.programs.algorithm import Problem, SiteAlgorithm
from dimargin.gossip.programs.learner import Learner
from dimargin.gossip.rounds.certification import MESSAGES, About, Certification, Own
from dimargin.gossip.rounds.compression import Compression, check_compression
from dimargin.gossip.rounds.local_solves import LocalSolves
from dimargin.gossip.rounds.parameter_checks import check_between, check_whole
from dimargin.gossip.rounds.public_copies import Difference
from dimargin.gossip.rounds.turns import Waiting
from dimargin.gossip.schema import Schema
from dimargin.problems.hinge import LOSSES, HingeRows
from dimargin.system.arrays import Floats

_LAST_FACTOR = 200  # Rounds after which penalties stay, since ADMM converges for constant ones.
_FIRST_CERTIFICATE = 8  # Rounds from a start, or a change, to the first certificate.
_QUIET_ROUNDS = 8  # Rounds with hardly a change after which a site that trusts nobody has finished.


@dataclass(frozen=True)
class ConsensusADMM(SiteAlgorithm):
    """Decentralised consensus ADMM with over-relaxation.

    Attributes
    ----------
    rho : "auto" or float, default="auto"
        Penalty on the distance from each neighbour, positive, per row, in the units of `alpha`.
        "auto" starts with ``4 alpha^(1/2)`` for all neighbours of a site together, since the best
        penalty of a function whose curvature is between alpha and L is ``(alpha L)^(1/2)`` (Shi et
        al. 2014), and adapts it with every certificate.
    over_relaxation : float in (0, 2), default=1.6
        The parameter a; 1 is plain ADMM, and 1.5 to 1.8 are usual.
    tol : float, default=1e-5
        Relative duality gap to which a site solves its own problem in a round.
    max_steps : int, default=100
        Most Newton steps of a site per round and output.
    liars : int, default=0
        Number of sites that may lie. Zero trusts all of them; otherwise the pull of every neighbour
        is limited, the more the more may lie, every site keeps its own weights, and none knows
        when it is near the optimum. It suits sites with similar rows.
    compression : Compression or None, default=None
        Operator of ``dimargin.gossip.rounds.compression`` that compresses changes of the solutions;
        None sends whole solutions. On a9a (124 features) `Logarithmic()` takes a seventh of the
        bytes, in as many rounds.

    Examples
    --------
    >>> from dimargin import GossipSVMClassifier
    >>> from dimargin.gossip.rounds import ConsensusADMM
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(600, 10, class_sep=2.0, random_state=0)
    >>> machine = GossipSVMClassifier(ConsensusADMM(), n_sites=5, topology="ring", alpha=1e-2, random_state=0)
    >>> machine = machine.fit(X, y)  # The sites stop by a certificate that they compute together.
    >>> machine.status_, machine.duality_gap_ <= machine.tol
    ('converged', True)
    """

    losses: ClassVar[tuple[str, ...]] = LOSSES

    rho: Literal["auto"] | float = "auto"
    over_relaxation: float = 1.6
    tol: float = 1e-5
    max_steps: int = 100
    liars: int = 0
    compression: Compression | None = None

    def validate(self) -> None:
        """Raise ValueError for a parameter out of its range."""
        check_compression(self.compression, optional=True)
        if self.rho != "auto":
            check_between("rho", self.rho, 0)
        check_between("over_relaxation", self.over_relaxation, 0, 2)
        check_between("tol", self.tol, 0)
        check_whole("max_steps", self.max_steps, 1)
        check_whole("liars", self.liars, 0)

    def program(self, problem: Problem, name: str, rows: HingeRows, seed: tuple[int, ...]) -> ConsensusSite:
        """Return the program of a site."""
        return ConsensusSite(name, rows, problem, self, seed)


class ConsensusSite(LocalSolves, Learner):
    """Learner of a site by consensus ADMM.

    Attributes
    ----------
    penalty : float
        Penalty of the distance from all neighbours together, or from each if `rho` is a number.
    proposal : float
        Penalty that the site proposes for each edge in this round.
    largest_pull : float
        Norm that it proposes for the multipliers of each edge; infinite if all sites are trusted.
    certification : Certification
        With the newest certificate of the objective of all rows.
    """

    kinds: ClassVar[tuple[type[Message], ...]] = (*LocalSolves.kinds, *MESSAGES)
    state = (
        *LocalSolves.state, "penalty", "proposal", "largest_pull",
        "_agreed", "_multipliers", "_apart", "_penalties", "_largest_pulls",
    )  # fmt: skip

    def __init__(
        self, name: str, rows: HingeRows, problem: Problem, algorithm: ConsensusADMM, seed: tuple[int, ...] = (0,)
    ) -> None:
        super().__init__(rows, problem, seed, algorithm.compression, algorithm.tol, algorithm.max_steps)
        self.algorithm = algorithm
        rho = 4 * problem.alpha**0.5 if algorithm.rho == "auto" else algorithm.rho
        self.penalty = self.proposal = self._first_penalty = rho * problem.n_rows / problem.n_sites
        self.largest_pull = math.inf
        self._agreed: dict[str, Floats] = {}  # The z of this end of every edge, by neighbour.
        self._multipliers: dict[str, Floats] = {}  # The y of this end of every edge.
        self._apart: dict[str, Floats] = {}  # This z less that of the other end, the s of every edge.
        self._penalties: dict[str, float] = {}  # Penalty that each neighbour proposes.
        self._largest_pulls: dict[str, float] = {}  # Norm that each neighbour proposes.
        self.name = name
        self._residuals = np.zeros(2)  # Squares of the primal and the dual residual of the last round.
        self.certification = Certification(name, problem.schema, problem.alpha, problem.interval, problem.tol)
        self._met = 0  # Round of the newest certificate that meets the tolerance.
        self._quiet = 0  # Number of rounds since the weights have last changed by more than the tolerance.

    # ---- rounds --------------------------------------------------------------------------------------------------

    @property
    def row_weight(self) -> float:
        """Weight of the loss of a row: one, so that sites need not know the number of all rows."""
        return 1.0

    @property
    def known(self) -> Collection[str]:
        """Neighbours with a z."""
        return self._agreed

    def distance(self) -> tuple[Floats, Floats]:
        """Return curvature and slope of ``n alpha/2 |w|^2 + sum_j rho_ij/2 |w - z_ij|^2 + y_ij.w``."""
        names = sorted(self._agreed)
        rhos = [self._rho(name) for name in names]
        pulls = [rho * self._agreed[name] - self._multipliers[name] for rho, name in zip(rhos, names, strict=True)]
        curvature = np.full(self.weights.shape[1], self.problem.alpha * self.rows.n_rows + sum(rhos))
        return curvature, np.sum(pulls, axis=0) if names else np.zeros(self.weights.shape)

    def _rho(self, name: str) -> float:
        if not self.algorithm.liars:
            return (self.proposal + self._penalties[name]) / 2
        # A liar would stop a site by a large penalty, or make its numbers overflow by one of zero.
        return max(min(self.proposal, self._penalties[name]), 1e-3 * self.proposal)

    def begin(self) -> None:
        """Propose a penalty and the longest multiplier, and solve the site's problem."""
        n_edges, liars = max(1, len(self.members)), self.algorithm.liars
        self.proposal = self.penalty / (n_edges if self.algorithm.rho == "auto" else 1)
        before = self.weights
        super().begin()
        if liars:
            shares = self.dual if self.dual.any() else np.ones(self.dual.shape)
            noise = float(np.linalg.norm(shares * self.rows.lengths)) * (2 / liars) ** 0.5 / n_edges
            # It changes in steps, since messages repeat it only after a change.
            self.largest_pull = min(2.0 ** (np.ceil(2 * np.log2(noise)) / 2), LIMITS.number) if noise else 0.0
        change, size = np.linalg.norm(self.weights - before), np.linalg.norm(self.weights)
        self._quiet = self._quiet + 1 if change <= self.problem.tol * size else 0

    def outgoing(self, neighbour: str) -> Difference:
        """Return the change of the public copy, with what the site proposes for its edges."""
        limit = self.largest_pull if self.algorithm.liars else None
        return msgspec.structs.replace(super().outgoing(neighbour), penalty=self.proposal, largest_pull=limit)

    def advance(self, messages: Mapping[str, Difference]) -> None:
        """Exchange solutions."""
        self._residuals = np.zeros(2)
        for name, message in messages.items():
            if message.penalty is not None or name not in self._penalties:
                self._penalties[name] = self.proposal if message.penalty is None else message.penalty
                self._largest_pulls[name] = math.inf if message.largest_pull is None else message.largest_pull
        super().advance(messages)

    def exchange(self, name: str, theirs: Floats) -> None:
        """Update the common z of an edge, and the multiplier of this end."""
        a, rho, apart = self.algorithm.over_relaxation, self._rho(name), self.public - theirs
        limit = min(self.largest_pull, self._largest_pulls[name])
        if name not in self._agreed:
            force = _clipped(rho / 2 * apart, limit)
            self._agreed[name], self._apart[name] = self.public - force / rho, apart - 2 / rho * force
            self._multipliers[name] = np.zeros(apart.shape)
            return
        before, y, apart = self._agreed[name], self._multipliers[name], a * apart + (1 - a) * self._apart[name]
        self._multipliers[name] = _clipped(y + rho / 2 * apart, limit)
        change = self._multipliers[name] - y
        self._agreed[name] = a * self.public + (1 - a) * before - change / rho
        self._apart[name] = apart - 2 / rho * change
        self._residuals = self._residuals + np.array(
            [float((change**2).sum()) / a**2, rho**2 * float(((self._agreed[name] - before) ** 2).sum())]
        )

    def left(self, name: str) -> None:
        """Forget an edge and its contributions."""
        super().left(name)
        for known in (self._agreed, self._multipliers, self._apart, self._penalties, self._largest_pulls):
            known.pop(name, None)
        self.certification.left(name)
        self._continue()

    # ---- events --------------------------------------------------------------------------------------------------

    def wake(self, now: float, name: str) -> Iterator[Action]:
        """Go on with the rounds, and with the certificate."""
        yield from super().wake(now, name)
        yield from self.certification.tick(now)

    def receive(self, now: float, sender: str, message: Any) -> Iterator[Action]:
        """Take a message of a round or of a certificate."""
        near = self.neighbourhood
        if not isinstance(message, About):
            yield from super().receive(now, sender, message)
            self._hear_of_changes(sender, message)
        elif sender in near.names and sender not in near.refused and message.schema == self.settings.schema:
            self._now, (n_outputs, n_features) = now, self.weights.shape
            largest_round = self.rounds + 2 * LIMITS.sites  # Rounds differ by less than the length of a path.
            fault = near.hear(now, sender) or message.fault((n_outputs, n_features), largest_round)
            if self.algorithm.liars:
                fault = fault or "it sends a certificate, expected none where members may lie"
            if fault is not None:
                yield from self.refuse(now, sender, fault)
            elif self._edge(sender).is_open:
                yield from self._watched(self.certification.take(now, sender, message, self._own, self.members))

    def _hear_of_changes(self, sender: str, message: Any) -> None:
        """Learn on if the sender knows of a change of the problem, or is new."""
        if sender in self.neighbourhood.refused:
            return
        if type(message) is Waiting and self.since < message.since <= self.rounds + 2 * LIMITS.sites:
            self.since = message.since
        elif self.has_finished and self._edge(sender).is_open and sender not in self._agreed:
            self._continue()

    def append(self, rows: HingeRows) -> None:
        """Add rows of this site."""
        grown = self.rows.with_more(rows)
        growth = grown.n_rows / self.rows.n_rows if self.rows.n_rows else 1.0
        self.penalty, self._first_penalty = self.penalty * growth, self._first_penalty * growth
        self.rows, self._local = grown, None
        self.dual = np.concatenate([self.dual, np.zeros(rows.signs.shape)], axis=1)
        self._continue()

    def inherit(self, state: dict[str, Any], schema: Schema, before: Schema) -> None:
        """Start with the weights that were learnt under the earlier schema, if they are of use."""
        if self.problem.inherits_weights:
            self.weights = self.public = self.bounded(schema.moved(state["learnt"]["weights"], before))
            self.rounds = max(1, state["rounds"])  # After the first round neighbours get the whole copy.

    def own_objective(self) -> Floats:
        """Return the objective of the site's weights over its own rows, of shape (n_outputs,)."""
        loss = self.rows.evaluate(self.weights).loss / max(self.rows.n_rows, 1)
        return np.asarray(0.5 * self.problem.alpha * (self.weights**2).sum(axis=1) + loss)

    # ---- certificates --------------------------------------------------------------------------------------------

    @property
    def has_finished(self) -> bool:
        """Return whether a certificate of a round after the last change of rows or neighbours has met the tolerance.

        Where members may lie, return whether the weights have stayed within the tolerance for some rounds.
        """
        return self._quiet >= _QUIET_ROUNDS if self.algorithm.liars else self._met > self.since

    @property
    def rests(self) -> bool:
        """Return whether the site begins no round: all sites have finished."""
        return self.has_finished and not self.algorithm.liars

    def _continue(self) -> None:
        """Learn on, until a certificate of a later round meets the tolerance."""
        self.since = max(self.rounds, self.certification.key[0])

    def _finish(self) -> Iterator[Action]:
        """Finish a round, and start a certificate if one is due."""
        yield from super()._finish()
        if self.algorithm.liars:
            if self.has_finished:
                yield Stop("quiet")
        elif self.problem.tol > 0 and self.rounds >= self._due() and (self.known or not self.members):
            begun = self.certification.begin(self._now, self.rounds, self.weights, self._own, self.members)
            yield from self._watched(begun)

    def _due(self) -> int:
        """Return the round of the next certificate that this site starts: the later, the longer sites have learnt.

        The root of the last one starts the next, at first the neighbour with the first name. If it
        does not, others do.
        """
        last, root = self.certification.key
        first = max(self.since + _FIRST_CERTIFICATE, last + max(_FIRST_CERTIFICATE, (last - self.since) // 2))
        place = sorted([self.name, *self.members]).index(self.name)
        if root in ("", self.name):
            return first + 4 * place * (root == "")
        certificate = self.certification.certificate
        return first + 8 + 2 * (certificate.sites if certificate else LIMITS.sites) + 4 * place

    @property
    def _own(self) -> Own:
        return self.rows, self.dual, self._residuals

    def _watched(self, actions: Iterable[Action]) -> Iterator[Action]:
        """Carry out the steps of a certificate, and finish if it meets the tolerance."""
        before = self.certification.certificate
        yield from actions
        found = self.certification.certificate
        since = self.certification.key[0] - self.since
        if found is None or found is before or since <= 0:
            return
        if self.algorithm.rho == "auto" and since <= _LAST_FACTOR:
            # Members whose verdicts are false cannot move it farther.
            factor = self.certification.factor
            self.penalty = min(max(self.penalty * factor, 1e-4 * self._first_penalty), 1e4 * self._first_penalty)
        if found.gap <= self.problem.tol:
            self._met = self.certification.key[0]
            yield Stop("gap")

    def status(self) -> dict[str, Any]:
        """Return this site's progress, for display."""
        return {
            "round": self.rounds,
            "steps": self.rounds,
            "neighbours": sorted(self.neighbourhood.heard),
            "refused": dict(self.neighbourhood.refused),
            **self._bounds(),
            "waiting": bool(self.members) and not self._is_complete,
        }

    def _bounds(self) -> dict[str, Any]:
        found = self.certification.certificate
        if self.algorithm.liars:
            own = self.own_objective().tolist()
            return {"objective": own, "dual_objective": [0.0] * len(own)}
        if found is None:
            return {"objective": [], "dual_objective": [], "certified": {"rows": 0, "sites": 0}}
        return {
            "objective": found.objective.tolist(),
            "dual_objective": found.dual_objective.tolist(),
            "certified": {"rows": found.rows, "sites": found.sites},
        }

    # ---- state ---------------------------------------------------------------------------------------------------

    def checkpoint(self) -> dict[str, Any]:
        """Return the state of the rounds, and the newest certificate."""
        own = {"since": self.since, "met": self._met, **self.certification.checkpoint()}
        return {**super().checkpoint(), "certification": own}

    def restore(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint; the rows may have changed since."""
        super().restore(state)
        own = state["certification"]
        self.since, self._met = own["since"], own["met"]
        self.certification.restore(own)
        dual, known = self.dual, min(self.rows.n_rows, self.dual.shape[1])
        if self.rows.n_rows != dual.shape[1]:
            self.dual = np.zeros(self.rows.signs.shape)
            self.dual[:, :known] = dual[:, :known]
            self._continue()


def _clipped(vectors: Floats, norm: float) -> Floats:
    return vectors * min(1.0, norm / max(float(np.linalg.norm(vectors)), 1e-300))
