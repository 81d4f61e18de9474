"""LinearSVMClassifier against LIBLINEAR, SVC and SVMClassifier, and as an estimator of scikit-learn."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits, load_svmlight_file, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

import dimargin as dm

LOSSES = ["hinge", "squared_hinge"]
every_loss = pytest.mark.parametrize("loss", LOSSES)


@pytest.fixture(scope="module")
def rows():
    X, y = make_classification(600, 8, n_informative=5, n_clusters_per_class=1, class_sep=0.7, random_state=1)
    return StandardScaler().fit_transform(X), y


def objective(machine, X, y, weights=1.0):
    """Primal objective of a binary machine, by the definition."""
    margins = np.where(y == machine.classes_[1], 1, -1) * (X @ machine.coef_[0] + np.ravel(machine.intercept_)[0])
    short = np.maximum(1 - margins, 0)
    losses = short if machine.loss == "hinge" else short**2
    return 0.5 * (machine.coef_**2).sum() + machine.C * (weights * losses).sum()


@every_loss
@pytest.mark.parametrize("solver", ["cd", "auto"])
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_the_objective_is_that_of_liblinear(rows, loss, solver, store):
    X, y = rows
    machine = dm.LinearSVMClassifier(loss=loss, solver=solver, fit_intercept=False, tol=1e-9).fit(store(X), y)
    other = LinearSVC(loss=loss, dual=True, fit_intercept=False, tol=1e-10, max_iter=10**6).fit(X, y)
    found = objective(machine, X, y)
    assert machine.objective_ == pytest.approx(found, rel=1e-9)
    assert found == pytest.approx(objective(other, X, y), rel=1e-7)
    assert machine.status_ == "converged" and machine.certificate_ == "global" and machine.duality_gap_ <= 1e-9
    assert_allclose(machine.coef_, other.coef_, atol=1e-3)


def test_the_hinge_with_an_intercept_is_that_of_svc(rows):
    X, y = rows
    weights = np.random.default_rng(0).uniform(0.1, 3, len(y))
    machine = dm.LinearSVMClassifier(tol=1e-9, class_weight={0: 1.0, 1: 2.0}).fit(X, y, weights)
    other = SVC(kernel="linear", tol=1e-8, class_weight={0: 1.0, 1: 2.0}).fit(X, y, weights)
    assert_allclose(machine.coef_, other.coef_, atol=1e-4)
    assert machine.intercept_ == pytest.approx(other.intercept_, abs=1e-3)


@every_loss
def test_it_is_the_kernel_machine_with_a_linear_kernel(rows, loss):
    X, y = rows
    three = y + (X[:, 0] > 0.5)
    machine = dm.LinearSVMClassifier(loss=loss, C=0.5, tol=1e-8).fit(X, three)
    kernel = dm.SVMClassifier(loss=loss, C=0.5, kernel="linear", multi_class="one_vs_rest", tol=1e-9).fit(X, three)
    assert machine.coef_.shape == (3, 8) and machine.intercept_.shape == (3,)
    assert_allclose(machine.objective_, kernel.objective_, rtol=1e-7)
    assert_allclose(machine.decision_function(X), kernel.decision_function(X), atol=2e-3)


@pytest.mark.parametrize("seed", [0, 21, 40])  # From 21 and 40, coordinate descent gets to a gap of 7e-8 before.
def test_proximal_steps_that_begin_slowly_go_on(seed):
    rng = np.random.default_rng(77)
    X = rng.standard_normal((90, 4)).astype(np.float32) + 1.0
    y = np.concatenate([np.arange(3), rng.integers(0, 3, 87)])
    weights = rng.uniform(0.2, 3.0, 90)
    machine = dm.LinearSVMClassifier(C=0.05, fit_intercept=False, tol=1e-10, random_state=seed).fit(X, y, weights)
    assert machine.status_ == "converged" and machine.duality_gap_ <= 1e-10


@pytest.mark.parametrize("solver", ["auto", "cd"])
def test_an_intercept_that_moves_alone_is_waited_for(solver):
    """All rows but a few of the heavier class stay at C; the others' coefficients start to move late."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((140, 1)) + 1.0
    y = np.arange(140) % 2
    weights = np.where(y == 1, 1.002, 1.0)
    machine = dm.LinearSVMClassifier(C=0.01, tol=1e-8, solver=solver, random_state=0).fit(X, y, weights)
    assert machine.status_ == "converged"
    assert machine.objective_ == pytest.approx(
        dm.SVMClassifier(C=0.01, kernel="linear", tol=1e-10).fit(X, y, weights).objective_, rel=2e-8
    )


