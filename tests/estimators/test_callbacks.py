from dataclasses import replace

import numpy as np
import pytest
import rich.progress
import scipy.sparse as sp
from joblib import parallel_config
from sklearn.base import clone
from sklearn.datasets import load_digits, make_moons
from sklearn.metrics import make_scorer, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from stopping import Stop

from dimargin import DiODM, LinearODMClassifier, ODMClassifier, SVMClassifier
from dimargin.estimators.callbacks import LevelScores
from dimargin.strategies import Exact, Progress

ProgressBar = pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks since version 1.9").ProgressBar

X_ALL, Y_ALL = make_moons(3000, noise=0.4, random_state=0)
X, Y, X_TEST, Y_TEST = X_ALL[:2400], Y_ALL[:2400], X_ALL[2400:], Y_ALL[2400:]


DC = {"strategy": "dc", "n_levels": 1, "random_state": 0}
CASCADE = DC | {"strategy": "cascade"}
EXACT = ODMClassifier(strategy="exact", random_state=0)


def tree(**parameters):
    """Levels of 4, 2 and 1 partitions, each solved to the tolerance of the last."""
    strategy = DiODM(early_stop=False, level_tol=1e-3)
    return ODMClassifier(strategy=strategy, branching=2, n_levels=2, random_state=0, **parameters)


class Stalls(Exact):
    """Reports the same gap so many times before it begins, unless it is asked to stop."""

    def __init__(self, n_checks=0):
        self.n_checks = n_checks

    def train(self, training):
        outcome = super().train(replace(training, progress=Progress()))
        training.progress.level_begin(0, None)
        stop = any(training.progress.check({"relative_gap": 0.5, "seconds": 0.0}) for _ in range(self.n_checks))
        training.progress.level_end(outcome.history[-1], lambda: outcome.model)
        return replace(outcome, status="stopped") if stop else outcome


def test_scores_are_those_of_models_that_stopped_at_the_level():
    scores = LevelScores(X_TEST, Y_TEST, scoring="roc_auc")
    tree().set_callbacks(scores).fit(X, Y)
    stopped = [tree(stop_level=level).fit(X, Y).decision_function(X_TEST) for level in (2, 1, 0)]
    expected = [roc_auc_score(Y_TEST, values) for values in stopped]
    assert len(set(expected)) == 3
    assert scores.scores_ == [{"level": 2 - i, "score": expected[i]} for i in range(3)]


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_scores_of_many_classes(convert):
    rows, labels = load_digits(n_class=4, return_X_y=True)
    rows, few = convert(rows / 16), slice(0, 300)
    parameters = {"strategy": "diodm", "branching": 2, "n_levels": 2, "random_state": 0}
    scores = LevelScores(rows[300:], labels[300:])
    ODMClassifier(**parameters).set_callbacks(scores).fit(rows[few], labels[few])
    # leaves this small are solved to rounding, whatever the tolerance of their level
    for entry in scores.scores_:
        stopped = ODMClassifier(stop_level=entry["level"], **parameters).fit(rows[few], labels[few])
        assert entry["score"] == stopped.score(rows[300:], labels[300:])
    assert [entry["level"] for entry in scores.scores_] == [2, 1, 0]


def test_exact_has_one_level_and_early_stop_fewer():
    scores = LevelScores(X_TEST, Y_TEST)
    machine = ODMClassifier(strategy="exact").set_callbacks(scores).fit(X, Y)
    assert scores.scores_ == [{"level": 0, "score": machine.score(X_TEST, Y_TEST)}]
    loose = ODMClassifier(strategy="diodm", branching=2, n_levels=2, tol=0.5, random_state=0)
    loose.set_callbacks(scores).fit(X, Y)
    assert [entry["level"] for entry in scores.scores_] == [2, 1] == [e["level"] for e in loose.history_]
    assert scores.scores_[-1]["score"] == loose.score(X_TEST, Y_TEST)


def test_scoring_may_be_a_callable_and_listening_changes_nothing():
    scores = LevelScores(X_TEST, Y_TEST, scoring=make_scorer(lambda true, said: np.sum(true != said)))
    machine = tree().set_callbacks(scores).fit(X, Y)
    assert scores.scores_[-1]["score"] == np.sum(machine.predict(X_TEST) != Y_TEST)
    np.testing.assert_array_equal(machine.dual_coef_, tree().fit(X, Y).dual_coef_)


def test_clear_errors():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        LevelScores(X, Y[:-1])
    for scoring in (["accuracy"], {"a": "accuracy"}):
        machine = ODMClassifier().set_callbacks(LevelScores(X, Y, scoring=scoring))
        with pytest.raises(ValueError, match="scoring must be None, a name or a callable"):
            machine.fit(X, Y)
        assert not hasattr(machine, "classes_")
    with pytest.raises(ValueError, match="acuracy"):
        ODMClassifier().set_callbacks(LevelScores(X, Y, scoring="acuracy")).fit(X, Y)


