r"""CHOCO-SGD: decentralised stochastic gradient descent with compressed messages and error feedback.

Koloskova, Stich, Jaggi, "Decentralized stochastic optimization and gossip algorithms with
compressed communication", ICML 2019, algorithm 2. In round t, at site i, with public copies
``xh_j`` of its own and its neighbours' iterates (public_copies.py):

    x_i' = x_i - eta_t g_i(x_i)
    q_i  = Q(x_i' - xh_i),  which is sent to all neighbours;  xh_j <- xh_j + q_j  of all, the site itself included
    x_i  <- x_i' + gamma sum_j w_ij (xh_j - xh_i)

with Metropolis weights w and ``eta_t = eta / (1 + t/decay)``. Gossip leaves the mean of all x_i as
it is. Without compression and with ``gamma = 1`` this is decentralised (sub)gradient descent,
``x <- W (x - eta_t g)``.

The authors' published program updates the copies after the mixing, so that sites mix what they had
a round ago; here it is as printed. The GADGET paper gives O(1/sqrt(mT)) as the complexity of the
messages: that is the rate of convergence.

A site's gradient is of its own rows, of which all or a batch are looked at: with steps that do not
shrink, sites stay as far apart as their rows differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dimargin.gossip.programs.algorithm import Problem, SiteAlgorithm
from dimargin.gossip.rounds.compression import Compression, Identity, TopK, check_compression
from dimargin.gossip.rounds.merging import Mean, MergeRule, check_merge
from dimargin.gossip.rounds.parameter_checks import check_between, check_whole
from dimargin.gossip.rounds.public_copies import Difference, PublicCopies
from dimargin.problems.hinge import HingeRows
from dimargin.system.arrays import Floats


@dataclass(frozen=True)
class ChocoSGD(SiteAlgorithm):
    """CHOCO-SGD, and decentralised SGD where nothing is compressed.

    Attributes
    ----------
    compression : Compression, default=TopK(0.1)
        Operator of ``dimargin.gossip.rounds.compression``.
    gamma : float in (0, 1], default=0.2
        Step of the consensus. Use 1 without compression, and smaller values for coarser
        compression.
    step_size : float, default=0.1
        First step eta, positive.
    decay : float, default=100.0
        Number of rounds after which a step is half as long as the first: step t is
        ``eta / (1 + t/decay)``.
    batch_size : int or None, default=None
        Rows that a site looks at in a round, drawn with replacement; None is all.
    merge : MergeRule, default=Mean()
        Rule by which the public copies of neighbours are merged.

    Examples
    --------
    >>> from dimargin import GossipSVMClassifier
    >>> from dimargin_bench.gossip_rivals import ChocoSGD
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(600, 10, class_sep=2.0, random_state=0)
    >>> machine = GossipSVMClassifier(ChocoSGD(), n_sites=5, topology="ring", alpha=1e-2, max_iter=300, random_state=0)
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # there is no rule for stopping: all rounds are run
    ...     _ = machine.fit(X, y)
    >>> machine.duality_gap_ < 0.05
    True
    """

    compression: Compression = field(default_factory=TopK)
    gamma: float = 0.2
    step_size: float = 0.1
    decay: float = 100.0
    batch_size: int | None = None
    merge: MergeRule = field(default_factory=Mean)

    @property
    def min_neighbours(self) -> int:
        """Number of neighbours without which the rule of merging does nothing."""
        return self.merge.least

    def validate(self) -> None:
        """Raise ValueError for a parameter out of its range."""
        check_compression(self.compression)
        check_merge(self.merge)
        check_between("gamma", self.gamma, 0, 1, high_included=True)
        check_between("step_size", self.step_size, 0)
        check_between("decay", self.decay, 0)
        if self.batch_size is not None:
            check_whole("batch_size", self.batch_size, 1)

    def program(self, problem: Problem, name: str, rows: HingeRows, seed: tuple[int, ...]) -> ChocoSite:
        """Return the program of a site."""
        return ChocoSite(rows, problem, self, seed)


def decentralised_sgd(
    step_size: float = 0.1, decay: float = 100.0, batch_size: int | None = None, merge: MergeRule | None = None
) -> ChocoSGD:
    """Return decentralised SGD: `ChocoSGD` without compression.

    Examples
    --------
    >>> from dimargin_bench.gossip_rivals import decentralised_sgd
    >>> decentralised_sgd(step_size=0.5).gamma
    1.0
    """
    return ChocoSGD(Identity(), 1.0, step_size, decay, batch_size, Mean() if merge is None else merge)


class ChocoSite(PublicCopies):
    """Program of a site that learns by CHOCO-SGD."""

    state = (*PublicCopies.state, "mean", "_stepped")

    def __init__(self, rows: HingeRows, problem: Problem, algorithm: ChocoSGD, seed: tuple[int, ...] = (0,)) -> None:
        super().__init__(rows, problem, seed, algorithm.compression)
        self.algorithm = algorithm
        self.mean = self.weights  # of the iterates of all rounds t, weighted by t
        self._stepped = self.weights

    @property
    def average(self) -> Floats:
        """Mean of the iterates of all rounds, of which the t-th has weight t."""
        return self.mean

    def begin(self) -> None:
        """Take a step on the rows, and compress by how much the public copy lags behind."""
        chosen = self.algorithm
        eta = chosen.step_size / (1 + self.rounds / chosen.decay)
        self._stepped = self.weights - eta * self.gradient(self.weights, chosen.batch_size)
        self.publish(self._stepped)

    def advance(self, messages: Mapping[str, Difference]) -> None:
        """Update the neighbours' copies, and mix."""
        copies = self.update_copies(messages)
        weights = self.metropolis({name: messages[name] for name in copies})
        mixed = self.algorithm.merge(self.public, copies, weights)
        self.weights = self.bounded(self._stepped + self.algorithm.gamma * (mixed - self.public))
        self.mean = self.mean + (self.weights - self.mean) * (2 / (self.rounds + 2))
