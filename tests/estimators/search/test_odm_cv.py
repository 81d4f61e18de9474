"""ODMClassifierCV as a scikit-learn classifier, and as a search."""

import time

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score
from sklearn.model_selection import GridSearchCV, PredefinedSplit, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC
from stopping import Stop

import dimargin as dm
from dimargin.estimators.fit_progress import Monitor, observed

GRID = {"gamma": [0.1, 1.0, 30.0], "lam": [1e2, 1e4], "theta": [0.3]}
SVM_GRID = {"gamma": [0.1, 1.0, 30.0], "C": [0.1, 10.0]}
X, Y = make_moons(900, noise=0.25, random_state=0)
SMALL = {"param_grid": GRID, "min_rows": 100, "random_state": 0}


@pytest.fixture(scope="module")
def moons():
    return make_moons(1500, noise=0.25, random_state=0)


@pytest.fixture(scope="module")
def search(moons):
    return dm.ODMClassifierCV(**SMALL).fit(*moons)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    ("machine", "grid"),
    [
        (dm.ODMClassifier(tol=0.01, random_state=0), GRID),
        (dm.SVMClassifier(random_state=0), SVM_GRID),
        (dm.SVMClassifier(fit_intercept=True, random_state=0), SVM_GRID),
        (dm.SVMClassifier(loss="squared_hinge", random_state=0), SVM_GRID),
    ],
    ids=str,
)
def test_the_choice_is_that_of_a_full_search(machine, grid):
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    search = dm.ODMClassifierCV(machine, grid, min_rows=100, random_state=0).fit(X, Y)
    full = GridSearchCV(machine, grid, cv=folds).fit(X, Y)
    index = full.cv_results_["params"].index(search.best_params_)
    assert full.cv_results_["mean_test_score"][index] >= full.best_score_ - 0.004
    assert search.best_score_ == pytest.approx(full.best_score_, abs=0.01 if grid is GRID else 0.02)
    same = clone(machine).set_params(**search.best_params_).fit(X, Y)
    assert_array_equal(search.decision_function(X), same.decision_function(X))


@pytest.mark.parametrize("scoring", [None, "accuracy", "f1"])
def test_a_score_is_that_of_weighted_rows(scoring):
    X, y = make_moons(300, noise=0.35, random_state=0)
    weights = np.where(y == 1, 9.0, 1.0)
    search = dm.ODMClassifierCV(param_grid={"lam": [1e3]}, scoring=scoring, random_state=0).fit(X, y)
    expected = (f1_score if scoring == "f1" else accuracy_score)(y, search.predict(X), sample_weight=weights)
    assert search.score(X, y, weights) == pytest.approx(expected, abs=1e-12) != search.score(X, y)


def test_a_scoring_of_probabilities_is_refused_by_what_there_is_instead(moons):
    with pytest.raises(ValueError, match="scoring must use labels or decision values, such as 'roc_auc'"):
        dm.ODMClassifierCV(**SMALL, scoring="neg_log_loss").fit(*moons)


def test_a_machine_that_is_given_keeps_its_tolerance(moons):
    search = dm.ODMClassifierCV(dm.ODMClassifier(tol=1e-5), **SMALL).fit(*moons)
    assert search.duality_gap_ <= search.best_estimator_.tol == 1e-5


def test_the_table_is_that_of_grid_search(search):
    table = pd.DataFrame(search.cv_results_)
    assert len(table) == 6 + 2 and list(table["round"].unique()) == [0, 1]
    assert {"param_gamma", "param_lam", "split0_test_score", "split2_test_score", "rank_test_score"} <= set(table)
    splits = table[[f"split{k}_test_score" for k in range(3)]]
    assert_array_equal(splits.mean(axis=1).to_numpy().round(12), table["mean_test_score"].to_numpy().round(12))
    assert splits.isna().sum(axis=1).tolist() == [2] * 6 + [0] * 2  # a first look asks one fold
    last = table[table["round"] == 1].sort_values("rank_test_score")
    assert last["params"].iloc[0] == search.best_params_ and last["mean_test_score"].iloc[0] == search.best_score_
    assert [entry["rows"] for entry in search.rounds_] == [333, 1000]
    assert all(entry["kernel_evaluations"] > 0 and entry["seconds"] > 0 for entry in search.rounds_)


