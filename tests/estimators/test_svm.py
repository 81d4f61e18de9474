"""SVMClassifier: the same contract as ODMClassifier, with the hinge."""

import re
import tracemalloc
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from qpsolvers import solve_qp
from scipy.sparse import csc_matrix
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_svmlight_file, make_moons
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import brier_score_loss
from sklearn.metrics.pairwise import euclidean_distances, rbf_kernel
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.svm import SVC, LinearSVC

from dimargin import ODMClassifier, ODMClassifierCV, SVMClassifier, load, save
from dimargin.solvers.active import RowCache


@pytest.fixture(scope="module")
def moons():
    return make_moons(1400, noise=0.3, random_state=0)


@pytest.mark.parametrize("n", [300, 1400])
@pytest.mark.parametrize(("loss", "C"), [("hinge", 5.0), ("squared_hinge", 3.0)])
def test_optimality_conditions_on_a_gram_matrix_of_another_library(moons, loss, C, n):
    X, y = moons[0][:n], np.where(moons[1][:n] == 1, 1.0, -1.0)
    weights = np.random.default_rng(0).uniform(0.5, 2, n)
    machine = SVMClassifier(C, loss, fit_intercept=False, gamma=2.0, tol=1e-8, random_state=0).fit(X, y, weights)
    g = np.zeros(n)
    g[machine.support_] = machine.dual_coef_[0] * y[machine.support_]
    margins = y * (rbf_kernel(X, gamma=2.0) @ (y * g))
    if loss == "hinge":
        assert g.min() >= 0 and (g <= C * weights).all()
        inside = (g > 1e-6) & (g < C * weights - 1e-6)
        assert inside.sum() > 5
        assert_allclose(margins[inside], 1, atol=1e-4)
        assert (margins[g == 0] > 1 - 1e-4).all() and (margins[g == C * weights] < 1 + 1e-4).all()
    else:
        # (g - 2 C_i xi_i)^2 / 4 C_i is a row's part of the gap
        parts = (g - 2 * C * weights * np.maximum(1 - margins, 0)) ** 2 / (4 * C * weights)
        assert parts.sum() < 2e-8 * machine.objective_


@pytest.mark.parametrize("n", [300, 1400])
def test_the_model_of_libsvm(moons, n):
    X, y = moons[0][:n] + 1.0, moons[1][:n]
    weights = np.random.default_rng(0).uniform(0.5, 2, n)
    parameters = {"C": 5.0, "gamma": 2.0, "class_weight": {0: 2.0}}
    machine = SVMClassifier(**parameters, fit_intercept=True, tol=1e-7, random_state=0).fit(X, y, weights)
    svc = SVC(**parameters, tol=1e-6).fit(X, y, weights)
    assert_allclose(machine.intercept_, svc.intercept_, atol=1e-4)
    assert_allclose(machine.decision_function(moons[0]), svc.decision_function(moons[0]), atol=2e-4)
    assert abs(len(machine.support_) - len(svc.support_)) <= 2
    assert abs(machine.dual_coef_.sum()) <= 1e-9
    before = machine.objective_
    machine.certify(X, y, weights)
    assert_allclose(machine.objective_, before, rtol=1e-9)


@pytest.mark.parametrize("machine", [SVMClassifier(C=5.0), ODMClassifier(fit_intercept=True)], ids=str)
def test_the_certificate_is_of_the_model_s_own_intercept(moons, machine):
    machine = clone(machine).fit(*moons)
    gap = machine.certify(*moons).duality_gap_
    machine.intercept_ = machine.intercept_ + 0.1
    assert machine.certify(*moons).duality_gap_ > 5 * gap


@pytest.mark.parametrize("strategy", ["diodm", "dc", "cascade", "dip"])
@pytest.mark.parametrize("machine", [SVMClassifier(C=5.0), ODMClassifier(lam=1e4, fit_intercept=True)], ids=str)
def test_models_of_parts_have_no_intercept_and_the_last_one_has(moons, machine, strategy):
    exact = clone(machine).set_params(gamma=60.0, tol=1e-6).fit(*moons)
    tree = clone(machine).set_params(gamma=60.0, strategy=strategy, n_levels=2, random_state=0)
    early = clone(tree).set_params(stop_level=2).fit(*moons)
    without = clone(early).set_params(fit_intercept=False).fit(*moons)
    assert_array_equal(early.decision_function(moons[0]), without.decision_function(moons[0]))
    assert early.intercept_ == 0
    found = early.certify(*moons)  # The problem has an intercept, for which the coefficients are not feasible.
    assert found.duality_gap_ >= 1 - exact.objective_ / found.objective_ > 0
    last = tree.fit(*moons)
    assert abs(last.intercept_ - exact.intercept_) < 0.02 and last.certificate_ == "global"
    assert exact.objective_ <= last.objective_ * (1 + 1e-6) <= exact.objective_ * (1 + 1.1e-3)


