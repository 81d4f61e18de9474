"""Coefficients of linear machines in fewer bytes: CSR arrays and float32."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import SGDClassifier

import dimargin as dm

MACHINES = {
    "hinge": dm.LinearSVMClassifier(random_state=0),
    "squared hinge": dm.LinearSVMClassifier(loss="squared_hinge", random_state=0),
    "odm": dm.LinearODMClassifier(random_state=0),
    "gossip": dm.GossipSVMClassifier(max_iter=20, random_state=0),
}


def problem(n_classes=2, n=120):
    """Rows whose features 1, 4 and 6 are zero."""
    X, y = make_classification(
        n, 9, n_informative=5, n_redundant=0, n_classes=n_classes, n_clusters_per_class=1, random_state=0
    )
    X[:, [1, 4, 6]] = 0
    return X, y


def wide_problem(width=10**8):
    """Sparse rows of a few columns of many."""
    X, y = problem()
    columns = np.array([0, 5, 17, 900, 901, 10**4, 10**5, 10**6, width - 1])
    rows = sp.coo_array(X)
    return sp.csr_array((rows.data, (rows.row, columns[rows.col])), shape=(len(y), width)), y


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", MACHINES)
def test_sparsify_keeps_the_machine(name, n_classes, tmp_path):
    X, y = problem(n_classes if name != "gossip" else 2)
    machine = MACHINES[name].fit(X, y)
    values, before = machine.decision_function(X), machine.coef_.copy()
    assert machine.sparsify() is machine and sp.issparse(machine.coef_) and machine.coef_.format == "csr"
    assert machine.coef_.nnz == np.count_nonzero(before) and np.array_equal(machine.coef_.toarray(), before)
    assert not machine.coef_[:, [1, 4, 6]].nnz
    dm.save(machine, tmp_path / "m")
    for one in (machine, pickle.loads(pickle.dumps(machine)), dm.load(tmp_path / "m")):
        assert sp.issparse(one.coef_)
        for rows in (X, sp.csr_array(X)):
            assert_allclose(one.decision_function(rows), values, rtol=1e-12, atol=1e-12)
    assert isinstance(machine.densify().coef_, np.ndarray) and np.array_equal(machine.coef_, before)
    assert np.array_equal(machine.decision_function(X), values)


def test_as_scikit_learn_does():
    X, y = problem()
    theirs = SGDClassifier(penalty="l1", random_state=0).fit(X, y).sparsify()
    ours = dm.LinearSVMClassifier().fit(X, y).sparsify()
    assert theirs.coef_.shape == ours.coef_.shape and theirs.coef_.format == ours.coef_.format
    for kind in (theirs, ours):
        assert kind.densify() is kind and isinstance(kind.coef_, np.ndarray)


@pytest.mark.parametrize("method", ["sparsify", "densify", "to_float32"])
def test_a_machine_must_be_fitted(method):
    with pytest.raises(NotFittedError):
        getattr(dm.LinearSVMClassifier(), method)()


@pytest.mark.parametrize("change", ["sparsify", "to_float32"])
@pytest.mark.parametrize("name", ["hinge", "squared hinge", "odm"])
def test_certify_and_warm_starts(name, change):
    X, y = problem()
    machine = clone(MACHINES[name]).set_params(warm_start=True, tol=1e-4).fit(X, y)
    objective = machine.objective_
    getattr(machine, change)()
    machine.certify(X, y)
    assert machine.certificate_ == "global" and machine.objective_ == pytest.approx(objective, rel=1e-4)
    machine.fit(X, y)
    assert isinstance(machine.coef_, np.ndarray) and machine.coef_.dtype == float
    assert machine.status_ == "converged" and machine.certificate_ == "global"


@pytest.mark.parametrize("changes", [["sparsify"], ["to_float32"], ["to_float32", "sparsify"], ["sparsify", "densify"]])
@pytest.mark.parametrize("rows", ["narrow", "wide", "wider"])
def test_partial_fit_continues(rows, changes):
    """The state of partial_fit follows the coefficients, also to columns that occur only later."""
    X, y = problem() if rows == "narrow" else wide_problem(10**6 + 1)
    first = X[:50].copy()
    if rows == "wider":
        first = sp.csr_array(first.multiply(np.arange(first.shape[1]) < 10**4).tocsr())
    one, other = (dm.LinearODMClassifier(lam=10.0, random_state=0).partial_fit(first, y[:50], [0, 1]) for _ in range(2))
    for change in changes:
        getattr(other, change)()
    for _ in range(2):
        one.partial_fit(X, y)
        other.partial_fit(X, y)
    assert_allclose(other.coef_, one.coef_, rtol=1e-5, atol=1e-7)


def test_wide_machines_stay_small(tmp_path):
    X, y = wide_problem()
    machine = dm.LinearSVMClassifier(random_state=0).fit(X, y)
    values = machine.decision_function(X)
    machine.sparsify()
    assert machine.coef_.nnz == 6 and machine.coef_.shape == (1, 10**8)
    assert_allclose(machine.decision_function(X), values, rtol=1e-12)
    dm.save(machine.to_float32(), tmp_path / "m")
    read = dm.load(tmp_path / "m")
    assert sp.issparse(read.coef_) and read.coef_.dtype == np.float32 and (tmp_path / "m").stat().st_size < 10**5
    assert np.array_equal(read.decision_function(X), machine.decision_function(X))
    assert read.certify(X, y).certificate_ == "global"


def test_a_machine_of_zeros():
    machine = dm.LinearSVMClassifier().fit([[0.0, 0.0], [0.0, 0.0]], [0, 1]).sparsify()
    assert machine.coef_.nnz == 0 and machine.predict([[1.0, 2.0]]).shape == (1,)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(-100, 120), st.sampled_from([np.float32, np.float64]))
def test_the_bound_of_float32(seed, exponent, dtype):
    """Decision values change by 2^-24 |w| |x| at most, and their own rounding in float64."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((30, 8)).astype(dtype), np.arange(30) % 2
    machine = dm.LinearSVMClassifier(loss="squared_hinge", tol=0.1, random_state=0).fit(X, y)
    machine.coef_ = machine.coef_ * 2.0**exponent
    machine.intercept_ = machine.intercept_ * 2.0**exponent
    values, weights = machine.decision_function(X), machine.coef_
    machine.to_float32()
    assert machine.coef_.dtype == np.float32 and machine.certificate_ == "before_rounding"
    sizes = np.linalg.norm(weights) * np.linalg.norm(X.astype(float), axis=1)
    own_rounding = 2.0**-48 * (sizes + abs(machine.intercept_[0]))
    bound = 2.0**-24 * sizes + 2.0**-150 * np.sqrt(8) * np.linalg.norm(X.astype(float), axis=1) + own_rounding
    assert (np.abs(machine.decision_function(X) - values) <= bound).all()


