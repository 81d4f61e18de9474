"""ODMClassifier as a scikit-learn classifier in every respect."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, make_classification, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import laplacian_kernel, linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dimargin import DiODM, Exact, ODMClassifier, SVMClassifier

TREE = {"strategy": DiODM(early_stop=False), "n_levels": 2, "branching": 2}


@pytest.fixture(scope="module")
def moons():
    return make_moons(1400, noise=0.2, random_state=0)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:900] / 16, y[:900]


def test_an_explicit_tree_really_runs_on_few_rows():
    X, y = make_moons(24, noise=0.1, random_state=0)
    machine = ODMClassifier(**TREE, random_state=0).fit(X, y)
    assert [(entry["level"], entry["partitions"]) for entry in machine.history_] == [(2, 4), (1, 2), (0, 1)]
    keys = {"level", "partitions", "seconds", "kernel_evaluations", "objective", "relative_gap"}
    assert all(keys <= set(entry) for entry in machine.history_)


@pytest.mark.parametrize("stop_level", [1, 2])
def test_stop_level_returns_that_level(moons, stop_level):
    machine = ODMClassifier(**TREE, stop_level=stop_level, random_state=0).fit(*moons)
    assert machine.history_[-1]["level"] == stop_level
    assert machine.certificate_ == "partitioned"
    assert machine.score(*moons) > 0.94


@pytest.mark.parametrize(
    ("kernel", "reference"),
    [
        ("linear", lambda X, g: linear_kernel(X)),
        ("poly", lambda X, g: polynomial_kernel(X, degree=2, gamma=g, coef0=1.0)),
        ("rbf", lambda X, g: rbf_kernel(X, gamma=g)),
        ("laplacian", lambda X, g: laplacian_kernel(X, gamma=g)),
    ],
)
@pytest.mark.parametrize("n", [300, 900])
@pytest.mark.parametrize("intercept", [False, True])
def test_ridge_closed_form(moons, kernel, reference, n, intercept):
    # theta = 0, upsilon = 1: margins are drawn to one by least squares, (K + W c I) a + b = y and, with b, 1'a = 0
    X, y = moons[0][:n], moons[1][:n]
    lam, gamma, sign = 50.0, 0.7, np.where(moons[1][:n] == 1, 1.0, -1.0)
    machine = ODMClassifier(
        kernel=kernel, gamma=gamma, degree=2, coef0=1.0, lam=lam, theta=0.0, upsilon=1.0, tol=1e-9, strategy="exact",
        fit_intercept=intercept,
    ).fit(X, y)  # fmt: skip
    K, ones = reference(X, gamma), np.full(n, float(intercept))
    system = np.block([[K + n / lam * np.eye(n), ones[:, None]], [ones[None], np.eye(1) * (not intercept)]])
    *a, b = np.linalg.solve(system, np.r_[sign, 0.0])
    assert_allclose(machine.decision_function(X), K @ a + b, rtol=0, atol=2e-4)
    assert machine.intercept_ == pytest.approx(b, abs=2e-4) and (machine.intercept_ != 0) == intercept
    primal = 0.5 * np.array(a) @ K @ a + lam / (2 * n) * np.sum((1 - sign * (K @ a + b)) ** 2)
    assert machine.objective_ == pytest.approx(primal, rel=1e-8)
    assert machine.dual_objective_ <= machine.objective_


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n", [200, 700])
def test_weight_two_is_a_row_given_twice(moons, sparse, n):
    X, y = moons[0][:n], moons[1][:n]
    weight = np.random.default_rng(0).integers(0, 4, n)
    X_many, y_many = np.repeat(X, weight, axis=0), np.repeat(y, weight)
    if sparse:
        X, X_many = sp.csr_array(X), sp.csr_array(X_many)
    machine = ODMClassifier(lam=100.0, tol=1e-8)
    weighted = clone(machine).fit(X, y, sample_weight=weight)
    repeated = clone(machine).fit(X_many, y_many)
    # small problems are exact; larger ones are within the tolerance: |f - f*|^2 <= 2 gap
    tolerance = 1e-9 if len(y_many) <= 512 else np.sqrt(2 * 1e-8 * repeated.objective_)
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), rtol=0, atol=tolerance)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-7)


def test_scaling_all_weights_changes_nothing(moons):
    X, y = moons[0][:400], moons[1][:400]
    one = ODMClassifier(lam=4e5).fit(X, y)
    seven = ODMClassifier(lam=4e5).fit(X, y, sample_weight=np.full(400, 7.0))
    assert_allclose(seven.decision_function(X), one.decision_function(X), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("strategy", ["exact", "diodm", "landmark"])
def test_without_lam_a_row_weighs_twenty(strategy, moons):
    X, y = moons[0][:600], moons[1][:600]
    weights = np.resize([1.0, 2.0, 0.5], 600)
    by_row = ODMClassifier(strategy=strategy, random_state=0).fit(X, y, sample_weight=weights)
    by_sum = ODMClassifier(lam=20 * weights.sum(), strategy=strategy, random_state=0).fit(X, y, sample_weight=weights)
    assert_array_equal(by_row.dual_coef_, by_sum.dual_coef_)
    assert by_row.objective_ == by_sum.objective_
    twice = ODMClassifier(strategy="exact", tol=1e-6).fit(np.tile(X, (2, 1)), np.tile(y, 2))
    weighted = ODMClassifier(strategy="exact", tol=1e-6).fit(X, y, sample_weight=np.full(600, 2.0))
    assert twice.objective_ == pytest.approx(weighted.objective_, rel=1e-5)


def test_weights_of_classes_whose_texts_are_digits(moons):
    """007 and 7 are two classes; scikit-learn's compute_class_weight takes both for the number."""
    X, y = moons[0][:400], np.where(moons[1][:400] == 1, "007", "7")
    by_class = ODMClassifier(class_weight={"007": 3.0, "7": 0.5}).fit(X, y)
    by_row = ODMClassifier().fit(X, y, sample_weight=np.where(y == "007", 3.0, 0.5))
    assert_array_equal(by_class.dual_coef_, by_row.dual_coef_)
    with pytest.raises(ValueError, match=r"The classes, \['007', '7'\], are not in class_weight"):
        ODMClassifier(class_weight={7: 3.0}).fit(X, y)


