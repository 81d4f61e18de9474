"""The hard-margin machine: against LIBSVM, an interior-point solver and the definition, and rows that have none."""

import numpy as np
import pytest
from ball_reference import quadratic_optimum
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.sparse import csr_array
from sklearn.datasets import load_iris, make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.svm import SVC

from dimargin import CoreSetSVMClassifier, load, save

KERNELS = {"linear": linear_kernel, "rbf": lambda X, Z: rbf_kernel(X, Z, gamma=0.5)}


@pytest.fixture(scope="module")
def apart():
    X, y = make_blobs(240, centers=[[0, 0], [3, 3]], cluster_std=0.5, random_state=1)
    return X, 2 * y - 1


def hard(**options):
    return CoreSetSVMClassifier(np.inf, **{"gamma": 0.5, "random_state": 0, **options})


def nearest(Q):
    """Least x'Qx on the simplex, by an interior-point solver."""
    longest = Q.diagonal().max()
    return longest - quadratic_optimum(Q, np.full(len(Q), longest))


def svc_of_mirrored_rows(K, y):
    """LIBSVM's coefficients: its free intercept is zero where every row is there twice, the second time negated."""
    machine = SVC(C=1e10, kernel="precomputed", tol=1e-8).fit(np.block([[K, -K], [-K, K]]), np.r_[y, -y])
    signed = np.zeros(2 * len(y))
    signed[machine.support_] = machine.dual_coef_[0]
    return signed[: len(y)] - signed[len(y) :]


@pytest.mark.parametrize("sites", [{}, {"n_sites": 4, "shards": "sorted", "topology": "ring"}], ids=["one", "sites"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_libsvm_and_an_interior_point_solver_agree(apart, kernel, sites):
    X, y = apart
    K = KERNELS[kernel](X, X) + 1
    machine = hard(kernel=kernel, tol=1e-6, **sites).fit(X, y)
    theirs = svc_of_mirrored_rows(K, y)
    assert machine.objective_ == pytest.approx(0.5 * theirs @ K @ theirs, rel=1e-5)
    assert_allclose(machine.decision_function(X), K @ theirs, atol=1e-3)
    rho = nearest(np.outer(y, y) * K)
    assert machine.dual_objective_ == pytest.approx(0.5 / rho, rel=1e-5)
    assert machine.status_ == "converged" and machine.duality_gap_ <= 1e-6 and machine.score(X, y) == 1
    assert (y * machine.decision_function(X)).min() == pytest.approx(1, abs=1e-6)


def test_it_is_the_limit_of_large_C(apart):
    X, y = apart
    soft = CoreSetSVMClassifier(1e8, gamma=0.5, tol=1e-6, random_state=0).fit(X, y)
    assert hard(tol=1e-6).fit(X, y).objective_ == pytest.approx(soft.objective_, rel=1e-4)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10**6), d=st.integers(1, 6), n=st.integers(2, 60),
    margin=st.sampled_from([0.0, 1e-3, 0.1]), sites=st.sampled_from([1, 3]),
)  # fmt: skip
def test_right_or_refused(seed, d, n, margin, sites):
    """Rows with a hyperplane get one without errors, and a true bound of its margin; random labels often an error."""
    rng = np.random.default_rng(seed)
    X, normal = rng.normal(size=(n, d)), rng.normal(size=d)
    y = np.where(X @ normal > 0, 1, -1) if margin else rng.choice([-1, 1], n)
    y[:2] = 1, -1
    keep = (y * (X @ normal) > margin * np.linalg.norm(normal)) if margin else np.ones(n, dtype=bool)
    X, y = X[keep], y[keep]
    if len(set(y.tolist())) < 2:
        return
    widest = max(nearest(np.outer(y, y) * (X @ X.T + 1)), 0) ** 0.5
    try:
        machine = hard(kernel="linear", n_sites=min(sites, len(y)), random_state=seed).fit(X, y)
    except ValueError as error:
        assert margin == 0 and "C=inf asks for a hyperplane" in str(error) and widest < 1e-4
        return
    assert (y * machine.decision_function(X)).min() >= 1 - 1e-9
    w = machine.dual_coef_ @ machine.support_vectors_
    objective = 0.5 * (w @ w.T + machine.intercept_**2)
    assert objective == pytest.approx(machine.objective_, rel=1e-6)
    assert (2 * objective) ** -0.5 <= widest * (1 + 1e-4) + 1e-7
    assert machine.dual_objective_ <= objective * (1 + 1e-9) and machine.duality_gap_ <= 1e-3


@pytest.mark.parametrize("options", [{}, {"n_sites": 4}], ids=["one", "sites"])
def test_rows_that_no_hyperplane_separates(options):
    X, y = make_moons(300, noise=0.3, random_state=0)
    with pytest.raises(ValueError, match=r"float64 finds none for these rows: the margin of .*e-"):
        hard(kernel="linear", **options).fit(X, y)
    X, y = np.vstack([X, X[:1]]), np.r_[y, 1 - y[0]]  # one row with both labels, which no kernel tells apart
    with pytest.raises(ValueError, match="Use a finite C or a kernel that separates them"):
        hard(gamma=100.0, **options).fit(X, y)
    assert hard(gamma=100.0, **options).fit(X[:-1], y[:-1]).score(X[:-1], y[:-1]) == 1


def test_a_fit_that_ends_too_early_is_no_machine(apart):
    X, y = make_moons(3000, noise=0.1, random_state=0)
    with pytest.raises(ValueError, match=r"the fit ended \(max_iter\) before one was found: the margin"):
        hard(gamma=50.0, max_iter=1).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="gap"):  # rounding of features far from zero
        far = hard(kernel="linear", tol=1e-15).fit(*apart)
    assert far.score(*apart) == 1 and far.status_ == "precision" and far.duality_gap_ > 0


def test_classes_weights_sparse_rows_and_a_file(tmp_path):
    X, y = load_iris(return_X_y=True)
    machine = hard(gamma=5.0, tol=1e-5).fit(csr_array(X[::2]), y[::2], np.linspace(1, 3, 75))
    plain = hard(gamma=5.0, tol=1e-5).fit(X[::2], y[::2])
    assert_allclose(machine.objective_, plain.objective_, rtol=1e-4)
    assert machine.score(X[::2], y[::2]) == 1 and machine.dual_coef_.shape[0] == 3
    machine.certify(csr_array(X[::2]), y[::2])
    assert machine.duality_gap_ <= 2e-5
    save(machine, tmp_path / "model")
    again = load(tmp_path / "model")
    assert np.inf == again.C and np.array_equal(again.decision_function(X), machine.decision_function(X))
    with pytest.raises(ValueError, match="class number 1 against the others"):
        hard(kernel="linear").fit(X, y)  # of the three only setosa can be separated from the others


def test_a_warm_start_takes_fewer_passes(apart):
    machine = hard(tol=1e-6).fit(*apart)
    first = machine.objective_
    machine.set_params(warm_start=True).fit(*apart)
    assert machine.objective_ == pytest.approx(first) and machine.n_iter_ == 1


def test_epsilon_has_no_meaning(apart):
    with pytest.raises(ValueError, match="epsilon must be None with C=inf"):
        hard(epsilon=0.1).fit(*apart)
    with pytest.raises(ValueError, match="C must be a finite number"):
        CoreSetSVMClassifier(-np.inf).fit(*apart)
