"""Pegasos, which GADGET's sites run by themselves, on one computer."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from dimargin.estimators.docstrings import documented
from dimargin.estimators.input_checks import check_number
from dimargin.problems.hinge import HingeRows, shrinkage_into_ball
from dimargin.system.arrays import Floats
from dimargin_bench.kernel_rivals.linear_rival import LinearRival
from dimargin_bench.kernel_rivals.quiet_rule import QuietRule, check_rule


@documented
@dataclass(eq=False, repr=False)
class Pegasos(LinearRival):
    r"""Linear support vector machine by stochastic subgradient steps of length ``1/(alpha t)``.

    Minimises ``alpha/2 |w|^2 + 1/n sum_i max(0, 1 - y_i w.x_i)`` (Shalev-Shwartz et al. 2007; its lambda is `alpha`)
    from ``w = 0`` by steps ``t = 1, 2, ...`` on a batch of B rows,

        ``w <- (1 - 1/t) w + 1/(alpha t B) sum over the batch's rows with y w.x < 1 of y x``,

    then, with `projection`, ``w <- w min(1, 1/(sqrt(alpha) |w|))``. The answer is the mean of the
    weights of the last half of the steps, whose error is ``O(1/(alpha T))`` for T steps (Rakhlin,
    Shamir, Sridharan, ICML 2012); that of the mean of all has another ``log T``. The first step
    forgets where it starts from.

    Parameters
    ----------
    %(alpha)s
    batch_size : int or None, default=1
        Rows of a step, drawn with replacement; None is all, which is subgradient descent.
    projection : bool, default=False
        Whether steps end on ``|w| <= 1/sqrt(alpha)``, where the optimum is.
    average : bool, default=True
        Whether the answer is the mean over the last half of the steps, rather than the last
        weights.
    max_iter : int, default=10000
        Steps, T, at most.
    epsilon : float or None, default=None
        Tolerance of the GADGET paper's rule of convergence (quiet_rule.py), which measures the
        length of the steps; the answer is then the last weights. None takes all steps: the
        subgradient at the optimum is not zero.
    reading : {"norm", "weights"}, default="norm"
        What has to change by less than `epsilon`.
    n_quiet : int, default=3
        In how many successive steps.
    %(fit_intercept)s
    random_state : int, RandomState or None, default=None
        Of the batches.

    Attributes
    ----------
    %(classes_, n_features_in_, feature_names_in_, coef_, intercept_, objective_)s
    n_iter_ : int
        Steps.
    converged_ : bool
        Whether the rule of convergence has ended them.

    See Also
    --------
    dimargin.GossipSVMClassifier : The same with many sites; one, local gradients and "pegasos"
        steps are this machine.

    References
    ----------
    S. Shalev-Shwartz, Y. Singer, N. Srebro, "Pegasos: primal estimated sub-gradient solver for
    SVM", ICML 2007; with A. Cotter, Mathematical Programming 127, 2011.

    Examples
    --------
    >>> from dimargin_bench.kernel_rivals import Pegasos
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(2000, 10, class_sep=2.0, random_state=0)
    >>> machine = Pegasos(alpha=1e-2, random_state=0).fit(X[:1000], y[:1000])
    >>> machine.score(X[1000:], y[1000:]) > 0.9
    True
    """

    alpha: float = 1e-4
    batch_size: int | None = 1
    projection: bool = False
    average: bool = True
    max_iter: int = 10_000
    epsilon: float | None = None
    reading: str = "norm"
    n_quiet: int = 3
    fit_intercept: bool = False
    random_state: Any = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("max_iter", self.max_iter, 1, low_included=True, whole=True)
        check_number("batch_size", self.batch_size, 1, low_included=True, whole=True, or_none=True)
        check_rule(self.epsilon, self.reading)
        check_number("n_quiet", self.n_quiet, 1, low_included=True, whole=True)

    def _learn(self, rows: HingeRows) -> Floats:
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        steps, alpha = int(self.max_iter), float(self.alpha)
        weights = np.zeros((len(rows.signs), rows.X.shape[1]))
        mean, first = weights, steps // 2 + 1
        rule = None if self.epsilon is None else QuietRule(self.epsilon, self.reading)
        for t in range(1, steps + 1):
            chosen = None if self.batch_size is None else rng.integers(rows.n_rows, size=self.batch_size)
            found = rows.evaluate(weights, chosen)
            weights = (1 - 1 / t) * weights + found.pull / (alpha * t * found.dual.shape[1])
            if self.projection:
                weights = weights * shrinkage_into_ball(weights, alpha)
            if t >= first:
                mean = mean + (weights - mean) / (t - first + 1)
            if rule is not None and rule.look(weights.reshape(1, -1))[0] >= self.n_quiet:
                break
        self.n_iter_ = t
        self.converged_ = rule is not None and bool(rule.counts[0] >= self.n_quiet)  # type: ignore[index]
        if rule is not None and not self.converged_:
            warnings.warn(
                f"Pegasos has taken max_iter={steps} steps, of which the last {self.n_quiet} were not all quiet",
                ConvergenceWarning, stacklevel=4,
            )  # fmt: skip
        return mean if self.average and rule is None else weights
