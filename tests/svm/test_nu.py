"""The nu machines against LIBSVM, an interior point method, and objectives recomputed in extended precision."""

import nu_objectives as exact
import numpy as np
import pytest
import sklearn.svm
from drop_in import SEEDS, both_fitted, pair, rows, weights_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._testing import ignore_warnings

from dimargin.svm import NuSVC, NuSVR, OneClassSVM

# Both kernels have a full matrix, so that the machine is not zero and its coefficients are unique.
KERNELS = [{"kernel": "rbf", "gamma": 0.5}, {"kernel": "poly", "gamma": 0.5, "degree": 4, "coef0": 1.0}]
NUS = st.sampled_from([0.02, 0.1, 0.3, 0.5, 0.75])
WEIGHTS = st.sampled_from(["none", "positive", "some"])


def kept_and_weights(seed, n, kind):
    """Weights to fit with, the rows of positive weight, and their weights."""
    weights = weights_of(seed, n, kind)
    each = np.ones(n) if weights is None else np.maximum(weights, 0.0)
    return weights, each


def check(machine, primal, dual, best):
    """Hold the certificate against objectives of the model and the optimum."""
    size = abs(float(primal))
    assert abs(float(primal) - machine.objective_) <= 1e-9 * size
    assert machine.dual_objective_ <= float(dual) + 1e-11 * size
    assert machine.dual_objective_ <= best + 1e-7 * size and best <= machine.objective_ + 1e-7 * size
    assert machine.duality_gap_ <= 1e-6
    assert (machine.objective_ - machine.dual_objective_) / abs(machine.objective_) <= machine.duality_gap_ + 1e-15


@pytest.mark.slow
@settings(max_examples=50)
@given(SEEDS, st.sampled_from(KERNELS), NUS, WEIGHTS)
def test_certificate_of_nu_svc(seed, kernel, nu, kind):
    X, y, _ = rows(seed, n=40)
    weights, each = kept_and_weights(seed, len(y), kind)
    assume(nu * each.sum() / 2 < min(each[y == 0].sum(), each[y == 1].sum()))
    own, their = pair("NuSVC", nu=nu, **kernel)
    own.fit(X, y, weights)
    # LIBSVM counts rows of negative weight where it asks whether nu is feasible.
    ignore_warnings(their.fit)(X[each > 0], y[each > 0], each[each > 0])
    their.support_ = np.flatnonzero(each > 0)[their.support_]
    K = exact.gram(X, X, **kernel)
    primal, dual = exact.of_nu_svc(own, K, y, each, nu)
    check(own, primal, dual, exact.best_nu_svc(K.astype(float), y, each, nu))
    assert own.objective_ <= float(exact.of_nu_svc(their, K, y, each, nu)[0]) + 1e-6 * abs(own.objective_)
    assert_nu_property(own.decision_function(X) * np.where(y == 1, 1, -1), 1.0, own.support_, each, nu)


@pytest.mark.slow
@settings(max_examples=50)
@given(SEEDS, st.sampled_from(KERNELS), NUS, WEIGHTS, st.sampled_from([0.1, 1.0, 20.0]))
def test_certificate_of_nu_svr(seed, kernel, nu, kind, C):
    X, _, y = rows(seed, n=40)
    weights, each = kept_and_weights(seed, len(y), kind)
    own, their = both_fitted("NuSVR", X, y, weights, nu=nu, C=C, **kernel)
    K = exact.gram(X, X, **kernel)
    primal, dual = exact.of_nu_svr(own, K, y, each, nu, C)
    kept = each > 0
    best = exact.best_nu_svr(K[np.ix_(kept, kept)].astype(float), y[kept], each[kept], nu, C)
    check(own, primal, dual, best)
    assert own.objective_ <= float(exact.of_nu_svr(their, K, y, each, nu, C)[0]) + 1e-6 * abs(own.objective_)
    signed = np.abs(own.dual_coef_)
    assert signed.sum() <= C * nu * each.sum() * (1 + 1e-9) and (signed <= C * each[own.support_] * (1 + 1e-12)).all()


@pytest.mark.slow
@settings(max_examples=50)
@given(SEEDS, st.sampled_from(KERNELS), NUS, WEIGHTS)
def test_certificate_of_one_class_svm(seed, kernel, nu, kind):
    X = rows(seed, n=40)[0]
    weights, each = kept_and_weights(seed, len(X), kind)
    own, their = both_fitted("OneClassSVM", X, None, weights, nu=nu, **kernel)
    K = exact.gram(X, X, **kernel)
    primal, dual = exact.of_one_class(own, K, each, nu)
    check(own, primal, dual, exact.best_one_class(K.astype(float), each, nu))
    assert own.objective_ <= float(exact.of_one_class(their, K, each, nu)[0]) + 1e-6 * abs(own.objective_)
    assert_nu_property(own.decision_function(X), 0.0, own.support_, each, nu)
    assert each[own.predict(X) == -1].sum() <= nu * each.sum() * (1 + 1e-9)


