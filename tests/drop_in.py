"""The classes of `dimargin.svm`, those of scikit-learn by the same names, and rows to fit both."""

import inspect

import numpy as np
import scipy.sparse as sp
import sklearn.svm
from hypothesis import strategies as st
from sklearn.utils._testing import ignore_warnings

import dimargin.svm as ours
from dimargin.svm.patching import NAMES

CLASSIFIERS = ("SVC", "NuSVC")
REGRESSORS = ("SVR", "NuSVR")
LIBSVM = (*CLASSIFIERS, *REGRESSORS, "OneClassSVM")
LIBLINEAR = ("LinearSVC", "LinearSVR")
MORE = ("max_time", "n_jobs", "allow_uncertified")
KERNELS = (
    {"kernel": "rbf", "gamma": 0.5},
    {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1.0},
    {"kernel": "linear"},
)


def pair(name, **parameters):
    """Our machine and scikit-learn's, which is solved precisely."""
    theirs = {key: value for key, value in parameters.items() if key not in MORE}
    return getattr(ours, name)(**parameters), getattr(sklearn.svm, name)(**{"tol": 1e-8} | theirs)


def both_fitted(name, X, y, weights=None, **parameters):
    """Our machine and scikit-learn's, both fitted."""
    own, their = pair(name, **parameters)
    return own.fit(X, y, sample_weight=weights), ignore_warnings(their.fit)(X, y, sample_weight=weights)


def rows(seed, n=60, n_features=3, n_classes=2):
    """Rows of overlapping classes, their labels, and targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    y = np.r_[np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)]
    X[np.arange(n), y % n_features] += 1.0
    return X, y, np.sin(X[:, 0]) + 0.3 * rng.normal(size=n)


def targets_for(name, y, targets):
    """Return what a class is fitted to."""
    return y if name in (*CLASSIFIERS, "LinearSVC") else targets


def weights_of(seed, n, kind):
    """Return weights of rows: none, positive ones, whole ones, or some of them zero or negative."""
    rng = np.random.default_rng(seed)
    if kind == "none":
        return None
    if kind == "whole":
        return rng.integers(1, 4, n).astype(float)
    weights = rng.uniform(0.3, 2.0, n)
    if kind == "some":
        weights[rng.uniform(size=n) < 0.2] *= -1.0
        weights[rng.uniform(size=n) < 0.2] = 0.0
    return weights


SEEDS = st.integers(0, 10_000)
WEIGHTS = st.sampled_from(["none", "positive", "whole", "some"])


def signature(kind):
    """Return the parameters of a constructor, with their defaults."""
    return [(p.name, p.kind, p.default) for p in inspect.signature(kind).parameters.values()]


def dense(values):
    """Return values as a dense array."""
    return values.toarray() if sp.issparse(values) else np.asarray(values)


assert set(NAMES) == {*LIBSVM, *LIBLINEAR}
