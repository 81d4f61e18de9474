"""CoreSetSVMClassifier: the machine of the core-set paper's equation 6, by independent means."""

import networkx as nx
import numpy as np
import pytest
from ball_reference import quadratic_optimum
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.datasets import load_digits, load_iris, load_svmlight_file, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import LinearSVC

from dimargin import CoreSetSVMClassifier, SVMClassifier, load, save


@pytest.fixture(scope="module")
def moons():
    return make_moons(1400, noise=0.3, random_state=0)


def coefficients(machine, n):
    g = np.zeros(n)
    g[machine.support_] = np.abs(machine.dual_coef_[0])
    return g


@pytest.mark.parametrize(
    ("kernel", "values"),
    [
        ("rbf", lambda X: rbf_kernel(X, gamma=2.0)),
        ("linear", linear_kernel),
        ("poly", lambda X: polynomial_kernel(X, gamma=2.0, degree=3, coef0=0)),
    ],
)
@pytest.mark.parametrize("n", [200, 1400])
def test_equation_6(moons, kernel, values, n):
    """Gap, objective and dual computed from scratch; the smallest ball by an interior-point solver."""
    C, X, y = 3.0, moons[0][:n], np.where(moons[1][:n] == 1, 1.0, -1.0)
    machine = CoreSetSVMClassifier(C, kernel=kernel, gamma=2.0, tol=1e-6, random_state=0).fit(X, y)
    g, K = coefficients(machine, n), values(X)
    assert machine.intercept_[0] == pytest.approx(float(y @ g))
    f = K @ (y * g) + machine.intercept_
    assert_allclose(machine.decision_function(X), f, rtol=1e-5, atol=1e-5)
    slack = np.maximum(1 - y * f, 0)
    primal = 0.5 * (y * g) @ K @ (y * g) + 0.5 * machine.intercept_[0] ** 2 + C / 2 * slack @ slack
    dual = g.sum() - 0.5 * (y * g) @ K @ (y * g) - 0.5 * (y @ g) ** 2 - g @ g / (2 * C)
    assert machine.objective_ == pytest.approx(primal, rel=1e-5)
    assert machine.dual_objective_ == pytest.approx(dual, rel=1e-5)
    assert -1e-12 * primal <= primal - dual <= 2e-6 * primal
    if n == 200 and kernel != "poly":  # whose longest point is 10^5 times rho: too much for an interior point
        products = np.outer(y, y) * (K + 1) + np.eye(n) / C
        longest = products.diagonal().max()
        rho = longest - quadratic_optimum(products, np.full(n, longest))
        assert machine.dual_objective_ == pytest.approx(0.5 / rho, rel=1e-5)


def test_two_conventions_of_C(moons):
    """CoreSetSVMClassifier(C) is SVMClassifier(loss="squared_hinge", C=C/2) on the kernel plus one."""
    X, y = moons
    weights = np.random.default_rng(0).uniform(0.5, 2, len(y))
    machine = CoreSetSVMClassifier(4.0, gamma=2.0, tol=1e-7, random_state=0).fit(X, y, weights)
    values = rbf_kernel(X, gamma=2.0) + 1
    other = SVMClassifier(2.0, loss="squared_hinge", kernel="precomputed", tol=1e-7, random_state=0)
    other.fit(values, y, weights)
    assert machine.objective_ == pytest.approx(other.objective_, rel=1e-6)
    assert_allclose(machine.decision_function(X), other.decision_function(values), atol=1e-3)


def test_liblinear_agrees(moons):
    """Its squared hinge is C sum xi^2, its intercept is regularised too."""
    X, y = moons
    machine = CoreSetSVMClassifier(2.0, kernel="linear", tol=1e-8).fit(X, y)
    rival = LinearSVC(C=1.0, loss="squared_hinge", dual=True, tol=1e-8, max_iter=10**6).fit(X, y)
    assert machine.intercept_[0] == pytest.approx(rival.intercept_[0], abs=1e-4)
    assert_allclose(machine.decision_function(X), rival.decision_function(X), atol=1e-3)