def assert_nu_property(margins, level, support, weights, nu):
    """Errors have at most a share nu of the weight, and support vectors at least (Schoelkopf et al., proposition 5)."""
    total = weights.sum()
    assert weights[margins < level - 1e-5 * (1 + np.abs(margins).max())].sum() <= nu * total * (1 + 1e-9)
    assert weights[support].sum() >= nu * total * (1 - 1e-9)


@settings(max_examples=20)
@given(SEEDS, st.sampled_from([0.1, 0.3, 0.5]), st.sampled_from(["none", "positive"]), st.sampled_from([2, 3]))
def test_decision_values_are_those_of_libsvm(seed, nu, kind, n_classes):
    X, y, targets = rows(seed, n_classes=n_classes)
    weights = weights_of(seed, len(y), kind)
    each = np.ones(len(y)) if weights is None else weights
    counts = np.bincount(y, each)
    assume(nu < 1.9 * counts.min() / (counts.min() + counts.max()))
    queries = rows(seed + 1, n_classes=n_classes)[0]
    for name, t in (("NuSVC", y), ("NuSVR", targets), ("OneClassSVM", None)):
        own, their = both_fitted(name, X, t, weights, nu=nu, gamma=0.5)
        values, expected = (
            each.predict(queries) if name == "NuSVR" else each.decision_function(queries) for each in (own, their)
        )
        np.testing.assert_allclose(values, expected, atol=3e-5 * (1 + np.abs(expected).max()))


@pytest.mark.parametrize("kind", [NuSVC, NuSVR, OneClassSVM])
def test_whole_weights_are_repetitions(kind):
    X, y, targets = rows(7)
    weights = np.random.default_rng(0).integers(0, 3, len(y))
    again, t = np.repeat(np.arange(len(y)), weights), targets if kind is NuSVR else y
    weighted, repeated = kind(gamma=0.5, nu=0.4).fit(X, t, weights), kind(gamma=0.5, nu=0.4).fit(X[again], t[again])
    assert abs(weighted.objective_ - repeated.objective_) <= 1e-7 * abs(repeated.objective_)
    values = (m.predict(X) if kind is NuSVR else m.decision_function(X) for m in (weighted, repeated))
    np.testing.assert_allclose(*values, atol=1e-5)


# ---- degenerate problems ---------------------------------------------------------------------------------------------


def test_an_infeasible_nu_names_the_largest_feasible_one():
    X, _, _ = rows(0)
    y = np.r_[np.zeros(45, dtype=int), np.ones(15, dtype=int)]
    with pytest.raises(ValueError, match=r"nu is infeasible: nu=0.51 must be at most 0.5 for the classes 'a' and 'b'"):
        NuSVC(nu=0.51).fit(X, np.array(["a", "b"])[y])
    machine = NuSVC(nu=0.5).fit(X, y)  # LIBSVM's coefficients of it are not finite.
    assert machine.duality_gap_ <= 1e-6 and (np.abs(machine.dual_coef_[0, machine.support_ >= 45]) > 0).sum() == 15
    weights = np.where(y == 0, 1.0, 3.0)
    NuSVC(nu=1.0).fit(X, y, weights)
    NuSVC(nu=1.0, class_weight={1: 3.0}).fit(X, y)
    with pytest.raises(ValueError, match=r"must be at most 0\.5"):
        NuSVC(nu=1.0).fit(X, y)


def test_the_largest_nu_has_all_coefficients_at_their_bound():
    X, _, targets = rows(1)
    machine = OneClassSVM(nu=1.0, gamma=0.5).fit(X)
    np.testing.assert_allclose(machine.dual_coef_, np.ones((1, 60)))
    balanced = np.r_[np.zeros(30, dtype=int), np.ones(30, dtype=int)]
    coefficients = np.abs(NuSVC(nu=1.0, gamma=0.5).fit(X, balanced).dual_coef_)
    np.testing.assert_allclose(coefficients, np.full((1, 60), coefficients[0, 0]))
    regressor = NuSVR(nu=1.0, gamma=0.5).fit(X, targets)
    theirs = sklearn.svm.NuSVR(nu=1.0, gamma=0.5, tol=1e-10).fit(X, targets)
    np.testing.assert_allclose(regressor.predict(X), theirs.predict(X), atol=1e-4)


