"""SVMRegressor against scikit-learn's SVR, closed forms and itself: other units, weights, kernels and strategies."""

import pickle
import warnings
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVR

from dimargin import DivideAndConquer, Exact, Landmark, SVMRegressor

LOSSES = ["epsilon_insensitive", "squared_epsilon_insensitive"]
every_loss = pytest.mark.parametrize("loss", LOSSES)
with_and_without = pytest.mark.parametrize("fit_intercept", [True, False])
TREE = {"n_levels": 2, "branching": 2, "random_state": 0}


@pytest.fixture(scope="module")
def table():
    """Rows, targets far from zero, whose differences are exact, and weights."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(900, 3))
    y = 5 + np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=900)
    return X, np.round(y * 2**20) / 2**20, rng.uniform(0.3, 3, 900)


def coefficients(machine, n):
    found = np.zeros(n)
    found[machine.support_] = machine.dual_coef_[0]
    return found


def objective(machine, a, b, K, y, weights=1.0):
    """Of coefficients and an intercept, by the definition."""
    excess = np.maximum(np.abs(K @ a + b - y) - machine.epsilon, 0)
    return 0.5 * a @ K @ a + machine.C * (weights * (excess if machine.loss == LOSSES[0] else excess**2)).sum()


# ---- what it finds ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [300, 900])
@pytest.mark.parametrize(("C", "epsilon"), [(3.0, 0.1), (0.2, 0.0), (50.0, 0.4)])
def test_the_objective_is_that_of_libsvm(table, C, epsilon, n):
    X, y, weights = (values[:n] for values in table)
    machine = SVMRegressor(C, epsilon, gamma=0.7, tol=1e-8, random_state=0).fit(X, y, weights)
    svr = SVR(C=C, epsilon=epsilon, gamma=0.7, tol=1e-10).fit(X, y, weights)
    K, a, other = rbf_kernel(X, gamma=0.7), coefficients(machine, n), coefficients(svr, n)
    found = objective(machine, a, machine.intercept_[0], K, y, weights)
    assert machine.objective_ == pytest.approx(found, rel=2e-8)
    theirs = objective(machine, other, svr.intercept_[0], K, y, weights)
    assert found * (1 - 1e-8) <= theirs == pytest.approx(found, rel=1e-4)  # Their kernel values are float32.
    assert machine.dual_objective_ <= found and machine.duality_gap_ <= 1e-8
    assert (machine.status_, machine.certificate_) == ("converged", "global")
    # Half the squared distance to the optimum is at most the gap, for both of them.
    assert_allclose(machine.predict(X), svr.predict(X), atol=2 * np.sqrt(2 * (theirs - found) + 2e-8 * found))
    assert_array_equal(machine.support_vectors_, X[machine.support_])
    assert machine.n_support_ == [len(machine.support_)] and abs(a.sum()) < 1e-12 * np.abs(a).sum()
    assert (np.sign(a) * (y - machine.predict(X)) >= -1e-3).all()


@every_loss
@with_and_without
@pytest.mark.parametrize("n", [300, 900])
def test_optimality_conditions(table, loss, fit_intercept, n):
    X, y, weights = (values[:n] for values in table)
    own = {"loss": loss, "epsilon": 0.15, "gamma": 0.5, "fit_intercept": fit_intercept}
    machine = SVMRegressor(2.0, **own, tol=1e-9, random_state=0).fit(X, y, weights)
    a = coefficients(machine, n)
    residuals = y - (rbf_kernel(X, gamma=0.5) @ a + machine.intercept_[0])
    assert fit_intercept == (machine.intercept_[0] != 0)
    if fit_intercept:
        assert abs(a.sum()) < 1e-12 * np.abs(a).sum()
    excess = np.maximum(np.abs(residuals) - 0.15, 0)
    if loss == "squared_epsilon_insensitive":
        assert_allclose(a, 4.0 * weights * np.sign(residuals) * excess, atol=1e-3)
        return
    assert (np.abs(a) <= 2.0 * weights).all()
    inside = (np.abs(a) > 1e-6) & (np.abs(a) < 2.0 * weights - 1e-6)
    assert inside.sum() > 5
    assert_allclose(residuals[inside], 0.15 * np.sign(a[inside]), atol=1e-4)
    assert excess[a == 0].max() < 1e-4 and (np.abs(residuals[np.abs(a) == 2.0 * weights]) > 0.15 - 1e-4).all()


@pytest.mark.parametrize("n", [200, 700])
def test_without_a_band_the_squared_loss_is_kernel_ridge_regression(table, n):
    X, y, weights = (values[:n] for values in table)
    own = {"C": 4.0, "epsilon": 0.0, "loss": "squared_epsilon_insensitive", "gamma": 0.5, "tol": 1e-9}
    K, penalty = rbf_kernel(X, gamma=0.5), np.diag(1 / (8.0 * weights))
    machine = SVMRegressor(**own, fit_intercept=False).fit(X, y, weights)
    assert_allclose(coefficients(machine, n), np.linalg.solve(K + penalty, y), atol=1e-3)
    ones = np.ones((n, 1))
    *a, b = np.linalg.solve(np.block([[K + penalty, ones], [ones.T, np.zeros((1, 1))]]), np.r_[y, 0.0])
    machine = SVMRegressor(**own).fit(X, y, weights)
    assert_allclose(coefficients(machine, n), a, atol=1e-3)
    assert machine.intercept_[0] == pytest.approx(b, abs=1e-3)


# ---- other units of the targets --------------------------------------------------------------------------------------


def scaled(machine, unit):
    """The machine for targets in another unit."""
    factor = unit if machine.loss == "epsilon_insensitive" else 1.0
    return clone(machine).set_params(C=factor * machine.C, epsilon=unit * machine.epsilon)


def check_scaled(found, machine, unit):
    """A machine is another one, whose targets are larger by the unit, bit for bit."""
    assert_array_equal(found.support_, machine.support_)
    assert_array_equal(found.dual_coef_, unit * machine.dual_coef_)
    assert_array_equal(found.intercept_, unit * machine.intercept_)
    assert found.duality_gap_ == pytest.approx(machine.duality_gap_, rel=1e-9)
    for name in ("objective_", "dual_objective_"):
        assert getattr(found, name) == pytest.approx(unit**2 * getattr(machine, name), rel=1e-14)
    assert len(found.history_) == len(machine.history_)
    for one, other in zip(found.history_, machine.history_, strict=True):
        assert one["objective"] == pytest.approx(unit**2 * other["objective"], rel=1e-14)
        assert one["relative_gap"] == other["relative_gap"]


@every_loss
@pytest.mark.parametrize("fit", [
    {}, {"fit_intercept": False}, {"strategy": "dc", **TREE}, {"strategy": "cascade", "stop_level": 1, **TREE},
])  # fmt: skip
@pytest.mark.parametrize("power", [-150, -3, 7, 150])
def test_powers_of_two_as_units_change_no_bit(table, loss, fit, power):
    X, y, weights = (values[:700] for values in table)
    machine = SVMRegressor(3.0, 0.1, loss, gamma=0.7, **{"random_state": 0, **fit})
    other = scaled(machine, 2.0**power).set_params(tol=machine.tol)
    machine.fit(X, y, weights), other.fit(X, 2.0**power * y, weights)
    check_scaled(other, machine, 2.0**power)
    assert_array_equal(other.predict(X), 2.0**power * machine.predict(X))
    machine.certify(X, y, weights), other.certify(X, 2.0**power * y, weights)
    check_scaled(other, machine, 2.0**power)


@every_loss
@given(st.floats(-45, 45), st.integers(0, 1000))
@settings(max_examples=20)
def test_any_unit_gives_the_same_machine(loss, power, seed):
    rng, unit = np.random.default_rng(seed), 10.0**power
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    machine = SVMRegressor(2.0, 0.2, loss, tol=1e-8).fit(X, y)
    other = scaled(machine, unit).fit(X, unit * y)
    assert_allclose(other.predict(X) / unit, machine.predict(X), atol=1e-3)
    assert other.objective_ / unit**2 == pytest.approx(machine.objective_, rel=2e-8)
    assert other.status_ == "converged"


@every_loss
def test_shifted_targets_shift_the_intercept(table, loss):
    X, y = table[0][:600], table[1][:600]
    machine = SVMRegressor(3.0, 0.1, loss, random_state=0).fit(X, y)
    for shift in (-5.0, 1024.0, 2.0**30):
        other = clone(machine).fit(X, y + shift)
        assert_array_equal(other.dual_coef_, machine.dual_coef_)
        assert other.intercept_[0] == pytest.approx(machine.intercept_[0] + shift, rel=1e-15)
        assert other.objective_ == pytest.approx(machine.objective_, rel=1e-3)
        assert other.dual_objective_ <= machine.objective_
    negated = clone(machine).set_params(tol=1e-9).fit(X, -y)
    assert_allclose(-negated.predict(X), machine.set_params(tol=1e-9).fit(X, y).predict(X), atol=1e-3)


# ---- rows ------------------------------------------------------------------------------------------------------------


@every_loss
@with_and_without
def test_weights_are_repetitions_and_zero_leaves_a_row_out(table, loss, fit_intercept):
    X, y = table[0][:250], table[1][:250]
    counts = np.random.default_rng(1).integers(0, 4, 250)
    own = {"C": 3.0, "loss": loss, "fit_intercept": fit_intercept, "gamma": 0.5, "tol": 1e-9}
    weighted = SVMRegressor(**own).fit(X, y, counts)
    repeated = SVMRegressor(**own).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    kept = SVMRegressor(**own).fit(X[counts > 0], y[counts > 0], counts[counts > 0])
    for other in (repeated, kept):
        assert other.objective_ == pytest.approx(weighted.objective_, rel=2e-9)
        assert_allclose(other.predict(X), weighted.predict(X), atol=1e-3)
    assert (counts[weighted.support_] > 0).all()
    wrong = np.where(counts > 0, y, 1e90)  # a target that nobody reads
    assert_array_equal(SVMRegressor(**own).fit(X, wrong, counts).dual_coef_, weighted.dual_coef_)


@every_loss
def test_equal_rows_with_equal_targets_are_merged(loss):
    rng = np.random.default_rng(0)
    X, y = rng.integers(-2, 3, size=(2600, 2)).astype(float), rng.integers(0, 4, 2600).astype(float)
    y[(y == 0) & (np.arange(2600) % 2 == 0)] = -0.0
    machine = SVMRegressor(0.5, 0.3, loss, fit_intercept=False, tol=1e-7).fit(X, y)
    assert len(np.unique(np.column_stack([X, y])[machine.support_], axis=0)) == len(machine.support_) <= 100
    K = rbf_kernel(X, gamma=machine._transform.kernel.gamma)
    found = objective(machine, coefficients(machine, 2600), machine.intercept_[0], K, y)
    assert machine.objective_ == pytest.approx(found, rel=2e-7)
    assert machine.certify(X, y).objective_ == pytest.approx(found, rel=2e-7)
    plain = SVMRegressor(0.5, 0.3, loss, fit_intercept=False, tol=1e-7, memory_limit=2**30).fit(X, y)
    assert plain.objective_ == pytest.approx(found, rel=2e-7)


@pytest.mark.parametrize("parameters", [
    {}, {"strategy": "cascade", "stop_level": 1, **TREE}, {"strategy": "dc", "stop_level": 2, **TREE},
    {"strategy": "landmark", "n_landmarks": 60, "loss": "squared_epsilon_insensitive"},
])  # fmt: skip
def test_shuffled_rows_give_the_same_machine(table, parameters):
    X, y, weights = table
    order = np.random.default_rng(1).permutation(len(y))
    machine = SVMRegressor(tol=1e-5, **{"random_state": 0, **parameters})
    one = machine.fit(X, y, weights).predict(X)
    two = machine.fit(X[order], y[order], weights[order]).predict(X)
    assert_allclose(two, one, atol=2e-3 * np.ptp(one))
    other = machine.set_params(random_state=1).fit(X, y, weights).predict(X)
    if parameters:
        assert np.abs(other - one).max() > 1e-3 * np.ptp(one)


@every_loss
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "laplacian"])
def test_sparse_rows(table, loss, kernel):
    X = np.where(np.abs(table[0]) > 1, table[0], 0.0)[:300]
    machine = SVMRegressor(0.5, loss=loss, kernel=kernel, gamma=0.5, degree=2, tol=1e-6).fit(X, table[1][:300])
    other = clone(machine).fit(sp.csr_array(X), table[1][:300])
    assert other.objective_ == pytest.approx(machine.objective_, rel=2e-6)
    assert_allclose(other.predict(sp.csr_array(X)), machine.predict(X), atol=0.01)


@every_loss
@pytest.mark.parametrize("n", [300, 900])
def test_brought_kernels_are_the_named_ones(table, loss, n):
    X, y, weights = (values[:n] for values in table)
    own = {"C": 3.0, "loss": loss, "tol": 1e-6, "random_state": 0}
    named = SVMRegressor(gamma=0.5, **own).fit(X, y, weights)
    K = rbf_kernel(X, gamma=0.5)
    looked_up = SVMRegressor(kernel="precomputed", **own).fit(K, y, weights)
    computed = SVMRegressor(kernel=partial(rbf_kernel, gamma=0.5), **own).fit(X, y, weights)
    for machine, data in ((looked_up, K), (computed, X)):
        assert machine.objective_ == pytest.approx(named.objective_, rel=2e-6)
        assert_allclose(machine.predict(data), named.predict(X), atol=0.02)
        assert machine.certify(data, y, weights).duality_gap_ <= 1.1e-6


def test_a_linear_kernel_has_coefficients_of_features(table):
    X, y, _ = table
    machine = SVMRegressor(kernel="linear", epsilon=0.5).fit(X, y)
    assert_allclose(X @ machine.coef_[0] + machine.intercept_, machine.predict(X), atol=1e-9)


# ---- strategies ------------------------------------------------------------------------------------------------------


@pytest.mark.slow_after(2)
@every_loss
@with_and_without
@pytest.mark.parametrize(
    "strategy", ["dc", "diodm", "cascade", "dip", Exact(across_shards=True, working_set=200)], ids=str
)
def test_strategies_reach_the_exact_objective(table, loss, fit_intercept, strategy):
    X, y, weights = table
    own = {"C": 3.0, "loss": loss, "fit_intercept": fit_intercept, "gamma": 0.7, "tol": 1e-5}
    exact = SVMRegressor(**own, strategy="exact").fit(X, y, weights)
    shape = {} if isinstance(strategy, Exact) else TREE
    machine = SVMRegressor(**own, strategy=strategy, **{"random_state": 0, **shape}).fit(X, y, weights)
    assert (machine.status_, machine.certificate_) == ("converged", "global")
    assert machine.objective_ == pytest.approx(exact.objective_, rel=2e-5)
    assert_allclose(machine.predict(X), exact.predict(X), atol=0.05)
    levels = [entry["level"] for entry in machine.history_ if "level" in entry]
    assert levels == sorted(levels, reverse=True) and machine.history_[-1]["objective"] == pytest.approx(
        machine.objective_, rel=1e-4
    )


@pytest.mark.slow_after(2)
@every_loss
@pytest.mark.parametrize("strategy", ["dc", "diodm", "cascade", "dip", DivideAndConquer(prediction="naive")], ids=str)
def test_models_of_a_level_predict_and_are_certified(table, loss, strategy):
    X, y, weights = table
    machine = SVMRegressor(loss=loss, gamma=0.7, strategy=strategy, stop_level=1, **TREE).fit(X, y, weights)
    exact = SVMRegressor(loss=loss, gamma=0.7, tol=1e-6).fit(X, y, weights)
    assert machine.certificate_ == "partitioned"
    is_naive = isinstance(strategy, DivideAndConquer)  # which averages machines of clusters
    assert machine.score(X, y) > exact.score(X, y) - (0.5 if is_naive else 0.2)
    predicted = machine.predict(X)
    shifted = clone(machine).fit(X, y + 64.0, weights)
    assert_allclose(shifted.predict(X), predicted + 64.0, atol=1e-6)
    machine.certify(X, y, weights)
    assert machine.certificate_ == "global"
    assert machine.dual_objective_ <= exact.objective_ <= machine.objective_ * (1 + 1e-6)
    assert_array_equal(machine.predict(X), predicted)


@with_and_without
@pytest.mark.parametrize("strategy", ["landmark", Landmark(polish=True)], ids=str)
def test_landmarks(table, strategy, fit_intercept):
    X, y, weights = table
    own = {"loss": "squared_epsilon_insensitive", "gamma": 0.7, "fit_intercept": fit_intercept}
    machine = SVMRegressor(strategy=strategy, n_landmarks=200, random_state=0, **own).fit(X, y, weights)
    exact = SVMRegressor(**own, tol=1e-6).fit(X, y, weights)
    assert machine.status_ == "converged" and machine.score(X, y) > exact.score(X, y) - 0.05
    was = machine.certificate_
    assert was == ("landmark" if strategy == "landmark" else "global")
    machine.certify(X, y, weights)
    assert machine.certificate_ == "global"
    assert machine.dual_objective_ <= exact.objective_ <= machine.objective_ * (1 + 1e-6)


@pytest.mark.parametrize("strategy", ["landmark", Landmark(polish=True)], ids=str)
def test_landmarks_need_a_derivative(table, strategy):
    with pytest.raises(ValueError, match=r"strategy .* needs a differentiable loss, not EpsilonInsensitiveLoss"):
        SVMRegressor(strategy=strategy).fit(*table)


def test_landmarks_are_advised_with_the_losses_of_a_regressor():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 2))
    machine = SVMRegressor(strategy="diodm", max_time=1e-9, random_state=0)
    with pytest.warns(
        ConvergenceWarning, match="With loss='squared_epsilon_insensitive', fit_intercept=False, strategy"
    ):
        machine.fit(X, X[:, 0] + rng.normal(size=20_000))


# ---- fits ------------------------------------------------------------------------------------------------------------


def test_a_time_limit_leaves_a_model(table):
    with pytest.warns(ConvergenceWarning, match="SVMRegressor stopped before .*the time limit"):
        machine = SVMRegressor(C=1e3, tol=1e-12, max_time=1e-9).fit(*table)
    assert machine.status_ == "max_time" and machine.dual_objective_ <= machine.objective_
    assert np.isfinite(machine.predict(table[0])).all()


@every_loss
@pytest.mark.parametrize("n", [400, 900])
def test_a_fit_goes_on_from_the_previous_one(table, loss, n):
    X, y, weights = table[0][:n], 64 * table[1][:n], table[2][:n]
    machine = SVMRegressor(50.0, 3.0, loss, gamma=2.0, tol=1e-5, random_state=0).fit(X, y, weights)
    first = machine.history_[0]["relative_gap"]
    machine.set_params(warm_start=True).fit(X, y, weights)
    assert machine.history_[0]["relative_gap"] <= 1e-3 < first
    # Old coefficients are outside of the box, and the targets are others, with another unit and centre.
    other = y**2
    machine.set_params(C=2.0).fit(X, other, weights)
    fresh = SVMRegressor(2.0, 3.0, loss, gamma=2.0, tol=1e-5).fit(X, other, weights)
    assert machine.objective_ == pytest.approx(fresh.objective_, rel=2e-5)
    with pytest.raises(
        ValueError, match=rf"warm_start=True needs the rows .*of the previous fit \({n} rows.*got 20 rows"
    ):
        machine.fit(X[:20], y[:20])


def test_certify_of_other_rows_is_refused(table):
    X, y, _ = table
    machine = SVMRegressor().fit(X, y)
    with pytest.raises(ValueError, match="not the rows that this model was fitted on"):
        machine.certify(X[::-1], y[::-1])
    gap, before = machine.duality_gap_, machine.objective_
    assert machine.certify(X, y).objective_ == pytest.approx(before, rel=1e-3) and machine.duality_gap_ <= 1.1e-3
    machine.intercept_ = machine.intercept_ + 0.1
    assert machine.certify(X, y).duality_gap_ > 5 * gap


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_threads_change_no_bit(table, n_jobs):
    machine = SVMRegressor(n_jobs=1, strategy="dc", **TREE).fit(*table)
    assert_array_equal(
        clone(machine).set_params(n_jobs=n_jobs).fit(*table).predict(table[0]), machine.predict(table[0])
    )


def test_it_is_a_regressor_of_scikit_learn(table):
    X, y, weights = table
    machine = SVMRegressor(5.0, 0.05).fit(X, y, weights)
    again = pickle.loads(pickle.dumps(machine))
    assert_array_equal(again.predict(X), machine.predict(X))
    assert again.certify(X, y, weights).duality_gap_ <= 1e-3
    assert is_regressor(machine) and not hasattr(machine, "classes_") and not hasattr(machine, "decision_function")
    assert machine.predict(X).shape == (900,)
    search = GridSearchCV(machine, {"C": [1.0, 10.0], "epsilon": [0.0, 0.1]}, cv=3).fit(X, y, sample_weight=weights)
    assert search.best_score_ > 0.9


def test_fit_plan():
    plan = SVMRegressor(loss="squared_epsilon_insensitive").fit_plan(5000, 10)
    assert (plan.name, plan.fit_intercept, plan.n_levels) == ("exact", True, 1)
    assert plan.memory >= plan.solve_memory > 0
    assert SVMRegressor().fit_plan(10**6, 10).name == "dc"
    assert SVMRegressor(strategy="cascade", **TREE).fit_plan(5000, 10).n_levels == 3
    assert SVMRegressor(kernel="linear").fit_plan(10**5, 10).strategy.by_rows


def test_rows_of_a_linear_kernel_take_the_algorithm_of_linear_machines(table):
    X, y, weights = table
    X = np.tile(X, (5, 1))[:4000] + 1e-3 * np.random.default_rng(0).normal(size=(4000, 3))
    y, weights = np.resize(y, 4000), np.resize(weights, 4000)
    machine = SVMRegressor(kernel="linear", tol=1e-5, random_state=0).fit(X, y, weights)
    exact = SVMRegressor(kernel="linear", tol=1e-5, strategy="exact").fit(X, y, weights)
    assert machine.fit_plan(4000, 3).strategy.by_rows and machine.status_ == "converged"
    assert machine.objective_ == pytest.approx(exact.objective_, rel=2e-5)
    machine.certify(X, y, weights)
    assert machine.duality_gap_ <= 2e-5


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"C": 0.0}, ValueError, r"C must be a finite number in \(0, inf\), got 0.0"),
        ({"epsilon": -0.1}, ValueError, r"epsilon must be a finite number in \[0, 1e\+100\], got -0.1"),
        ({"epsilon": None}, TypeError, "epsilon must be a finite number"),
        ({"epsilon": np.nan}, ValueError, "epsilon must be a finite number"),
        ({"loss": "hinge"}, ValueError, "loss must be one of 'epsilon_insensitive', 'squared_.*', got 'hinge'"),
        (
            {"strategy": DivideAndConquer(prediction="bcm")},
            ValueError,
            "'bcm' adds log odds of classes; .* use 'early'",
        ),
        ({"fit_intercept": 1}, TypeError, "fit_intercept must be True or False, got 1"),
        ({"strategy": "exact", "n_levels": 2}, ValueError, "n_levels=2 was set, but strategy 'exact' does not use"),
    ],
)
def test_parameters_out_of_range_are_named(table, parameters, error, message):
    with pytest.raises(error, match=message):
        SVMRegressor(**parameters).fit(*table)


@every_loss
@pytest.mark.parametrize("strategy", ["exact", "dc", "cascade"])
def test_a_level_is_solved_within_its_band(table, loss, strategy):
    """Where the band holds all targets no row is a support vector, and the model is a constant."""
    X, y, weights = table
    shape = {} if strategy == "exact" else TREE
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        machine = SVMRegressor(epsilon=20.0, loss=loss, strategy=strategy, **shape).fit(X, y, weights)
    assert len(machine.support_) == 0 and machine.objective_ == machine.dual_objective_ == 0
    assert machine.predict(X[:3]) == pytest.approx((y.min() + y.max()) / 2) and machine.status_ == "converged"
    assert machine.certify(X, y, weights).duality_gap_ == 0