@pytest.mark.parametrize(("loss", "n", "scale"), [("squared_hinge", 150, 3), ("hinge", 300, 2)])
def test_many_columns_of_different_scales(loss, n, scale):
    """Coordinate descent makes no progress, and the Hessian is not formed for so many columns."""
    rng = np.random.default_rng(0)
    X = sp.csr_array(sp.random_array((n, 1500 if n == 300 else 1200), density=0.01, random_state=rng, format="csr"))
    scores = X @ rng.standard_normal(X.shape[1])
    y = (scores + 0.3 * scores.std() * rng.standard_normal(n) > 0).astype(int)
    X = sp.csr_array(X.multiply(10.0 ** rng.uniform(-scale, scale, X.shape[1])[None]))
    machine = dm.LinearSVMClassifier(loss=loss, random_state=0).fit(X, y)
    kernel = dm.SVMClassifier(loss=loss, kernel="linear", strategy="exact").fit(X, y)
    assert machine.status_ == "converged"
    assert kernel.objective_ * (1 - 1e-6) <= machine.objective_ <= kernel.objective_ * 1.001


# ---- a regularised intercept -----------------------------------------------------------------------------------------


def lifted(X, value=1.0):
    """Rows with a constant feature."""
    return np.column_stack([X, np.full(len(X), value)])


@given(
    seed=st.integers(0, 1000), loss=st.sampled_from(LOSSES), n_classes=st.integers(2, 4),
    scaling=st.sampled_from([0.1, 1.0, 8.0]), C=st.sampled_from([0.05, 1.0]),
    store=st.sampled_from([np.asarray, sp.csr_array, lambda X: X.astype(np.float32)]),
)  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_a_regularised_intercept_is_that_of_liblinear(seed, loss, n_classes, scaling, C, store):
    rng = np.random.default_rng(seed)
    X = np.float32(rng.standard_normal((90, 4)) + 1).astype(float)
    y = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, 90 - n_classes)])
    weights = rng.uniform(0.2, 3.0, len(y))
    # With more classes, LIBLINEAR gives the rest the weight one.
    factors = {0: 2.0} if n_classes == 2 else {}
    both = {"C": C, "loss": loss, "intercept_scaling": scaling, "class_weight": factors or None}
    ours = dm.LinearSVMClassifier(**both, tol=1e-10).fit(store(X), y, weights)
    other = LinearSVC(**both, dual=True, tol=1e-10, max_iter=10**6, random_state=0).fit(X, y, weights)
    assert ours.status_ == "converged"
    # Half the squared distance to the optimum is at most the duality gap.
    apart = np.sqrt(2e-8 * np.max(ours.objective_))
    assert_allclose(ours.coef_, other.coef_, atol=apart)
    assert_allclose(ours.intercept_, other.intercept_, atol=apart * scaling)
    # The objective is that of the problem with a constant feature, for every class against the rest.
    for q, found in enumerate(np.atleast_1d(ours.objective_)):
        labels = np.where(y == (q if n_classes > 2 else 1), 1, -1)
        short = np.maximum(1 - labels * (X @ ours.coef_[q] + ours.intercept_[q]), 0)
        losses = C * weights * np.where(y == 0, factors.get(0, 1.0), 1.0) * (short if loss == "hinge" else short**2)
        regulariser = (ours.coef_[q] ** 2).sum() + (ours.intercept_[q] / scaling) ** 2
        assert found == pytest.approx(0.5 * regulariser + losses.sum(), rel=1e-8)


