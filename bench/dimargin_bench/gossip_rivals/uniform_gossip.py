r"""GADGET as its paper has it: a step of Pegasos, then Push-Sum, in which one random neighbour gets half of the mass.

All sites minimise ``alpha/2 |w|^2 + 1/N sum_i max(0, 1 - y_i w.x_i)`` ("A consensus algorithm
for linear support vector machines"; an earlier version is H. Dutta, N. Nataraj, arXiv:1812.02261;
alpha is the paper's lambda, and ``eta = 1/(alpha t)`` below). A message is one vector and one
weight, for one neighbour.

Forms named after what the paper prints, "algorithm 3", "equation 4" and "equation 5", follow it line
by line (uniform_printed.py). "equation 5" is the only one that is a step of Pegasos. "mended"
(uniform_mended.py) changes more than errors of print: sites count by their rows, the mass is kept
from one iteration to the next, a step is limited by the mass that the site holds, and messages
carry running sums and are acknowledged, so that a lost one loses nothing. The default of dimargin,
``GossipSVMClassifier(algorithm="gadget")``, sends more to all neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dimargin.gossip.programs.algorithm import LinearSite, Problem, SiteAlgorithm
from dimargin.problems.hinge import HingeRows
from dimargin_bench.gossip_rivals.uniform_mended import MendedSite
from dimargin_bench.gossip_rivals.uniform_printed import PrintedSite
from dimargin_bench.gossip_rivals.uniform_site import UniformParameters, UniformSite


@dataclass(frozen=True)
class UniformGadget(UniformParameters, SiteAlgorithm):
    """GADGET by uniform gossip, for `dimargin.GossipSVMClassifier`: the paper's own form, as printed or mended.

    See the module for the forms. Members are trusted: one that gives nothing back, though it
    acknowledges all that it is given, takes the mass of its neighbours, which then stand still. The
    paper's rule of convergence is ``dimargin_bench.kernel_rivals.quiet_rule``.

    Parameters
    ----------
    batch_size : int or None, default=1
        Rows that a site looks at in an iteration; None is all. "mended" draws them with
        replacement, the printed forms draw one of the batches into which the rows are divided.
    gossip_rounds : int, default=1
        The paper's B: rounds of Push-Sum, of a message each, in an iteration.
    projection : bool, default=True
        Whether weights are projected on ``|w| <= 1/sqrt(alpha)``, where the optimum is.
    form : {"mended", "algorithm 3", "equation 4", "equation 5"}, default="mended"
        Which of the paper's three steps sites take, or the mended one.

    Examples
    --------
    >>> from dimargin import GossipSVMClassifier
    >>> from dimargin_bench.gossip_rivals import UniformGadget
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(2000, 10, class_sep=2.0, random_state=0)
    >>> algorithm = UniformGadget(form="equation 5")
    >>> machine = GossipSVMClassifier(algorithm, n_sites=5, alpha=1e-2, max_iter=1000, random_state=0)
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # there is no rule for stopping: all rounds are run
    ...     machine = machine.fit(X[:1000], y[:1000])
    >>> machine.score(X[1000:], y[1000:]) > 0.9
    True
    """

    needs_answers: ClassVar[bool] = False

    def program(self, problem: Problem, name: str, rows: HingeRows, seed: tuple[int, ...]) -> LinearSite:
        """Return the program of a site, whose batches and neighbours are drawn from the seed."""
        kind: type[UniformSite] = MendedSite if self.form == "mended" else PrintedSite
        return kind(self, problem, rows, seed)
