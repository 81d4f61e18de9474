"""Random Fourier features as a scikit-learn transformer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dimargin.estimators.input_checks import check_number
from dimargin.kernels.fourier import fourier_features, fourier_frequencies
from dimargin.system.arrays import Floats
from dimargin.system.plain_numbers import PlainNumbers


@dataclass(eq=False, repr=False)
class FourierFeatures(PlainNumbers, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Orthogonal random Fourier features, which approximate the RBF kernel for linear machines.

    The features depend only on the seed and the number of columns, and the model contains no
    training rows. Sites with the same seed therefore train a kernel machine by gossiping its
    weights, and no row leaves them
    (``dimargin site --algorithm gadget --kernel rbf``; its model files contain this step).

    Parameters
    ----------
    gamma : float, default=1.0
        Parameter of the kernel ``exp(-gamma |x - z|^2)``.
    n_components : int, default=500
        Number of frequencies. Each gives a cosine and a sine, so there are twice as many features,
        as in `FastFood`. The standard deviation of a kernel value is at most
        ``(2 n_components) ** -0.5``.
    random_state : int, default=0
        Seed of the frequencies, which all sites must share.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when X had column names.
    frequencies_ : ndarray of shape (n_features_in_, n_components)

    See Also
    --------
    dimargin_bench.kernel_rivals.FastFood : Faster features for many columns.

    References
    ----------
    A. Rahimi, B. Recht, "Random features for large-scale kernel machines", NIPS 2007; F. Yu et al.,
    "Orthogonal random features", NIPS 2016.

    Examples
    --------
    >>> from dimargin import GossipSVMClassifier
    >>> from dimargin.estimators.preprocessing import FourierFeatures
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = make_moons(400, noise=0.1, random_state=0)
    >>> sites = GossipSVMClassifier(n_sites=4, alpha=1e-2, shards="sorted", tol=0.01, random_state=0)
    >>> machine = make_pipeline(FourierFeatures(gamma=2.0, n_components=100), sites).fit(X[:300], y[:300])
    >>> machine.score(X[300:], y[300:]) > 0.95
    True
    """

    gamma: float = 1.0
    n_components: int = 500
    random_state: int = 0

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the frequencies for the columns of X.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If a parameter or value is out of range.
        """
        check_number("gamma", self.gamma, 0)
        check_number("n_components", self.n_components, 1, low_included=True, whole=True)
        check_number("random_state", self.random_state, 0, low_included=True, whole=True)
        X = validate_data(self, X, accept_sparse="csr", dtype=float)
        self.frequencies_ = fourier_frequencies(
            X.shape[1], int(self.n_components), float(self.gamma), int(self.random_state)
        )
        return self

    def transform(self, X: Any) -> Floats:
        """Compute the features of rows.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, 2 * n_components)
            Rows of norm one: all cosines, then all sines.
        """
        check_is_fitted(self)
        return fourier_features(
            validate_data(self, X, accept_sparse="csr", dtype=float, reset=False), self.frequencies_
        )

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags, with support for sparse rows."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return 2 * int(self.frequencies_.shape[1])