def test_a_failed_fit_leaves_no_scores_of_the_one_before():
    scores = LevelScores(X_TEST, Y_TEST)
    machine = ODMClassifier().set_callbacks(scores).fit(X[:100], Y[:100])
    assert len(scores.scores_) == 1

    class Fails(Stop):
        def on_fit_task_end(self, estimator, context):
            raise RuntimeError("from a callback")

    machine.set_callbacks(Fails(), scores)
    with pytest.raises(RuntimeError, match="from a callback"):
        machine.fit(X[:200], Y[:200])
    assert scores.scores_ == []
    machine.set_callbacks(scores).fit(X[:200], Y[:200])
    assert scores.scores_ == [{"level": 0, "score": machine.score(X_TEST, Y_TEST)}]


def test_fits_that_overlap_do_not_mix_their_scores():
    scores = LevelScores(X_TEST, Y_TEST)
    inner = ODMClassifier(strategy="diodm", branching=2, n_levels=1, random_state=0).set_callbacks(scores)

    class FitsAnother(Stop):
        def on_fit_task_end(self, estimator, context):
            if context.task_name == "level 2":
                inner.fit(X[:200], Y[:200])

    outer = tree().set_callbacks(scores, FitsAnother()).fit(X, Y)
    assert [entry["level"] for entry in outer.history_] == [2, 1, 0]
    assert [entry["level"] for entry in scores.scores_] == [1, 0]
    assert scores.scores_[-1]["score"] == inner.score(X_TEST, Y_TEST)


@pytest.mark.parametrize("threads", [1, 2])
def test_in_a_search_the_fit_of_the_best_is_what_stays(threads):
    scores = LevelScores(X_TEST, Y_TEST)
    machine = ODMClassifier(strategy="diodm", branching=2, n_levels=1, n_jobs=1, random_state=0)
    grid = {"lam": [4.0, 4096.0], "gamma": [0.1, 10.0]}
    search = GridSearchCV(machine.set_callbacks(scores), grid, cv=2, n_jobs=threads)
    with parallel_config("threading"):
        search.fit(X[:400], Y[:400])
    assert [entry["level"] for entry in scores.scores_] == [1, 0]
    assert scores.scores_[-1]["score"] == search.score(X_TEST, Y_TEST)


def test_in_a_pipeline_rows_are_what_the_classifier_sees():
    scaler = MinMaxScaler().fit(X)
    scores = LevelScores(scaler.transform(X_TEST), Y_TEST)
    pipeline = make_pipeline(MinMaxScaler(), ODMClassifier().set_callbacks(scores))
    clone(pipeline).fit(X[:100], Y[:100])  # clones keep their callbacks
    assert len(scores.scores_) == 1
    pipeline.fit(X, Y)
    assert scores.scores_ == [{"level": 0, "score": pipeline.score(X_TEST, Y_TEST)}]


def test_tasks_of_a_tree_and_of_an_exact_fit():
    watched = Stop()
    tree(n_jobs=1).set_callbacks(watched).fit(X, Y)
    parts = [name for name in watched.ended if name not in ("progress", "check")]
    assert parts == [*["partition"] * 4, "level 2", *["partition"] * 2, "level 1", "level 0", "fit"]
    assert sorted(watched.begun) == sorted(watched.ended) and watched.begun[:2] == ["fit", "level 2"]
    exact = Stop()
    machine = ODMClassifier(strategy="exact").set_callbacks(exact).fit(X, Y)
    # the check that ends the solve is told as the end of its level
    ended = [name for name in exact.ended if name != "progress"]
    assert ended == [*["check"] * (len(machine.history_) - 1), "level 0", "fit"]


@pytest.mark.parametrize(("strategy", "lower"), [("dc", 2), ("cascade", 2)])
def test_tasks_of_the_other_trees(strategy, lower):
    watched, scores = Stop(), LevelScores(X_TEST, Y_TEST)
    machine = SVMClassifier(strategy=strategy, branching=2, n_levels=2, n_jobs=1, gamma=5.0, random_state=0)
    machine.set_callbacks(watched, scores).fit(X, Y)
    parts = [name for name in watched.ended if name not in ("progress", "check")]
    assert parts == [*["partition"] * 4, "level 2", *["partition"] * lower, "level 1", "level 0", "fit"]
    assert sorted(watched.begun) == sorted(watched.ended)
    assert [entry["level"] for entry in scores.scores_] == [2, 1, 0]
    assert scores.scores_[-1]["score"] == machine.score(X_TEST, Y_TEST)


@pytest.mark.parametrize("level", [2, 1])
def test_a_callback_stops_the_fit_at_a_level(level):
    stop, scores = Stop(f"level {level}"), LevelScores(X_TEST, Y_TEST)
    machine = tree().set_callbacks(stop, scores).fit(X, Y)
    assert (machine.status_, machine.certificate_) == ("stopped", "partitioned")
    assert [entry["level"] for entry in machine.history_] == list(range(2, level - 1, -1))
    assert [entry["level"] for entry in scores.scores_] == [entry["level"] for entry in machine.history_]
    asked = tree(stop_level=level).fit(X, Y)
    np.testing.assert_array_equal(machine.decision_function(X_TEST), asked.decision_function(X_TEST))


