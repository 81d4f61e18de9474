"""Of equal rows with the same label one stands for all, of which users see the time and fewer support vectors."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from dimargin import CoreSetSVMClassifier, ODMClassifier, ODMClassifierCV, SVMClassifier
from dimargin.estimators import training_data as data_module
from dimargin.estimators.kernel_parameters import row_transform_of
from dimargin.estimators.search import scoring
from dimargin.estimators.search.folds import ExactTrainer, Fold, Sample
from dimargin.estimators.training_data import merged, training_data
from dimargin.problems.losses import ODMLoss
from dimargin.solvers import Limits

MACHINES = [
    SVMClassifier(C=2.0),
    SVMClassifier(C=2.0, fit_intercept=True),
    SVMClassifier(C=2.0, loss="squared_hinge"),
    ODMClassifier(lam=1e4),
    ODMClassifier(lam=1e4, fit_intercept=True),
    CoreSetSVMClassifier(C=2.0),
]
STRATEGIES = ["exact", "diodm", "dc", "cascade", "dip", "landmark"]


def repeated(n=2600, n_different=900, n_classes=2, seed=0):
    """Rows of which most occur more than once, now and then with another label, and weights."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n_different, 3)), 1)[rng.integers(0, n_different, n)]
    y = np.digitize(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n), [0.0, 0.5][: n_classes - 1])
    return X, y, rng.uniform(0.5, 2.0, n)


def unmerged(machine):
    """The same machine, which keeps all rows because it has a memory limit."""
    return clone(machine).set_params(memory_limit=2**40)


def primal(machine, X, y, weights):
    """The primal objective on all rows as they were given, by the model's function alone."""
    labels = np.where(y == machine.classes_[1], 1.0, -1.0)
    total = weights.sum()
    losses = machine.fit_plan().loss.value(labels * machine.decision_function(X), weights, total, total)
    # An intercept without a penalty adds nothing, because the coefficients' sum is zero then.
    return 0.5 * machine.dual_coef_[0] @ machine.decision_function(machine.support_vectors_) + losses.sum()


# ---- which rows stand for which --------------------------------------------------------------------------------------


@given(st.integers(2, 60), st.integers(1, 12), st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
def test_against_unique_rows(n, n_different, seed, sparse, dropped):
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, 2, size=(n_different, 3))[rng.integers(0, n_different, n)].astype(float)
    y, weights = rng.integers(0, 2, n), rng.uniform(0.1, 3.0, n)
    y[:2], weights[2:] = [0, 1], weights[2:] * (rng.random(n - 2) < 0.7 if dropped else 1.0)
    data = training_data(SVMClassifier(), sp.csr_array(X) if sparse else X, y, weights)
    found = merged(data, min_rows=1)
    rows, first, sums = np.unique(np.c_[X, y][data.kept], axis=0, return_index=True, return_inverse=True)
    if len(rows) > 0.95 * len(data.kept):
        assert found is data
        return
    order = np.argsort(first)
    dense = found.X.toarray() if sparse else found.X
    assert_array_equal(np.c_[dense, found.y], rows[order])
    assert_array_equal(found.kept, data.kept[np.sort(first)])
    assert_allclose(found.weights, np.bincount(sums.ravel(), weights[data.kept])[order])
    assert_array_equal(dense[found.standing_for], X[data.kept])
    # sums of what the caller's rows have, those of no weight aside
    values = rng.normal(size=(2, n))
    expected = [np.bincount(sums.ravel(), own[data.kept])[order] for own in values]
    assert_allclose(found.sums(np.arange(n), values), expected, atol=1e-12)


def test_rows_that_only_have_the_same_key_stay_apart(monkeypatch):
    monkeypatch.setattr(data_module, "row_keys", lambda X, codes, *_: np.zeros(len(codes), dtype=np.uint64))
    X = np.tile(np.arange(2500.0)[:, None], (1, 2))
    X[1::2] = X[::2]
    y = np.arange(2500) // 2 % 2
    y[1] = 1
    found = merged(training_data(SVMClassifier(), X, y, None))
    assert len(found.y) == 1251  # the first two differ in their labels
    assert_array_equal(found.X[found.standing_for], X)


def test_the_order_of_rows_changes_nothing_but_which_is_first():
    X, y, weights = repeated()
    shuffled = np.random.default_rng(1).permutation(len(X))
    some, other = (
        merged(training_data(SVMClassifier(), X[own], y[own], weights[own]))
        for own in (np.arange(len(X)), shuffled)
    )  # fmt: skip
    assert_array_equal(some.weights[some.standing_for][shuffled], other.weights[other.standing_for])
    assert_array_equal(some.X[some.standing_for][shuffled], other.X[other.standing_for])


def test_which_data_are_merged():
    X, y, _ = repeated()
    for rows, labels, expected in ((X, y, True), (X[:2000], y[:2000], False)):
        data = training_data(SVMClassifier(), rows, labels, None)
        assert (merged(data) is not data) == expected
    different = np.random.default_rng(0).normal(size=X.shape)
    data = training_data(SVMClassifier(), different, y, None)
    assert merged(data) is data