def test_a_fit_goes_on_from_the_previous_one(moons):
    machine = SVMClassifier(C=50.0, gamma=4.0, fit_intercept=True, tol=1e-5, random_state=0).fit(*moons)
    cold = sum(entry["kernel_evaluations"] for entry in machine.history_)
    machine.set_params(warm_start=True).fit(*moons)
    assert sum(entry["kernel_evaluations"] for entry in machine.history_) < 0.7 * cold
    machine.set_params(C=2.0).fit(*moons)  # old coefficients are out of the box
    fresh = SVMClassifier(C=2.0, gamma=4.0, fit_intercept=True, tol=1e-5).fit(*moons)
    assert_allclose(machine.objective_, fresh.objective_, rtol=2e-5)


# ---- kernels that users bring ------------------------------------------------------------------------------------


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("n", [300, 1400])
@pytest.mark.parametrize("parameters", [{}, {"fit_intercept": True}, {"loss": "squared_hinge"}], ids=str)
def test_brought_kernels_are_the_named_ones(monkeypatch, moons, n, parameters):
    monkeypatch.setattr("dimargin.kernels.user.UserKernelMatrix.values_at_once", 5000)
    X, y = moons
    weights = np.where(np.arange(n) % 7, 1.0, 0.0)
    options = {"C": 5.0, "tol": 1e-6, "random_state": 0, **parameters}
    named = SVMClassifier(gamma=2.0, **options).fit(X[:n], y[:n], weights)
    K = rbf_kernel(X, X[:n], gamma=2.0)
    looked_up = SVMClassifier(kernel="precomputed", **options).fit(K[:n], y[:n], weights)
    computed = SVMClassifier(kernel=partial(rbf_kernel, gamma=2.0), **options).fit(X[:n], y[:n], weights)
    for machine, data in ((looked_up, K), (computed, X)):
        assert_allclose(machine.objective_, named.objective_, rtol=1e-5)
        assert_allclose(machine.decision_function(data), named.decision_function(X), atol=0.02)
        assert machine.certify(data[:n], y[:n], weights).duality_gap_ <= 1.1e-6
        assert sum(entry["kernel_evaluations"] for entry in machine.history_) > 0


def test_a_precomputed_kernel_is_cut_by_cross_validation(moons):
    X, y = moons
    machine = SVMClassifier(kernel="precomputed", C=5.0)
    assert cross_val_score(machine, rbf_kernel(X, gamma=2.0), y).mean() > 0.9
    assert cross_val_score(machine.set_params(strategy="diodm", n_levels=1), rbf_kernel(X, gamma=2.0), y).mean() > 0.9


def test_models_of_brought_kernels_in_files(moons, tmp_path):
    X, y = moons
    K = rbf_kernel(X, gamma=2.0)
    machine = SVMClassifier(kernel="precomputed").fit(K, y)
    save(machine, tmp_path / "model")
    assert_array_equal(load(tmp_path / "model").decision_function(K), machine.decision_function(K))
    with pytest.raises(TypeError, match="kernel cannot be stored in a model file"):
        save(SVMClassifier(kernel=rbf_kernel).fit(X, y), tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda a, b: np.tanh(3 * a @ b.T - 2), "kernel is not positive semi-definite, see training rows"),
        (lambda a, b: a[:, :1] + 0 * (a @ b.T), "kernel is not symmetric"),
        (  # every two rows are as they must be: values are between 0 and k(x, x) = 1
            lambda a, b: np.exp(-(euclidean_distances(a, b) ** 4)),
            "the matrix of 256 of 300 training rows, .* has the eigenvalue -",
        ),
        (lambda a, b: (a @ b.T)[:1], r"returned shape \(1, 256\) for 256 and 256 rows, expected \(256, 256\)"),
        (lambda a, b: np.full((len(a), len(b)), np.nan), "returned NaN or infinity"),
        ("precomputed", r"needs a square matrix of kernel values, got shape \(300, 2\)"),
        ("sigmoid", "kernel='sigmoid' is not positive semi-definite"),
    ],
)
def test_kernels_that_are_none(moons, kernel, message):
    with pytest.raises(ValueError, match=message):
        SVMClassifier(kernel=kernel).fit(moons[0][:300], moons[1][:300])


# ---- probabilities -----------------------------------------------------------------------------------------------


def test_calibrated_probabilities(moons):
    X, y = moons
    weights = np.random.default_rng(0).uniform(0.5, 2, len(y))
    for data in (X, sp.csr_array(X)):
        calibrated = CalibratedClassifierCV(SVMClassifier(gamma=2.0), ensemble=False).fit(data, y, weights)
        probability = calibrated.predict_proba(data)
        assert_allclose(probability.sum(axis=1), 1)
        assert brier_score_loss(y, probability[:, 1]) < 0.07
        assert calibrated.score(data, y) > 0.9