@pytest.mark.parametrize("machine", [EXACT, tree()], ids=["exact", "diodm"])
def test_a_callback_stops_the_solve_at_a_check(machine):
    machine = clone(machine).set_params(lam=1e5, gamma=20.0).set_callbacks(Stop("check", count=2)).fit(X, Y)
    assert (machine.status_, machine.certificate_) == ("stopped", "global")
    assert machine.duality_gap_ > machine.tol and machine.history_[-1]["level"] == 0
    assert np.isfinite(machine.decision_function(X_TEST)).all()


class Bar(Stop):
    """Records after every check how far the bar of a level is."""

    def __init__(self):
        super().__init__()
        self.shares, self.ended = [], {}

    def on_fit_task_end(self, estimator, context):
        level = context.parent
        if level is not None and level.task_name == "level 0":
            self.ended[level.task_id] = self.ended.get(level.task_id, 0) + 1
            if context.task_name == "check":
                self.shares.append(self.ended[level.task_id] / level.max_subtasks)


@pytest.mark.parametrize("tol", [1e-3, 1e-5])
def test_the_bar_of_a_level_moves_by_the_logarithm_of_the_gap(tol):
    bar = Bar()
    machine = ODMClassifier(strategy="exact", tol=tol, lam=1e6, random_state=0).set_callbacks(bar).fit(X, Y)
    gaps = np.array([entry["relative_gap"] for entry in machine.history_[:-1]])
    assert len(bar.shares) == len(gaps) or bar.shares[-1] == 0.999  # a bar that is full but for the end stays so
    gaps = gaps[: len(bar.shares)]
    assert len(gaps) > 10
    way = np.maximum.accumulate(np.log(gaps[0] / gaps) / np.log(gaps[0] / tol))
    # a check that brings nothing moves the bar by a thousandth, until the gap has caught up
    stalled, ahead = 0, []
    for before, after in zip([-1.0, *way], way, strict=False):
        stalled = stalled + 1 if after - before < 1e-3 else 1
        ahead.append(stalled / 1000)
    difference = np.array(bar.shares) - np.clip(way, 0, 1)
    assert (difference >= -1.5e-3).all() and (difference <= np.array(ahead) + 1.5e-3).all()
    assert (np.diff(bar.shares) > 0).all() and bar.shares[-1] < 1


def test_checks_without_progress_end_no_more_tasks_than_there_are():
    watched, bar = Stop(), Bar()
    machine = ODMClassifier(strategy=Stalls(1500), random_state=0).set_callbacks(watched, bar).fit(X[:50], Y[:50])
    assert machine.status_ == "converged" and watched.ended.count("check") == 1500
    assert watched.ended[-3:] == ["further checks", "level 0", "fit"]
    assert bar.ended == {0: 1000} and max(bar.shares) < 1
    stopped = ODMClassifier(strategy=Stalls(1500), random_state=0)
    stop = Stop("check", count=1400)
    assert stopped.set_callbacks(stop).fit(X[:50], Y[:50]).status_ == "stopped" and stop.ended.count("check") == 1400


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("machine", [EXACT, LinearODMClassifier(random_state=0), tree()])
def test_scikit_learns_bar_is_never_still_nor_beyond_its_end(machine, monkeypatch):
    shown = {}

    def update(self, task_id, *, total=None, completed=None, **fields):
        plain(self, task_id, total=total, completed=completed, **fields)
        task = self.tasks[task_id]
        shown.setdefault(task.description.strip(), []).append(task.percentage)

    plain = rich.progress.Progress.update
    monkeypatch.setattr(rich.progress.Progress, "update", update)
    clone(machine).set_callbacks(ProgressBar()).fit(X, Y)
    levels = {name: values for name, values in shown.items() if " - level 0" in name}
    assert len(levels) == 1
    for name, values in shown.items():
        assert values[-1] == 100 and (np.diff(values) >= 0).all() and max(values) <= 100, name
    (values,) = levels.values()
    assert sum(0 < value < 100 for value in values) > 3


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("machine", [EXACT, tree(), tree(n_jobs=2), ODMClassifier(**DC), ODMClassifier(**CASCADE)])
def test_progress_bar(machine, capsys):
    plain = clone(machine).fit(X, Y)
    barred = clone(machine).set_callbacks(ProgressBar()).fit(X, Y)
    shown = capsys.readouterr().out
    levels = [f"level {entry['level']}" for entry in plain.history_]
    assert "ODMClassifier - fit" in shown and all(level in shown for level in levels)
    np.testing.assert_array_equal(barred.dual_coef_, plain.dual_coef_)


@pytest.mark.filterwarnings("ignore:The estimator MinMaxScaler does not support callbacks")
def test_progress_bar_of_a_search_over_a_pipeline(capsys):
    pipeline = make_pipeline(MinMaxScaler(), ODMClassifier(strategy="diodm", n_levels=1, random_state=0))
    search = GridSearchCV(pipeline, {"odmclassifier__lam": [64, 4096]}, cv=2)
    search.set_callbacks(ProgressBar(max_propagation_depth=None)).fit(X[:200], Y[:200])
    assert "level 0" in capsys.readouterr().out
