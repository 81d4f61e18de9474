r"""Decentralised subgradient descent with a merge rule, for networks with Byzantine members.

In round t site i steps along its own rows' subgradient, sends the result to its neighbours, and
merges:

    g_i = alpha w_i - m/N sum over its rows of margin below one of y x     (all rows, or a batch scaled up)
    v_i <- beta v_i + (1 - beta) g_i
    u_i = w_i - eta_t v_i,  projected onto the ball |w| <= 1/sqrt(alpha);   eta_t = 1/(alpha t + 1/eta_0)
    w_i <- merge(u_i; u_j of the neighbours),  projected onto the same ball, which contains the optimum

with m sites and N rows, so that the mean of the sites' objectives is that of all rows. With `Mean`
this is decentralised (sub)gradient descent (X. Lian et al., NeurIPS 2017; adapt, then combine),
with the rules of `merging` it is BRIDGE (Fang, Yang, Bajwa 2022) and ClippedGossip (He,
Karimireddy, Jaggi 2022). The momentum is that of S. P. Karimireddy, L. He, M. Jaggi, "Learning from
history for Byzantine robust optimization", ICML 2021, algorithm 2: with batches, it averages the
noise in which liars hide. Without batches there is no noise, and it is zero by default.

``gradient="tracked"`` steps against an estimate y_i of the gradient of all rows instead. Sites
improve it by flows over the edges, which both ends hold with opposite signs (`TrackedSite`):

    y_i = g_i + sum_j phi_ij,          phi_ij <- clip(phi_ij + w_ij (y_j - y_i), Phi_ij),          phi_ji = -phi_ij

Unclipped, this is gradient tracking (Pu et al. 2021, as in gadget.py), on which a single liar has
unlimited influence. A flow clipped to the norm Phi_ij bounds it: f liars with d edges in total move
the mean gradient of h honest sites by at most ``d Phi / h``, whenever all honest sites have
finished the same turns of the edges between them. In the limit, honest flows are the multipliers of
the constraint "all sites agree" at the optimum, so that nothing is lost if Phi is as large as those
(as with the penalty of J. Peng, W. Li, Q. Ling, "Byzantine-robust decentralized stochastic
optimization over static and time-varying networks", Signal Processing 2021, whose subgradients are
bounded multipliers). Phi_ij is a multiple of the sampling noise of a site's gradient, the smaller
one of both ends. See docs/algorithms.md#rivals-of-gadget.

With `privacy`, rows are clipped to the norm R, and the sum of the subgradients of a site's rows,
which the replacement of a row changes by at most ``2 R`` per output, gets noise in each of the T
first steps (privacy.py; noisy gradient descent: Bassily, Smith, Thakurta, "Private empirical risk
minimization: efficient algorithms and tight error bounds", FOCS 2014, here without sampling).
Afterwards sites only merge.

A vector that is longer than any optimum is refused with its sender; shorter lies are left to the
rule. A liar that announces fewer neighbours than it has raises its weight to at most 1 / (1 +
deg_i). A neighbour that sends nothing for three leases is left out, so that a slow liar can make
every round as long as that. If sites hold different classes, no rule can distinguish a liar from a
site with other rows, and honest sites can be drawn to the rows of some of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from msgspec import Meta

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.messages import Array, Numbers
from dimargin.gossip.program import Action, Report
from dimargin.gossip.programs.algorithm import Problem, SiteAlgorithm
from dimargin.gossip.rounds.linear_rounds import LinearRounds
from dimargin.gossip.rounds.merging import MergeRule, NearestMixing, check_merge
from dimargin.gossip.rounds.parameter_checks import check_between, check_whole
from dimargin.gossip.rounds.privacy import Privacy, check_privacy
from dimargin.gossip.rounds.turns import Step
from dimargin.problems.hinge import HingeRows, shrinkage_into_ball
from dimargin.system.arrays import Floats


class Proposal(Step, frozen=True, tag="proposal"):
    """Message with the weights of a site after its own step, before it merges."""

    weights: Annotated[Array, Numbers((2,))]  # Weights of shape (n_outputs, n_features).


class RobustSite(LinearRounds):
    """Program of one site."""

    kinds: ClassVar[tuple[type[Step], ...]] = (Proposal,)
    state: ClassVar[tuple[str, ...]] = ("weights", "running_mean", "velocity", "proposal", "kept", "releases")

    def __init__(self, rows: HingeRows, problem: Problem, settings: RobustGossip, seed: tuple[int, ...]) -> None:
        super().__init__(rows if settings.privacy is None else settings.privacy.clipped(rows), problem, seed)
        self.robust = settings
        self.releases = 0  # Noisy gradients that the site has used, if it spends a privacy budget.
        self.running_mean = np.zeros_like(self.weights)
        self.velocity = np.zeros_like(self.weights)
        self.kept = 0  # Rounds without a merge, since too few neighbours were heard for the rule.
        self.proposal = self.weights
        self._inverse = self._inverse_first_step()

    def begin(self) -> None:
        """Take a step with the site's own rows."""
        privacy, beta, t = self.robust.privacy, self.robust.momentum, self.rounds + 1
        if privacy is not None and self.releases >= privacy.rounds:
            self.proposal = self.weights
            return
        self.velocity = beta * self.velocity + (1 - beta) * self.direction()
        self.proposal = self._projected(self.weights - self.velocity / (self.problem.alpha * t + self._inverse))

    def outgoing(self, neighbour: str) -> Proposal:
        """Return the proposal, which is the same for all neighbours."""
        return Proposal(**self.head, weights=self.proposal)

    def fault(self, sender: str, message: Any) -> str | None:
        """Return why weights have another shape or are longer than any optimum, or None."""
        if (fault := self.shape_fault(message.weights)) is not None:
            return fault
        longest = float(np.linalg.norm(message.weights, axis=-1).max(initial=0.0))
        if longest > (1 + 1e-9) * self._radius:
            return f"its weights have a norm of {longest:.3g}, expected at most {self._radius:.3g}"
        return None

    def advance(self, messages: Mapping[str, Any]) -> None:
        """Merge the proposals."""
        received = {name: message.weights for name, message in messages.items()}
        self.kept += len(received) < self.robust.merge.least
        self.weights = self._projected(self.robust.merge(self.proposal, received, self.metropolis(messages)))
        self.running_mean = self.running_mean + (self.weights - self.running_mean) * (2 / (self.rounds + 2))

    @property
    def average(self) -> Floats:
        """Mean of the iterates of all rounds t, weighted by t."""
        return self.running_mean

    def direction(self) -> Floats:
        """Return the gradient against which the site steps."""
        gradient, privacy = self.gradient(self.weights, self.robust.batch_size), self.robust.privacy
        if privacy is None:
            return gradient
        self.releases += 1
        sensitivity = 2 * privacy.clip * self.row_weight * len(self.weights) ** 0.5
        return privacy.release(gradient, sensitivity, self.releases - 1, self.rng)

    def _finish(self) -> Iterator[Action]:
        kept = self.kept
        yield from super()._finish()
        if self.kept > kept == 0:  # This is reported once.
            yield Report(
                "too few for the merge rule", {"neighbours": len(self.members), "least": self.robust.merge.least}
            )

    @property
    def _radius(self) -> float:
        return float(self.problem.alpha**-0.5)

    def _projected(self, weights: Floats) -> Floats:
        return weights * shrinkage_into_ball(weights, self.problem.alpha)

    def _inverse_first_step(self) -> float:
        if self.robust.step_size != "auto":
            return 1 / float(self.robust.step_size)
        if self.robust.privacy is not None:  # The lengths of the rows are not public.
            return self.robust.privacy.clip**2 / 10.0
        # The first step is ten times as long as the mean squared length allows for a smooth loss.
        return float((self.rows.lengths**2).mean()) / 10.0 if self.rows.n_rows else 0.0


