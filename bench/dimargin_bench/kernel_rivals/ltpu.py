"""LTPU: locally tuned processing units."""

from __future__ import annotations

from dataclasses import dataclass

from dimargin.estimators.docstrings import documented
from dimargin_bench.kernel_rivals.centers import CenterClassifier


@documented
@dataclass(eq=False, repr=False)
class LTPU(CenterClassifier):
    r"""Locally tuned processing units: a network of radial units at the centres of k-means, with a linear output.

    Features are the kernel values ``exp(-gamma |x - c_j|^2)`` with the centres (Moody, Darken
    1989). As in the paper on DC-SVM all units have the SVM's gamma, and the weights of the output
    are a linear machine's; Moody and Darken give each unit a width of its own, from the distances
    to its neighbours, and fit the output by least squares.

    Parameters
    ----------
    %(n_centers, C, gamma, loss, tol, max_iter, random_state)s

    Attributes
    ----------
    %(classes_, n_features_in_, feature_names_in_, gamma_, centers_, machine_, n_iter_)s

    References
    ----------
    J. Moody, C. J. Darken, "Fast learning in networks of locally-tuned processing units", Neural
    Computation 1, 1989.

    Examples
    --------
    >>> from dimargin_bench.kernel_rivals import LTPU
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(1000, noise=0.2, random_state=0)
    >>> machine = LTPU(n_centers=100, C=10.0, random_state=0).fit(X[:800], y[:800])
    >>> round(machine.score(X[800:], y[800:]), 2)
    0.96
    """

    def _map(self) -> None:
        return None