@pytest.mark.parametrize("epsilon", [0.3, 0.05, 1e-2, 1e-3])
@pytest.mark.parametrize("n", [300, 1400])
def test_every_row_is_in_the_ball(moons, epsilon, n):
    C, X, y = 1.0, moons[0][:n], np.where(moons[1][:n] == 1, 1.0, -1.0)
    machine = CoreSetSVMClassifier(C, epsilon, gamma=2.0, random_state=0).fit(X, y)
    products = np.outer(y, y) * (rbf_kernel(X, gamma=2.0) + 1) + np.eye(n) / C
    x = coefficients(machine, n)
    x /= x.sum()
    rho, longest = x @ products @ x, products[0, 0]
    distances = longest + rho - 2 * products @ x
    assert machine.status_ == ("converged" if machine.duality_gap_ <= machine.tol else "above_tol")
    assert distances.max() <= (1 + epsilon) ** 2 * (longest - rho) * (1 + 1e-6)
    farthest = (distances.max() / (longest - rho)) ** 0.5
    assert machine.history_[-1]["farthest"] == pytest.approx(farthest, rel=1e-5)
    assert machine.history_[-1]["core_set"] == len(machine.support_)


def test_smaller_epsilon_more_rows_and_a_smaller_gap(moons):
    machines = [CoreSetSVMClassifier(1.0, epsilon, gamma=2.0).fit(*moons) for epsilon in (0.3, 0.03, 3e-3, 3e-4, 3e-5)]
    sizes, gaps = ([*map(get, machines)] for get in (lambda m: len(m.support_), lambda m: m.duality_gap_))
    assert sizes == sorted(sizes) and sizes[0] <= 5 < 300 < sizes[-1]
    assert gaps == sorted(gaps, reverse=True) and gaps[0] > 0.5 and gaps[-1] < 1e-3


@pytest.mark.slow
def test_the_core_set_is_no_larger_than_the_support(moons):
    """Of the full machine, at the same gap."""
    X, y = make_moons(5000, noise=0.3, random_state=1)
    machine = CoreSetSVMClassifier(1.0, gamma=2.0, random_state=0).fit(X, y)
    values = rbf_kernel(X, gamma=2.0) + 1
    full = SVMClassifier(0.5, loss="squared_hinge", kernel="precomputed", random_state=0).fit(values, y)
    assert machine.duality_gap_ <= 1e-3 and len(machine.support_) <= len(full.support_)
    # what is solved for holds the last core-set, so its ball, a lower bound, grows; the core-set
    # itself may lose rows
    lower = [entry["objective"] * (1 - entry["relative_gap"]) for entry in machine.history_]
    assert lower == sorted(lower) and lower[0] == 0 < lower[1]


def test_more_classes_certificate_and_file(tmp_path):
    X, y = load_digits(return_X_y=True)
    machine = CoreSetSVMClassifier(10.0, gamma=1e-3, random_state=0).fit(X[:1200], y[:1200])
    assert machine.score(X[1200:], y[1200:]) > 0.96 and machine.dual_coef_.shape[0] == 10
    assert_allclose(machine.intercept_, machine.dual_coef_.sum(axis=1))
    before = machine.duality_gap_
    machine.certify(X[:1200], y[:1200])
    assert machine.certificate_ == "global" and machine.duality_gap_ == pytest.approx(before, rel=0.05)
    save(machine, tmp_path / "model")
    again = load(tmp_path / "model")
    assert type(again) is CoreSetSVMClassifier
    assert_array_equal(again.decision_function(X), machine.decision_function(X))
    again.certify(X[:1200], y[:1200])
    assert again.duality_gap_ == machine.duality_gap_


