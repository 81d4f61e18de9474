r"""Consensus ADMM whose sites release noisy solutions: differential privacy of the rows of every site.

In each of the first T rounds, site i solves its problem of consensus_admm.py on clipped rows, adds
noise to the solution (privacy.py), and continues with the noisy solution wherever the algorithm
has w_i: in its public copy, in every z_ij and in every y_ij. So its state depends on its rows
through its releases only; the coefficients from which its solver starts do not leave it.

*Sensitivity.* The function that site i minimises has the curvature

    c = n_i alpha + sum_j rho_ij,

which depends on public facts only. Replacing a row replaces one loss, whose slope is at most R, by
another. So the minimisers for adjacent rows are at most ``2 R / c`` apart (Chaudhuri, Monteleoni,
Sarwate, "Differentially private empirical risk minimization", JMLR 2011, lemma 7), whatever the
neighbours have sent. A solution with a duality gap of at most g is within ``(2 g / c)^(1/2)`` of
the minimiser, so that the L2 sensitivity of a release with Q outputs is

    s = Q^(1/2) (2 R / c + 2 (2 g / c)^(1/2)).

The gap g is an agreed number, one for which s is hardly larger than for g = 0. Should a solver miss
it, the site releases nothing more. Only the hinge has a bounded slope; other losses are refused.

*After T releases*, the site's rows are not used any more. The mean v_i of the second half of its
releases replaces them: the site minimises ``n_i kappa/2 |w - v_i|^2`` plus the terms of the edges, so
that all sites end with the mean of all v_i, weighted by their rows. This costs no privacy.

*What a neighbour can ask for.* A site answers no question about a certificate, since tallies are
exact sums. Penalties depend on numbers of rows only, and stay. A neighbour that proposes an
enormous penalty, or sends enormous weights, could make the noise vanish in rounding; both are
limited. If the neighbours' z and penalties are false, the noise still fits the c that they cause.

Zhang, Zhu, "Dynamic differential privacy for ADMM-based distributed classification learning", IEEE
Trans. Information Forensics and Security 2017, perturb the primal or the dual variables of such an
ADMM, with an epsilon per iteration; here the noise is Gaussian, and the budget is that of the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from dimargin.gossip.program import Action, Report, Stop
from dimargin.gossip.programs.algorithm import Problem
from dimargin.gossip.rounds.certification import About
from dimargin.gossip.rounds.consensus_admm import ConsensusADMM, ConsensusSite
from dimargin.gossip.rounds.local_svm import LocalSVM
from dimargin.gossip.rounds.privacy import Privacy, check_privacy
from dimargin.gossip.schema import Schema
from dimargin.problems.hinge import HingeRows
from dimargin.system.arrays import Floats

_AUTO_PENALTY = 0.02  # The penalty "auto" per row, in units of R^2; 0.01 suits large budgets, 0.1 small ones.
_MAX_PENALTY = 1e3  # A neighbour's penalty counts up to this multiple of the own one.
_MAX_CENTRE = 100.0  # Norm of a centre, in units of the largest norm of an optimum, beyond which it is shortened.
_MAX_STEPS = 1000  # Newton steps until a solver has missed its gap.
_AGREEING_ROUNDS = 60  # Rounds after the last release in which sites agree on the mean.


@dataclass(frozen=True)
class PrivateADMM(ConsensusADMM):
    """Consensus ADMM with differential privacy of the rows of every site.

    Attributes
    ----------
    privacy : Privacy
        Budget of every site.
    rho, over_relaxation, tol, max_steps, compression
        As in `ConsensusADMM`, except that "auto" is a constant penalty of 0.02 times the square of
        `privacy.clip` per row, for all neighbours of a site together, and that `tol` and
        `max_steps` are not used.

    Examples
    --------
    >>> import warnings
    >>> from dimargin import GossipSVMClassifier
    >>> from dimargin.gossip.rounds import Privacy, PrivateADMM
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(3000, 10, class_sep=2.0, random_state=0)
    >>> private = PrivateADMM(privacy=Privacy(epsilon=3.0))
    >>> machine = GossipSVMClassifier(private, n_sites=5, topology="ring", random_state=0)
    >>> machine = machine.fit(X, y)
    >>> machine.score(X, y) > 0.95, round(machine.epsilon_, 6)
    (True, 3.0)
    """

    losses: ClassVar[tuple[str, ...]] = ("hinge",)

    privacy: Privacy = field(kw_only=True)

    def validate(self) -> None:
        """Raise ValueError for a parameter out of its range."""
        super().validate()
        check_privacy(self.privacy)
        if self.liars:  # The limit of a neighbour's pull is computed from the rows.
            raise ValueError(f"liars must be 0 with privacy, got {self.liars!r}")

    def program(self, problem: Problem, name: str, rows: HingeRows, seed: tuple[int, ...]) -> PrivateConsensusSite:
        """Return the program of a site."""
        return PrivateConsensusSite(name, rows, problem, self, seed)


def with_privacy(algorithm: ConsensusADMM, privacy: Privacy | None) -> ConsensusADMM:
    """Return the algorithm with a privacy budget, if there is one."""
    return algorithm if privacy is None else PrivateADMM(**vars(algorithm), privacy=privacy)


class PrivateConsensusSite(ConsensusSite):
    """Program of a site that spends a privacy budget.

    Attributes
    ----------
    releases : int
        Number of releases that the site has made.
    released : ndarray of shape (n_outputs, n_features)
        Mean of the releases, of the second half of them if all are made.
    """

    state = (*ConsensusSite.state, "releases", "released")

    def __init__(
        self, name: str, rows: HingeRows, problem: Problem, algorithm: PrivateADMM, seed: tuple[int, ...] = (0,)
    ) -> None:
        if rows.loss.smooth:
            raise ValueError("privacy needs the hinge loss, because the slope of the other losses has no bound")
        self.privacy = algorithm.privacy
        super().__init__(name, self.privacy.clipped(rows), problem, algorithm, seed)
        self.releases, self.released = 0, self.weights
        if algorithm.rho == "auto":
            self.penalty = self._kappa * problem.n_rows / problem.n_sites
            self.proposal = self._first_penalty = self.penalty

    @property
    def is_spent(self) -> bool:
        """Return whether the site has made all its releases."""
        return self.releases >= self.privacy.rounds

    @property
    def _kappa(self) -> float:
        return _AUTO_PENALTY * self.privacy.clip**2

    # ---- rounds --------------------------------------------------------------------------------------------------

    def _rho(self, name: str) -> float:
        return (self.proposal + min(self._penalties[name], _MAX_PENALTY * self.proposal)) / 2

    def distance(self) -> tuple[Floats, Floats]:
        """Return the terms of the edges, with those of the regulariser, or of the releases once all are made."""
        curvature, slope = super().distance()
        if not self.is_spent:
            return curvature, slope
        # A site that has released nothing that fits its present features does not pull the others to zero.
        weight = self._kappa * self.rows.n_rows * bool(self.released.any())
        return curvature - self.problem.alpha * self.rows.n_rows + weight, slope + weight * self.released

    def _solve(self) -> None:
        """Release a noisy solution, or continue without the rows; a site without neighbours waits."""
        if not self.known:
            return
        curvature, slope = self.distance()
        if self.is_spent:
            self.weights = self.bounded(slope / curvature)
        else:
            self._release(float(curvature[0]), slope / curvature)

    def _release(self, c: float, centre: Floats) -> None:
        radius, n_outputs = self.privacy.clip, len(self.weights)
        longest = _MAX_CENTRE * self.problem.alpha**-0.5
        centre = centre * min(1.0, longest / max(float(np.linalg.norm(centre)), 1e-300))
        # The first term adds one percent to the sensitivity; the second is above the rounding errors of a gap.
        gap = 5e-5 * radius**2 / c + 1e-10 * self.rows.n_rows
        if self._local is None or self._local.curvature[0] != c:
            self._local = LocalSVM(self.rows, 1.0, np.full(centre.shape[1], c), np.zeros(self.rows.signs.shape))
        found = self._local.solve(centre, 0.0, _MAX_STEPS, gap)
        if not self._local.gap <= gap * (1 + 1e-9):
            self.releases = self.privacy.rounds  # The distance from the minimiser is unknown.
            return
        sensitivity = n_outputs**0.5 * (2 * radius / c + 2 * (2 * gap / c) ** 0.5)
        noisy = self.privacy.release(found, sensitivity, self.releases, self.rng)
        self.releases += 1
        self.weights = self.bounded(noisy)
        place = max(1, self.releases - self.privacy.rounds // 2)
        self.released = self.released + (self.weights - self.released) / place

    # ---- events --------------------------------------------------------------------------------------------------

    def receive(self, now: float, sender: str, message: Any) -> Iterator[Action]:
        """Take a message of a round; answer none about a certificate."""
        if not isinstance(message, About):
            yield from super().receive(now, sender, message)

    def append(self, rows: HingeRows) -> None:
        """Add rows of this site, which take part in the releases that are left."""
        super().append(self.privacy.clipped(rows))

    def inherit(self, state: dict[str, Any], schema: Schema, before: Schema) -> None:
        """Start with the weights that were learnt under the earlier schema, and with what is spent of the budget."""
        super().inherit(state, schema, before)
        self.releases = state["learnt"]["releases"]
        if self.problem.inherits_weights:
            self.released = schema.moved(state["learnt"]["released"], before)
        self._continue()

    # ---- the end -------------------------------------------------------------------------------------------------

    @property
    def has_finished(self) -> bool:
        """Return whether the rounds of the releases and of the agreement after them are over."""
        return self.rounds >= self.since + self.privacy.rounds + _AGREEING_ROUNDS

    @property
    def needs_durable_state(self) -> bool:
        """Return whether releases may have been made since the state was last synced to the disk."""
        return not self.has_finished

    def _due(self) -> int:
        """Return a round that never comes: there are no certificates."""
        return self.rounds + 1

    def _finish(self) -> Iterator[Action]:
        """Finish a round, and report the end of the budget and of the rounds."""
        was_spent = self.is_spent
        yield from super()._finish()
        if self.is_spent and not was_spent:
            yield Report("privacy budget spent", self._budget())
        if self.has_finished:
            yield Stop("budget spent")

    def status(self) -> dict[str, Any]:
        """Return this site's progress and what is spent of its budget, for display."""
        return {**super().status(), "privacy": self._budget()}

    def _budget(self) -> dict[str, Any]:
        own = self.privacy
        return {
            "releases": self.releases, "of": own.rounds, "spent": own.spent(self.releases), "epsilon": own.epsilon,
            "delta": own.delta,
        }  # fmt: skip