def test_the_tuned_machine_shows_through(moons, search):
    assert search.duality_gap_ <= 1e-2 and search.certificate_ == "global" and search.n_splits_ == 3
    assert search.score(*moons) == search.best_estimator_.score(*moons)
    with pytest.raises(AttributeError, match="nonsense_"):
        _ = search.nonsense_
    with pytest.raises(NotFittedError):
        dm.ODMClassifierCV().predict(moons[0])
    pytest.importorskip("matplotlib")
    dm.ConvergenceDisplay.from_estimator(search)


def test_the_same_seed_gives_the_same_choice_whatever_the_threads(moons):
    one, two = (dm.ODMClassifierCV(**SMALL, n_jobs=jobs).fit(*moons) for jobs in (1, 2))
    assert_array_equal(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])
    assert one.best_params_ == two.best_params_
    other = dm.ODMClassifierCV(**{**SMALL, "random_state": 1}).fit(*moons)
    assert not np.array_equal(one.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"])


def test_more_finalists_and_a_smaller_tolerance_cost_more():
    X, y = make_moons(1200, noise=0.3, random_state=0)  # more rows than are always solved to rounding
    usual, more, exact = (
        dm.ODMClassifierCV(**SMALL, **given).fit(X, y).rounds_ for given in ({}, {"finalists": 5}, {"search_tol": 1e-3})
    )
    assert [found[-1]["candidates"] for found in (usual, more, exact)] == [2, 5, 2]
    assert exact[-1]["kernel_evaluations"] > 1.5 * usual[-1]["kernel_evaluations"]


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    ("machine", "n_candidates", "low"), [(None, 45, 0.95), (dm.SVMClassifier(), 25, 0.94)], ids=["odm", "svm"]
)
def test_the_default_grid_and_more_classes(machine, n_candidates, low):
    A, a = load_digits(return_X_y=True)
    sizes = {"min_rows": 150, "max_rows": 450, "max_widenings": 0}
    search = dm.ODMClassifierCV(machine, random_state=0, **sizes).fit(A[:900], a[:900])
    assert len(search.cv_results_["params"]) == n_candidates + 2 and search.score(A[900:], a[900:]) > low
    assert search.dual_coef_.shape[0] == 9  # one against one, as the machine does without a search


def test_strategies_kernels_and_sparse_rows(moons):
    X, y = moons
    landmark = dm.ODMClassifierCV(dm.ODMClassifier(strategy="landmark", n_landmarks=40), **SMALL).fit(X, y)
    assert landmark.certificate_ == "landmark" and landmark.score(X, y) > 0.9
    grid = {"kernel": ["rbf", "poly"], "degree": [2, 3], "gamma": ["scale"], "lam": [1e4]}
    kernels = dm.ODMClassifierCV(param_grid=grid, min_rows=200, random_state=0).fit(sp.csr_array(X), y)
    assert kernels.best_params_["gamma"] == "scale" and kernels.best_params_["kernel"] == "rbf"
    Z, z = make_classification(3000, 20, random_state=0)
    linear = dm.ODMClassifierCV(dm.LinearODMClassifier(), min_rows=200, random_state=0).fit(sp.csr_array(Z), z)
    assert linear.coef_.shape == (1, 20) and linear.best_score_ == pytest.approx(linear.score(Z, z), abs=0.03)
    tree = dm.ODMClassifierCV(dm.ODMClassifier(strategy="diodm", n_levels=1), **SMALL).fit(X, y)
    assert [entry["level"] for entry in tree.history_] == [1, 0]


def test_scoring_folds_and_weights(moons):
    X, y = moons
    area = dm.ODMClassifierCV(**SMALL, scoring="roc_auc").fit(X, y)
    assert area.best_score_ > 0.97 and area.score(X, y) > 0.97
    split = PredefinedSplit(np.where(np.arange(1500) < 500, 0, -1))
    one = dm.ODMClassifierCV(**SMALL, cv=split).fit(X, y)
    assert one.n_splits_ == 1 and "split1_test_score" not in one.cv_results_
    # where one class counts for nothing, its rows neither train nor score
    noise = np.where(np.arange(1500) < 700, 1 - y, y)
    weights = np.where(np.arange(1500) < 700, 0.0, 1.0)
    weighted = dm.ODMClassifierCV(**SMALL).fit(X, noise, weights)
    assert weighted.best_score_ > 0.9 > dm.ODMClassifierCV(**SMALL).fit(X, noise).best_score_
    few = dm.ODMClassifierCV(param_grid={"lam": [1e3]}, cv=5).fit([[0.0], [1], [0.1], [1.1]], [0, 1, 0, 1])
    assert few.n_splits_ == 2