@pytest.mark.parametrize("value", [0.0, 7.5, -1e6, 1e-9])
def test_constant_targets_are_predicted(value):
    X = rows(2)[0]
    machine = NuSVR().fit(X, np.full(len(X), value))
    np.testing.assert_allclose(machine.predict(X), value, rtol=1e-12)
    assert machine.status_ == "converged" or value == 0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_equal_rows():
    X, targets = np.ones((20, 3)), np.arange(20.0)
    detector = OneClassSVM(nu=0.3, gamma=1.0).fit(X)
    assert (detector.predict(X) == 1).all() and detector.duality_gap_ <= 1e-3
    np.testing.assert_allclose(detector.dual_coef_.sum(), 6.0)
    regressor = NuSVR(gamma=1.0).fit(X, targets)
    assert np.ptp(regressor.predict(X)) == 0.0 and 5.0 <= regressor.predict(X)[0] <= 14.0
    classifier = NuSVC(gamma=1.0).fit(X, np.arange(20) % 2)  # No margin can be positive.
    assert np.isfinite(classifier.decision_function(X)).all()


def test_a_single_row():
    for kind in (NuSVR, OneClassSVM):
        machine = kind(nu=0.5, gamma=1.0).fit([[1.0, 2.0]], [3.0])
        assert machine.predict([[1.0, 2.0]])[0] == (3.0 if kind is NuSVR else 1.0)


def test_a_machine_without_a_margin_says_so():
    X = np.random.default_rng(3).normal(size=(60, 1))
    with pytest.warns(ConvergenceWarning, match="NuSVC.*margin is zero for classes that overlap, unless nu=0.1"):
        machine = NuSVC(nu=0.1, kernel="linear").fit(X, np.arange(60) % 2)
    assert np.isfinite(machine.decision_function(X)).all() and machine.status_ == "precision"
    assert machine.dual_objective_ <= 0.0 <= machine.objective_ + 1e-12


@pytest.mark.parametrize("kind", [NuSVC, NuSVR, OneClassSVM])
def test_a_deadline_leaves_a_feasible_model_with_its_gap(kind):
    X, y, targets = rows(4, n=1000)
    with pytest.warns(ConvergenceWarning, match="time limit"):
        machine = kind(nu=0.6, max_time=1e-6, gamma=0.5, tol=1e-10).fit(X, targets if kind is NuSVR else y)
    assert machine.status_ == "max_time" and np.isfinite(machine.duality_gap_)
    best = kind(nu=0.6, gamma=0.5, tol=1e-6).fit(X, targets if kind is NuSVR else y)
    assert machine.dual_objective_ <= best.objective_ and best.dual_objective_ <= machine.objective_


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "nu"),
    [("NuSVC", 0.5), ("NuSVC", 0.8), ("NuSVR", 0.1), ("NuSVR", 0.4), ("OneClassSVM", 0.05), ("OneClassSVM", 0.4)],
)
def test_many_rows_reach_the_tolerance(name, nu):
    X, y, targets = rows(5, n=5000, n_features=5)
    each = np.ones(len(X))
    t = {"NuSVC": y, "NuSVR": targets}.get(name)
    own, their = both_fitted(name, X, t, nu=nu, gamma=0.2, tol=1e-3)
    assert own.status_ == "converged" and own.duality_gap_ <= 1e-3
    K = np.exp(-0.2 * ((X**2).sum(1)[:, None] + (X**2).sum(1) - 2 * X @ X.T))
    arguments = {"NuSVC": (K, y, each, nu), "NuSVR": (K, targets, each, nu, 1.0), "OneClassSVM": (K, each, nu)}[name]
    of = {"NuSVC": exact.of_nu_svc, "NuSVR": of_many_targets, "OneClassSVM": exact.of_one_class}[name]
    primal, dual = of(own, *arguments)
    assert abs(float(primal) - own.objective_) <= 1e-4 * abs(float(primal))
    assert own.dual_objective_ <= float(dual) + 1e-5 * abs(float(dual))
    assert own.dual_objective_ <= float(of(their, *arguments)[0]) and float(of(their, *arguments)[1]) <= own.objective_


def of_many_targets(machine, K, y, weights, nu, C):
    """`of_nu_svr`, with the width of the band that has a share nu outside."""
    signed = exact.coefficients(machine, len(y)).astype(float)
    distances = np.abs(K @ signed + machine.intercept_[0] - y)
    epsilon, square = np.sort(distances)[-int(nu * len(y)) - 1], signed @ K @ signed
    return square / 2 + C * (nu * len(y) * epsilon + np.maximum(distances - epsilon, 0).sum()), signed @ y - square / 2
