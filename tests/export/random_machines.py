"""Small fitted machines of all kinds, drawn by hypothesis, for comparisons with what is exported."""

import warnings

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

import dimargin as dm

KERNELS = ("rbf", "laplacian", "poly", "linear")


def rows_and_labels(seed, n_classes, n_features=3, n=40):
    """Return rows whose columns have different means and scales, and labels from 0."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, n_features)) + 1.5 * rng.normal(size=(n_classes, n_features))[y]
    return X * rng.uniform(0.5, 3, n_features) + rng.uniform(-3, 3, n_features), y


def fitted(machine, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Machines that have not converged are exported, too.
        return machine.fit(X, y)


def new_rows(X, seed, n=200):
    """Return rows near those of X, some of them far outside."""
    rng = np.random.default_rng(seed)
    return X[rng.integers(0, len(X), n)] + rng.normal(size=(n, X.shape[1])) * rng.choice([0.1, 1.0, 5.0], (n, 1))


@st.composite
def machines(draw, kernels=KERNELS):
    """Draw a fitted machine, and new rows."""
    seed, n_classes = draw(st.integers(0, 2**32 - 1)), draw(st.integers(2, 4))
    X, y = rows_and_labels(seed, n_classes, draw(st.integers(1, 5)))
    names = np.array(["ham", "spam", "eggs", "tea"])
    labels = draw(st.sampled_from([y, 3 - 5 * y, names[y]]))
    kernel = {
        "kernel": draw(st.sampled_from(kernels)),
        "gamma": draw(st.sampled_from(["scale", 0.1, 1.0])),
        "degree": draw(st.integers(1, 4)),
        "coef0": draw(st.sampled_from([0.0, 1.0])),
    }
    several = {
        "multi_class": draw(st.sampled_from(["one_vs_rest", "one_vs_one"])),
        "pair_scores": draw(st.sampled_from(["smallest", "votes"])),
    }
    kind = draw(st.sampled_from(["svm", "odm", "core set", "landmark", "linear"]))
    if kind == "svm":
        machine = dm.SVMClassifier(draw(st.sampled_from([0.1, 1.0, 100.0])), **kernel, **several, max_iter=100)
    elif kind == "odm":
        machine = dm.ODMClassifier(**kernel, **several, max_iter=100)
    elif kind == "core set":
        machine = dm.CoreSetSVMClassifier(**kernel)
    elif kind == "landmark":
        options = {"strategy": "landmark", "n_landmarks": 10, "random_state": 0}
        machine = dm.SVMClassifier(loss="squared_hinge", fit_intercept=False, **kernel, **options)
    else:
        machine = dm.LinearSVMClassifier(max_iter=100, random_state=0)
    stored = sp.csr_array(X) if draw(st.booleans()) else X
    return fitted(machine, stored, labels), new_rows(X, seed + 1)