@pytest.mark.slow
def test_a_time_limit_gives_the_best_so_far():
    X, y = make_moons(20_000, noise=0.25, random_state=0)
    began = time.perf_counter()
    with pytest.warns(ConvergenceWarning) as told:
        search = dm.ODMClassifierCV(random_state=0, max_time=1.0, min_rows=1000).fit(X, y)
    assert "the search was cut short after" in str(told[0].message)
    assert time.perf_counter() - began < 5 and search.score(X, y) > 0.9
    assert search.best_estimator_.max_time is None
    with pytest.warns(ConvergenceWarning):
        none = dm.ODMClassifierCV(random_state=0, max_time=1e-3).fit(X, y)
    assert none.best_params_ == {} and np.isnan(none.best_score_) and none.predict(X[:2]).shape == (2,)


def test_callbacks_hear_of_rounds_units_and_the_last_fit(moons):
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks since version 1.9")
    listener = Stop()
    dm.ODMClassifierCV(**SMALL).set_callbacks(listener).fit(*moons)
    assert listener.begun.count("kernel and fold") in (3 + 3, 3 + 6)
    rounds = [name for name in listener.begun if name[:5] in ("round", "refit")]
    assert rounds == ["round 0", "round 1", "refit"]
    with pytest.warns(ConvergenceWarning, match="cut short after 1 of 2"):
        stopped = dm.ODMClassifierCV(**SMALL).set_callbacks(Stop("round 0")).fit(*moons)
    assert stopped.status_ == "converged" and stopped.score(*moons) > 0.9


def test_an_interrupt_trains_the_best_so_far(moons):
    class Impatient(Monitor):
        def level_end(self, entry, found):
            self.interrupted.set()
            return False

    search = dm.ODMClassifierCV(**SMALL)
    with observed(search, Impatient()), pytest.warns(ConvergenceWarning, match="cut short"):
        search.fit(*moons)
    assert search.best_params_ and search.status_ == "converged"


def test_a_failure_leaves_no_half_fitted_search(moons):
    search = dm.ODMClassifierCV(**SMALL).fit(*moons)
    before = search.best_params_
    with pytest.raises(ValueError, match="lam must be"):
        search.set_params(param_grid={"lam": [1.0, -1.0]}).fit(*moons)
    assert search.best_params_ == before


def test_a_failure_of_the_last_fit_leaves_the_search_as_it_was(moons, monkeypatch):
    search = dm.ODMClassifierCV(**SMALL).fit(*moons)
    before = dict(vars(search))

    def fail(*args):
        raise MemoryError("too large")

    monkeypatch.setattr(dm.ODMClassifier, "fit", fail)
    with pytest.raises(MemoryError):
        search.set_params(random_state=1).fit(*moons)
    after = vars(search)
    assert all(after[name] is before[name] for name in ("cv_results_", "best_params_", "best_estimator_", "rounds_"))


def test_a_splitter_deals_rows_without_weight_too(moons):
    X, y = moons
    weights = np.where(np.arange(1500) % 3 == 0, 0.0, 1.0)
    split = PredefinedSplit(np.where(np.arange(1500) < 600, 0, -1))
    search = dm.ODMClassifierCV(**SMALL, cv=split).fit(X, y, weights)
    kept = weights > 0
    own = dm.ODMClassifierCV(**SMALL, cv=PredefinedSplit(np.where(np.flatnonzero(kept) < 600, 0, -1)))
    assert_array_equal(search.cv_results_["mean_test_score"], own.fit(X[kept], y[kept]).cv_results_["mean_test_score"])
    both = [(np.arange(600, 1500), np.arange(600)), (np.arange(900), np.arange(900, 1500))]
    assert dm.ODMClassifierCV(**SMALL, cv=both).fit(X, y, weights).n_splits_ == 2


