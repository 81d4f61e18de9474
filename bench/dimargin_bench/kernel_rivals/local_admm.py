r"""A linear support vector machine by ADMM on one computer, whose rows are divided into subsystems.

    minimise  1/2 |z|^2 + lambda sum_k sum over the rows of k of max(0, 1 - y x_k.x)   subject to  x_k = z

(Boyd, Parikh, Chu, Peleato, Eckstein, "Distributed optimization and statistical learning via the
alternating direction method of multipliers", Foundations and Trends in Machine Learning 3, 2011,
section 8.2). With N subsystems, scaled multipliers u_k and the over-relaxation a (section 3.4.3),

    x_k  = argmin of the hinge losses of k + rho/2 |x - z + u_k|^2       (dimargin.gossip.rounds.local_svm)
    xh_k = a x_k + (1 - a) z
    z    <- N rho / (1/lambda + N rho) mean(xh_k + u_k)
    u_k  <- u_k + xh_k - z

until primal and dual residuals are small (section 3.3.1). It converges for ``0 < a < 2``.

In the GADGET paper "each site is allowed to solve its own ADMM formulation on its local data
partition" (section 5.5.3): this machine at every site (separate_sites.py), with the lambda, rho and
alpha (here `over_relaxation`) of its Table 7, two of which are outside of that range. The number of
subsystems and the tolerances are not printed.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from dimargin.estimators.docstrings import documented
from dimargin.estimators.input_checks import check_number
from dimargin.gossip.rounds.local_svm import LocalSVM
from dimargin.problems.hinge import HingeRows
from dimargin.system.arrays import Floats
from dimargin.system.threads import single_threaded_blas
from dimargin_bench.kernel_rivals.checked_rows import BinaryRival, query_rows

_DIVERGED = 1e30  # size of weights beyond which their squares overflow soon
_LOCAL = 1e-5, 100  # relative duality gap and Newton steps of the problem of a subsystem


@documented
@dataclass(eq=False, repr=False)
class LocalADMM(BinaryRival):
    """Linear support vector machine by the alternating direction method of multipliers.

    Parameters
    ----------
    lam : float, default=1.0
        Weight of the losses, the paper's Lambda: ``1 / (alpha n_samples)`` of the other linear
        rivals.
    rho : float, default=1.0
        Penalty on the distance between the subsystems.
    over_relaxation : float, default=1.0
        The paper's Alpha, positive; from 2 on nothing promises convergence.
    n_parts : int, default=10
        Subsystems, to which rows are dealt at random.
    abs_tol : float, default=0.0001
        Absolute tolerance of the residuals.
    rel_tol : float, default=0.01
        Relative tolerance of the residuals.
    max_iter : int, default=1000
    fit_intercept : bool, default=False
        Whether a constant feature is added, whose coefficient is regularised like the others.
    random_state : int, RandomState or None, default=None
        Of the deal.

    Attributes
    ----------
    %(classes_, n_features_in_, feature_names_in_)s
    coef_ : ndarray of shape (1, n_features_in_)
        Of z.
    intercept_ : ndarray of shape (1,)
    n_iter_ : int
    status_ : {"converged", "max_iter", "diverged"}
    objective_ : float
        ``1/2 |w|^2 + lam sum of losses``; infinite where the iterates diverged.

    Examples
    --------
    >>> from dimargin_bench.kernel_rivals import LocalADMM
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(2000, 10, class_sep=2.0, random_state=0)
    >>> machine = LocalADMM(lam=0.1, over_relaxation=1.6, random_state=0).fit(X[:1000], y[:1000])
    >>> machine.status_, machine.score(X[1000:], y[1000:]) > 0.9
    ('converged', True)
    """

    lam: float = 1.0
    rho: float = 1.0
    over_relaxation: float = 1.0
    n_parts: int = 10
    abs_tol: float = 1e-4
    rel_tol: float = 1e-2
    max_iter: int = 1000
    fit_intercept: bool = False
    random_state: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self) -> None:
        for name in ("lam", "rho", "over_relaxation", "abs_tol", "rel_tol"):
            check_number(name, getattr(self, name), 0)
        for name in ("n_parts", "max_iter"):
            check_number(name, getattr(self, name), 1, low_included=True, whole=True)

    def _train_on_signs(self, X: Any, signs: Floats) -> None:
        n, d = X.shape
        part = check_random_state(self.random_state).permutation(n) % min(int(self.n_parts), n)
        if self.fit_intercept:
            ones = np.ones((n, 1))
            X = sp.hstack([X, ones]) if sp.issparse(X) else np.column_stack([X, ones])
        X = sp.csr_array(X) if sp.issparse(X) else X
        rows = HingeRows(X, signs[None])
        with single_threaded_blas():
            parts = [HingeRows(X[part == k], signs[None, part == k]) for k in np.unique(part)]
            weights = self._alternate(parts, X.shape[1])
            loss = float(rows.evaluate(weights[None]).loss[0]) if self.status_ != "diverged" else np.inf
        self.objective_ = 0.5 * float(weights @ weights) + float(self.lam) * loss
        self.coef_ = weights[None, :d].copy()
        self.intercept_ = weights[d:].copy() if self.fit_intercept else np.zeros(1)

    def _alternate(self, parts: list[HingeRows], d: int) -> Floats:
        """Return z at the end, of shape (d,)."""
        rho, relaxation, n_parts = float(self.rho), float(self.over_relaxation), len(parts)
        solvers = [LocalSVM(rows, 1.0, np.full(d, rho), np.zeros(rows.signs.shape)) for rows in parts]
        z, u, began = np.zeros(d), np.zeros((n_parts, d)), time.perf_counter()
        shrinkage = n_parts * rho / (1 / float(self.lam) + n_parts * rho)
        self.status_, self.n_iter_ = "max_iter", int(self.max_iter)
        for k in range(1, int(self.max_iter) + 1):
            x = np.array([one.solve((z - own)[None], *_LOCAL)[0] for one, own in zip(solvers, u, strict=True)])
            relaxed = relaxation * x + (1 - relaxation) * z
            last, z = z, shrinkage * (relaxed + u).mean(axis=0)
            u = u + relaxed - z
            if not np.abs(u).max() < _DIVERGED:
                self.status_, self.n_iter_ = "diverged", k
                break
            if self._is_over(x, z, last, u):
                self.status_, self.n_iter_ = "converged", k
                break
        if self.status_ != "converged":
            said = f"LocalADMM has status {self.status_!r} after {self.n_iter_} iterations"
            warnings.warn(said, ConvergenceWarning, stacklevel=5)
        self.seconds_ = time.perf_counter() - began
        return z

    def _is_over(self, x: Floats, z: Floats, last: Floats, u: Floats) -> bool:
        """Return whether both residuals are within their tolerances (Boyd et al., 3.3.1)."""
        rho, absolute, relative = float(self.rho), float(self.abs_tol) * x.size**0.5, float(self.rel_tol)
        root = len(x) ** 0.5
        primal, dual = np.linalg.norm(x - z), root * rho * np.linalg.norm(z - last)
        size = max(np.linalg.norm(x), root * np.linalg.norm(z))
        return bool(primal <= absolute + relative * size and dual <= absolute + relative * rho * np.linalg.norm(u))

    def decision_function(self, X: Any) -> Floats:
        """Return decision values of shape (n_samples,)."""
        rows = query_rows(self, X)
        return np.asarray(rows @ self.coef_.T + self.intercept_)[:, 0]
