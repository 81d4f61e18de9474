"""A search that ends in the middle of a fit: the score of that fit does not count."""

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

import dimargin as dm
from dimargin.estimators.fit_progress import Monitor, observed

X, Y = make_moons(1500, noise=0.25, random_state=0)
N_ROWS = 1000  # Training rows of a fold in the last round.


class Interrupted:
    """A search between two kernels, which is interrupted while the solver computes values of the second on all rows."""

    def __init__(self, min_rows):
        self.monitor = Monitor()

        # Scikit-learn copies methods with their objects, but not functions.
        def wide(A, B=None):
            return rbf_kernel(A, B, gamma=0.5)

        def narrow(A, B=None):
            if B is not None and len(B) == N_ROWS:
                self.monitor.interrupted.set()
            return rbf_kernel(A, B, gamma=5.0)

        self.wide, self.narrow = wide, narrow
        grid = {"C": [100.0, 1e-4], "kernel": [wide, narrow]}
        self.search = dm.SVMClassifierCV(param_grid=grid, min_rows=min_rows, random_state=0, n_jobs=1)

    def fit(self, text):
        with observed(self.search, self.monitor), pytest.warns(ConvergenceWarning, match=text):
            self.search.fit(X, Y)
        return self.search


def scores_in(results, number, kernel, C=100.0):
    (index,) = [
        k for k, params in enumerate(results["params"])
        if (results["round"][k], params["kernel"], params["C"]) == (number, kernel, C)
    ]  # fmt: skip
    return results["mean_test_score"][index], [results[f"split{fold}_test_score"][index] for fold in range(3)]


def test_an_earlier_round_decides_if_a_fit_of_the_last_one_was_cut_off():
    given = Interrupted(min_rows=100)
    search = given.fit("cut short after 1 of 2 rounds; the best candidate so far is trained")
    results = search.cv_results_
    assert np.isfinite(scores_in(results, 1, given.wide)[1]).all()
    mean, folds = scores_in(results, 1, given.narrow)
    assert np.isnan([mean, *folds]).all()
    first = results["mean_test_score"][results["round"] == 0]
    assert np.isfinite(first).all() and search.best_score_ == first.max()
    assert results["round"][search.best_index_] == 0
    assert results["mean_test_score"][search.best_index_] == search.best_score_
    assert results["params"][search.best_index_] == search.best_params_


def test_in_the_first_round_the_best_finished_candidate_is_chosen():
    given = Interrupted(min_rows=N_ROWS)
    search = given.fit("cut short after 0 of 1 rounds; the best candidate so far is trained")
    mean, folds = scores_in(search.cv_results_, 0, given.wide)
    assert search.best_params_ == {"C": 100.0, "kernel": given.wide}
    assert search.best_score_ == mean == pytest.approx(np.mean(folds))
    for C in (1e-4, 100.0):  # The first of them was cut off.
        assert np.isnan(scores_in(search.cv_results_, 0, given.narrow, C)[1]).all()


def test_without_a_finished_fit_nothing_is_chosen(caplog):
    given = Interrupted(min_rows=N_ROWS)
    given.search.set_params(param_grid={"kernel": [given.narrow]}, verbose=1)
    search = given.fit("no candidate was scored, and the machine is trained with its own parameters")
    assert (search.best_params_, search.best_index_) == ({}, None) and np.isnan(search.best_score_)
    assert np.isnan(search.cv_results_["mean_test_score"]).all() and search.status_ == "converged"
    assert "round 0: 1 candidates on 1000 rows, no candidate was scored" in caplog.text