class TrackedProposal(Proposal, frozen=True, tag="tracked proposal"):
    """Proposal with the sender's estimate of the gradient of all rows, and the largest flow that it allows."""

    tracked: Annotated[Array, Numbers((2,))]  # Estimate, of the shape of the weights.
    largest_flow: Annotated[float, Meta(ge=0, le=LIMITS.number)]


class TrackedSite(RobustSite):
    """Program of one site with clipped flows of gradients.

    Attributes
    ----------
    flows : dict from neighbour to ndarray of the shape of the weights
        Flow phi_ij: the contribution of a neighbour to the estimate of the gradient of all rows.
    tracked : ndarray of the same shape
        Estimate y_i in this round.
    """

    kinds = (TrackedProposal,)
    state = (*RobustSite.state, "flows", "tracked")

    def __init__(self, rows: HingeRows, problem: Problem, settings: RobustGossip, seed: tuple[int, ...]) -> None:
        super().__init__(rows, problem, settings, seed)
        self.flows: dict[str, Floats] = {}
        self.tracked = np.zeros_like(self.weights)
        noise = math.sqrt(self.row_weight * float((rows.lengths**2).mean())) if rows.n_rows else 0.0
        # The upper limit keeps the sum of all flows small enough to be sent.
        self._largest_flow = min(settings.flow * noise, LIMITS.number / (2 * LIMITS.sites)) if noise else 0.0

    def direction(self) -> Floats:
        """Return the estimate of the gradient of all rows."""
        self.tracked = super().direction() + sum(self.flows[name] for name in sorted(self.flows))
        return self.tracked

    def outgoing(self, neighbour: str) -> TrackedProposal:
        """Return the proposal and the estimate, which are the same for all neighbours."""
        return TrackedProposal(
            **self.head, weights=self.proposal, tracked=self.tracked, largest_flow=self._largest_flow
        )

    def fault(self, sender: str, message: Any) -> str | None:
        """Return why the weights or the estimate are invalid, or None."""
        return super().fault(sender, message) or self.shape_fault(message.tracked)

    def advance(self, messages: Mapping[str, Any]) -> None:
        """Merge the proposals, and update the flows."""
        for name, weight in self.metropolis(messages).items():
            message = messages[name]
            flow = self.flows.get(name, 0.0) + weight * (message.tracked - self.tracked)
            largest = min(self._largest_flow, message.largest_flow)  # Both ends use the smaller one.
            self.flows[name] = flow * min(1.0, largest / max(float(np.linalg.norm(flow)), 1e-300))
        super().advance(messages)

    def left(self, name: str) -> None:
        """Undo the flow over an edge; its other end does so as well."""
        self.flows.pop(name, None)


