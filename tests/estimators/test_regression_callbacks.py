"""Callbacks, lines of progress and intermediate models of regressors are in the units of the caller's targets."""

import logging

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from stopping import Stop

from dimargin import DiODM, LevelScores, LinearSVMRegressor, SVMRegressor
from dimargin.estimators.fit_progress import Monitor, observed

pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks since version 1.9")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(800, 3))
Y = 300 + 20 * np.sin(2 * X[:, 0]) + 20 * X[:, 1] + RNG.normal(size=800)
TREE = SVMRegressor(20.0, 1.0, strategy=DiODM(early_stop=False), n_levels=2, branching=2, random_state=0)
MACHINES = [
    TREE, clone(TREE).set_params(strategy="cascade"), clone(TREE).set_params(strategy="dc"),
    SVMRegressor(20.0, 1.0, random_state=0), LinearSVMRegressor(20.0, 1.0, solver="cd", random_state=0),
    LinearSVMRegressor(loss="squared_epsilon_insensitive", random_state=0),
]  # fmt: skip
every_machine = pytest.mark.parametrize("machine", MACHINES, ids=lambda one: " ".join(str(one).split())[:60])


@every_machine
def test_every_level_is_scored(machine):
    scores = LevelScores(X[600:], Y[600:])
    machine = clone(machine).set_callbacks(scores).fit(X[:600], Y[:600])
    assert [entry["level"] for entry in scores.scores_] == [
        e["level"] for e in machine.history_ if "partitions" in e
    ] or [0]
    assert scores.scores_[-1]["score"] == machine.score(X[600:], Y[600:])
    assert min(entry["score"] for entry in scores.scores_) > 0.4


@pytest.mark.parametrize("strategy", [TREE.strategy, "cascade", "dc"], ids=str)
@pytest.mark.parametrize("level", [2, 1])
def test_a_callback_stops_the_fit_at_a_level(strategy, level):
    machine = clone(TREE).set_params(strategy=strategy)
    stopped = clone(machine).set_callbacks(Stop(f"level {level}")).fit(X, Y)
    assert (stopped.status_, stopped.certificate_) == ("stopped", "partitioned")
    assert stopped.score(X, Y) > 0.4
    for entry in stopped.history_:
        # The sum of the losses of constants is of this size, in the units of Y.
        assert 1e3 < entry["objective"] < 20.0 * np.abs(Y - np.median(Y)).sum()


@every_machine
def test_objectives_of_the_history_and_of_lines_are_those_of_the_targets(machine, caplog):
    with caplog.at_level(logging.INFO, logger="dimargin"):
        machine = clone(machine).set_params(verbose=2).fit(X, Y)
    assert machine.history_[-1]["objective"] == pytest.approx(machine.objective_, rel=2e-3)
    assert min(entry["objective"] for entry in machine.history_) > 0.02 * machine.objective_
    assert caplog.messages
    silent = clone(machine).set_params(verbose=0).fit(X, Y)
    assert silent.objective_ == machine.objective_
    assert_array_equal(silent.predict(X), machine.predict(X))


class Objectives(Monitor):
    """Keeps the objectives of all checks and levels."""

    def __init__(self):
        super().__init__()
        self.found = []

    def check(self, entry):
        self.found.append(entry["objective"])
        return False

    def level_end(self, entry, found):
        return self.check(entry)


@every_machine
def test_objectives_that_a_front_end_follows_are_those_of_the_history(machine):
    machine, monitor = clone(machine), Objectives()
    with observed(machine, monitor):
        machine.fit(X, Y)
    followed = np.ravel(monitor.found)
    assert followed[-1] == pytest.approx(machine.objective_, rel=2e-3)
    assert set(np.round(np.log(followed), 9)) >= {round(np.log(entry["objective"]), 9) for entry in machine.history_}


@pytest.mark.parametrize("machine", MACHINES[3:5], ids=["kernel", "linear"])
def test_a_callback_stops_the_solve_at_a_check(machine):
    stopped = clone(machine).set_params(tol=1e-9).set_callbacks(Stop("check", count=2)).fit(X, Y)
    assert (stopped.status_, stopped.certificate_) == ("stopped", "global")
    assert stopped.duality_gap_ > 1e-9 and np.isfinite(stopped.predict(X)).all()
    excess = np.maximum(np.abs(stopped.predict(X) - Y) - 1.0, 0)
    assert stopped.objective_ > 20.0 * excess.sum()