def test_what_float32_does_to_a_certificate(tmp_path):
    X, y = problem()
    machine = dm.LinearSVMClassifier(random_state=0).fit(X, y)
    gap, size = machine.duality_gap_, machine.coef_.nbytes
    machine.to_float32()
    assert (machine.certificate_, machine.duality_gap_, machine.coef_.nbytes) == ("before_rounding", gap, size / 2)
    dm.save(machine, tmp_path / "m")
    read = dm.load(tmp_path / "m")
    assert read.coef_.dtype == np.float32 and read.certificate_ == "before_rounding"
    assert np.array_equal(read.decision_function(X), machine.decision_function(X))
    assert read.certify(X, y).certificate_ == "global"
    assert read.to_float32().certificate_ == "global"  # Nothing was rounded.
    weights, margins = machine.coef_[0].astype(float), np.where(y == 1, 1, -1) * machine.decision_function(X)
    assert read.objective_ == pytest.approx(0.5 * weights @ weights + np.maximum(0, 1 - margins).sum(), rel=1e-12)


def test_float32_in_files_is_half_as_large(tmp_path):
    X = np.random.default_rng(0).standard_normal((20, 50_000))
    for name, machine in (("svm", dm.LinearSVMClassifier()), ("odm", dm.LinearODMClassifier())):
        machine.fit(X, np.arange(20) % 2)
        dm.save(machine, tmp_path / name)
        dm.save(machine.to_float32(), tmp_path / f"{name}32")
        assert (tmp_path / f"{name}32").stat().st_size < 0.55 * (tmp_path / name).stat().st_size


def test_numbers_too_large_for_float32():
    X, y = problem()
    machine = dm.LinearSVMClassifier().fit(X, y)
    machine.coef_ = machine.coef_ * 1e40
    with pytest.raises(ValueError, match=r"coef_ has a number too large for float32: .*e\+"):
        machine.to_float32()
    assert machine.certificate_ == "global" and machine.coef_.dtype == float