def test_class_weight_is_a_sample_weight(moons):
    X, y = moons[0][:400], np.where(moons[1][:400] == 1, "up", "down")
    by_class = ODMClassifier(class_weight={"up": 3.0}).fit(X, y)
    by_row = ODMClassifier().fit(X, y, sample_weight=np.where(y == "up", 3.0, 1.0))
    assert_array_equal(by_class.dual_coef_, by_row.dual_coef_)


def test_balanced_classes_have_the_same_weight_whatever_that_of_their_rows(moons):
    """The factor of a class is half the weight of all rows, over that of its own."""
    X, y, rng = moons[0][:250], moons[1][:250], np.random.default_rng(0)
    weights = rng.uniform(0.5, 2, 250) * np.where(y == 1, 5.0, 1.0)
    balanced = ODMClassifier(class_weight="balanced").fit(X, y, sample_weight=weights)
    factors = weights.sum() / 2 / np.array([weights[y == label].sum() for label in (0, 1)])
    by_row = ODMClassifier().fit(X, y, sample_weight=weights * factors[y])
    assert_allclose(balanced.dual_coef_, by_row.dual_coef_, rtol=1e-6)


@pytest.mark.parametrize(
    "labels",
    [np.array(["no", "yes"]), np.array(["no", "yes"], dtype=object), np.array([False, True]), np.array([-7, 3])],
)
def test_any_label_type(moons, labels):
    X, codes = moons[0][:300], moons[1][:300]
    machine = ODMClassifier().fit(X, labels[codes])
    assert_array_equal(machine.classes_, np.unique(labels))
    assert machine.predict(X).dtype == labels.dtype
    assert_array_equal(machine.predict(X) == machine.classes_[1], machine.decision_function(X) > 0)


