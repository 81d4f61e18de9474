"""LinearSVMRegressor against LIBLINEAR, ridge regression, SVMRegressor and itself in other units."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score
from sklearn.svm import LinearSVR

import dimargin as dm

LOSSES = ["epsilon_insensitive", "squared_epsilon_insensitive"]
every_loss = pytest.mark.parametrize("loss", LOSSES)
SOLVERS = [(loss, solver) for loss in LOSSES for solver in ("cd", "auto", "cocoa")] + [(LOSSES[1], "newton")]
every_solver = pytest.mark.parametrize(("loss", "solver"), SOLVERS)


@pytest.fixture(scope="module")
def rows():
    """Rows, targets far from zero, whose differences are exact, and weights."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 6))
    y = 7 + X @ rng.normal(size=6) + 0.5 * rng.normal(size=500)
    return X, np.round(y * 2**20) / 2**20, rng.uniform(0.2, 3, 500)


def objective(machine, X, y, weights=1.0, scaling=None):
    """Primal objective, by the definition."""
    (b,) = np.ravel(machine.intercept_)
    excess = np.maximum(np.abs(X @ np.ravel(machine.coef_) + b - y) - machine.epsilon, 0)
    regulariser = (machine.coef_**2).sum() + (0.0 if scaling is None else (b / scaling) ** 2)
    return 0.5 * regulariser + machine.C * (weights * (excess if machine.loss == LOSSES[0] else excess**2)).sum()


# ---- what it finds ---------------------------------------------------------------------------------------------------


@every_loss
@pytest.mark.parametrize("solver", ["cd", "auto"])
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array, lambda X: X.astype(np.float32)])
@pytest.mark.parametrize("scaling", [None, 1.0, 5.0])
def test_the_objective_is_that_of_liblinear(rows, loss, solver, store, scaling):
    X, y, weights = rows
    X = X.astype(np.float32).astype(float)
    own = {"C": 0.3, "epsilon": 0.2, "loss": loss, "fit_intercept": scaling is not None}
    machine = dm.LinearSVMRegressor(**own, solver=solver, intercept_scaling=scaling, tol=1e-9).fit(store(X), y, weights)
    other = LinearSVR(**own, intercept_scaling=scaling or 1.0, dual=True, tol=1e-10, max_iter=10**6, random_state=0)
    other.fit(X, y, weights)
    found = objective(machine, X, y, weights, scaling)
    assert machine.objective_ == pytest.approx(found, rel=2e-9)
    assert found == pytest.approx(objective(other, X, y, weights, scaling), rel=1e-7)
    assert machine.status_ == "converged" and machine.certificate_ == "global" and machine.duality_gap_ <= 1e-9
    assert_allclose(machine.coef_[0], other.coef_, atol=np.sqrt(2e-6 * found))


@pytest.mark.parametrize("solver", ["cd", "newton"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_without_a_band_the_squared_loss_is_ridge_regression(rows, solver, fit_intercept):
    X, y, weights = rows
    own = {"C": 0.05, "epsilon": 0.0, "loss": "squared_epsilon_insensitive", "tol": 1e-10}
    machine = dm.LinearSVMRegressor(**own, solver=solver, fit_intercept=fit_intercept).fit(X, y, weights)
    ridge = Ridge(alpha=10.0, fit_intercept=fit_intercept, solver="cholesky").fit(X, y, weights)
    assert_allclose(machine.coef_[0], ridge.coef_, atol=1e-4)
    assert machine.intercept_[0] == pytest.approx(ridge.intercept_, abs=1e-4)


@every_solver
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_it_is_the_machine_with_a_linear_kernel(rows, loss, solver, fit_intercept):
    X, y, weights = rows
    own = {"C": 0.5, "epsilon": 0.3, "loss": loss, "fit_intercept": fit_intercept}
    tol = 1e-3 if solver == "cocoa" else 1e-8
    machine = dm.LinearSVMRegressor(**own, solver=solver, tol=tol, random_state=0).fit(X, y, weights)
    kernel = dm.SVMRegressor(**own, kernel="linear", strategy="exact", tol=1e-9).fit(X, y, weights)
    assert machine.coef_.shape == (1, 6) and machine.intercept_.shape == (1,)
    assert machine.status_ == "converged" and machine.dual_objective_ <= kernel.objective_
    assert kernel.objective_ * (1 - 1e-8) <= machine.objective_ <= kernel.objective_ * (1 + tol)
    assert machine.objective_ == pytest.approx(objective(machine, X, y, weights), rel=1e-8)
    assert_allclose(machine.predict(X), kernel.predict(X), atol=5 * np.sqrt(2 * tol * kernel.objective_))


@pytest.mark.parametrize("n", [2, 7, 60])
def test_few_rows_in_many_columns(n):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 200)), rng.normal(size=n)
    for loss in LOSSES:
        machine = dm.LinearSVMRegressor(loss=loss, tol=1e-6, random_state=0).fit(X, y)
        kernel = dm.SVMRegressor(loss=loss, kernel="linear", tol=1e-7).fit(X, y)
        assert machine.objective_ == pytest.approx(kernel.objective_, rel=2e-6)


