"""Probabilities of SVC and NuSVC, by Platt's sigmoids as LIBSVM fits them."""

import numpy as np
import pytest
import scipy.sparse as sp
from drop_in import both_fitted, rows
from sklearn.metrics.pairwise import rbf_kernel

from dimargin.problems.one_vs_one import pairs_of
from dimargin.svm import SVC, NuSVC

pytestmark = [
    pytest.mark.filterwarnings("ignore:The `probability` parameter"),
    pytest.mark.filterwarnings("ignore:Attribute `prob[AB]_` was deprecated"),
]


@pytest.mark.slow_after(2)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", ["SVC", "NuSVC"])
def test_probabilities_are_near_those_of_scikit_learn(name, n_classes):
    X, y, _ = rows(0, n=300, n_classes=n_classes)
    parameters = {"SVC": {"C": 2.0}, "NuSVC": {"nu": 0.4}}[name]
    own, their = both_fitted(name, X, y, probability=True, random_state=0, **parameters)
    mine, theirs = own.predict_proba(X), their.predict_proba(X)
    assert mine.shape == theirs.shape == (300, n_classes)
    np.testing.assert_allclose(mine.sum(axis=1), 1.0, rtol=1e-9)
    assert np.abs(mine - theirs).max() < 0.1 and np.abs(mine - theirs).mean() < 0.025  # The folds differ.
    np.testing.assert_allclose(own.predict_log_proba(X), np.log(mine))
    assert own.probA_.shape == own.probB_.shape == (n_classes * (n_classes - 1) // 2,) and (own.probA_ < 0).all()


def coupled(pairwise, n_classes):
    """Probabilities of classes that agree best with those of pairs (Wu, Lin, Weng, 2004, second method)."""
    r = np.zeros((n_classes, n_classes))
    for (first, second), p in zip(pairs_of(n_classes).tolist(), pairwise, strict=True):
        r[first, second], r[second, first] = p, 1 - p
    Q = np.diag((r**2).sum(axis=0)) - r.T * r
    system = np.block([[Q, np.ones((n_classes, 1))], [np.ones((1, n_classes)), np.zeros((1, 1))]])
    return np.linalg.solve(system, np.r_[np.zeros(n_classes), 1.0])[:n_classes]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_follow_the_formula_of_libsvm(n_classes, form):
    X, y, _ = rows(1, n=150, n_classes=n_classes)
    machine = SVC(probability=True, decision_function_shape="ovo", random_state=0).fit(form(X), y)
    values = machine.decision_function(form(X)).reshape(150, -1)
    values = -values if n_classes == 2 else values  # scikit-learn's are positive for the second of two classes.
    pairwise = np.clip(1 / (1 + np.exp(machine.probA_ * values + machine.probB_)), 1e-7, 1 - 1e-7)
    expected = (
        np.c_[pairwise, 1 - pairwise] if n_classes == 2 else np.array([coupled(row, n_classes) for row in pairwise])
    )
    np.testing.assert_allclose(machine.predict_proba(form(X)), expected, atol=5e-3)


@pytest.mark.parametrize("kind", [SVC, NuSVC])
def test_probabilities_of_kernel_values_weights_and_seeds(kind):
    X, y, _ = rows(2, n=120)
    machine = kind(probability=True, random_state=0, gamma=0.5).fit(X, y)
    values = kind(probability=True, random_state=0, kernel="precomputed").fit(rbf_kernel(X, gamma=0.5), y)
    np.testing.assert_allclose(values.predict_proba(rbf_kernel(X, gamma=0.5)), machine.predict_proba(X), atol=1e-5)
    again = kind(probability=True, random_state=0, gamma=0.5).fit(X, y)
    np.testing.assert_array_equal(again.predict_proba(X), machine.predict_proba(X))
    other = kind(probability=True, random_state=1, gamma=0.5).fit(X, y)
    assert (other.predict_proba(X) != machine.predict_proba(X)).any()
    # A row of weight zero is no row.
    weights, odd = np.r_[np.ones(120), np.zeros(30)], np.r_[y, 1 - y[:30]]
    with_others = kind(probability=True, random_state=0, gamma=0.5).fit(np.r_[X, X[:30]], odd, weights)
    np.testing.assert_allclose(with_others.predict_proba(X), machine.predict_proba(X), atol=1e-5)


def test_heavier_rows_have_a_greater_say():
    X, y, _ = rows(3, n=200)
    plain = SVC(probability=True, random_state=0).fit(X, y).predict_proba(X)
    heavy = SVC(probability=True, random_state=0).fit(X, y, np.where(y == 1, 4.0, 1.0)).predict_proba(X)
    by_class = SVC(probability=True, random_state=0, class_weight={1: 4.0}).fit(X, y).predict_proba(X)
    assert heavy[:, 1].mean() > plain[:, 1].mean() + 0.1
    np.testing.assert_allclose(by_class, heavy, atol=1e-9)


def test_a_class_of_few_rows_may_be_missing_in_a_fold():
    X, y, _ = rows(4, n=40)
    y[:] = 0
    y[:2] = 1
    X[:2] += 4.0
    probabilities = SVC(probability=True, random_state=0).fit(X, y).predict_proba(X)
    assert np.isfinite(probabilities).all() and (probabilities[:2, 1] > probabilities[2:, 1].max()).all()


def test_no_probabilities_unless_asked_for():
    machine = SVC().fit(*rows(5)[:2])
    assert not hasattr(machine, "predict_proba") and not len(machine._probA)
