"""LLSVM: a linear machine on k-means Nystrom features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from sklearn.metrics.pairwise import rbf_kernel

from dimargin.estimators.docstrings import documented
from dimargin.system.arrays import Floats
from dimargin_bench.kernel_rivals.centers import CenterClassifier

_SMALLEST = 1e-10  # eigenvalue of kernel values between centres, at most their number: below it is rounding


@documented
@dataclass(eq=False, repr=False)
class LLSVM(CenterClassifier):
    r"""Low-rank linearised SVM: a linear machine on Nystrom features with the centres of k-means.

    With ``E = U S U'`` the kernel values between centres and ``k_c(x)`` those of a row with them,
    features are ``S^{-1/2} U' k_c(x)``, whose inner products are ``k_c(x)' E^{-1} k_c(z)``, the
    Nystrom approximation of the kernel (Zhang et al. 2012). If all rows are centres it is exact on
    them, and the machine is the kernel machine without intercept.

    Eigenvalues below 1e-10, which are rounding, and their directions are left out. The paper on
    DC-SVM cites another paper for this method, on adaptive multi-hyperplane machines.

    Parameters
    ----------
    %(n_centers, C, gamma, loss, tol, max_iter, random_state)s

    Attributes
    ----------
    %(classes_, n_features_in_, feature_names_in_, gamma_, centers_)s
    map_ : ndarray of shape (n_centers, rank)
        ``U S^{-1/2}``.
    %(machine_, n_iter_)s

    References
    ----------
    K. Zhang, L. Lan, Z. Wang, F. Moerchen, "Scaling up kernel SVM on limited resources: a low-rank
    linearization approach", AISTATS 2012.

    Examples
    --------
    >>> from dimargin_bench.kernel_rivals import LLSVM
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(1000, noise=0.2, random_state=0)
    >>> machine = LLSVM(n_centers=100, C=10.0, random_state=0).fit(X[:800], y[:800])
    >>> round(machine.score(X[800:], y[800:]), 2)
    0.96
    """

    def _map(self) -> Floats:
        eigenvalues, vectors = eigh(rbf_kernel(self.centers_, gamma=self.gamma_))
        kept = eigenvalues > _SMALLEST
        return np.asarray(vectors[:, kept] / np.sqrt(eigenvalues[kept]))