@pytest.mark.parametrize("strategy", [Exact(), DiODM(early_stop=False)])
def test_many_classes_equal_one_against_the_rest(digits, strategy):
    X, y = digits
    levels = {"n_levels": 1} if isinstance(strategy, DiODM) else {}
    machine = ODMClassifier(tol=1e-7, random_state=0, multi_class="one_vs_rest", strategy=strategy, **levels).fit(X, y)
    for k in (0, 4, 9):
        single = clone(machine).fit(X, y == k)
        allowed = 2 * np.sqrt(2e-7 * single.objective_)
        assert_allclose(machine.decision_function(X)[:, k], single.decision_function(X), rtol=0, atol=allowed)
        assert machine.objective_[k] == pytest.approx(single.objective_, rel=1e-6)


def test_shapes_for_many_classes(digits):
    X, y = digits
    machine = ODMClassifier(multi_class="one_vs_rest").fit(X, y)
    n_sv = len(machine.support_)
    assert machine.dual_coef_.shape == (10, n_sv)
    assert machine.support_vectors_.shape == (n_sv, 64)
    assert machine.intercept_.shape == machine.n_support_.shape == machine.classes_.shape == (10,)
    assert machine.n_support_.sum() == n_sv
    assert machine.objective_.shape == machine.dual_objective_.shape == (10,)
    assert np.all(machine.dual_objective_ <= machine.objective_)
    assert machine.duality_gap_ == pytest.approx(np.max(1 - machine.dual_objective_ / machine.objective_))
    values = machine.decision_function(X)
    assert values.shape == (900, 10)
    assert_array_equal(machine.predict(X), machine.classes_[values.argmax(axis=1)])
    assert machine.history_[-1]["objective"].shape == (10,)
    assert_array_equal(X[machine.support_], machine.support_vectors_)


def test_frames_keep_their_feature_names(moons):
    X, y = moons[0][:300], moons[1][:300]
    machine = ODMClassifier().fit(pd.DataFrame(X, columns=["east", "north"]), y)
    assert_array_equal(machine.feature_names_in_, ["east", "north"])
    values = machine.decision_function(pl.DataFrame(X, schema=["east", "north"]))
    assert_array_equal(values, ODMClassifier().fit(X, y).decision_function(X))
    with pytest.raises(ValueError, match="feature names"):
        machine.predict(pd.DataFrame(X, columns=["north", "east"]))


def test_sparse_and_dense_agree(moons):
    X, y = moons[0][:700], moons[1][:700]
    X = np.where(abs(X) < 0.3, 0.0, X)
    dense = ODMClassifier(gamma=2.0, tol=1e-7).fit(X, y)
    for index_type in (np.int32, np.int64):
        csr = sp.csr_array(X)
        csr.indices, csr.indptr = csr.indices.astype(index_type), csr.indptr.astype(index_type)
        sparse = ODMClassifier(gamma=2.0, tol=1e-7).fit(csr, y)
        assert sp.issparse(sparse.support_vectors_)
        allowed = 2 * np.sqrt(2e-7 * dense.objective_)
        assert_allclose(sparse.decision_function(csr), dense.decision_function(X), rtol=0, atol=allowed)
        # a model answers both kinds of query, whatever it was trained on
        assert_allclose(sparse.decision_function(X), sparse.decision_function(csr), rtol=0, atol=1e-12)
        assert_allclose(dense.decision_function(csr), dense.decision_function(X), rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"strategy": "exact"}, TREE])
