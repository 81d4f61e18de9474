"""SVMClassifierCV, and searches that go beyond the edges of their grid."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.svm import SVC

import dimargin as dm
from dimargin.estimators.fit_progress import Monitor, observed
from dimargin.estimators.search.grids import beyond, edges, widened

ROWS = {"min_rows": 150, "max_rows": 450, "random_state": 0}


@pytest.fixture(scope="module")
def stripes():
    """Rows in stripes, which need a kernel far narrower than "scale"."""
    x = np.random.default_rng(0).uniform(0, 40, (900, 1))
    return x, (x[:, 0] % 1 < 0.5).astype(int)


def test_the_machine_is_the_svm_with_the_best_parameters():
    X, y = make_moons(900, noise=0.2, random_state=0)
    search = dm.SVMClassifierCV(**ROWS).fit(X[:600], y[:600])
    best = search.best_estimator_
    assert isinstance(best, dm.SVMClassifier) and best.loss == "squared_hinge" and best.fit_intercept
    assert sorted(search.best_params_) == ["C", "gamma"] and search.duality_gap_ <= 1e-3
    assert search.score(X[600:], y[600:]) >= SVC(gamma=search.best_params_["gamma"], C=10).fit(
        X[:600], y[:600]
    ).score(X[600:], y[600:]) - 0.02  # fmt: skip


@pytest.mark.parametrize("weighted", [False, True])
def test_pairs_of_classes_are_scored_as_scikit_learn_does(weighted):
    """Scores are those of the machine that is trained in the end, one against one, on the same folds."""
    X, y = make_blobs([40, 60, 80, 100, 120], cluster_std=2.5, random_state=0)
    folds = list(StratifiedKFold(4, shuffle=True, random_state=0).split(X, y))
    machine = dm.SVMClassifier(gamma=0.2, class_weight="balanced" if weighted else None)
    grid = {"loss": ["hinge", "squared_hinge"], "C": [0.01, 30.0]}
    search = dm.SVMClassifierCV(machine, grid, cv=folds, search_tol=1e-6, finalists=4, scoring="balanced_accuracy")
    search.fit(X, y)
    for params, scores in zip(
        search.cv_results_["params"], np.transpose([search.cv_results_[f"split{k}_test_score"] for k in range(4)]),
        strict=True,
    ):  # fmt: skip
        exact = clone(machine).set_params(**params, tol=1e-6)
        expected = cross_val_score(exact, X, y, cv=folds, scoring="balanced_accuracy")
        assert_allclose(scores, expected, atol=0.02)  # at most a row of the smallest class
        assert abs((scores - expected).mean()) < 0.005
    assert search.dual_coef_.shape[0] == 4


def test_a_class_that_a_fold_lacks_is_not_predicted_there():
    X, y = make_blobs(90, centers=3, cluster_std=0.5, random_state=0)
    lone = np.flatnonzero(y == 2)
    folds = [(np.flatnonzero(y < 2), lone), (np.arange(90), lone), (np.flatnonzero(y == 0), lone)]
    search = dm.SVMClassifierCV(dm.SVMClassifier(), {"C": [10.0]}, cv=folds).fit(X, y)
    assert [search.cv_results_[f"split{k}_test_score"][0] for k in range(3)] == [0.0, 1.0, 0.0]


def test_a_best_candidate_at_the_edge_widens_the_grid(stripes):
    X, y = stripes
    narrow = dm.SVMClassifierCV(max_widenings=0, **ROWS).fit(X, y)
    wide = dm.SVMClassifierCV(**ROWS).fit(X, y)
    assert narrow.edges_["gamma"] == "largest" and wide.best_params_["gamma"] > narrow.best_params_["gamma"]
    assert wide.best_score_ > narrow.best_score_ + 0.01
    added = [entry for entry in wide.rounds_ if entry["beyond"]]
    assert wide.rounds_[: len(narrow.rounds_)] != [] and 1 <= len(added) <= 3
    assert added[0]["beyond"]["gamma"] == pytest.approx(4 * narrow.best_params_["gamma"])
    assert {entry["rows"] for entry in added} == {narrow.rounds_[-1]["rows"]}  # scores of one kind are compared
    assert [entry["best_score"] for entry in added] == sorted(entry["best_score"] for entry in added)


def test_a_given_grid_is_not_widened_and_its_edge_is_known(stripes):
    X, y = stripes
    search = dm.SVMClassifierCV(
        param_grid={"gamma": [0.1, 0.5, 2.0], "C": [10.0, 1000.0]}, max_rows=450, min_rows=450
    ).fit(X, y)
    assert search.edges_ == {"gamma": "largest"} and not any(entry["beyond"] for entry in search.rounds_)
    assert {params["gamma"] for params in search.cv_results_["params"]} == {0.1, 0.5, 2.0}


class Interrupts(Monitor):
    """Interrupts a search at the end of a round, or at the begin of another."""

    def __init__(self, at_end=None, at_begin=None):
        super().__init__()
        self.at_end, self.at_begin = at_end, at_begin

    def level_begin(self, level, n_tasks):
        if level == self.at_begin:
            self.interrupted.set()

    def level_end(self, entry, found):
        return entry.get("round") == self.at_end


def test_a_search_that_is_stopped_at_the_end_of_its_last_round_is_complete_and_not_widened(stripes):
    search = dm.SVMClassifierCV(**ROWS)
    with observed(search, Interrupts(at_end=1)), warnings.catch_warnings():
        warnings.filterwarnings("error", message="the search")
        search.fit(*stripes)
    assert [entry["beyond"] for entry in search.rounds_] == [{}, {}] and search.edges_["gamma"] == "largest"


def test_values_beyond_the_grid_that_got_no_score_leave_the_best_one_at_the_edge(stripes):
    search = dm.SVMClassifierCV(**ROWS)
    with observed(search, Interrupts(at_begin=2)), pytest.warns(ConvergenceWarning, match="while the grid was widened"):
        search.fit(*stripes)
    assert search.rounds_[-1]["beyond"]["gamma"] > search.best_params_["gamma"] and search.edges_["gamma"] == "largest"


def test_the_number_of_widenings_is_checked():
    X, y = make_moons(60, random_state=0)
    with pytest.raises(ValueError, match="max_widenings must be"):
        dm.SVMClassifierCV(max_widenings=-1).fit(X, y)


@given(
    st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=6, unique=True),
    st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=4, unique=True),
    st.data(),
)
def test_values_beyond_are_outside_of_the_grid_and_inside_nothing_is_added(gammas, costs, data):
    tried = [{"gamma": gamma, "C": cost, "kernel": "rbf"} for gamma in gammas for cost in costs]
    best = data.draw(st.sampled_from(tried))
    found = beyond(best, tried)
    assert set(found) == set(edges(best, tried)) and "kernel" not in found
    for name, values in (("gamma", gammas), ("C", costs)):
        outside = best[name] in (min(values), max(values)) and len(values) >= 3
        assert (name in found) == outside
        assert not outside or found[name] < min(values) or found[name] > max(values)
    new = widened(best, found)
    assert len(new) == (3 if len(found) == 2 else len(found)) and all(one not in tried for one in new)
