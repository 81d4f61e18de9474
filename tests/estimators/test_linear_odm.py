"""LinearODMClassifier as a scikit-learn classifier in every respect, and against others."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_digits, load_svmlight_file, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import dimargin as dm
from dimargin.estimators.input_checks import seed_of
from dimargin.problems.losses import ODMLoss
from dimargin.shards.keys import order_of_keys

MILD = {"lam": 20.0, "upsilon": 0.4, "theta": 0.2}
SOLVERS = ["newton", dm.LinearNewton("conjugate_gradients"), "cd", "svrg", "csvrg", dm.LinearDSVRG(n_partitions=3)]
every_solver = pytest.mark.parametrize("solver", SOLVERS, ids=str)


@pytest.fixture(scope="module")
def rows():
    X, y = make_classification(1200, 8, n_informative=5, n_clusters_per_class=1, class_sep=0.7, random_state=1)
    return StandardScaler().fit_transform(X), y


def objective(X, y, weights, loss, index, intercept):
    w, b = index[: X.shape[1]], index[-1] if intercept else 0.0
    losses = loss.value(y * (X @ w + b), weights, weights.sum(), weights.sum())
    return 0.5 * w @ w + losses.sum()


@pytest.mark.slow_after(1)
@every_solver
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_every_solver_finds_the_optimum_of_l_bfgs(rows, solver, intercept, sparse):
    X, y = rows[0] + 0.5, rows[1]
    weights = np.random.default_rng(0).uniform(0.1, 3, len(y))
    given = sp.csr_array(X) if sparse else X
    machine = dm.LinearODMClassifier(**MILD, solver=solver, fit_intercept=intercept, tol=1e-10, random_state=0)
    machine.fit(given, y, weights)
    loss, start = ODMLoss(**MILD), np.zeros(X.shape[1] + intercept)
    found = minimize(lambda p: objective(X, 2 * y - 1, weights, loss, p, intercept), start, options={"gtol": 1e-8})
    assert machine.objective_ == pytest.approx(found.fun, rel=1e-7)
    assert_allclose(np.r_[machine.coef_[0], machine.intercept_[:intercept]], found.x, atol=1e-4)
    assert machine.dual_objective_ <= found.fun * (1 + 1e-12) and machine.intercept_[0] * (not intercept) == 0
    assert machine.status_ == "converged" and machine.certificate_ == "global"


@pytest.mark.parametrize("solver", [solver for solver in SOLVERS if solver != "cd"], ids=str)
def test_the_history_tells_of_every_step(rows, solver):
    machine = dm.LinearODMClassifier(**MILD, solver=solver, random_state=0).fit(*rows)
    keys = {"level", "partitions", "rows", "scope", "seconds", "objective", "relative_gap", "gradient_norm", "epochs"}
    assert all(keys <= set(entry) for entry in machine.history_)
    epochs = [entry["epochs"] for entry in machine.history_]
    assert epochs == sorted(epochs) and epochs[-1] > epochs[0]
    last, gradient = machine.history_[-1], machine.history_[-1]["gradient_norm"]
    assert last["relative_gap"] == pytest.approx(machine.duality_gap_, rel=1e-6) and machine.duality_gap_ <= 1e-3
    # with an intercept the gap is that of feasible coefficients: at least the gradient's, by
    # weights
    assert gradient**2 / 2 <= machine.objective_


def test_without_intercept_the_gap_is_half_the_squared_gradient(rows):
    machine = dm.LinearODMClassifier(**MILD, fit_intercept=False, solver="svrg", random_state=0).fit(*rows)
    last = machine.history_[-1]
    assert last["gradient_norm"] ** 2 / 2 == pytest.approx(last["relative_gap"] * last["objective"])


def test_the_linear_kernel_machine_is_the_same(rows):
    X, y = rows
    linear = dm.LinearODMClassifier(**MILD, fit_intercept=False, tol=1e-10).fit(X, y)
    kernel = dm.ODMClassifier(kernel="linear", **MILD, tol=1e-10).fit(X, y)
    assert linear.objective_ == pytest.approx(kernel.objective_, rel=1e-8)
    assert_allclose(linear.decision_function(X), kernel.decision_function(X), atol=1e-4)


def test_one_partition_of_dsvrg_is_svrg_on_rows_in_the_order_of_their_keys(rows):
    for sparse in (False, True):
        machine = dm.LinearODMClassifier(**MILD, random_state=3)
        order = order_of_keys(rows[0], (rows[1] == np.unique(rows[1])[1]).astype(int), np.ones(1200), seed_of(3))
        X, y = (sp.csr_array(rows[0]) if sparse else rows[0])[order], rows[1][order]
        one = clone(machine).set_params(solver=dm.LinearDSVRG(n_partitions=1)).fit(X, y)
        other = clone(machine).set_params(solver="svrg").fit(X, y)
        assert_array_equal(one.coef_, other.coef_)
        several = clone(machine).set_params(solver="dsvrg").fit(X, y)
        assert not np.array_equal(several.coef_, other.coef_)


def test_csvrg_of_radius_zero_is_svrg(rows):
    csvrg = dm.LinearODMClassifier(**MILD, solver=dm.LinearCoreSetSVRG(radius=0), random_state=3).fit(*rows)
    svrg = dm.LinearODMClassifier(**MILD, solver="svrg", random_state=3).fit(*rows)
    assert_array_equal(csvrg.coef_, svrg.coef_)


@pytest.mark.parametrize("solver", [*SOLVERS, dm.LinearSVRG("barzilai_borwein", 0.3)], ids=str)
def test_the_same_seed_gives_the_same_model_whatever_the_threads(solver):
    X, y = make_classification(3000, 6, random_state=0)
    y[:300] = 2
    fits = [dm.LinearODMClassifier(**MILD, solver=solver, random_state=7, n_jobs=jobs).fit(X, y) for jobs in (1, 2)]
    assert_array_equal(fits[0].coef_, fits[1].coef_)
    assert len(fits[0].coef_) == 3 and fits[0].objective_.shape == (3,)


def test_many_rows_begin_with_a_part():
    X, y = make_classification(140_000, 5, random_state=0)
    machine = dm.LinearODMClassifier(random_state=0, tol=1e-9).fit(X, y)
    assert machine.history_[0]["level"] == 1 and machine.history_[-1]["level"] == 0
    assert {(e["rows"], e["scope"]) for e in machine.history_} == {(16_384, "partitioned"), (140_000, "global")}
    assert machine.history_[-1]["epochs"] <= 4  # the part's optimum is near
    again = dm.LinearODMClassifier(random_state=0, tol=1e-9, warm_start=True).fit(X, y).fit(X, y)
    assert again.n_iter_ == 1
    assert_allclose(again.coef_, machine.coef_, rtol=1e-6)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("solver", ["newton", "svrg", "csvrg", "dsvrg"])
def test_a_time_limit_gives_a_certified_model(solver):
    X, y = make_classification(150_000, 20, random_state=0)
    with pytest.warns(ConvergenceWarning, match="the time limit was reached"):
        machine = dm.LinearODMClassifier(lam=1e6, solver=solver, max_time=1e-3, tol=1e-12).fit(X, y)
    assert machine.status_ == "max_time" and 0 <= machine.duality_gap_ <= 1 + 1e-9 and machine.certificate_ == "global"
    assert machine.decision_function(X[:5]).shape == (5,)


@pytest.mark.slow_after(1)
@every_solver
def test_data_of_odd_shape(solver):
    rng = np.random.default_rng(0)
    make = clone(dm.LinearODMClassifier(**MILD, solver=solver, random_state=0))
    X, y = rng.normal(size=(40, 1)), np.repeat(["a", "b"], 20)
    X[20:] += 2
    assert make.fit(X, y).score(X, y) > 0.8
    assert make.fit(np.zeros((40, 3)), y).duality_gap_ <= 1e-3 and not make.coef_.any()
    wide = rng.normal(size=(20, 100))
    assert make.fit(wide, y[10:30]).score(wide, y[10:30]) == 1.0
    assert make.fit(sp.csr_array((40, 3)), y).status_ == "converged"
    rare = np.r_[["a"] * 38, ["b"] * 2]  # most partitions lack a class
    X[:38] -= 5
    assert make.fit(X, rare).score(X, rare) > 0.9
    with np.errstate(all="raise", under="ignore"):
        make.fit(np.repeat(X, 3, axis=0), np.repeat(rare, 3))


def test_float32_rows_are_not_copied_and_give_the_same(rows):
    X = rows[0].astype(np.float32)
    for solver in SOLVERS:
        make = dm.LinearODMClassifier(**MILD, solver=solver, random_state=0, tol=1e-9)
        single, double = clone(make).fit(X, rows[1]), clone(make).fit(X.astype(float), rows[1])
        assert_allclose(single.coef_, double.coef_, rtol=1e-9)


# ---- partial_fit and certify -----------------------------------------------------------------------------------------


def test_a_pass_over_a_stream_comes_near_the_optimum(rows):
    X, y = make_classification(20_000, 8, n_informative=5, n_clusters_per_class=1, class_sep=0.7, random_state=1)
    whole = dm.LinearODMClassifier(**MILD, tol=1e-9).fit(X, y)
    stream = dm.LinearODMClassifier(**MILD, random_state=0)
    excess = []
    for part in np.array_split(np.arange(len(y)), 20):
        stream.partial_fit(X[part], y[part], classes=[0, 1])
        so_far = pickle.loads(pickle.dumps(stream)).certify(X, y)
        excess.append(so_far.objective_ / whole.objective_ - 1)
        assert so_far.dual_objective_ <= whole.objective_
    assert stream.certificate_ == "partitioned" and stream.n_iter_ == 20 == len(stream.history_)
    assert excess[-1] < 2e-3 and excess[-1] < excess[2]
    assert stream.score(X, y) == pytest.approx(whole.score(X, y), abs=0.002)
    assert stream.certify(X, y).certificate_ == "global"


def test_partial_fit_of_the_same_rows_converges(rows):
    whole, machine = (
        dm.LinearODMClassifier(**MILD, tol=1e-12).fit(*rows),
        dm.LinearODMClassifier(**MILD, random_state=0),
    )
    gaps = [machine.partial_fit(*rows, classes=[0, 1]).duality_gap_ for _ in range(100)]
    assert gaps[-1] < 1e-3 * gaps[0]
    assert_allclose(machine.coef_, whole.coef_, atol=0.01)


@every_solver
def test_a_regularised_intercept_is_a_constant_feature(rows, solver):
    X, y = rows
    lifted = np.column_stack([X, np.full(len(X), 0.5)])
    given = {**MILD, "solver": solver, "random_state": 0, "tol": 1e-4}
    machine = dm.LinearODMClassifier(intercept_scaling=0.5, **given).fit(X, y)
    other = dm.LinearODMClassifier(fit_intercept=False, **given).fit(lifted, y)
    assert machine.intercept_[0] != 0 and machine.status_ == other.status_ == "converged"
    # Solvers that sample rows take them in the order of their keys, which depend on the rows.
    assert_allclose(machine.coef_, other.coef_[:, :-1], atol=0.02)
    assert_allclose(machine.intercept_, 0.5 * other.coef_[:, -1], atol=0.02)
    assert machine.certify(X, y).objective_ == pytest.approx(other.certify(lifted, y).objective_, rel=1e-4)


def test_partial_fit_regularises_the_intercept(rows):
    X, y = rows
    lifted, given = np.column_stack([X, np.full(len(X), 0.5)]), {**MILD, "random_state": 0}
    machine, other = (
        dm.LinearODMClassifier(**kind, **given) for kind in ({"intercept_scaling": 0.5}, {"fit_intercept": False})
    )
    for half in (slice(600), slice(600, None), slice(None)):
        machine.partial_fit(X[half], y[half], classes=[0, 1])
        other.partial_fit(lifted[half], y[half], classes=[0, 1])
        assert_allclose(machine.coef_, other.coef_[:, :-1], rtol=1e-9)
        assert_allclose(machine.intercept_, 0.5 * other.coef_[:, -1], rtol=1e-9)
        assert machine.objective_ == pytest.approx(other.objective_, rel=1e-12)


def test_partial_fit_of_a_class_at_a_time_and_what_it_refuses(rows):
    X, y = rows
    machine = dm.LinearODMClassifier(**MILD, random_state=0)
    with pytest.raises(ValueError, match="classes must be given in the first call"):
        machine.partial_fit(X, y)
    for value in (0, 1, 0, 1):
        machine.partial_fit(X[y == value], y[y == value], classes=[0, 1, 2])
    assert machine.coef_.shape == (3, 8)
    with pytest.raises(ValueError, match=r"labels that are not among the classes \[0, 1, 2\]: \[7\]"):
        machine.partial_fit(X[:2], [0, 7])
    with pytest.raises(ValueError, match="classes must be those of the first call"):
        machine.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(AttributeError, match="has no attribute 'partial_fit'") as caught:
        dm.LinearODMClassifier(solver="newton").partial_fit(X, y, classes=[0, 1])
    assert "partial_fit needs solver='svrg'" in str(caught.value.__cause__)
    with pytest.raises(ValueError, match="balanced"):
        dm.LinearODMClassifier(class_weight="balanced").partial_fit(X, y, classes=[0, 1])


# ---- around it -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"solver": "sgd"}, "solver must be 'auto', 'newton', 'cd', 'svrg', 'csvrg', 'dsvrg'"),
        ({"lam": 0}, "lam must be"),
        ({"theta": 1.0}, "theta must be"),
        ({"upsilon": 2}, "upsilon must be"),
        ({"tol": -1}, "tol must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"max_time": 0}, "max_time must be"),
        ({"solver": dm.LinearNewton("lu")}, "LinearNewton: hessian must be"),
        ({"solver": dm.LinearSVRG("large")}, "LinearSVRG: step_size must be"),
        ({"solver": dm.LinearSVRG(inner_passes=0)}, "inner_passes must be"),
        ({"solver": dm.LinearDSVRG(n_partitions=0)}, "n_partitions must be"),
        ({"solver": dm.LinearCoreSetSVRG(radius=-1)}, "radius must be"),
    ],
)
def test_bad_parameters_are_named(rows, wrong, match):
    with pytest.raises(ValueError, match=match):
        dm.LinearODMClassifier(**wrong).fit(*rows)


def test_bad_rows_are_named(rows):
    X, y = rows[0].copy(), rows[1]
    X[5, 2] = np.nan
    with pytest.raises(ValueError, match=r"NaN \(row 5, column 2\)"):
        dm.LinearODMClassifier().fit(X, y)
    with pytest.raises(ValueError, match=r"NaN \(row 5, column 2\)"):
        dm.LinearODMClassifier().fit(*rows).predict(X)
    machine = dm.LinearODMClassifier(warm_start=True).fit(*rows)
    with pytest.raises(ValueError, match="X has 1 features, but LinearODMClassifier is expecting 8"):
        dm.LinearODMClassifier().fit(*rows).certify(X[:, :1], y)
    with pytest.raises(ValueError, match="warm_start=True needs the classes and features"):
        machine.fit(X[:, :1], y)


def test_it_is_searched_in_a_pipeline_and_drawn(rows):
    search = GridSearchCV(
        make_pipeline(StandardScaler(), dm.LinearODMClassifier(solver=dm.LinearSVRG(), random_state=0)),
        {"linearodmclassifier__lam": [1.0, 10.0], "linearodmclassifier__solver__inner_passes": [1.0, 2.0]},
        cv=2,
    ).fit(*rows)
    assert search.best_score_ > 0.78
    pytest.importorskip("matplotlib")
    dm.MarginDistributionDisplay.from_estimator(search, *rows)


@pytest.mark.parametrize("solver", ["auto", dm.LinearDSVRG(n_partitions=2)], ids=str)
def test_a_model_file_holds_it(tmp_path, rows, solver):
    machine = dm.LinearODMClassifier(**MILD, solver=solver, random_state=0).fit(*rows)
    dm.save(machine, tmp_path / "model")
    again = dm.load(tmp_path / "model")
    assert_array_equal(again.decision_function(rows[0]), machine.decision_function(rows[0]))
    assert again.history_ == machine.history_ and str(again.get_params()) == str(machine.get_params())
    stream = dm.LinearODMClassifier(**MILD, random_state=0).partial_fit(*rows, classes=[0, 1])
    dm.save(stream, tmp_path / "stream")
    assert_array_equal(dm.load(tmp_path / "stream").partial_fit(*rows).coef_, stream.partial_fit(*rows).coef_)


def test_digits_of_ten_classes():
    X, y = load_digits(return_X_y=True)
    machine = dm.LinearODMClassifier(random_state=0).fit(X[:1200] / 16, y[:1200])
    assert machine.score(X[1200:] / 16, y[1200:]) > 0.87 and machine.coef_.shape == (10, 64)


@pytest.mark.parametrize(
    ("libodm", "published"), [((64, 0.4, 0.9), 95.65), ((128, 0.1, 0.9), 95.675), ((64, 0.2, 0.8), 95.45)]
)
def test_the_demo_of_libodm(data_folder, libodm, published):
    """Its three linear runs on svmguide1: half the paper's lambda, and a constant feature for the intercept."""
    X, y, X_test, y_test = svmguide1(data_folder)
    X, X_test = (np.column_stack([rows, np.ones(len(rows))]) for rows in (X, X_test))
    lam, upsilon, theta = libodm
    machine = dm.LinearODMClassifier(2 * lam, upsilon, theta, fit_intercept=False, tol=1e-8).fit(X, y)
    assert 100 * machine.score(X_test, y_test) == pytest.approx(published, abs=1e-9)


def test_the_demo_of_libodm_with_a_kernel(data_folder):
    """One test row lies 0.00046 beside the boundary: a gap of 1e-6 left its side to the order of the additions."""
    X, y, X_test, y_test = svmguide1(data_folder)
    machine = dm.ODMClassifier(gamma=16.0, lam=2 * 4096, upsilon=0.3, theta=0.1, tol=1e-9).fit(X, y)
    assert 100 * machine.score(X_test, y_test) == pytest.approx(97.075, abs=1e-9)


def svmguide1(folder):
    X, y = load_svmlight_file(str(folder / "svmguide1.bz2"))
    X_test, y_test = load_svmlight_file(str(folder / "svmguide1.t.bz2"))
    scaler = MinMaxScaler().fit(X.toarray())
    return scaler.transform(X.toarray()), y, scaler.transform(X_test.toarray()), y_test