@every_loss
def test_a_regularised_intercept_is_a_constant_feature_for_every_use(rows, loss):
    X, y = rows
    given = {"loss": loss, "random_state": 0, "warm_start": True, "tol": 1e-6}
    machine = dm.LinearSVMClassifier(intercept_scaling=2.0, **given).fit(X, y)
    other = dm.LinearSVMClassifier(fit_intercept=False, **given).fit(lifted(X, 2.0), y)
    for _ in range(2):  # The second time, both start from their model.
        assert_array_equal(machine.coef_, other.coef_[:, :-1])
        assert_array_equal(machine.intercept_, 2 * other.coef_[:, -1])
        assert (machine.objective_, machine.dual_objective_, machine.n_iter_) == (
            other.objective_, other.dual_objective_, other.n_iter_,
        )  # fmt: skip
        machine.fit(X, y), other.fit(lifted(X, 2.0), y)
    assert machine.n_iter_ <= 1
    machine.certify(X[:400], y[:400]), other.certify(lifted(X, 2.0)[:400], y[:400])
    assert (machine.objective_, machine.dual_objective_) == (other.objective_, other.dual_objective_)
    plan = machine.fit_plan(1000, 100)
    assert not plan.fit_intercept and plan.memory > other.fit_plan(1000, 100).memory


def test_a_regularised_intercept_of_wide_rows_is_saved(tmp_path):
    rng = np.random.default_rng(0)
    X = sp.csr_array((np.ones(1000), rng.choice(10**6, 1000), np.arange(0, 1001, 5)), shape=(200, 10**6))
    y = rng.integers(0, 2, 200)
    one, two = (dm.LinearSVMClassifier(intercept_scaling=1, random_state=0, n_jobs=n).fit(X, y) for n in (1, 2))
    assert one.coef_.shape == (1, 10**6) and one.intercept_[0] != 0
    assert_array_equal(one.decision_function(X), two.decision_function(X))
    dm.save(one, tmp_path / "model.dimargin")
    again = dm.load(tmp_path / "model.dimargin")
    assert again.intercept_scaling == 1
    assert_array_equal(again.decision_function(X), one.decision_function(X))
    objective = one.objective_
    assert again.certify(X, y).objective_ == pytest.approx(objective, rel=1e-9)


def test_a_search_regularises_the_intercept(rows):
    X, y = rows[0] + 1, rows[1]
    for loss in LOSSES:
        grid, machine = {"C": [1e-4, 1e-2, 1.0]}, dm.LinearSVMClassifier(loss=loss, fit_intercept=False, random_state=0)
        searches = [
            dm.SVMClassifierCV(one, grid, random_state=0).fit(rows, y)
            for one, rows in (
                (clone(machine).set_params(fit_intercept=True, intercept_scaling=2.0), X), (machine, lifted(X, 2.0)),
            )
        ]  # fmt: skip
        scores = [search.cv_results_["mean_test_score"] for search in searches]
        assert_allclose(*scores, atol=1e-12)
        assert searches[0].best_estimator_.intercept_[0] != 0


def test_history_and_plan(rows):
    machine = dm.LinearSVMClassifier(random_state=0).fit(*rows)
    assert {"level", "scope", "seconds", "objective", "relative_gap", "epochs"} <= set(machine.history_[-1])
    assert machine.history_[-1]["relative_gap"] == pytest.approx(machine.duality_gap_, rel=1e-6)
    machine = dm.LinearSVMClassifier(C=0.01, fit_intercept=False, random_state=0).fit(*rows)
    assert 0 < machine.history_[-1]["epochs"] <= machine.n_iter_  # Passes leave rows out.
    plans = [
        (machine, 10_000, 100, "cd"), (dm.LinearSVMClassifier(loss="squared_hinge"), 10_000, 100, "newton"),
        (dm.LinearSVMClassifier(loss="squared_hinge"), 10_000, 50_000, "cd"),
    ]  # fmt: skip
    for one, n_rows, n_features, name in plans:
        assert one.fit_plan(n_rows, n_features, n_values=60 * n_rows).name == name


