"""Searches for the parameters of a support vector machine, and for weights of classes."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_digits, make_moons
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

from dimargin import LinearODMClassifier, ODMClassifier, ODMClassifierCV, SVMClassifier, TuningDisplay

GRID = {"gamma": [0.1, 1.0, 30.0], "C": [0.1, 10.0]}
SMALL = {"min_rows": 100, "random_state": 0}
X, Y = make_moons(900, noise=0.25, random_state=0)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    "given", [{}, {"fit_intercept": True}, {"loss": "squared_hinge", "C": 3.0}], ids=["plain", "intercept", "squared"]
)
def test_the_choice_is_that_of_a_full_search(given):
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    search = ODMClassifierCV(SVMClassifier(random_state=0, **given), GRID, **SMALL).fit(X, Y)
    full = GridSearchCV(SVMClassifier(random_state=0, **given), GRID, cv=folds).fit(X, Y)
    index = full.cv_results_["params"].index(search.best_params_)
    assert full.cv_results_["mean_test_score"][index] >= full.best_score_ - 0.005
    assert search.best_score_ == pytest.approx(full.best_score_, abs=0.02)
    same = SVMClassifier(random_state=0, **given).set_params(**search.best_params_).fit(X, Y)
    assert_array_equal(search.decision_function(X), same.decision_function(X))


def test_scores_of_small_folds_are_those_of_svc():
    """Up to 512 rows are solved to rounding, each candidate from the one before."""
    splits = [(np.arange(100, 300), np.arange(100)), (np.arange(200), np.arange(200, 300))]
    machine = SVMClassifier(fit_intercept=True)
    grid = {"C": [100.0, 0.1, 1.0], "gamma": [2.0]}
    search = ODMClassifierCV(machine, grid, cv=splits, random_state=0).fit(X[:300], Y[:300])
    for params, *scores in zip(*(search.cv_results_[f"{n}"] for n in ("params", "split0_test_score",
                                                                      "split1_test_score")), strict=True):  # fmt: skip
        for (train, test), score in zip(splits, scores, strict=True):
            assert score == SVC(tol=1e-6, **params).fit(X[train], Y[train]).score(X[test], Y[test])


@pytest.mark.slow
def test_the_default_grid_and_more_classes():
    A, a = load_digits(return_X_y=True)
    search = ODMClassifierCV(SVMClassifier(), min_rows=150, max_rows=450, random_state=0).fit(A[:900], a[:900])
    assert set(search.best_params_) == {"C", "gamma"} and len(search.cv_results_["params"]) == 25 + 2
    assert search.best_estimator_.multi_class == "one_vs_rest" and search.score(A[900:], a[900:]) > 0.94


def test_strategies_and_losses_of_a_grid():
    grid = {"loss": ["hinge", "squared_hinge"], "fit_intercept": [False, True], "C": [1.0, 10.0], "gamma": ["scale"]}
    search = ODMClassifierCV(SVMClassifier(), grid, **SMALL).fit(X, Y)
    assert search.best_score_ > 0.9 and len(search.cv_results_["params"]) >= 8
    landmark = SVMClassifier(strategy="landmark", n_landmarks=40, loss="squared_hinge", fit_intercept=True)
    found = ODMClassifierCV(landmark, GRID, **SMALL).fit(X, Y)
    assert found.certificate_ == "landmark" and found.score(X, Y) > 0.9
    with pytest.raises(ValueError, match="'landmark' needs a differentiable loss"):
        ODMClassifierCV(landmark.set_params(loss="hinge"), GRID, **SMALL).fit(X, Y)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("machine", [ODMClassifier(), SVMClassifier(), LinearODMClassifier()], ids=lambda m: str(m))
def test_class_weights_are_chosen_and_used(machine):
    """A rare class that nobody misses by accuracy is found by a score that asks for it."""
    rng = np.random.default_rng(0)
    rare = (rng.random(1200) < 0.06).astype(int)
    rows = rng.normal(size=(1200, 2)) + 1.2 * rare[:, None]
    weights = [None, {0: 1.0, 1: 20.0}]
    grid = {"class_weight": weights}
    by = {
        scoring: ODMClassifierCV(machine, grid, scoring=scoring, **SMALL).fit(rows, rare)
        for scoring in ("balanced_accuracy", None)
    }
    assert by["balanced_accuracy"].best_params_ == {"class_weight": weights[1]}
    assert by[None].best_params_ == {"class_weight": None}
    tuned = by["balanced_accuracy"]
    assert balanced_accuracy_score(rare, tuned.predict(rows)) > balanced_accuracy_score(rare, by[None].predict(rows))


def test_scores_of_class_weights_are_those_of_the_machine():
    splits = [(np.arange(100, 300), np.arange(100))]
    grid = {"class_weight": [None, "balanced", {0: 5.0, 1: 0.5}], "C": [1.0, 20.0], "gamma": ["scale"]}
    search = ODMClassifierCV(SVMClassifier(), grid, cv=splits, random_state=0).fit(X[:300], Y[:300] == 0)
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
        machine = SVMClassifier(C=params["C"], gamma=1 / (2 * variance)).fit(X[100:300], Y[100:300] == 0, given)
        assert score == machine.score(X[:100], Y[:100] == 0)


def test_pictures_of_them():
    pytest.importorskip("matplotlib")
    search = ODMClassifierCV(SVMClassifier(), {**GRID, "class_weight": [None, {0: 2.0, 1: 1.0}]}, **SMALL).fit(X, Y)
    display = TuningDisplay.from_estimator(search)
    assert (display.row_name, display.column_name) == ("gamma", "C")
    other = TuningDisplay.from_estimator(search, rows="class_weight")
    assert len(other.row_values) == 2 and None in other.row_values


@pytest.mark.parametrize(
    ("grid", "match"),
    [
        ({"C": [1.0, -1.0]}, "C must be"),
        ({"loss": ["hinge", "log"]}, "loss must be one of"),
        ({"lam": [1.0]}, r"param_grid may hold kernel, .*class_weight.*C; got \['lam'\]"),
        ({"class_weight": [{0: 1.0, 1: -2.0}]}, "class_weight must be positive for every class"),
        ({"class_weight": ["even"]}, "class_weight"),
        ({"kernel": ["poly"], "coef0": [-1.0]}, "not positive semi-definite"),
    ],
)
def test_what_is_wrong_is_named(grid, match):
    with pytest.raises(ValueError, match=match):
        ODMClassifierCV(SVMClassifier(), grid, **SMALL).fit(X, Y)