@pytest.mark.parametrize("classes", [2, 4])
def test_same_bits_for_any_number_of_threads(options, classes):
    X, y = make_classification(1500, 12, n_informative=8, n_classes=classes, random_state=0)
    machines = [ODMClassifier(**options, n_jobs=jobs, random_state=3).fit(X, y) for jobs in (1, 2, -1, None)]
    for machine in machines[1:]:
        assert_array_equal(machine.dual_coef_, machines[0].dual_coef_)
        assert_array_equal(machine.decision_function(X), machines[0].decision_function(X))
        assert machine.duality_gap_ == machines[0].duality_gap_


def test_same_seed_same_model(moons):
    first, second = (ODMClassifier(**TREE, random_state=5).fit(*moons) for _ in range(2))
    assert_array_equal(first.dual_coef_, second.dual_coef_)
    other = ODMClassifier(**TREE, random_state=6).fit(*moons)
    assert not np.array_equal(first.dual_coef_, other.dual_coef_)


def test_far_queries_get_the_answer_of_no_neighbour(moons):
    machine = ODMClassifier().fit(*moons)
    assert_array_equal(machine.decision_function([[1e30, 0.0], [1e200, -1e200]]), [0.0, 0.0])


def test_pickle_clone_pipeline_grid_search(moons):
    X, y = moons[0][:400], moons[1][:400]
    pipeline = make_pipeline(StandardScaler(), ODMClassifier(strategy=DiODM(), n_levels=1, random_state=0))
    grid = {"odmclassifier__strategy__level_tol": [0.1, 0.01], "odmclassifier__lam": [10.0, 1000.0]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, y)
    assert search.best_score_ > 0.85
    copy = pickle.loads(pickle.dumps(search.best_estimator_))
    assert_array_equal(copy.decision_function(X), search.decision_function(X))
    assert not hasattr(clone(search.best_estimator_[-1]), "dual_coef_")


def test_calibration_gives_probabilities(moons):
    X, y = moons[0][:400], moons[1][:400]
    weight = np.random.default_rng(0).uniform(0.5, 2, 400)
    model = CalibratedClassifierCV(ODMClassifier(), ensemble=False).fit(sp.csr_array(X), y, sample_weight=weight)
    assert_array_equal(model.predict(X) == 1, model.predict_proba(X)[:, 1] > 0.5)


@pytest.mark.parametrize("intercept", [False, True])
def test_warm_start(moons, intercept):
    X, y = moons
    fresh = ODMClassifier(lam=4e5, strategy="exact", fit_intercept=intercept, random_state=0)
    machine = clone(fresh).set_params(warm_start=True).fit(X, y)
    cold = machine.n_iter_
    machine.set_params(lam=machine.lam * 1.05).fit(X, y)
    assert machine.n_iter_ < cold
    fresh.set_params(lam=machine.lam).fit(X, y)
    assert machine.objective_ == pytest.approx(fresh.objective_, rel=2e-3)
    with pytest.raises(ValueError, match="warm_start=True needs the rows"):
        machine.fit(X[:-1], y[:-1])
    tree = ODMClassifier(**TREE, warm_start=True, random_state=0).fit(X, y)
    assert tree.fit(X, y).duality_gap_ <= tree.tol


def test_certify_gives_the_global_gap(moons):
    X, y = moons
    machine = ODMClassifier(lam=4e5, **TREE, stop_level=2, tol=1e-3, random_state=0).fit(X, y)
    assert machine.certificate_ == "partitioned"
    before = machine.decision_function(X)
    machine.certify(X, y)
    assert machine.certificate_ == "global"
    assert_array_equal(machine.decision_function(X), before)
    sign = np.where(y == 1, 1.0, -1.0)
    K = rbf_kernel(X, gamma=1 / (2 * X.var()))
    a = np.zeros(len(y))
    a[machine.support_] = machine.dual_coef_[0]
    m, g = sign * (K @ a), sign * a
    low, high = np.maximum(1 - machine.theta - m, 0), np.maximum(m - 1 - machine.theta, 0)
    scale = machine.lam / (2 * len(y) * (1 - machine.theta) ** 2)
    primal = 0.5 * a @ K @ a + scale * np.sum(low**2 + machine.upsilon * high**2)
    zeta, beta = np.maximum(g, 0), np.maximum(-g, 0)
    c = (1 - machine.theta) ** 2 / (machine.lam * machine.upsilon)
    dual = -(
        0.5 * a @ K @ a
        + len(y) * c / 2 * (machine.upsilon * zeta @ zeta + beta @ beta)
        + (machine.theta - 1) * zeta.sum()
        + (machine.theta + 1) * beta.sum()
    )
    assert machine.objective_ == pytest.approx(primal, rel=1e-8)
    assert machine.dual_objective_ <= dual == pytest.approx(machine.dual_objective_, rel=1e-8)  # rounding is in it
    assert (primal - dual) / primal <= machine.duality_gap_ == pytest.approx((primal - dual) / primal, rel=1e-7)
    with pytest.raises(ValueError, match="not the rows"):
        machine.certify(X[::-1], y)
    with pytest.raises(TimeoutError, match="max_time"):
        machine.certify(X, y, max_time=1e-9)


