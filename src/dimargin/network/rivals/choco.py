r"""CHOCO-SGD: decentralised stochastic gradient descent with compressed messages and error feedback.

Koloskova, Stich, Jaggi, "Decentralized stochastic optimization and gossip algorithms with compressed communication",
ICML 2019, algorithm 2. In round t, at site i, with public copies ``xh_j`` of its own and its neighbours' iterates,
which are the same wherever they are kept:

    x_i' = x_i - eta_t g_i(x_i)
    q_i  = Q(x_i' - xh_i),  which is sent to all neighbours;  xh_j <- xh_j + q_j  of all, the site itself included
    x_i  <- x_i' + gamma sum_j w_ij (xh_j - xh_i)

with Metropolis weights w and ``eta_t = eta / (1 + t/decay)``. Gossip leaves the mean of all x_i as it is. Without
compression and with ``gamma = 1`` this is decentralised (sub)gradient descent, ``x <- W (x - eta_t g)``.

The authors' published program updates the copies after the mixing, so that sites mix what they had a round ago; here it
is as printed. The GADGET paper gives O(1/sqrt(mT)) as the complexity of the messages: that is the rate of convergence.

A site's gradient is of its own rows, of which all or a batch are looked at: with steps that do not shrink, sites stay
as far apart as their rows differ. A neighbour that joins gets the whole copy once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from dimargin.network.messages import Array, Numbers
from dimargin.network.programs.algorithm import Problem, SiteAlgorithm
from dimargin.network.rivals.compression import Code, Compression, Identity, TopK
from dimargin.network.rivals.linear_rounds import LinearRounds
from dimargin.network.rivals.merging import Mean, MergeRule, check_merge
from dimargin.network.rivals.parameter_checks import check_between, check_whole
from dimargin.network.rivals.turns import Step
from dimargin.problems.hinge import HingeRows
from dimargin.system.arrays import Floats


class Difference(Step, frozen=True, tag="difference"):
    """Message with the compressed change of the sender's public copy, or the whole copy for one who has none."""

    code: Code | None = None
    whole: Annotated[Array, Numbers((2,))] | None = None


@dataclass(frozen=True)
class ChocoSGD(SiteAlgorithm):
    """CHOCO-SGD, and decentralised SGD where nothing is compressed.

    Attributes
    ----------
    compression : Compression, default=TopK(0.1)
        Operator of ``dimargin.network.rivals.compression``.
    gamma : float in (0, 1], default=0.2
        Step of the consensus. Use 1 without compression, and smaller values for coarser compression.
    step_size : float, default=0.1
        First step eta, positive.
    decay : float, default=100.0
        Number of rounds after which a step is half as long as the first: step t is ``eta / (1 + t/decay)``.
    batch_size : int or None, default=None
        Rows that a site looks at in a round, drawn with replacement; None is all.
    merge : MergeRule, default=Mean()
        Rule by which the public copies of neighbours are merged.

    Examples
    --------
    >>> from dimargin import GossipSVMClassifier
    >>> from dimargin.network.rivals import ChocoSGD
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
    def least_neighbours(self) -> int:
        """Number of neighbours without which the rule of merging does nothing."""
        return self.merge.least

    def validate(self) -> None:
        """Raise ValueError for a parameter out of its range."""
        if not isinstance(self.compression, Compression):
            raise ValueError(
                "compression must be an operator such as Identity(), TopK(), RandomK() or Quantised(), got "
                f"{self.compression!r}"
            )
        self.compression.validate()
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
    >>> from dimargin.network.rivals import decentralised_sgd
    >>> decentralised_sgd(step_size=0.5).gamma
    1.0
    """
    return ChocoSGD(Identity(), 1.0, step_size, decay, batch_size, Mean() if merge is None else merge)


class ChocoSite(LinearRounds):
    """Program of a site that learns by CHOCO-SGD."""

    kinds = (Difference,)
    state = ("weights", "mean", "_stepped", "_public", "_copies")

    def __init__(self, rows: HingeRows, problem: Problem, algorithm: ChocoSGD, seed: tuple[int, ...] = (0,)) -> None:
        super().__init__(rows, problem, seed)
        self.algorithm = algorithm
        self.mean = self.weights  # of the iterates of all rounds t, weighted by t
        self._stepped = self._public = self.weights
        self._copies: dict[str, Floats] = {}
        self._code: Code | None = None

    @property
    def average(self) -> Floats:
        """Mean of the iterates of all rounds, of which the t-th has weight t."""
        return self.mean

    def begin(self) -> None:
        """Take a step on the rows, and compress by how much the public copy lags behind."""
        chosen, shape = self.algorithm, self.weights.shape
        eta = chosen.step_size / (1 + self.rounds / chosen.decay)
        self._stepped = self.weights - eta * self.gradient(self.weights, chosen.batch_size)
        self._code = chosen.compression.compress((self._stepped - self._public).ravel(), self.rng)
        self._public = self._public + chosen.compression.restore(self._code, self._public.size).reshape(shape)

    def outgoing(self, neighbour: str) -> Difference:
        """Return the change of the public copy; all of it to a neighbour that has none, or does not know the last."""
        is_first = self.edges[neighbour].sent == 0
        if is_first and (self.rounds > 0 or self._code is None):  # there is no code after a restart
            return Difference(**self.head, whole=self._public)
        return Difference(**self.head, code=self._code)

    def fault(self, sender: str, message: Difference) -> str | None:
        """Return what is wrong with a neighbour's message."""
        if message.whole is not None:
            return self.shape_fault(message.whole)
        if message.code is None:
            return "its message has neither a change nor a whole copy"
        return self.algorithm.compression.fault(message.code, self.weights.size)

    def advance(self, messages: Mapping[str, Difference]) -> None:
        """Update the neighbours' copies, and mix."""
        for name, message in messages.items():
            if message.whole is not None:
                self._copies[name] = self.bounded(message.whole)
            elif message.code is not None:
                change = self.algorithm.compression.restore(message.code, self.weights.size)
                before = self._copies[name] if name in self._copies else np.zeros(self.weights.shape)
                self._copies[name] = self.bounded(before + change.reshape(self.weights.shape))
        copies = {name: self._copies[name] for name in messages}
        mixed = self.algorithm.merge(self._public, copies, self.metropolis(messages))
        self.weights = self.bounded(self._stepped + self.algorithm.gamma * (mixed - self._public))
        self.mean = self.mean + (self.weights - self.mean) * (2 / (self.rounds + 2))

    def left(self, name: str) -> None:
        """Forget the copy of a neighbour."""
        self._copies.pop(name, None)
