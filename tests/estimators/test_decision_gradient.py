"""Gradients of decision functions, against closed forms in extended precision, differences and exact arithmetic."""

from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError

import dimargin as dm

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4))
TWO = (X[:, 0] * X[:, 1] + 0.3 * RNG.normal(size=120) > 0).astype(int)
FOUR = TWO + 2 * (X[:, 2] > 0.2)
KERNELS = ["rbf", "laplacian", "poly", "linear"]
SOLVERS = {
    "svm": dm.SVMClassifier,
    "odm": dm.ODMClassifier,
    "core-set": dm.CoreSetSVMClassifier,
    "landmarks": lambda **options: dm.ODMClassifier(strategy="landmark", n_landmarks=20, random_state=0, **options),
}


def dense(rows):
    return np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.longdouble)


def kernel_gradient(machine, x, z):
    """Gradient of k(x, z) for x, from the textbook's formula."""
    gamma, degree, constant = machine.gamma, machine.degree, machine.coef0
    if machine.kernel == "rbf":
        return -2 * gamma * (x - z) * np.exp(-gamma * ((x - z) ** 2).sum())
    if machine.kernel == "laplacian":
        return -gamma * np.sign(x - z) * np.exp(-gamma * np.abs(x - z).sum())
    return z if machine.kernel == "linear" else degree * gamma * (gamma * x @ z + constant) ** (degree - 1) * z


def pair_coefficients(machine):
    """Coefficients of every pair of classes, of shape (n_pairs, n_SV): those of SVC's layout, one by one."""
    owners = np.repeat(np.arange(len(machine.classes_)), machine.n_support_)
    found = []
    for a, b in combinations(range(len(machine.classes_)), 2):
        slots = {a: b - 1, b: a}
        found.append([machine.dual_coef_[slots[c], j] if c in slots else 0.0 for j, c in enumerate(owners)])
    return np.array(found)


def closed_form(machine, x):
    """Gradients at one row of every output, or pair of classes, of shape (n_outputs, n_features)."""
    is_paired = len(machine.dual_coef_) < len(machine.intercept_)
    coefficients = pair_coefficients(machine) if is_paired else machine.dual_coef_
    each = np.array([kernel_gradient(machine, x, z) for z in dense(machine.support_vectors_)])
    return coefficients @ each


def scores_gradient(machine, x, of_pairs):
    """Gradients at one row of the scores of the classes, from those of the pairs and the pairs' decision values."""
    names = list(combinations(range(len(machine.classes_)), 2))
    pair = {
        "rbf": lambda d: np.exp(-machine.gamma * d @ d),
        "laplacian": lambda d: np.exp(-machine.gamma * abs(d).sum()),
    }
    vectors = dense(machine.support_vectors_)
    if machine.kernel in pair:
        kernels = np.array([pair[machine.kernel](x - z) for z in vectors])
    else:
        products = vectors @ x
        kernels = (
            products if machine.kernel == "linear" else (machine.gamma * products + machine.coef0) ** machine.degree
        )
    values = pair_coefficients(machine) @ kernels + machine.intercept_
    found = []
    for c in range(len(machine.classes_)):
        signed = [((1 if c == b else -1), i) for i, (a, b) in enumerate(names) if c in (a, b)]
        if machine.pair_scores == "smallest":
            sign, i = min(signed, key=lambda pair: pair[0] * values[pair[1]])
            found.append(sign * of_pairs[i])
        else:
            total = sum(sign * values[i] for sign, i in signed)
            slope = sum(sign * of_pairs[i] for sign, i in signed)
            found.append(slope / (3 * (abs(total) + 1) ** 2))
    return np.array(found)