def test_certify_knows_weights_and_many_classes(digits):
    X, y = digits
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    machine = ODMClassifier(tol=1e-6, class_weight="balanced").fit(X, y, sample_weight=weight)
    gap, objective = machine.duality_gap_, machine.objective_
    machine.certify(X, y, sample_weight=weight)
    assert_allclose(machine.objective_, objective, rtol=1e-8)
    assert machine.duality_gap_ == pytest.approx(gap, rel=0.05, abs=1e-9)


def test_time_limit_returns_the_best_model_so_far():
    X, y = make_classification(6000, 20, random_state=0)
    with pytest.warns(ConvergenceWarning, match="best so far"):
        machine = ODMClassifier(lam=1e7, gamma=1.0, max_time=0.05, tol=1e-9).fit(X, y)
    assert machine.status_ == "max_time"
    assert machine.duality_gap_ > 1e-9
    assert machine.score(X, y) >= np.bincount(y).min() / len(y)  # on a busy machine it has looked at no row yet


def test_max_iter_warns(moons):
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        machine = ODMClassifier(lam=1e8, max_iter=1).fit(*moons)
    assert machine.status_ == "max_iter"


def test_unfitted():
    with pytest.raises(NotFittedError):
        ODMClassifier().predict([[0.0]])
    with pytest.raises(NotFittedError):
        ODMClassifier().certify([[0.0]], [0])


@pytest.mark.parametrize(
    ("options", "n_rows", "expected"),
    [
        ({}, 100_000, "exact"),
        ({}, 100_001, "dc"),
        ({"max_time": 1.0}, 100_000, "exact"),
        ({"max_time": 1.0}, 100_001, "dc"),
        ({"memory_limit": 10**9}, 100_001, "diodm"),
        ({"kernel": "precomputed"}, 100_001, "diodm"),
        ({"n_landmarks": 20}, 100_001, "diodm"),
        ({"n_levels": 1}, 100, "diodm"),
        ({"stop_level": 1}, 100_001, "diodm"),
        ({"strategy": "cascade"}, 100_001, "cascade"),
    ],
)
def test_auto_chooses_by_the_number_of_rows_and_by_what_is_asked_for(options, n_rows, expected):
    for machine in (ODMClassifier(**options), SVMClassifier(**options)):
        assert machine.fit_plan(n_rows).name == expected


def test_rows_in_clusters_have_a_model_of_clusters_before_the_end():
    X, y = make_moons(1500, noise=0.2, random_state=0)
    whole = SVMClassifier(random_state=0, strategy="dc").fit(X, y)
    assert whole.certificate_ == "global" and whole.status_ == "converged"
    assert [entry["level"] for entry in whole.history_] == [1, 0]
    with pytest.warns(ConvergenceWarning):
        early = SVMClassifier(random_state=0, strategy="dc", max_time=1e-6).fit(X, y)
    assert early.certificate_ == "partitioned" and [entry["level"] for entry in early.history_] == [1]
