r"""Decentralised subgradient descent with a merge rule of one's choice, for networks of which some members lie.

In round t site i steps along its own rows' subgradient, tells its neighbours where it has come to, and merges:

    g_i = alpha w_i - m/N sum over its rows of margin below one of y x     (all rows, or a batch scaled up)
    v_i <- beta v_i + (1 - beta) g_i
    u_i = w_i - eta_t v_i,          eta_t = 1 / (alpha t + 1/eta_0)
    w_i <- merge(u_i; u_j of the neighbours), then projected onto |w| <= 1/sqrt(alpha), in which the optimum is

with m sites and N rows, so that the mean of the sites' objectives is that of all rows. With `Mean` this is
decentralised (sub)gradient descent (X. Lian et al., NeurIPS 2017; adapt, then combine), with the rules of `merging` it
is BRIDGE (Fang, Yang, Bajwa 2022) and ClippedGossip (He, Karimireddy, Jaggi 2022). The momentum is that of S. P.
Karimireddy, L. He, M. Jaggi, "Learning from history for Byzantine robust optimization", ICML 2021, algorithm 2: with
batches, it averages the noise in which liars hide. Without batches there is no noise, and it is zero by default.

A vector that is longer than the optimum can be is refused with its sender; one that is a lie and no longer than that is
left to the rule. A liar who announces fewer neighbours than it has raises its weight to 1 / (1 + deg_i) at most;
one who keeps others waiting is left out after some leases. Where sites hold different classes, no rule can
tell a liar from a site with other rows, and honest sites can be drawn to the rows of some of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from dimargin.network.messages import Array, Numbers
from dimargin.network.program import Action, Report
from dimargin.network.programs.algorithm import Problem, SiteAlgorithm
from dimargin.network.rivals.linear_rounds import LinearRounds
from dimargin.network.rivals.merging import MergeRule, NearestMixing
from dimargin.network.rivals.parameter_checks import check_between, check_whole
from dimargin.network.rivals.turns import Step
from dimargin.problems.hinge import HingeRows
from dimargin.system.arrays import Floats

_FIRST = 10.0  # length of the first step, in those that the rows' mean square length allows for a smooth loss


class Proposal(Step, frozen=True, tag="proposal"):
    """Message with the weights of a site after its own step, before it merges."""

    weights: Annotated[Array, Numbers((2,))]  # of shape (n_outputs, n_features)


class RobustSite(LinearRounds):
    """Program of one site."""

    kinds = (Proposal,)
    state = ("weights", "running_mean", "velocity", "proposal", "kept")

    def __init__(self, rows: HingeRows, problem: Problem, settings: RobustGossip, seed: tuple[int, ...]) -> None:
        super().__init__(rows, problem, seed)
        self.robust = settings
        self.running_mean = np.zeros_like(self.weights)
        self.velocity = np.zeros_like(self.weights)
        self.kept = 0  # rounds in which too few neighbours were heard for the rule, so that nothing was merged
        self.proposal = self.weights
        self._inverse = self._inverse_first_step()

    def begin(self) -> None:
        """Step along the own rows."""
        beta, t = self.robust.momentum, self.rounds + 1
        gradient = self.gradient(self.weights, self.robust.batch_size)
        self.velocity = beta * self.velocity + (1 - beta) * gradient
        self.proposal = self._projected(self.weights - self.velocity / (self.problem.alpha * t + self._inverse))

    def outgoing(self, neighbour: str) -> Proposal:
        """Return the proposal, which is the same for all neighbours."""
        return Proposal(**self.head, weights=self.proposal)

    def fault(self, sender: str, message: Any) -> str | None:
        """Refuse weights of another shape, and those that are longer than the optimum can be."""
        longest = float(np.linalg.norm(message.weights, axis=-1).max(initial=0.0))
        if longest > (1 + 1e-9) * self._radius:
            return f"its weights have a norm of {longest:.3g}, expected at most {self._radius:.3g}"
        return self.shape_fault(message.weights)

    def advance(self, messages: Mapping[str, Any]) -> None:
        """Merge the proposals."""
        received = {name: message.weights for name, message in messages.items()}
        self.kept += len(received) < self.robust.merge.least
        self.weights = self._projected(self.robust.merge(self.proposal, received, self.metropolis(messages)))
        self.running_mean = self.running_mean + (self.weights - self.running_mean) * (2 / (self.rounds + 2))

    @property
    def average(self) -> Floats:
        """Mean of the iterates, that of round t with weight t."""
        return self.running_mean

    def _finish(self) -> Iterator[Action]:
        kept = self.kept
        yield from super()._finish()
        if self.kept > kept == 0:  # it is said once
            yield Report(
                "too few for the merge rule", {"neighbours": len(self.members), "least": self.robust.merge.least}
            )

    @property
    def _radius(self) -> float:
        return float(self.problem.alpha**-0.5)

    def _projected(self, weights: Floats) -> Floats:
        norms = np.linalg.norm(weights, axis=1, keepdims=True)
        return np.asarray(weights * np.minimum(1.0, self._radius / np.maximum(norms, 1e-300)))

    def _inverse_first_step(self) -> float:
        if self.robust.step_size != "auto":
            return 1 / float(self.robust.step_size)
        return float((self.rows.lengths**2).mean()) / _FIRST if self.rows.n_rows else 0.0


@dataclass(frozen=True)
class RobustGossip(SiteAlgorithm):
    """Decentralised subgradient descent that up to f lying neighbours of each site cannot lead far astray.

    Attributes
    ----------
    merge : MergeRule, default=NearestMixing(1)
        How a site merges its weights with those of its neighbours; `Mean` trusts everybody. Of the rules,
        `NearestMixing` has lost least to liars, where sites hold different rows, too.
    step_size : "auto" or float, default="auto"
        eta_0, the length of the first step. "auto" is ten times the inverse of the mean square length of the site's
        rows, those with a constant feature included.
    batch_size : int or None, default=None
        Rows of which a site takes the subgradient, drawn with replacement; None is all of them.
    momentum : float in [0, 1), default=0.0
        beta; with batches 0.9, since liars hide in their noise.

    Examples
    --------
    >>> import warnings
    >>> from dimargin import GossipSVMClassifier
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(1000, 8, class_sep=2.0, random_state=0)
    >>> machine = GossipSVMClassifier(RobustGossip(NearestMixing(2)), alpha=1e-2, max_iter=60, random_state=0)
    >>> with warnings.catch_warnings(action="ignore"):  # it has no rule for stopping
    ...     machine = machine.fit(X, y)
    >>> machine.score(X, y) > 0.98
    True
    """

    vectors: ClassVar[tuple[str, ...]] = ("weights",)

    merge: MergeRule = field(default_factory=lambda: NearestMixing(1))
    step_size: Literal["auto"] | float = "auto"
    batch_size: int | None = None
    momentum: float = 0.0

    def validate(self) -> None:
        """Raise ValueError for a parameter out of its range; the message names it."""
        if not isinstance(self.merge, MergeRule):
            raise ValueError(f"merge must be a MergeRule, got {self.merge!r}")
        self.merge.validate()
        if self.step_size != "auto":
            check_between("step_size", self.step_size, 0)
        if self.batch_size is not None:
            check_whole("batch_size", self.batch_size, 1)
        if not (isinstance(self.momentum, int | float) and 0 <= self.momentum < 1):
            raise ValueError(f"momentum must be in [0, 1), got {self.momentum!r}")

    def program(self, problem: Problem, name: str, rows: HingeRows, seed: tuple[int, ...]) -> RobustSite:
        """Return the program of a site."""
        return RobustSite(rows, problem, self, seed)
