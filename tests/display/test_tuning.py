"""The picture of a search."""

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError

from dimargin import LinearODMClassifier, ODMClassifierCV, TuningDisplay

X, Y = make_moons(400, noise=0.2, random_state=0)
GRID = {"gamma": ["scale", 8.0, 0.1], "lam": [1e2, 1e4], "theta": [0.1, 0.3]}


@pytest.fixture(scope="module")
def search():
    return ODMClassifierCV(param_grid=GRID, min_rows=60, random_state=0).fit(X, Y)


def test_a_cell_is_the_best_candidate_in_its_last_round(search):
    display = TuningDisplay.from_estimator(search)
    assert (display.row_name, display.column_name) == ("gamma", "lam")
    assert display.row_values == [0.1, 8.0, "scale"] and display.column_values == [1e2, 1e4]
    results = search.cv_results_
    for row, gamma in enumerate(display.row_values):
        for column, lam in enumerate(display.column_values):
            own = [k for k, p in enumerate(results["params"]) if (p["gamma"], p["lam"]) == (gamma, lam)]
            last = results["round"][own].max()
            assert display.rounds[row, column] == last
            best = max(results["mean_test_score"][k] for k in own if results["round"][k] == last)
            assert display.scores[row, column] == best
    row, column = display.best
    assert display.row_values[row] == search.best_params_["gamma"]
    assert display.column_values[column] == search.best_params_["lam"]
    assert display.scores[row, column] == search.best_score_
    texts = [text.get_text() for text in display.ax_.texts]
    assert len(texts) == 6 and f"{100 * search.best_score_:.2f}\nround {display.rounds[row, column]}" in texts
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == ["0.1", "8", "scale"]


def test_other_axes_and_linear_machines(search):
    display = TuningDisplay.from_estimator(search, rows="theta", columns="gamma")
    assert display.scores.shape == (2, 3) and display.ax_.get_xlabel() == "gamma"
    with pytest.raises(ValueError, match="rows and columns must be parameters of the grid, gamma, lam, theta"):
        TuningDisplay.from_estimator(search, rows="C")
    linear = ODMClassifierCV(LinearODMClassifier(), {"lam": [1, 10], "theta": [0.1, 0.5]}, random_state=0).fit(X, Y)
    assert TuningDisplay.from_estimator(linear).row_name == "theta"
    one = ODMClassifierCV(param_grid={"lam": [1e3, 1e4]}, random_state=0).fit(X, Y)
    assert np.isfinite(np.diag(TuningDisplay.from_estimator(one).scores)).all()
    with pytest.raises(NotFittedError):
        TuningDisplay.from_estimator(ODMClassifierCV())


def test_candidates_of_several_grids_leave_holes():
    grid = [{"gamma": [1.0], "lam": [10.0, 100.0]}, {"gamma": [4.0], "lam": [1e3]}]
    search = ODMClassifierCV(param_grid=grid, random_state=0).fit(X, Y)
    display = TuningDisplay.from_estimator(search)
    assert np.isnan(display.scores).sum() == 3 and len(display.ax_.texts) == 3


def test_the_choice_is_the_darkest(search):
    display = TuningDisplay.from_estimator(search)
    shades = display.image_.get_array()
    assert shades[display.best] == shades.max() == 1
    for number in range(1, display.rounds.max() + 1):
        earlier, later = shades[display.rounds < number], shades[display.rounds >= number]
        assert earlier.max() < later.min()
        scores = display.scores[display.rounds == number].round(4)
        assert (np.argsort(scores, kind="stable") == np.argsort(shades[display.rounds == number], kind="stable")).all()


def test_a_worse_score_of_more_rows_is_darker():
    scores, rounds = np.array([[0.99, 0.97, 0.96]]), np.array([[0, 1, 1]])
    display = TuningDisplay(
        scores=scores, rounds=rounds, row_values=[1.0], column_values=[1.0, 2.0, 3.0], row_name="gamma",
        column_name="lam", best=(0, 1),
    ).plot()  # fmt: skip
    assert display.image_.get_array().tolist() == [[0.0, 1.0, 0.5]]


def test_cells_of_the_same_written_score_have_the_same_shade():
    scores, indices = np.array([[0.98541, 0.98543, 0.97]]), np.zeros((1, 3), dtype=int)
    display = TuningDisplay(
        scores=scores, rounds=indices, row_values=[1.0], column_values=[1.0, 2.0, 3.0], row_name="gamma",
        column_name="lam",
    ).plot()  # fmt: skip
    assert display.image_.get_array().tolist() == [[1.0, 1.0, 0.0]]