@dataclass(frozen=True)
class RobustGossip(SiteAlgorithm):
    """Decentralised subgradient descent with a merge rule that limits the influence of lying neighbours.

    Attributes
    ----------
    merge : MergeRule, default=NearestMixing(1)
        Rule by which a site merges its weights with those of its neighbours. Each rule has the
        number f of lying neighbours that it tolerates, and needs a number of neighbours: 2f + 1 for
        `TrimmedMean` and, by default, `NearestMixing`, f + 1 for `ClippedMean`. `Mean` trusts
        everybody.
    step_size : "auto" or float, default="auto"
        Bound eta_0 of the first step, ``1 / (alpha + 1/eta_0)``. "auto" is ten divided by the mean
        squared norm of the site's rows, including the constant feature of `fit_intercept`.
    batch_size : int or None, default=None
        Number of rows for each subgradient, drawn with replacement; None uses all rows of the site.
    momentum : float in [0, 1), default=0.0
        Momentum beta. Use 0.9 with batches, whose noise would otherwise hide liars.
    gradient : {"local", "tracked"}, default="local"
        Whether a site uses the gradient of its own rows, or an estimate of the gradient of all
        rows, which doubles the bytes.
    flow : float, default=0.1
        For tracked gradients: the norm to which the flow over an edge is clipped, as a multiple of
        ``(m/N mean of |x|^2 over the site's rows)^(1/2)``, the sampling noise of the gradient of
        N/m rows. The smaller bound of both ends holds; that of a site without rows is zero. 0.1
        suits rows assigned at random, 0.3 worked better if each site holds one class. ``math.inf``
        is plain gradient tracking, which trusts everybody.
    privacy : Privacy or None, default=None
        Differential privacy of the rows of every site, with local gradients of all its rows.

    Examples
    --------
    >>> import warnings
    >>> from dimargin import GossipSVMClassifier
    >>> from dimargin.gossip.rounds import NearestMixing, RobustGossip
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(1000, 8, class_sep=2.0, random_state=0)
    >>> machine = GossipSVMClassifier(RobustGossip(NearestMixing(2)), alpha=1e-2, max_iter=60, random_state=0)
    >>> with warnings.catch_warnings(action="ignore"):  # It has no stopping rule.
    ...     machine = machine.fit(X, y)
    >>> machine.score(X, y) > 0.98
    True
    """

    merge: MergeRule = field(default_factory=lambda: NearestMixing(1))
    step_size: Literal["auto"] | float = "auto"
    batch_size: int | None = None
    momentum: float = 0.0
    gradient: Literal["local", "tracked"] = "local"
    flow: float = 0.1
    privacy: Privacy | None = None

    @property
    def min_neighbours(self) -> int:
        """Number of neighbours that the merge rule needs."""
        return self.merge.least

    def validate(self) -> None:
        """Raise ValueError for a parameter out of its range; the message names it."""
        check_merge(self.merge)
        if self.step_size != "auto":
            check_between("step_size", self.step_size, 0)
        if self.batch_size is not None:
            check_whole("batch_size", self.batch_size, 1)
        if not (isinstance(self.momentum, int | float) and 0 <= self.momentum < 1):
            raise ValueError(f"momentum must be in [0, 1), got {self.momentum!r}")
        if self.gradient not in ("local", "tracked"):
            raise ValueError(f"gradient must be 'local' or 'tracked', got {self.gradient!r}")
        if self.flow != math.inf:
            check_between("flow", self.flow, 0)
        if self.privacy is None:
            return
        check_privacy(self.privacy)
        if self.gradient != "local" or self.batch_size is not None:
            # Tracked gradients and their bounds are computed from exact ones; a batch may draw a row many times.
            raise ValueError("privacy needs gradient='local' and batch_size=None")

    def program(self, problem: Problem, name: str, rows: HingeRows, seed: tuple[int, ...]) -> RobustSite:
        """Return the program of a site."""
        kind = TrackedSite if self.gradient == "tracked" else RobustSite
        return kind(rows, problem, self, seed)
