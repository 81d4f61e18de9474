"""Small fitted machines of all kinds, drawn by hypothesis, for comparisons with what is exported."""

import warnings

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

import dimargin as dm
from dimargin import svm

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


def regressors():
    """Return unfitted regressors, by names for tests."""
    scaled = make_pipeline(StandardScaler(), dm.SVMRegressor(10.0))
    return {
        "rbf": dm.SVMRegressor(10.0),
        "laplacian": dm.SVMRegressor(10.0, kernel="laplacian", loss="squared_epsilon_insensitive"),
        "poly": dm.SVMRegressor(kernel="poly", degree=2, coef0=1.0, max_iter=100),
        "kernel linear": dm.SVMRegressor(kernel="linear", max_iter=100),
        "linear": dm.LinearSVMRegressor(random_state=0),
        "pipeline": scaled,
        "scaled targets": TransformedTargetRegressor(scaled, transformer=StandardScaler()),
        "targets in a range": TransformedTargetRegressor(dm.SVMRegressor(), transformer=MinMaxScaler((-3, 2))),
        "SVR": svm.SVR(C=10.0),
        "SVR linear": svm.SVR(kernel="linear"),
        "NuSVR": make_pipeline(MaxAbsScaler(), svm.NuSVR(C=10.0)),
        "LinearSVR": svm.LinearSVR(random_state=0),
        "LinearSVR without intercept": svm.LinearSVR(fit_intercept=False, random_state=0),
    }


def sklearn_classifiers():
    """Return unfitted classifiers and a detector with scikit-learn's names, by names for tests."""
    return {
        "SVC": svm.SVC(),
        "SVC with ties": svm.SVC(kernel="poly", degree=2, break_ties=True),
        "SVC linear": make_pipeline(StandardScaler(), svm.SVC(kernel="linear")),
        "NuSVC": svm.NuSVC(nu=0.3),
        "LinearSVC": svm.LinearSVC(random_state=0),
        "LinearSVC joint": svm.LinearSVC(multi_class="crammer_singer", random_state=0),
        "LinearSVC without intercept": svm.LinearSVC(fit_intercept=False, random_state=0),
        "OneClassSVM": svm.OneClassSVM(nu=0.2),
    }


def tied_votes():
    """Return three classes at the corners of a triangle, and rows near its centre, where each class has one vote."""
    angles = np.arange(3) * 2 * np.pi / 3
    corners, rng = np.column_stack([np.cos(angles), np.sin(angles)]), np.random.default_rng(0)
    turned = np.column_stack([np.cos(angles + 0.9), np.sin(angles + 0.9)])
    X, y = np.vstack([corners, 0.7 * turned]), np.tile(np.arange(3), 2)
    return X, y, rng.normal(scale=0.2, size=(500, 2))


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
