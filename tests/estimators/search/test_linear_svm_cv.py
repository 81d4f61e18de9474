"""Searches of linear support vector machines."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV, StratifiedKFold

import dimargin as dm

X, y = make_classification(400, 12, n_informative=4, n_classes=3, class_sep=0.6, random_state=0)


# A search gives a row of a fold the weight that it has among all rows, a grid search that of the fold.
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_scores_are_near_those_of_a_grid_search(loss, store):
    machine = dm.LinearSVMClassifier(loss=loss, tol=1e-6, random_state=0)
    folds, grid = StratifiedKFold(3, shuffle=True, random_state=0), {"C": [0.001, 0.1, 10.0]}
    search = dm.SVMClassifierCV(machine, grid, cv=folds, search_tol=1e-6, random_state=0).fit(store(X), y)
    other = GridSearchCV(machine, grid, cv=folds).fit(X, y)
    last = search.cv_results_["round"] == search.cv_results_["round"].max()
    for params, score in zip(
        *(np.array(search.cv_results_[name])[last] for name in ("params", "mean_test_score")), strict=True
    ):
        index = other.cv_results_["params"].index(params)
        assert score == pytest.approx(other.cv_results_["mean_test_score"][index], abs=0.02)
    assert search.best_params_["C"] in grid["C"] and search.score(X, y) > 0.5


def test_the_default_grid_is_that_of_c():
    search = dm.SVMClassifierCV(dm.LinearSVMClassifier(random_state=0), cv=2, max_widenings=0).fit(X, y)
    assert {params["C"] for params in search.cv_results_["params"]} == {0.01, 0.1, 1.0, 10.0, 100.0}