@pytest.mark.parametrize(
    "machine", [SVMClassifier(random_state=0), ODMClassifierCV(param_grid={"lam": [1e5]}, cv=2, random_state=0)]
)
def test_soft_voting_says_how_to_get_probabilities(moons, machine):
    X, y = moons[0][:300], moons[1][:300]
    assert not hasattr(machine, "predict_proba")
    voting = VotingClassifier([("machine", machine)], voting="soft").fit(X, y)
    with pytest.raises(AttributeError, match=r"has no predict_proba.*CalibratedClassifierCV.*docs/probabilities\.md"):
        voting.predict(X)
    pipeline = make_pipeline(MaxAbsScaler(), machine)
    assert not hasattr(pipeline, "predict_proba")
    with pytest.raises(AttributeError) as raised:
        pipeline.predict_proba(X)
    assert "dimargin train --probabilities" in str(raised.value.__cause__)  # Python prints it above scikit-learn's.
    calibrated = CalibratedClassifierCV(machine, ensemble=False)
    voting = VotingClassifier([("machine", calibrated)], voting="soft").fit(X, y)
    assert_array_equal(voting.predict_proba(X), calibrated.fit(X, y).predict_proba(X))


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"C": 0.0}, ValueError, r"C must be a finite number in \(0, inf\), got 0.0"),
        ({"C": -1}, ValueError, "C must be"),
        ({"C": "much"}, TypeError, "C must be a finite number"),
        ({"fit_intercept": "yes"}, TypeError, "fit_intercept must be True or False, got 'yes'"),
        ({"loss": "logistic"}, ValueError, "loss must be one of 'hinge', 'squared_hinge', got 'logistic'"),
        ({"kernel": "cosine"}, ValueError, "kernel must be one of .*'precomputed' or a function, got 'cosine'"),
    ],
)
def test_parameters_out_of_range_are_named(moons, parameters, error, message):
    with pytest.raises(error, match=message):
        SVMClassifier(**parameters).fit(*moons)


def test_kernel_rows_are_remembered_within_the_memory_limit(moons, monkeypatch):
    memories = []
    make = RowCache.__init__
    monkeypatch.setattr(RowCache, "__init__", lambda *a: memories.append(a[3]) or make(*a))
    # long rows, whose kernel values are expensive
    X = np.random.default_rng(0).normal(size=(5000, 130)) * np.r_[3, 1, np.full(128, 0.01)]
    y = np.sin(2 * X[:, 0]) > X[:, 1]
    limit = 30 * 2**20
    machine = SVMClassifier(memory_limit=limit, gamma=1.0, C=10.0, random_state=0).fit(X, y)
    assert machine.status_ == "converged" and memories and max(memories) < limit
    before, memories[:] = max(memories), []
    SVMClassifier(memory_limit=limit - 1000, gamma=1.0, C=10.0, random_state=0).fit(X, y)
    assert max(memories) == before - 1000