def test_kernel_values_and_kernels_of_users_are_not_looked_at(monkeypatch):
    monkeypatch.setattr("dimargin.estimators.kernel_machine.merged", None)
    X, y, _ = repeated()
    SVMClassifier(kernel="precomputed", max_iter=1, tol=0.9).fit(np.ones((2100, 2100)), y[:2100])
    SVMClassifier(kernel=lambda A, B: A @ B.T, max_iter=1, tol=0.9).fit(X[:2100], y[:2100])
    SVMClassifier(memory_limit=2**30, tol=0.9).fit(X, y)
    ODMClassifier(strategy="landmark", n_landmarks=20).fit(X, y)


# ---- the model -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", MACHINES, ids=repr)
def test_the_optimum_is_that_of_all_rows(machine):
    X, y, weights = repeated()
    machine.set_params(tol=1e-6)
    found = machine.fit(X, y, weights)
    objective, dual, values = found.objective_, found.dual_objective_, found.decision_function(X)
    assert len(np.unique(np.c_[X[found.support_], y[found.support_]], axis=0)) == len(found.support_) < 1500
    assert_array_equal(found.support_vectors_, X[found.support_])
    assert primal(found, X, y, weights) == pytest.approx(objective, rel=1e-9)
    machine = unmerged(machine).fit(X, y, weights)
    assert objective == pytest.approx(machine.objective_, rel=3e-6)
    assert dual <= machine.objective_ and machine.dual_objective_ <= objective
    assert_allclose(values, machine.decision_function(X), atol=0.02)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.slow_after(1)
def test_every_strategy_takes_them_and_certify_agrees(strategy, n_classes):
    X, y, weights = repeated(n_classes=n_classes)
    machine = ODMClassifier(lam=1e4, strategy=strategy, multi_class="one_vs_rest", random_state=0)
    machine.fit(X, y, weights)
    claimed, objective = machine.duality_gap_, machine.objective_
    machine.certify(X, y, weights)
    assert machine.certificate_ == "global"
    if strategy != "landmark":
        assert machine.duality_gap_ <= 1.1 * claimed + 1e-6
        assert_allclose(machine.objective_, objective, rtol=1e-4)


@pytest.mark.parametrize("intercept", [False, True])
def test_pairs_of_classes(intercept):
    X, y, weights = repeated(n_classes=3)
    machine = SVMClassifier(C=2.0, fit_intercept=intercept, multi_class="one_vs_one", tol=1e-6)
    objective = machine.fit(X, y, weights).objective_
    machine.certify(X, y, weights)
    assert machine.duality_gap_ <= 1e-6
    assert_allclose(unmerged(machine).fit(X, y, weights).objective_, objective, rtol=3e-6)


def test_certify_and_warm_start_know_models_of_either_kind():
    X, y, weights = repeated()
    machine = SVMClassifier(C=2.0, memory_limit=2**30, warm_start=True, tol=1e-6)
    objective = machine.fit(X, y, weights).objective_  # with a coefficient for every row
    assert len(machine.support_) > len(np.unique(machine.support_vectors_, axis=0))
    machine.certify(X, y, weights)
    assert machine.duality_gap_ <= 2e-6 and machine.objective_ == pytest.approx(objective, rel=1e-6)
    cold = SVMClassifier(C=2.0, tol=1e-6).fit(X, y, weights)
    machine.set_params(memory_limit=None).fit(X, y, weights)
    spent, all_spent = (sum(entry["kernel_evaluations"] for entry in m.history_) for m in (machine, cold))
    assert spent < 0.7 * all_spent
    assert machine.objective_ == pytest.approx(objective, rel=3e-6)
    machine.set_params(memory_limit=2**30).fit(X, y, weights)  # and back
    assert machine.objective_ == pytest.approx(objective, rel=3e-6)


# ---- the search ------------------------------------------------------------------------------------------------------


def test_samples_are_merged_with_the_mass_of_all_rows():
    X, y, weights = repeated(n=4000)
    data = training_data(ODMClassifier(), X, y, weights)
    fold = Fold(np.arange(3000), np.arange(3000, 4000))
    transform = row_transform_of(ODMClassifier(gamma=0.5), X, weights)
    values = []
    for may_merge in (False, True):
        sample = Sample.of(data, fold, 3000, may_merge)
        trainer = ExactTrainer(sample, transform, False)
        values.append(trainer.values(ODMLoss(1e4, 0.5, 0.3), Limits(1e-7, 200)))
    assert sample.rows.shape[0] < 1500
    assert_allclose(values[0], values[1], atol=2e-3)


def test_a_search_may_merge(monkeypatch):
    X, y, _ = repeated(n=4000)
    grid = {"gamma": [0.01, 0.3], "lam": [1e3, 1e5]}
    search = ODMClassifierCV(None, grid, random_state=0, search_tol=1e-4)
    best, score = search.fit(X, y).best_params_, search.best_score_
    assert len(search.support_) == len(np.unique(np.c_[X[search.support_], y[search.support_]], axis=0))
    monkeypatch.setattr(scoring, "may_merge", lambda machine: False)
    assert search.fit(X, y).best_params_ == best
    assert search.best_score_ == pytest.approx(score, abs=2e-3)