@pytest.mark.parametrize(
    ("wrong", "error", "match"),
    [
        (
            {"estimator": dm.CoreSetSVMClassifier()},
            TypeError,
            "estimator must be an ODMClassifier, an SVMClassifier, a LinearODMClassifier or",
        ),
        ({"estimator": dm.ODMClassifier(kernel="precomputed")}, ValueError, "kernel='precomputed' cannot be tuned"),
        ({"estimator": dm.ODMClassifier(lam=-1)}, ValueError, "lam must be"),
        ({"param_grid": {"C": [1]}}, ValueError, r"param_grid may hold kernel, gamma, .* got \['C'\]"),
        ({"param_grid": {"gamma": [-1]}}, ValueError, "gamma must be"),
        ({"param_grid": {"lam": []}}, ValueError, "lam"),
        ({"factor": 1}, ValueError, "factor must be"),
        ({"min_rows": 1}, ValueError, "min_rows must be"),
        ({"finalists": 1}, ValueError, "finalists must be"),
        ({"search_tol": 0}, ValueError, "search_tol must be"),
        ({"max_rows": 2.5}, TypeError, "max_rows must be"),
        ({"max_time": 0}, ValueError, "max_time must be"),
        ({"cv": 1}, ValueError, "cv must be"),
        ({"scoring": "nonsense"}, ValueError, "nonsense"),
        ({"param_grid": {"class_weight": [{0: 1.0, 1: -2.0}]}}, ValueError, "class_weight must be positive for every"),
        ({"param_grid": {"class_weight": ["even"]}}, ValueError, "class_weight"),
        ({"param_grid": {"kernel": ["poly"], "coef0": [-1.0]}}, ValueError, "not positive semi-definite"),
        ({"estimator": dm.SVMClassifier(), "param_grid": {"C": [1.0, -1.0]}}, ValueError, "C must be"),
        (
            {"estimator": dm.SVMClassifier(), "param_grid": {"loss": ["hinge", "log"]}},
            ValueError,
            "loss must be one of",
        ),
        (
            {"estimator": dm.SVMClassifier(), "param_grid": {"lam": [1.0]}},
            ValueError,
            r"param_grid may hold kernel, .*class_weight.*C; got \['lam'\]",
        ),
    ],
)
def test_what_is_wrong_is_named(moons, wrong, error, match):
    with pytest.raises(error, match=match):
        dm.ODMClassifierCV(**wrong).fit(*moons)


def test_in_a_pipeline_and_in_a_file(moons, tmp_path):
    pipeline = make_pipeline(MinMaxScaler(), clone(dm.ODMClassifierCV(**SMALL))).fit(*moons)
    assert pipeline.score(*moons) > 0.9
    for model in (pipeline[-1].best_estimator_, pipeline[-1], pipeline):
        dm.save(model, tmp_path / "tuned")
        again = dm.load(tmp_path / "tuned")
        assert_array_equal(again.decision_function(moons[0]), model.decision_function(moons[0]))
    assert again[-1].best_params_ == pipeline[-1].best_params_


def test_folds_of_unequal_sizes_are_used_as_a_whole(moons):
    X, y = moons[0][:300], moons[1][:300]
    splits = [(np.arange(100, 300), np.arange(100)), (np.arange(50), np.arange(50, 300))]
    search = dm.ODMClassifierCV(param_grid={"lam": [1e3]}, cv=splits, random_state=0).fit(X, y)
    assert search.cv_results_["n_rows"].tolist() == [200]
    for fold, (train, test) in enumerate(splits):
        machine = dm.ODMClassifier(lam=1e3 * len(train) / 300, gamma=1 / (2 * X.var()))
        alone = machine.fit(X[train], y[train]).score(X[test], y[test])
        assert search.cv_results_[f"split{fold}_test_score"].tolist() == [pytest.approx(alone, abs=1e-12)]


# ---- support vector machines, and weights of classes -----------------------------------------------------------------


def test_scores_of_small_folds_are_those_of_svc():
    """Up to 512 rows are solved to rounding, each candidate from the one before."""
    splits = [(np.arange(100, 300), np.arange(100)), (np.arange(200), np.arange(200, 300))]
    machine = dm.SVMClassifier(fit_intercept=True)
    grid = {"C": [100.0, 0.1, 1.0], "gamma": [2.0]}
    search = dm.ODMClassifierCV(machine, grid, cv=splits, random_state=0).fit(X[:300], Y[:300])
    for params, *scores in zip(*(search.cv_results_[f"{n}"] for n in ("params", "split0_test_score",
                                                                      "split1_test_score")), strict=True):  # fmt: skip
        for (train, test), score in zip(splits, scores, strict=True):
            assert score == SVC(tol=1e-6, **params).fit(X[train], Y[train]).score(X[test], Y[test])