def test_threads_seeds_and_a_warm_start(moons):
    X, y = moons
    one, two = (CoreSetSVMClassifier(gamma=2.0, n_jobs=k, random_state=3).fit(X, y) for k in (1, 2))
    assert_array_equal(one.dual_coef_, two.dual_coef_)
    two.set_params(warm_start=True).fit(X, y)
    assert two.n_iter_ == 1 and two.duality_gap_ <= 1e-3


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("topology", ["ring", "complete"])
@pytest.mark.parametrize("shards", ["sorted", "unequal", "array"])
def test_sites_that_agree(topology, shards):
    """As good as on one computer, with classes apart, weights, and sites whose numbers are given."""
    X, y = make_moons(240, noise=0.3, random_state=0)
    weights = np.random.default_rng(0).uniform(0, 2, 240)
    weights[::7] = 0
    parts = np.arange(240) // 60 if shards == "array" else shards
    options = {"gamma": 2.0, "random_state": 0}
    machine = CoreSetSVMClassifier(n_sites=4, topology=topology, shards=parts, **options).fit(X, y, weights)
    alone = CoreSetSVMClassifier(**options).fit(X, y, weights)
    assert machine.status_ == "converged" and machine.duality_gap_ <= 1e-3
    assert machine.objective_ == pytest.approx(alone.objective_, rel=1e-3)
    assert (machine.predict(X) == alone.predict(X)).mean() > 0.99
    (entry,) = machine.history_
    assert entry["partitions"] == 4 and entry["core_set"] == len(machine.support_) and entry["bytes"] > 0
    assert len(machine.support_) <= entry["rows_shared"] <= (weights > 0).sum()
    again = CoreSetSVMClassifier(n_sites=4, topology=topology, shards=parts, **options).fit(X, y, weights)
    assert_array_equal(again.dual_coef_, machine.dual_coef_)


def test_sites_with_three_classes_and_sparse_rows():
    X, y = load_iris(return_X_y=True)
    machine = CoreSetSVMClassifier(n_sites=3, shards="sorted", random_state=0).fit(csr_array(X), y)
    alone = CoreSetSVMClassifier(random_state=0).fit(X, y)
    assert_allclose(machine.objective_, alone.objective_, rtol=1e-3)
    assert machine.certify(csr_array(X), y).duality_gap_ <= 1e-3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_sites": 0}, "n_sites must be"),
        ({"topology": "square"}, "topology must be one of"),
        ({"shards": "even"}, "shards must be 'random'"),
        ({"shards": np.arange(3)}, "shards must be the number of every row's site; got an array of shape"),
        ({"shards": np.full(1400, 9)}, r"shards must be numbers in \[0, n_sites=4\), got 9"),
        ({"epsilon": 0.1}, "epsilon was set, but n_sites=4 does not use it"),
        ({"warm_start": True}, "warm_start was set, but n_sites=4"),
        ({"kernel": rbf_kernel}, "kernel must have a name for n_sites=4"),
        ({"topology": nx.empty_graph(4)}, "the topology is not connected"),
    ],
)
def test_sites_out_of_range(moons, options, words):
    with pytest.raises(ValueError, match=words):
        CoreSetSVMClassifier(**{"n_sites": 4, **options}).fit(*moons)


def test_limits(moons):
    with pytest.warns(ConvergenceWarning, match="time limit"):
        machine = CoreSetSVMClassifier(gamma=2.0, max_time=1e-9).fit(*moons)
    assert machine.status_ == "max_time" and machine.objective_ >= machine.dual_objective_
    with pytest.warns(ConvergenceWarning, match="max_iter=1 passes"):
        assert CoreSetSVMClassifier(gamma=2.0, max_iter=1).fit(*moons).score(*moons) > 0.8
    for options, words in (
        ({"epsilon": 0}, "epsilon"), ({"epsilon": 1.5}, "epsilon"), ({"C": 0}, "C must"), ({"tol": -1}, "tol must"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            CoreSetSVMClassifier(**options).fit(*moons)


@pytest.mark.slow
@pytest.mark.nightly_after(1)
@pytest.mark.parametrize(("name", "C"), [("svmguide1", 1.0), ("cod-rna", 1.0)])
def test_real_data(data_folder, name, C):
    X, y = load_svmlight_file(str(data_folder / f"{name}.bz2"))
    X = MinMaxScaler().fit_transform(X.toarray())
    rows = np.random.default_rng(0).permutation(len(y))[:12_000]
    train, test = rows[: 3 * len(rows) // 4], rows[3 * len(rows) // 4 :]
    machine = CoreSetSVMClassifier(C, gamma=8.0, random_state=0).fit(X[train], y[train])
    values = rbf_kernel(X[train], gamma=8.0) + 1
    full = SVMClassifier(C / 2, loss="squared_hinge", kernel="precomputed", random_state=0).fit(values, y[train])
    score = full.score(rbf_kernel(X[test], X[train], gamma=8.0) + 1, y[test])
    assert abs(machine.score(X[test], y[test]) - score) <= 0.002
    assert len(machine.support_) <= len(full.support_)
