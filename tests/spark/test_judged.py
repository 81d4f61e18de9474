"""Certificates of machines that executors have trained, judged by code that shares nothing with the package."""

import warnings

import numpy as np
import pytest
from judge import Hinge, Odm, Problem, SquaredHinge, complaints, judge, judge_weights, signed_coefficients
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from test_training import COLUMNS, frame_of

from dimargin import LinearODMClassifier, ODMClassifier, SVMClassifier
from dimargin.shards import parts
from dimargin.spark.training import train

TREE = {"strategy": "diodm", "branching": 2, "n_levels": 1, "random_state": 0}
LINEAR = {"kernel": "linear", "gamma": 1.0}
POLY = {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1.0}
RBF = {"kernel": "rbf", "gamma": 0.5}
N = 60


def data(scale, n_classes):
    rng = np.random.default_rng(0)
    X = scale * rng.normal(size=(N, 3))
    y = np.digitize(X[:, 0] / scale + rng.normal(size=N), [0.0, 1.0][: n_classes - 1]).astype(float)
    return X, y, rng.uniform(0.5, 2, N)


def labels_of(y):
    classes = np.unique(y)
    return np.array([np.where(y == c, 1.0, -1.0) for c in (classes[1:] if len(classes) == 2 else classes)])


def indices_in(X, vectors):
    """Rows that support vectors are; there are no equal ones."""
    return np.array([int(np.flatnonzero((vector == X).all(axis=1))[0]) for vector in np.asarray(vectors)])


@pytest.fixture(autouse=True)
def several_shards(monkeypatch):
    monkeypatch.setattr(parts, "_ROWS_OF_SHARD", 20)
    monkeypatch.setattr("dimargin.spark.training.MAX_VALUES_OF_TASK", 0)


MACHINES = [
    (SVMClassifier(C=0.15, fit_intercept=True, **LINEAR, **TREE), Hinge(0.15), LINEAR),
    (SVMClassifier(C=10.0, **RBF, **TREE), Hinge(10.0), RBF),
    (SVMClassifier(C=1.0, loss="squared_hinge", fit_intercept=True, **POLY, **TREE), SquaredHinge(1.0), POLY),
    (ODMClassifier(lam=1e3, **LINEAR, **TREE), Odm(1e3, 0.5, 0.2), LINEAR),
    (LinearODMClassifier(lam=1e3, random_state=0), Odm(1e3, 0.5, 0.2), LINEAR),
]


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "tol", "n_classes"), [(1.0, 1e-3, 2), (1e4, 1e-6, 2), (1.0, 1e-6, 3)])
@pytest.mark.parametrize(("machine", "loss", "kernel"), MACHINES, ids=lambda value: type(value).__name__)
def test_no_certificate_is_false(machine, loss, kernel, scale, tol, n_classes, spark):
    X, y, weights = data(scale, n_classes)
    ours = {"upsilon": 0.5, "theta": 0.2} if isinstance(loss, Odm) else {}
    machine = clone(machine).set_params(tol=tol, **ours)
    intercept = bool(getattr(machine, "fit_intercept", False))
    problem = Problem(X, labels_of(y), weights, loss, kernel, intercept)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        there = train(machine, frame_of(spark, X, y, weights), COLUMNS)
        here = clone(machine).set_params(tol=1e-9).fit(X, y, sample_weight=weights)
    if hasattr(machine, "kernel"):
        best = judge(problem, signed_coefficients(problem, here.support_, here.dual_coef_), here.intercept_).upper
        signed = signed_coefficients(problem, indices_in(X, there.support_vectors_), there.dual_coef_)
        truth = judge(problem, signed, there.intercept_)
    else:
        best = judge_weights(problem, here.coef_, here.intercept_).upper
        truth = judge_weights(problem, there.coef_, there.intercept_)
    assert there.certificate_ == "global"
    assert not complaints(there, truth, best)