def test_strategies_and_losses_of_a_grid():
    grid = {"loss": ["hinge", "squared_hinge"], "fit_intercept": [False, True], "C": [1.0, 10.0], "gamma": ["scale"]}
    search = dm.ODMClassifierCV(dm.SVMClassifier(), grid, min_rows=100, random_state=0).fit(X, Y)
    assert search.best_score_ > 0.9 and len(search.cv_results_["params"]) >= 8
    grid = {"fit_intercept": [False, True], "lam": [1e3, 1e5], "gamma": ["scale"]}
    own = dm.ODMClassifierCV(param_grid=grid, min_rows=100, random_state=0).fit(X, Y)
    assert (own.best_estimator_.intercept_ != 0) == own.best_params_["fit_intercept"]
    landmark = dm.SVMClassifier(strategy="landmark", n_landmarks=40, loss="squared_hinge", fit_intercept=True)
    found = dm.ODMClassifierCV(landmark, SVM_GRID, min_rows=100, random_state=0).fit(X, Y)
    assert found.certificate_ == "landmark" and found.score(X, Y) > 0.9
    with pytest.raises(ValueError, match="'landmark' needs a differentiable loss"):
        dm.ODMClassifierCV(landmark.set_params(loss="hinge"), SVM_GRID, min_rows=100, random_state=0).fit(X, Y)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    "machine", [dm.ODMClassifier(), dm.SVMClassifier(), dm.LinearODMClassifier()], ids=lambda m: str(m)
)
def test_class_weights_are_chosen_and_used(machine):
    """A rare class that nobody misses by accuracy is found by a score that asks for it."""
    rng = np.random.default_rng(0)
    rare = (rng.random(1200) < 0.06).astype(int)
    rows = rng.normal(size=(1200, 2)) + 1.2 * rare[:, None]
    weights = [None, {0: 1.0, 1: 20.0}]
    grid = {"class_weight": weights}
    by = {
        scoring: dm.ODMClassifierCV(machine, grid, scoring=scoring, min_rows=100, random_state=0).fit(rows, rare)
        for scoring in ("balanced_accuracy", None)
    }
    assert by["balanced_accuracy"].best_params_ == {"class_weight": weights[1]}
    assert by[None].best_params_ == {"class_weight": None}
    tuned = by["balanced_accuracy"]
    assert balanced_accuracy_score(rare, tuned.predict(rows)) > balanced_accuracy_score(rare, by[None].predict(rows))


def test_scores_of_class_weights_are_those_of_the_machine():
    splits = [(np.arange(100, 300), np.arange(100))]
    grid = {"class_weight": [None, "balanced", {0: 5.0, 1: 0.5}], "C": [1.0, 20.0], "gamma": ["scale"]}
    search = dm.ODMClassifierCV(dm.SVMClassifier(), grid, cv=splits, random_state=0).fit(X[:300], Y[:300] == 0)
    results = search.cv_results_
    assert len(results["params"]) == 6
    for params, score in zip(results["params"], results["mean_test_score"], strict=True):
        weights = {None: [1, 1], "balanced": 150 / np.bincount(Y[:300] == 0)}.get(
            params["class_weight"] if not isinstance(params["class_weight"], dict) else "", [5.0, 0.5]
        )
        given = np.asarray(weights)[(Y[100:300] == 0).astype(int)]
        every = np.asarray(weights)[(Y[:300] == 0).astype(int)]
        mean = np.average(X[:300].mean(axis=1), weights=every)
        variance = np.average(((X[:300] - mean) ** 2).mean(axis=1), weights=every)
        machine = dm.SVMClassifier(C=params["C"], gamma=1 / (2 * variance)).fit(X[100:300], Y[100:300] == 0, given)
        assert score == machine.score(X[:100], Y[:100] == 0)


def test_pictures_of_them():
    pytest.importorskip("matplotlib")
    search = dm.ODMClassifierCV(
        dm.SVMClassifier(), {**SVM_GRID, "class_weight": [None, {0: 2.0, 1: 1.0}]}, min_rows=100, random_state=0
    ).fit(X, Y)
    display = dm.TuningDisplay.from_estimator(search)
    assert (display.row_name, display.column_name) == ("gamma", "C")
    other = dm.TuningDisplay.from_estimator(search, rows="class_weight")
    assert len(other.row_values) == 2 and None in other.row_values