@pytest.mark.parametrize("solver", ["dsvrg", "svrg", "csvrg"])
def test_stochastic_solvers(rows, solver):
    X, y, _ = rows
    solver = {"svrg": dm.LinearSVRG(), "csvrg": dm.LinearCoreSetSVRG()}.get(solver, solver)
    own = {"loss": "squared_epsilon_insensitive", "C": 0.1}
    machine = dm.LinearSVMRegressor(**own, solver=solver, tol=1e-3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine.fit(X, y)
    best = dm.LinearSVMRegressor(**own, tol=1e-9).fit(X, y).objective_
    assert machine.dual_objective_ <= best <= machine.objective_ * (1 + 1e-9)
    assert machine.objective_ <= 1.1 * best


# ---- other units of the targets --------------------------------------------------------------------------------------


@every_solver
@pytest.mark.parametrize("power", [-150, -3, 7, 150])
@pytest.mark.parametrize("own", [{}, {"fit_intercept": False}, {"intercept_scaling": 2.0}], ids=str)
def test_powers_of_two_as_units_change_no_bit(rows, loss, solver, power, own):
    X, y, weights = rows
    unit = 2.0**power
    factor = unit if loss == "epsilon_insensitive" else 1.0
    machine = dm.LinearSVMRegressor(0.3, 0.2, loss, solver=solver, tol=1e-2, random_state=0, **own)
    other = clone(machine).set_params(C=0.3 * factor, epsilon=0.2 * unit)
    for _ in range(2):  # The second time, both start from their model.
        machine.fit(X, y, weights), other.fit(X, unit * y, weights)
        assert_array_equal(other.coef_, unit * machine.coef_)
        assert_array_equal(other.intercept_, unit * machine.intercept_)
        assert other.objective_ == pytest.approx(unit**2 * machine.objective_, rel=1e-14)
        assert other.dual_objective_ == pytest.approx(unit**2 * machine.dual_objective_, rel=1e-14)
        for one, two in zip(machine.history_, other.history_, strict=True):
            assert two["objective"] == pytest.approx(unit**2 * one["objective"], rel=1e-14)
            assert two["relative_gap"] == one["relative_gap"]
        machine.set_params(warm_start=True), other.set_params(warm_start=True)
    machine.certify(X, y), other.certify(X, unit * y)
    assert other.objective_ == pytest.approx(unit**2 * machine.objective_, rel=1e-14)


@every_loss
def test_shifted_targets_shift_the_intercept(rows, loss):
    X, y, weights = rows
    machine = dm.LinearSVMRegressor(0.3, 0.2, loss, random_state=0).fit(X, y, weights)
    for shift in (-7.0, 1024.0, 2.0**30):
        other = clone(machine).fit(X, y + shift, weights)
        assert_array_equal(other.coef_, machine.coef_)
        assert other.intercept_[0] == pytest.approx(machine.intercept_[0] + shift, rel=1e-15)


@every_loss
@given(st.floats(-45, 45), st.integers(0, 1000))
@settings(max_examples=20)
def test_any_unit_gives_the_same_machine(loss, power, seed):
    rng, unit = np.random.default_rng(seed), 10.0**power
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    factor = unit if loss == "epsilon_insensitive" else 1.0
    machine = dm.LinearSVMRegressor(2.0, 0.2, loss, tol=1e-8).fit(X, y)
    other = dm.LinearSVMRegressor(2.0 * factor, 0.2 * unit, loss, tol=1e-8).fit(X, unit * y)
    assert other.status_ == "converged"
    assert other.objective_ / unit**2 == pytest.approx(machine.objective_, rel=2e-8)
    assert_allclose(other.predict(X) / unit, machine.predict(X), atol=1e-3)


# ---- rows ------------------------------------------------------------------------------------------------------------


@every_solver
def test_weights_are_repetitions_and_zero_leaves_a_row_out(rows, loss, solver):
    X, y, _ = rows
    counts = np.random.default_rng(1).integers(0, 4, len(y))
    tol = 1e-3 if solver == "cocoa" else 1e-8
    machine = dm.LinearSVMRegressor(0.3, loss=loss, solver=solver, tol=tol, random_state=0)
    weighted = clone(machine).fit(X, y, counts)
    repeated = clone(machine).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    kept = clone(machine).fit(X[counts > 0], y[counts > 0], counts[counts > 0])
    for other in (repeated, kept):
        assert other.objective_ == pytest.approx(weighted.objective_, rel=2 * tol)
    wrong = np.where(counts > 0, y, 1e90)  # a target that nobody reads
    assert_array_equal(clone(machine).fit(X, wrong, counts).coef_, weighted.coef_)


@every_loss
def test_shuffled_rows_give_the_same_machine(rows, loss):
    order = np.random.default_rng(1).permutation(500)
    machine = dm.LinearSVMRegressor(loss=loss, tol=1e-9, random_state=0).fit(*rows)
    other = clone(machine).fit(*(values[order] for values in rows))
    assert_allclose(other.coef_, machine.coef_, atol=1e-3)


@every_loss
def test_wide_rows_keep_the_columns_that_occur(loss):
    rng = np.random.default_rng(0)
    columns = rng.choice(10**9, (200, 5))
    X = sp.csr_array((np.ones(1000), columns.ravel(), np.arange(0, 1001, 5)), shape=(200, 10**9))
    y = rng.normal(size=200)
    machine = dm.LinearSVMRegressor(loss=loss, random_state=0).fit(X, y)
    assert machine.status_ == "converged" and machine.score(X, y) > 0.5
    again = pickle.loads(pickle.dumps(machine))
    assert_array_equal(again.predict(X), machine.predict(X))
    before = machine.objective_
    assert machine.certify(X, y).objective_ == pytest.approx(before, rel=1e-9)


def test_storage_of_coefficients(rows):
    X, y, _ = rows
    machine = dm.LinearSVMRegressor(random_state=0).fit(np.pad(X, ((0, 0), (0, 4))), y)
    predicted = machine.predict(np.pad(X, ((0, 0), (0, 4))))
    assert machine.sparsify().coef_.nnz == 6
    assert_allclose(machine.predict(np.pad(X, ((0, 0), (0, 4)))), predicted)
    assert machine.densify().to_float32().coef_.dtype == np.float32 and machine.certificate_ == "before_rounding"
    assert_allclose(machine.predict(np.pad(X, ((0, 0), (0, 4)))), predicted, atol=1e-5)


# ---- fits ------------------------------------------------------------------------------------------------------------


@every_loss
def test_a_second_fit_starts_from_the_first(rows, loss):
    X, y, weights = rows
    machine = dm.LinearSVMRegressor(loss=loss, warm_start=True, tol=1e-6, random_state=0).fit(X, y, weights)
    before = machine.objective_
    assert machine.fit(X, y, weights).n_iter_ <= 1 and machine.objective_ == pytest.approx(before, rel=1e-9)
    other = machine.fit(X[:300], 40 * y[:300])  # other rows, centre and unit
    fresh = dm.LinearSVMRegressor(loss=loss, tol=1e-6).fit(X[:300], 40 * y[:300])
    assert other.objective_ == pytest.approx(fresh.objective_, rel=3e-6)
    with pytest.raises(ValueError, match=r"needs the classes and features of the previous fit \(6 features"):
        machine.fit(X[:, :5], y)


@every_loss
@pytest.mark.parametrize("scaling", [None, 2.0])
def test_certify_other_rows(rows, loss, scaling):
    X, y, weights = rows
    machine = dm.LinearSVMRegressor(loss=loss, intercept_scaling=scaling, solver="cd", tol=1e-4).fit(X[:300], y[:300])
    parameters = machine.coef_.copy()
    machine.certify(X, y + 3, weights)
    assert_array_equal(machine.coef_, parameters)
    assert machine.objective_ == pytest.approx(objective(machine, X, y + 3, weights, scaling), rel=1e-8)
    best = clone(machine).set_params(tol=1e-7).fit(X, y + 3, weights).objective_
    assert machine.dual_objective_ <= best and machine.status_ == "above_tol"
    assert machine.objective_ - machine.dual_objective_ == pytest.approx(machine.objective_ - best, rel=0.01)


@every_solver
def test_a_time_limit_leaves_a_model(rows, loss, solver):
    machine = dm.LinearSVMRegressor(loss=loss, solver=solver, tol=1e-15, max_time=1e-9)
    with pytest.warns(ConvergenceWarning, match="LinearSVMRegressor stopped .* the time limit was reached"):
        machine.fit(*rows)
    assert machine.status_ == "max_time" and np.isfinite(machine.objective_)
    assert machine.dual_objective_ <= machine.objective_


@every_solver
def test_threads_change_no_bit(rows, loss, solver):
    machine = dm.LinearSVMRegressor(loss=loss, solver=solver, tol=1e-2, n_jobs=1, random_state=0).fit(*rows)
    other = clone(machine).set_params(n_jobs=3).fit(*rows)
    assert_array_equal(other.coef_, machine.coef_)
    assert other.duality_gap_ == machine.duality_gap_


def test_it_is_a_regressor_of_scikit_learn(rows):
    X, y, weights = rows
    machine = dm.LinearSVMRegressor(random_state=0).fit(X, y, weights)
    assert is_regressor(machine) and not hasattr(machine, "classes_") and not hasattr(machine, "decision_function")
    assert machine.predict(X).shape == (500,)
    assert_allclose(machine.predict(X), X @ machine.coef_[0] + machine.intercept_[0])
    assert cross_val_score(machine, X, y).mean() > 0.9
    assert {"level", "scope", "seconds", "objective", "relative_gap"} <= set(machine.history_[-1])


@pytest.mark.parametrize(
    ("loss", "n_features", "name"), [(LOSSES[0], 100, "cd"), (LOSSES[1], 100, "newton"), (LOSSES[1], 50_000, "cd")]
)
def test_fit_plan(loss, n_features, name):
    plan = dm.LinearSVMRegressor(loss=loss).fit_plan(10_000, n_features, n_values=600_000)
    assert plan.name == name and plan.fit_intercept and plan.memory > 0
    assert not dm.LinearSVMRegressor(loss=loss, intercept_scaling=1.0).fit_plan(1000, 100).fit_intercept


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"C": 0}, "C must be"),
        ({"epsilon": -1.0}, r"epsilon must be a finite number in \[0, 1e\+100\], got -1.0"),
        (
            {"loss": "squared"},
            "loss must be one of 'epsilon_insensitive', 'squared_epsilon_insensitive', got 'squared'",
        ),
        ({"solver": "svrg"}, "solver must be 'auto', 'cd', 'newton', 'dsvrg', 'cocoa' or a solver object, got 'svrg'"),
        (
            {"solver": "newton"},
            "solver='newton' needs a loss with a derivative, not EpsilonInsensitiveLoss.*; use 'cd'",
        ),
        ({"solver": dm.LinearNewton()}, "needs a loss with a derivative"),
        ({"intercept_scaling": 0.0}, "intercept_scaling must be"),
        ({"intercept_scaling": 1.0, "fit_intercept": False}, "regularises the intercept, which fit_intercept=False"),
    ],
)
def test_bad_parameters_are_named(rows, wrong, match):
    with pytest.raises(ValueError, match=match):
        dm.LinearSVMRegressor(**wrong).fit(*rows)