def test_clusters_are_of_rows(moons):
    X, y = moons[0][:300], moons[1][:300]
    with pytest.raises(ValueError, match="strategy 'dc' clusters rows of features, which kernel='precomputed' lacks"):
        SVMClassifier(kernel="precomputed", strategy="dc").fit(rbf_kernel(X), y)
    assert SVMClassifier(kernel="precomputed", strategy="cascade").fit(rbf_kernel(X), y).score(rbf_kernel(X), y) > 0.8
    assert SVMClassifier(kernel=rbf_kernel, strategy="dc", n_levels=1, stop_level=1).fit(X, y).score(X, y) > 0.8


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "laplacian"])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_prediction_does_not_depend_on_the_rows_it_comes_with(kernel, sparse):
    """Not even where one of them is so long, or so large, that it takes float64."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 400)) * (rng.random((1200, 400)) < 0.05)
    y = X.sum(axis=1) > 0
    queries = np.concatenate([X[:40], rng.normal(size=(3, 400)), 1e10 * X[:3]])
    if sparse:
        X, queries = sp.csr_array(X), sp.csr_array(queries)
    machine = SVMClassifier(kernel=kernel, degree=4, random_state=0).fit(X, y)
    whole = machine.decision_function(queries)
    alone = [machine.decision_function(queries[[k]])[0] for k in range(46)]
    assert_array_equal(whole, alone)


# ---- real data ---------------------------------------------------------------------------------------------------


def unit_range(X, *others):
    low, span = X.min(axis=0), np.maximum(np.ptp(X, axis=0), 1e-300)
    return [(rows - low) / span for rows in (X, *others)]


@pytest.mark.nightly
@pytest.mark.parametrize(("gamma", "C", "fit_intercept"), [(16.0, 1.0, False), (4.0, 64.0, False), (16.0, 1.0, True)])
def test_svmguide1_against_an_interior_point_method(data_folder, gamma, C, fit_intercept):
    X, y = load_svmlight_file(str(data_folder / "svmguide1.bz2"))
    X, y = unit_range(X.toarray())[0], np.sign(y - 0.5)
    P = y[:, None] * rbf_kernel(X, gamma=gamma) * y
    equality = {"A": csc_matrix(y[None]), "b": np.zeros(1)} if fit_intercept else {}
    n = len(y)
    g = solve_qp(csc_matrix(P), -np.ones(n), lb=np.zeros(n), ub=np.full(n, C), solver="clarabel", **equality)
    optimum = g.sum() - 0.5 * g @ P @ g
    for strategy in ("exact", "dc"):
        machine = SVMClassifier(
            C=C, gamma=gamma, fit_intercept=fit_intercept, strategy=strategy, tol=1e-6, random_state=0
        )
        machine.fit(X, y)
        assert machine.dual_objective_ == pytest.approx(optimum, rel=2e-6)
        assert machine.objective_ == pytest.approx(optimum, rel=2e-6)


@pytest.mark.slow
def test_usps_has_ten_classes(data_folder):
    X, y = load_svmlight_file(str(data_folder / "usps.bz2"))
    X_test, y_test = load_svmlight_file(str(data_folder / "usps.t.bz2"))
    X, X_test = X.toarray(), X_test.toarray()
    assert SVMClassifier(C=10.0, gamma=0.01, random_state=0).fit(X, y).score(X_test, y_test) > 0.95
    machine = SVMClassifier(C=10.0, gamma=0.01, multi_class="one_vs_rest", random_state=0).fit(X, y)
    assert machine.score(X_test, y_test) > 0.95
    assert (machine.objective_ > 0).all() and machine.duality_gap_ <= 1e-3
    digit = 3
    own = SVMClassifier(C=10.0, gamma=0.01, tol=1e-5).fit(X, y == machine.classes_[digit])
    assert_allclose(machine.objective_[digit], own.objective_, rtol=2e-3)
    level = SVMClassifier(C=10.0, gamma=0.01, strategy="dc", n_levels=1, stop_level=1, random_state=0).fit(X, y)
    assert level.score(X_test, y_test) > 0.93


@pytest.mark.slow
def test_text_stays_sparse(data_folder):
    X, y = load_svmlight_file(str(data_folder / "reuters.bz2"))
    X_test, y_test = load_svmlight_file(str(data_folder / "reuters.t.bz2"), n_features=X.shape[1])
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    svc = LinearSVC(C=1.0, loss="hinge", fit_intercept=False, tol=1e-6, max_iter=100_000).fit(X, y)
    margins = (y == svc.classes_[1]) * 2.0 - 1
    optimum = 0.5 * (svc.coef_**2).sum() + np.maximum(1 - margins * svc.decision_function(X), 0).sum()
    tracemalloc.start()
    machine = SVMClassifier(fit_intercept=False, kernel="linear", tol=1e-4, memory_limit=50 * 10**6).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.2 * 8 * X.shape[0] * X.shape[1]
    assert sp.issparse(machine.support_vectors_)
    assert machine.objective_ == pytest.approx(optimum, rel=2e-4)
    assert machine.score(X_test, y_test) == pytest.approx(svc.score(X_test, y_test), abs=0.002)


@pytest.mark.parametrize(
    ("parameters", "n", "settings"),
    [
        ({"fit_intercept": False}, 20_000, ["loss='squared_hinge'"]),
        ({}, 20_000, ["loss='squared_hinge'", "fit_intercept=False"]),
        ({"loss": "squared_hinge", "fit_intercept": False}, 20_000, []),
        ({"tol": 0.9}, 20_000, None),  # not far from it
        ({"kernel": lambda X, Z: X @ Z.T}, 20_000, None),
        ({}, 500, None),
    ],
)
def test_landmarks_are_advised_where_many_rows_take_too_long(parameters, n, settings):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    machine = SVMClassifier(**({"strategy": "diodm", "max_time": 1e-9, "random_state": 0} | parameters))
    with pytest.warns(ConvergenceWarning) as found:
        machine.fit(X, X[:, 0] + rng.normal(size=n) > 0)
    (warning,) = [str(one.message) for one in found]
    advised = re.findall(r"\w+=[^,]+(?=,)", warning.partition("With")[2])
    assert advised == ([] if settings is None else [*settings, "strategy='landmark'"])
    assert warning.endswith(machine.advice())
