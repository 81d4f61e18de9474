r"""Consensus ADMM: the alternating direction method of multipliers, with consensus between neighbours only.

With the objective f_i of site i, and a copy z_ij at both ends of every edge of the network,

    minimise  sum_i f_i(w_i)   subject to   w_i = z_ij = w_j   on every edge

(Boyd, Parikh, Chu, Peleato, Eckstein, "Distributed optimization and statistical learning via the
alternating direction method of multipliers", 2011, section 7; on the edges of a network: Shi, Ling,
Yuan, Wu, Yin, "On the linear convergence of the ADMM in decentralized consensus optimization", IEEE
Trans. Signal Processing 2014). In a round, with the over-relaxation ``a`` of (Boyd et al., 3.4.3):

    w_i  = argmin f_i(w) + rho/2 sum_j |w - z_ij + u_ij|^2       by Newton's method (local_svm.py)
    w_i is sent to all neighbours
    z_ij <- a (w_i + w_j)/2 + (1 - a) z_ij,    u_ij <- u_ij + a (w_i - w_j)/2

With a compression operator, neighbours receive the changes of public copies p_i of the solutions
(public_copies.py), which replace w_i and w_j in the last line: both ends of an edge know the same
copies, and once the copies stop changing they equal the solutions. The quantised ADMM of Elgabli,
Park, Bedi, Ben Issaid, Bennis, Aggarwal ("Q-GADMM", IEEE Trans. Communications 2021), for sites in
a chain that alternate, also sends such changes, rounded at random.

The form with one z, the mean of all sites (Boyd et al., 7.1), needs a centre or a complete network.
This form sends as many numbers over every edge, on any network. The scaled multipliers u of both
ends cancel, so that an edge that closes leaves nothing behind.

It converges for ``0 < a < 2``; 1.5 to 1.8 are usual. Table 7 of the GADGET paper has a = 2.4 and
10.5, outside of this range, and its ADMM runs at every site on its own rows only, another problem.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from dimargin.gossip.programs.algorithm import Problem, SiteAlgorithm
from dimargin.gossip.rounds.compression import Compression, check_compression
from dimargin.gossip.rounds.local_solves import LocalSolves
from dimargin.gossip.rounds.parameter_checks import check_between, check_whole
from dimargin.problems.hinge import HingeRows
from dimargin.system.arrays import Floats


@dataclass(frozen=True)
class ConsensusADMM(SiteAlgorithm):
    """Decentralised consensus ADMM with over-relaxation.

    Attributes
    ----------
    rho : float, default=0.1
        Penalty on the distance from the neighbours, positive, in the units of `alpha`.
    over_relaxation : float in (0, 2), default=1.6
        The parameter a; 1 is plain ADMM, and 1.5 to 1.8 are usual.
    tol : float, default=1e-5
        Relative duality gap to which a site solves its own problem in a round.
    max_steps : int, default=100
        Most Newton steps of a site per round and output.
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
    >>> machine = GossipSVMClassifier(
    ...     ConsensusADMM(), n_sites=5, topology="ring", alpha=1e-2, max_iter=100, random_state=0
    ... )
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # Without a stopping rule, all rounds are run.
    ...     _ = machine.fit(X, y)
    >>> machine.duality_gap_ < 0.01
    True
    """

    rho: float = 0.1
    over_relaxation: float = 1.6
    tol: float = 1e-5
    max_steps: int = 100
    compression: Compression | None = None

    def validate(self) -> None:
        """Raise ValueError for a parameter out of its range."""
        check_compression(self.compression, optional=True)
        check_between("rho", self.rho, 0)
        check_between("over_relaxation", self.over_relaxation, 0, 2)
        check_between("tol", self.tol, 0)
        check_whole("max_steps", self.max_steps, 1)

    def program(self, problem: Problem, name: str, rows: HingeRows, seed: tuple[int, ...]) -> ConsensusSite:
        """Return the program of a site."""
        return ConsensusSite(rows, problem, self, seed)


class ConsensusSite(LocalSolves):
    """Program of a site that learns by consensus ADMM."""

    state = (*LocalSolves.state, "_agreed", "_multipliers")

    def __init__(
        self, rows: HingeRows, problem: Problem, algorithm: ConsensusADMM, seed: tuple[int, ...] = (0,)
    ) -> None:
        super().__init__(rows, problem, seed, algorithm.compression, algorithm.tol, algorithm.max_steps)
        self.algorithm = algorithm
        self._agreed: dict[str, Floats] = {}  # The z of every edge, by neighbour.
        self._multipliers: dict[str, Floats] = {}  # The u of this end of every edge.

    @property
    def known(self) -> Collection[str]:
        """Neighbours with a z."""
        return self._agreed

    def distance(self) -> tuple[Floats, Floats]:
        """Return curvature and slope of ``alpha/2 |w|^2 + rho/2 sum_j |w - z_ij + u_ij|^2``."""
        rho, names = self.algorithm.rho, sorted(self._agreed)
        curvature = np.full(self.weights.shape[1], self.problem.alpha + rho * len(names))
        differences = [self._agreed[name] - self._multipliers[name] for name in names]
        return curvature, rho * np.sum(differences, axis=0) if names else np.zeros(self.weights.shape)

    def exchange(self, name: str, theirs: Floats) -> None:
        """Update the common z of an edge, and the multiplier of this end."""
        relaxation, mean = self.algorithm.over_relaxation, (self.public + theirs) / 2
        if name not in self._agreed:
            self._agreed[name], self._multipliers[name] = mean, np.zeros(mean.shape)
            return
        self._agreed[name] = relaxation * mean + (1 - relaxation) * self._agreed[name]
        self._multipliers[name] = self._multipliers[name] + relaxation * (self.public - theirs) / 2

    def left(self, name: str) -> None:
        """Forget an edge and its contributions."""
        super().left(name)
        self._agreed.pop(name, None)
        self._multipliers.pop(name, None)
