"""Algorithm 2 of the DiODM paper as it is printed."""

import numpy as np
import pytest
from sklearn.datasets import make_moons

import dimargin as dm
from dimargin_bench.experiments.literal_dsvrg import LiteralDSVRG

LOSS = {"lam": 10.0, "upsilon": 0.5, "theta": 0.1}


@pytest.fixture
def moons():
    X, y = make_moons(400, noise=0.2, random_state=0)
    return X, np.where(y > 0, "up", "down")


def objective_by_hand(w, X, y):
    margins = np.where(y == "up", 1.0, -1.0) * (X @ w)
    short, over = np.maximum(0.9 - margins, 0), np.maximum(margins - 1.1, 0)
    return w @ w / 2 + 10.0 / (2 * 0.9**2) * np.mean(short**2 + 0.5 * over**2)


def test_its_objective_is_the_machine_s(moons):
    X, y = moons
    literal = LiteralDSVRG(**LOSS, parenthesis=True).fit(X, y)
    assert literal.objective_ == pytest.approx(objective_by_hand(literal.coef_[0], X, y), rel=1e-12)
    best = dm.LinearODMClassifier(**LOSS, fit_intercept=False, tol=1e-8).fit(X, y)
    assert best.objective_ <= literal.objective_ < objective_by_hand(np.zeros(2), X, y)
    assert literal.score(X, y) > 0.8


def test_one_step_by_hand(moons):
    X, y = moons
    X, y = X[:2], np.array(["up", "down"])
    L = 1 + 10.0 / 0.81 * (X**2).sum(axis=1).max()
    order, signs = LiteralDSVRG(n_partitions=1).fit(X, y).parts_[0], np.array([-1.0, 1.0])[(y == "up").astype(int)]
    row = order[:1]

    def gradient(w, rows):
        margins = signs[rows] * (X[rows] @ w)
        slopes = np.minimum(margins - 0.9, 0) + 0.5 * np.maximum(margins - 1.1, 0)
        return w + 10.0 / 0.81 * (slopes * signs[rows]) @ X[rows] / len(rows)

    w, every = np.zeros(2), np.arange(2)
    own, whole = gradient(w, row), gradient(w, every)
    # two stages of a step each; of the first, the printed line and the mended one
    for parenthesis, first in ((False, -own / (4 * L) - own + whole), (True, -whole / (4 * L))):
        second = order[1:]
        own_2, whole_2 = gradient(first, second), gradient(first, every)
        step = 1 / (4 * L)
        expected = first - step * whole_2 if parenthesis else first - step * own_2 - own_2 + whole_2
        found = LiteralDSVRG(**LOSS, n_stages=2, n_partitions=1, parenthesis=parenthesis).fit(X, y)
        np.testing.assert_allclose(found.coef_[0], expected, rtol=1e-12)


def test_parts_have_the_same_share_of_every_stratum(moons):
    X, y = moons
    X = np.abs(X) + 0.1
    parts = LiteralDSVRG(n_partitions=8, n_landmarks=2).fit(X, y).parts_
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(400))
    first = int(np.argmax((X**2).sum(axis=1)))  # Equation 5: the longest row, and the one farthest from its line.
    along = X[first] / np.linalg.norm(X[first])
    second = int(np.argmax((X**2).sum(axis=1) - (X @ along) ** 2))
    distances = [((X - X[landmark]) ** 2).sum(axis=1) for landmark in (first, second)]
    strata = np.argmin(distances, axis=0)
    assert 0 < strata.sum() < 400
    assert all(np.ptp([np.sum(strata[part] == which) for part in parts]) <= 1 for which in (0, 1))
    assert len({tuple(LiteralDSVRG(random_state=seed).fit(X, y).parts_[0]) for seed in range(3)}) == 3


def test_line_15_as_printed_takes_it_away_from_the_optimum(moons):
    X, y = moons
    printed = LiteralDSVRG(**LOSS).fit(X, y)
    assert printed.objective_ > objective_by_hand(np.zeros(2), X, y)