def test_a_second_fit_starts_from_the_first(rows):
    X, y = rows
    machine = dm.LinearSVMClassifier(warm_start=True, tol=1e-6, random_state=0).fit(X, y)
    objective = machine.objective_
    assert machine.fit(X, y).n_iter_ == 0 and machine.objective_ == pytest.approx(objective, rel=1e-9)
    other = machine.fit(X[:500], y[:500])
    fresh = dm.LinearSVMClassifier(tol=1e-6).fit(X[:500], y[:500])
    assert other.objective_ == pytest.approx(fresh.objective_, rel=3e-6)
    assert vars(fresh)["_dual"] is None
    with pytest.raises(ValueError, match=r"needs the classes and features of the previous fit \(8 features"):
        machine.fit(X[:, :5], y)


@every_loss
def test_certify_other_rows(rows, loss):
    X, y = rows
    machine = dm.LinearSVMClassifier(loss=loss, solver="cd", tol=1e-4).fit(X[:300], y[:300])
    parameters = machine.coef_.copy()
    machine.certify(X, y)
    assert_array_equal(machine.coef_, parameters)
    assert machine.objective_ == pytest.approx(objective(machine, X, y), rel=1e-9)
    best = dm.LinearSVMClassifier(loss=loss, tol=1e-7).fit(X, y).objective_
    assert machine.dual_objective_ <= best and machine.status_ == "above_tol"
    assert machine.objective_ - machine.dual_objective_ == pytest.approx(machine.objective_ - best, rel=0.01)


def test_wide_rows_keep_the_columns_that_occur():
    rng = np.random.default_rng(0)
    columns = rng.choice(10**9, (200, 5))
    X = sp.csr_array((np.ones(1000), columns.ravel(), np.arange(0, 1001, 5)), shape=(200, 10**9))
    y = rng.integers(0, 2, 200)
    machine = dm.LinearSVMClassifier(random_state=0).fit(X, y)
    assert machine.status_ == "converged" and machine.score(X, y) == 1.0
    again = pickle.loads(pickle.dumps(machine))
    assert_array_equal(again.decision_function(X), machine.decision_function(X))


def test_a_time_limit_leaves_a_model(rows):
    with pytest.warns(ConvergenceWarning, match="the time limit was reached"):
        machine = dm.LinearSVMClassifier(tol=1e-15, max_time=1e-9).fit(*rows)
    assert machine.status_ == "max_time" and np.isfinite(machine.objective_)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"C": 0}, "C must be"),
        ({"loss": "squared"}, "loss must be one of 'hinge', 'squared_hinge'"),
        ({"solver": "svrg"}, "solver must be 'auto', 'cd', 'newton', 'dsvrg', 'cocoa' or a solver object, got 'svrg'"),
        ({"solver": "newton"}, "needs a loss with a derivative, not HingeLoss.*; use 'cd'"),
        ({"solver": dm.LinearNewton()}, "needs a loss with a derivative"),
        ({"tol": -1}, "tol must be"),
        ({"intercept_scaling": 0.0}, "intercept_scaling must be"),
        ({"intercept_scaling": 1.0, "fit_intercept": False}, "regularises the intercept, which fit_intercept=False"),
    ],
)
def test_bad_parameters_are_named(rows, wrong, match):
    with pytest.raises(ValueError, match=match):
        dm.LinearSVMClassifier(**wrong).fit(*rows)


def test_a_grid_search_of_many_classes():
    X, y = load_digits(return_X_y=True)
    search = GridSearchCV(dm.LinearSVMClassifier(random_state=0), {"C": [0.1, 1.0]}, cv=3).fit(X[:600] / 16, y[:600])
    assert search.best_score_ > 0.85 and clone(search.best_estimator_).C in (0.1, 1.0)


@pytest.mark.slow
def test_texts_of_reuters(data_folder):
    X, y = load_svmlight_file(str(next(data_folder.glob("reuters*"))))
    y = y == y.max()
    for loss in LOSSES:
        machine = dm.LinearSVMClassifier(loss=loss, random_state=0).fit(X, y)
        assert machine.duality_gap_ <= 1e-3 and machine.score(X, y) > 0.97
