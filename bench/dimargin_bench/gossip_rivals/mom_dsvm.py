r"""MoM-DSVM: the distributed support vector machine by the method of multipliers.

Forero, Cano, Giannakis, "Consensus-based distributed support vector machines", Journal of Machine
Learning Research 11, 2010, section 3 (there ``1/2 |w|^2 + J C sum hinge`` at each of J sites; here
both are scaled so that the mean over the sites is ``alpha/2 |w|^2 + 1/N sum hinge``, and c = J/N).
With ``v_j = [w_j; b_j]``, neighbours B_j, and a diagonal matrix U_j:

    U_j = alpha + 2 eta |B_j|,  and 2 eta |B_j| for the intercept, which the paper does not regularise
    f_j = 2 a_j - eta sum_(i in B_j) (v_j + v_i)
    l_j = argmax over 0 <= l <= c of  -1/2 l' Y_j X_j U_j^-1 X_j' Y_j l + (1 + Y_j X_j U_j^-1 f_j)' l
    v_j = U_j^-1 (X_j' Y_j l_j - f_j),  which is sent to all neighbours
    a_j <- a_j + eta/2 sum_(i in B_j) (v_j - v_i)

The multipliers a_j are kept as one for each neighbour, so that one that leaves takes its own along.
It is consensus ADMM (consensus_admm.py) of ``rho = 2 eta`` without over-relaxation.

The library's objective regularises the coefficient of the constant feature, so that is the default
here; with ``free_intercept=True`` the last feature must be that constant, and its coefficient is
free, as printed.
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

_ALONE = 1e-3  # of alpha: curvature of a free intercept without neighbours, which makes its problem strictly convex


@dataclass(frozen=True)
class MoMDSVM(SiteAlgorithm):
    """MoM-DSVM of Forero, Cano and Giannakis.

    Attributes
    ----------
    eta : float, default=0.05
        Weight of the distance from the neighbours, positive.
    free_intercept : bool, default=False
        Whether the coefficient of the last feature, a constant, is not regularised, as in the
        paper. Set ``fit_intercept=True`` on the classifier, which appends the constant. A site that
        is alone regularises it by ``alpha / 1000``.
    tol : float, default=1e-5
        Relative duality gap of a site's own problem up to which it solves it in a round.
    max_steps : int, default=100
        Most steps of Newton's method that a site takes in a round, for each output.
    compression : Compression or None, default=None
        Operator of ``dimargin.gossip.rounds.compression`` by which changes of the solutions are
        compressed; None sends the solutions whole.

    Examples
    --------
    >>> from dimargin import GossipSVMClassifier
    >>> from dimargin_bench.gossip_rivals import MoMDSVM
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(600, 10, class_sep=2.0, random_state=0)
    >>> machine = GossipSVMClassifier(MoMDSVM(), n_sites=5, topology="ring", alpha=1e-2, max_iter=100, random_state=0)
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # there is no rule for stopping: all rounds are run
    ...     _ = machine.fit(X, y)
    >>> machine.duality_gap_ < 0.01
    True
    """

    eta: float = 0.05
    free_intercept: bool = False
    tol: float = 1e-5
    max_steps: int = 100
    compression: Compression | None = None

    def validate(self) -> None:
        """Raise ValueError for a parameter out of its range."""
        check_compression(self.compression, optional=True)
        check_between("eta", self.eta, 0)
        if not isinstance(self.free_intercept, bool | np.bool_):
            raise ValueError(f"free_intercept must be True or False, got {self.free_intercept!r}")
        check_between("tol", self.tol, 0)
        check_whole("max_steps", self.max_steps, 1)

    def program(self, problem: Problem, name: str, rows: HingeRows, seed: tuple[int, ...]) -> MultiplierSite:
        """Return the program of a site."""
        return MultiplierSite(rows, problem, self, seed)


class MultiplierSite(LocalSolves):
    """Program of a site that learns by MoM-DSVM."""

    state = (*LocalSolves.state, "_sums", "_multipliers")

    def __init__(self, rows: HingeRows, problem: Problem, algorithm: MoMDSVM, seed: tuple[int, ...] = (0,)) -> None:
        super().__init__(rows, problem, seed, algorithm.compression, algorithm.tol, algorithm.max_steps)
        self.algorithm = algorithm
        self._sums: dict[str, Floats] = {}  # v_j + v_i of the last exchange with every neighbour i
        self._multipliers: dict[str, Floats] = {}  # part of a_j of every neighbour

    @property
    def known(self) -> Collection[str]:
        """Neighbours whose weights are known."""
        return self._sums

    def distance(self) -> tuple[Floats, Floats]:
        """Return U_j and ``-f_j``."""
        eta, names = self.algorithm.eta, sorted(self._sums)
        curvature = np.full(self.weights.shape[1], self.problem.alpha)
        if self.algorithm.free_intercept:
            curvature[-1] = 0.0 if names else _ALONE * self.problem.alpha
        slope = np.zeros(self.weights.shape)
        for name in names:
            slope += eta * self._sums[name] - 2 * self._multipliers[name]
        return curvature + 2 * eta * len(names), slope

    def exchange(self, name: str, theirs: Floats) -> None:
        """Update the multiplier of a neighbour."""
        if name in self._sums:
            step = self.algorithm.eta / 2 * (self.public - theirs)
            self._multipliers[name] = self._multipliers[name] + step
        else:
            self._multipliers[name] = np.zeros(self.weights.shape)
        self._sums[name] = self.public + theirs

    def left(self, name: str) -> None:
        """Forget a neighbour; what it has brought in is gone with it."""
        super().left(name)
        self._sums.pop(name, None)
        self._multipliers.pop(name, None)