def assert_closed_form(machine, queries, rtol=1e-11):
    """Compare all gradients with the formulas, relative to the sum of the sizes of their terms."""
    found = machine.decision_gradient(queries).reshape(queries.shape[0], -1, queries.shape[1])
    is_paired = len(machine.dual_coef_) < len(machine.intercept_)
    for x, ours in zip(dense(queries), found, strict=True):
        expected = closed_form(machine, x)
        expected = scores_gradient(machine, x, expected) if is_paired else expected
        sizes = np.array([np.abs(kernel_gradient(machine, x, z)) for z in dense(machine.support_vectors_)]).sum(axis=0)
        scale = np.abs(machine.dual_coef_).max() * sizes.max() + 1e-300
        assert np.abs(ours - expected).max() <= rtol * scale


@st.composite
def machines(draw):
    """A fitted machine and rows, dense or sparse, some of whose features equal those of support vectors."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, width = draw(st.integers(12, 40)), draw(st.integers(1, 7))
    rows = rng.normal(size=(n, width)) * (rng.random((n, width)) < 0.7)
    n_classes = draw(st.sampled_from([2, 3, 4]))
    labels = np.append(np.arange(n_classes), rng.integers(n_classes, size=n - n_classes))
    options = {
        "kernel": draw(st.sampled_from(KERNELS)),
        "gamma": draw(st.sampled_from([0.1, 0.5, 2.0])),
        "degree": draw(st.integers(1, 4)),
        "coef0": draw(st.sampled_from([0.0, 0.5])),
        "tol": 1e-2,
        "random_state": 0,
    }
    if draw(st.booleans()):
        pairs = {
            "multi_class": draw(st.sampled_from(["one_vs_one", "one_vs_rest"])),
            "pair_scores": draw(st.sampled_from(["smallest", "votes"])),
            "fit_intercept": draw(st.booleans()),
        }
        machine = dm.SVMClassifier(loss="squared_hinge", **pairs, **options)
    else:
        machine = draw(st.sampled_from([dm.ODMClassifier, dm.CoreSetSVMClassifier]))(**options)
    store = draw(st.sampled_from([np.asarray, sp.csr_array, np.float32]))
    queries = np.concatenate([rows[:3], 2 * rng.normal(size=(4, width)) * (rng.random((4, width)) < 0.8)])
    queries[2] = np.where(rng.random(width) < 0.5, rows[5], queries[2])
    return machine.fit(store(rows), labels), draw(st.sampled_from([np.asarray, sp.csr_array]))(queries)


@settings(max_examples=60, deadline=None)
@given(machines())
def test_gradients_are_those_of_the_formulas(case):
    machine, queries = case
    outputs = () if len(machine.classes_) == 2 else (len(machine.classes_),)
    found = machine.decision_gradient(queries)
    assert type(found) is np.ndarray and found.dtype == np.float64
    assert found.shape == (queries.shape[0], *outputs, queries.shape[1])
    assert_closed_form(machine, queries)


@settings(max_examples=60, deadline=None)
@given(machines(), st.integers(0, 2**32 - 1))
def test_gradients_are_differences_of_decision_values(case, seed):
    machine, _ = case
    rows = np.random.default_rng([1, seed]).normal(size=(6, machine.n_features_in_))
    found, step = machine.decision_gradient(rows).reshape(6, -1, rows.shape[1]), 1e-5

    def value(rows):
        return machine.decision_function(rows).reshape(len(rows), -1)

    compared = 0
    for feature, e in enumerate(np.eye(rows.shape[1])):
        here, above, below = value(rows), value(rows + step * e), value(rows - step * e)
        forward, backward = (above - here) / step, (here - below) / step
        scale = 1 + np.abs(machine.dual_coef_).sum() + np.abs(found).max()
        smooth = np.abs(forward - backward) < 1e-3 * scale  # Elsewhere, a kink or a jump lies between the rows.
        assert_allclose(found[:, :, feature][smooth], ((forward + backward) / 2)[smooth], rtol=0, atol=1e-4 * scale)
        compared += smooth.sum()
    assert compared >= 0.8 * found.size


def test_gradients_are_exact_where_arithmetic_is():
    """Two small machines, by fractions for a polynomial kernel, and by 60 digits for exponentials."""
    rows = np.array([[0.0, 1.0], [1.0, 0.25], [0.5, -1.0], [-0.75, 0.5]])
    query = [0.5, 0.75]
    for kernel in ("poly", "rbf", "laplacian"):
        machine = dm.SVMClassifier(kernel=kernel, gamma=0.5, coef0=0.25, degree=3).fit(rows, [0, 1, 0, 1])
        number = Fraction if kernel == "poly" else Decimal
        x, gamma, c = [number(v) for v in query], number(0.5), number(0.25)
        with localcontext(prec=60):
            total = [number(0), number(0)]
            for b, row in zip(machine.dual_coef_[0].tolist(), machine.support_vectors_.tolist(), strict=True):
                z, b = [number(v) for v in row], number(b)
                d = [u - v for u, v in zip(x, z, strict=True)]
                if kernel == "poly":
                    own = [3 * gamma * (gamma * (x[0] * z[0] + x[1] * z[1]) + c) ** 2 * v for v in z]
                elif kernel == "rbf":
                    own = [-2 * gamma * v * (-gamma * (d[0] ** 2 + d[1] ** 2)).exp() for v in d]
                else:
                    own = [-gamma * ((v > 0) - (v < 0)) * (-gamma * (abs(d[0]) + abs(d[1]))).exp() for v in d]
                total = [t + b * v for t, v in zip(total, own, strict=True)]
        assert_allclose(machine.decision_gradient([query])[0], [float(t) for t in total], rtol=0, atol=4e-16)


@pytest.mark.parametrize("machine", SOLVERS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_machine_has_them(machine, kernel):
    fitted = SOLVERS[machine](kernel=kernel, gamma=0.3, coef0=1.0).fit(X, TWO)
    assert_closed_form(fitted, X[:10] + 0.1)
    if kernel == "linear":
        assert_allclose(fitted.decision_gradient(X[:3]), np.repeat(fitted.coef_, 3, axis=0), rtol=1e-12)


def test_differences_far_from_the_origin_keep_their_digits():
    near = dm.SVMClassifier(gamma=0.5, tol=1e-6).fit(X, TWO)
    far = dm.SVMClassifier(gamma=0.5, tol=1e-6).fit(X + 2.0**20, TWO)
    moved = X[:20] + 2.0**20  # The rows are rounded, their differences are not.
    expected = [closed_form(far, x)[0] for x in dense(moved)]
    scale = np.abs(near.dual_coef_).sum()
    assert np.abs(far.decision_gradient(moved) - expected).max() <= 1e-13 * scale


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_rows_far_from_all_support_vectors_have_none(store):
    machine = dm.SVMClassifier(gamma=0.5).fit(store(X), TWO)
    assert (machine.decision_gradient(store(np.full((2, 4), 1e300))) == 0).all()


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly"])
def test_batches_and_pieces_are_joined(kernel):
    """70,000 rows are two batches, and each of these is several pieces."""
    machine = dm.SVMClassifier(kernel=kernel, gamma=0.3, coef0=1.0, multi_class="one_vs_rest").fit(X, FOUR)
    rows = np.random.default_rng(1).normal(size=(70_000, 4))
    some = np.array([0, 1, 4_000, 33_333, 65_535, 65_536, 69_999])
    found = machine.decision_gradient(rows)
    assert found.shape == (70_000, 4, 4)
    assert_allclose(found[some], machine.decision_gradient(rows[some]), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    "machine",
    [dm.LinearSVMClassifier(), dm.LinearODMClassifier(), dm.GossipSVMClassifier(n_sites=2, max_iter=200, tol=1.0)],
    ids=lambda machine: type(machine).__name__,
)
def test_linear_machines_have_their_coefficients(machine):
    rows = sp.csr_array(X[:3])
    fitted = machine.set_params(random_state=0).fit(X, TWO)
    assert (fitted.decision_gradient(rows) == np.repeat(fitted.coef_, 3, axis=0)).all()
    fitted = machine.fit(X, FOUR)
    found, coefficients = fitted.decision_gradient(rows), fitted.coef_.copy()
    assert found.shape == (3, 4, 4) and (found == coefficients).all()
    found[:] = 0.0
    assert (fitted.coef_ == coefficients).all()


def test_narrow_and_rounded_coefficients():
    wide = sp.csr_array(np.where(np.arange(4) % 2, X, 0.0))
    machine = dm.LinearSVMClassifier().fit(wide, TWO)
    expected = machine.coef_.copy()
    assert (machine.sparsify().decision_gradient(wide[:2]) == expected).all()
    rounded = machine.to_float32().decision_gradient(wide[:2])
    assert rounded.dtype == np.float64 and (rounded == expected.astype(np.float32)).all()


def test_wide_sparse_rows():
    width = 2**24 + 9  # above which kernels are computed on the columns that occur
    columns = np.array([3, 2**20, width - 2])
    wide = sp.csr_array((X[:60, :3].ravel(), (np.repeat(np.arange(60), 3), np.tile(columns, 60))), shape=(60, width))
    for kernel in ("rbf", "laplacian"):
        options = {"kernel": kernel, "gamma": 0.5}
        narrow = dm.SVMClassifier(**options).fit(sp.csr_array(X[:60, :3]), TWO[:60])
        expected = narrow.decision_gradient(sp.csr_array(X[70:71, :3]))[0]
        query = sp.csr_array((X[70, :3], (np.zeros(3, dtype=int), columns)), shape=(1, width))
        found = dm.SVMClassifier(**options).fit(wide, TWO[:60]).decision_gradient(query)
        assert_allclose(found[0, columns], expected, rtol=1e-9)
        assert np.count_nonzero(found) == 3


@pytest.mark.parametrize("machine", [dm.SVMClassifier(gamma=1.0), dm.LinearSVMClassifier()], ids=["rbf", "linear"])
@pytest.mark.parametrize(("n_rows", "width"), [(1, 10**12), (10**6, 10**6)])
def test_gradients_that_do_not_fit_into_memory_are_refused(machine, n_rows, width):
    rows = sp.csr_array(([1.0, -1.0], ([0, 1], [0, width - 1])), shape=(2, width))
    fitted = machine.fit(rows, [0, 1])
    with pytest.raises(MemoryError, match=r"(decision_gradient|an array of shape .*) needs about \d+ bytes"):
        fitted.decision_gradient(sp.csr_array((n_rows, width)))


def test_kernels_without_a_known_derivative_are_refused():
    for kernel, rows in (("precomputed", X @ X.T), (lambda a, b: a @ b.T, X)):
        machine = dm.SVMClassifier(kernel=kernel).fit(rows, TWO)
        with pytest.raises(ValueError, match=r"needs a named kernel, .* has kernel="):
            machine.decision_gradient(rows)


@pytest.mark.parametrize("prediction", ["early", "bcm"])
def test_predictions_by_clusters_are_refused(prediction):
    strategy = dm.DivideAndConquer(prediction=prediction, sample_size=50)
    machine = dm.SVMClassifier(strategy=strategy, n_levels=1, stop_level=1, random_state=0).fit(X, TWO)
    with pytest.raises(ValueError, match="one machine for all rows; this one predicts by clusters"):
        machine.decision_gradient(X)


def test_rows_are_checked_as_in_prediction():
    for machine in (dm.SVMClassifier(), dm.LinearSVMClassifier()):
        with pytest.raises(NotFittedError):
            machine.decision_gradient(X)
        machine.fit(X, TWO)
        with pytest.raises(ValueError, match="features"):
            machine.decision_gradient(X[:, :3])
        with pytest.raises(ValueError, match="NaN"):
            machine.decision_gradient(np.full((1, 4), np.nan))
