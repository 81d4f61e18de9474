r"""GADGET as its paper has it: a step of Pegasos, then Push-Sum in which half of the mass goes to one random neighbour.

All sites minimise ``alpha/2 |w|^2 + 1/N sum_i max(0, 1 - y_i w.x_i)`` ("A consensus algorithm
for linear support vector machines"; an earlier version is H. Dutta, N. Nataraj, arXiv:1812.02261;
alpha is the paper's lambda, and ``eta = 1/(alpha t)`` below). A message is one vector and one
weight, for one neighbour.

"printed" is the pseudo-code with what its errors do (uniform_printed.py), "mended" puts them right
(uniform_mended.py). The default, ``GossipSVMClassifier(algorithm="gadget")``, sends more to all
neighbours, and is far nearer the optimum after as many bytes: on a9a, ten sites on a ring, its
worst site is 5.3% above it after 10 MB, that of the mended form 420% after 11, since steps of
``1/(alpha t)`` begin as long as ``1/alpha``, and that of the printed form 670% after 10
(``dimargin bench gossip --part bytes --part tables-2-to-4``).
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
    """GADGET by uniform gossip, for `dimargin.GossipSVMClassifier`: the paper's own form, printed or mended.

    See the module for the equations. Members are trusted: one that gives nothing back, though it
    acknowledges all that it is given, takes the mass of its neighbours, which then stand still.

    Parameters
    ----------
    batch_size : int or None, default=1
        Rows that a site looks at in an iteration, drawn with replacement; None is all.
    gossip_rounds : int, default=1
        The paper's B: rounds of Push-Sum, of a message each, in an iteration.
    projection : bool, default=True
        Whether weights are projected on ``|w| <= 1/sqrt(alpha)``, where the optimum is.
    form : {"mended", "printed"}, default="mended"
        "printed" follows the paper's pseudo-code with its errors; it is for comparison only.
    tol : float or None, default=None
        The paper's rule for stopping, which measures the step and not the error: `n_quiet`
        iterations running have moved the weights by less than this, in the Euclidean norm. None is
        never.
    n_quiet : int, default=3

    Examples
    --------
    >>> from dimargin import GossipSVMClassifier
    >>> from dimargin_bench.gossip_rivals import UniformGadget
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(2000, 10, class_sep=2.0, random_state=0)
    >>> algorithm = UniformGadget(batch_size=None, tol=0.03)
    >>> machine = GossipSVMClassifier(algorithm=algorithm, n_sites=5, alpha=1e-2, random_state=0)
    >>> bool(machine.fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.9)
    True
    """

    needs_answers: ClassVar[bool] = False

    def program(self, problem: Problem, name: str, rows: HingeRows, seed: tuple[int, ...]) -> LinearSite:
        """Return the program of a site, whose batches and neighbours are drawn from the seed."""
        kind: type[UniformSite] = MendedSite if self.form == "mended" else PrintedSite
        return kind(self, problem, rows, seed)
