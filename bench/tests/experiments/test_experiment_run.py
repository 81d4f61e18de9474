"""Runs of experiments: processes, what goes wrong in them, and the cache."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import experiment_methods
import pytest
from experiment_methods import experiment
from text_files import write_moons

import dimargin
import dimargin as dm
import dimargin_bench.experiments.cache
from dimargin.io.data import DataFileError
from dimargin_bench.experiments.cache import Cache
from dimargin_bench.experiments.declarations import Method, Sample
from dimargin_bench.experiments.examine import dual_objective
from dimargin_bench.experiments.experiment_run import CELLS, Options, Watcher, run_experiment
from dimargin_bench.experiments.outcome import Outcome
from dimargin_bench.experiments.split_data import load

PATIENCE = 60  # seconds


class Noted(Watcher):
    def __init__(self, stop_after=None):
        self.ran, self.known, self.stop_after = [], [], stop_after

    def end(self, cell, outcome, is_known):
        (self.known if is_known else self.ran).append(f"{cell.method.name} {cell.seed}")
        if len(self.ran) == self.stop_after:
            raise KeyboardInterrupt


def by_method(results):
    return {record.cell.method.name: record.outcome for record in results.records}


def test_what_goes_wrong_is_an_outcome_and_the_rest_goes_on(moons, tmp_path):
    wrong = {
        "throws": ("raised", "RuntimeError: no such luck"),
        "predicts_nan": ("not finite", "1 of 80 predictions are not finite"),
        "has_no_objective": ("not finite", "objective is nan"),
        "is_killed": ("killed", "the process was killed by SIGKILL, as the system does where memory runs out"),
        "crashes": ("killed", "the process was killed by SIGSEGV"),
        "leaves": ("killed", "the process ended with exit status 3 and no result"),
    }
    results = run_experiment(experiment(*wrong, "warns"), tmp_path, Options())
    found = by_method(results)
    assert {name: (found[name].status, found[name].reason) for name in wrong} == wrong
    assert [record.cell.method.name for record in results.failures] == list(wrong)
    assert "no such\nluck" in found["throws"].traceback and not found["throws"].metrics
    assert found["warns"].status == "done" and found["warns"].warnings == ["UserWarning: a word of warning"]
    assert found["exact"].metrics["accuracy"] > 0.9 and found["naive"].metrics["accuracy"] > 0.7


def test_a_method_that_hangs_ends_with_all_that_it_started(moons, tmp_path):
    file = tmp_path / "pids"
    trial = experiment("has_a_child", file=file)
    results = run_experiment(trial, tmp_path, Options(limit=2, only=["has_a_child"]))
    (outcome,) = by_method(results).values()
    assert (outcome.status, outcome.reason) == ("time limit", "no result within 2 s")
    pids = list(map(int, file.read_text().split()))
    assert len(pids) == 2
    for pid in pids:
        assert has_ended(pid)


def has_ended(pid):
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        stat = Path(f"/proc/{pid}/stat")
        if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z":  # nobody has asked how it ended
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_the_run(moons, tmp_path, number):
    """Neither after Ctrl-C nor when the process of the run is killed."""
    script = f"""
import signal, sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs ignore
sys.path.insert(0, {os.path.dirname(experiment_methods.__file__)!r})
from experiment_methods import experiment
from dimargin_bench.experiments.experiment_run import Options, run_experiment
if __name__ == "__main__":
    run_experiment(experiment("hangs", file={str(tmp_path / "pids")!r}), Path({str(tmp_path)!r}), Options())
"""
    (tmp_path / "script.py").write_text(script)
    run = subprocess.Popen([sys.executable, tmp_path / "script.py"], stderr=subprocess.PIPE, start_new_session=True)
    pids, until = [], time.monotonic() + PATIENCE
    while len(pids) < 2 and time.monotonic() < until:  # the naive classifier's and that of the one that hangs
        pids = (tmp_path / "pids").read_text().split() if (tmp_path / "pids").exists() else []
        time.sleep(0.05)
    assert len(pids) == 2
    (os.kill if number == signal.SIGKILL else os.killpg)(run.pid, number)  # a terminal sends Ctrl-C to the group
    said = run.communicate(timeout=PATIENCE)[1].decode()
    assert number == signal.SIGKILL or said.count("Traceback") == 1  # that of the script
    assert has_ended(int(pids[1]))
    assert len(list((tmp_path / CELLS).iterdir())) == 2  # exact and naive: what had ended is kept


def test_an_interrupted_run_goes_on(moons, tmp_path):
    trial = experiment("warns", seeds=(0, 1))
    watch = Noted(stop_after=2)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(trial, tmp_path, Options(), watch)
    assert watch.ran == ["exact 0", "naive 0"]
    watch = Noted()
    results = run_experiment(trial, tmp_path, Options(), watch)
    assert watch.known == ["exact 0", "naive 0"] and watch.ran == ["warns 0", "exact 1", "naive 1", "warns 1"]
    cells = [str(record.cell) for record in results.records]
    assert cells[:2] == ["svmguide1, exact, seed 0", "svmguide1, naive, seed 0"]
    again = run_experiment(trial, tmp_path, Options(), watch := Noted())
    assert again.records == results.records and not watch.ran


def test_cells_run_again_when_something_changes_that_they_depend_on(moons, tmp_path, monkeypatch):
    def ran(seed=0, quick=False):
        run_experiment(experiment(seeds=(seed,)), tmp_path, Options(only=["exact"], quick=quick), watch := Noted())
        return watch.ran

    assert ran() == ["exact 0"] and ran() == []
    assert ran(seed=7) == ["exact 7"]
    assert ran(quick=True) == ["exact 0"]  # fewer rows
    monkeypatch.setattr(dimargin_bench.experiments.environment, "__version__", "99")
    assert ran() == ["exact 0"] and ran() == []
    monkeypatch.undo()
    monkeypatch.setenv("DIMARGIN_DATA", str(moons))
    assert ran() == []
    with open(moons / "svmguide1.t", "a") as file:
        file.write("1 1:3.5\n")
    assert ran() == ["exact 0"]


def test_failures_are_remembered_unless_they_get_more_time_or_a_second_try(moons, tmp_path):
    def ran(what, **options):
        run_experiment(experiment(what), tmp_path, Options(only=[what], **options), watch := Noted())
        return watch.ran

    assert ran("hangs", limit=0.3) == ["hangs 0"] and ran("hangs", limit=0.2) == []
    assert ran("hangs", limit=0.4) == ["hangs 0"] and ran("hangs", limit=0.3, retry=True) == ["hangs 0"]
    assert ran("throws") == ["throws 0"] and ran("throws", limit=7200) == []
    assert ran("throws", retry=True) == ["throws 0"]


def test_several_cells_at_a_time_give_the_same(moons, tmp_path):
    trial = experiment("throws", "warns", seeds=(0, 1))
    alone, together = (by_cell(run_experiment(trial, tmp_path, Options(jobs=jobs))) for jobs in (1, 3))
    assert alone == together and len(alone) == 8


def by_cell(results):
    return {
        str(record.cell): (record.outcome.status, record.outcome.metrics.get("accuracy")) for record in results.records
    }


def test_metrics_are_those_of_the_estimator(moons, tmp_path):
    metrics = by_method(run_experiment(experiment(), tmp_path, Options()))["exact"].metrics
    split, machine = load("svmguide1"), experiment_methods.exact(0)
    machine.fit(split.X, split.y)
    assert metrics["accuracy"] == machine.score(split.X_test, split.y_test)
    assert metrics["objective"] == pytest.approx(machine.objective_, rel=1e-9)
    assert metrics["gap"] <= machine.tol and metrics["support_vectors"] == len(machine.support_)
    assert metrics["kernel_evaluations"] == sum(entry["kernel_evaluations"] for entry in machine.history_)
    assert metrics["seconds"] > 0 and metrics["prediction_seconds"] > 0 and metrics["peak_memory"] > 10**7
    assert "messages" not in metrics and "bytes" not in metrics


def test_bad_options_and_data_end_before_any_cell(moons, tmp_path):
    with pytest.raises(ValueError, match="limit must be a number of seconds above 0, got 0"):
        Options(limit=0)
    with pytest.raises(ValueError, match="jobs must be 1 or more, got 0"):
        Options(jobs=0)
    with pytest.raises(ValueError, match="trial has the methods exact, naive, got exakt"):
        run_experiment(experiment(), tmp_path, Options(only=["exakt"]))
    mine = write_moons(tmp_path / "svmguide1", 50)
    with pytest.raises(ValueError, match="data sets must have different names, got svmguide1 beside svmguide1"):
        run_experiment(experiment(), tmp_path, Options(files=[mine]))
    trial = replace(experiment(), parts=(replace(experiment().parts[0], takes_files=False),))
    with pytest.raises(ValueError, match="none of the parts scores takes data of one's own, got svmguide1"):
        run_experiment(trial, tmp_path, Options(files=[mine]))
    (tmp_path / "bad.csv").write_text("a,class\nx,1\n")
    with pytest.raises(DataFileError, match=r"bad\.csv"):
        run_experiment(experiment(), tmp_path, Options(files=[tmp_path / "bad.csv"]))
    assert not (tmp_path / CELLS).exists()


def test_a_damaged_file_of_the_cache_is_named(moons, tmp_path):
    run_experiment(experiment(), tmp_path, Options())
    path = next((tmp_path / CELLS).iterdir())
    assert json.loads(path.read_text())["cell"]["environment"]["dimargin"] == dimargin.__version__
    path.write_text("{}")
    with pytest.raises(ValueError, match=f"{path.name} is not the outcome of a cell"):
        run_experiment(experiment(), tmp_path, Options())


TRACE = {"x": [1, 2], "lines": [[1, 2]], "level": 1}


@pytest.mark.parametrize(
    "damage",
    [
        {"status": 5}, {"status": "fine"}, {"status": None}, {"metrics": [1]}, {"metrics": {"accuracy": "high"}},
        {"metrics": {"accuracy": float("nan")}}, {"metrics": {"beauty": 1.0}}, {"reason": 3}, {"traceback": []},
        {"warnings": "none"}, {"warnings": [1]}, {"traces": []}, {"traces": {"a": 1}}, {"traces": {"a": {}}},
        {"traces": {"a": TRACE | {"x": [1]}}}, {"traces": {"a": TRACE | {"level": "high"}}}, {"more": 1},
        *("limit", "cell", "outcome", "depth"),
    ],
    ids=str,
)  # fmt: skip
def test_what_the_cache_holds_is_not_believed(damage, tmp_path):
    cell = experiment().parts[0].cells(Sample("svmguide1"), False, ())[0]
    cache = Cache(tmp_path, {"python": "3"})
    right = Outcome("done", {"accuracy": 0.5}, warnings=["slow"], traces={"a": TRACE})
    cache.store(cell, "0", 60, right)
    assert cache.find(cell, "0", 60) == right
    (path,) = tmp_path.iterdir()
    stored = json.loads(path.read_text())
    if isinstance(damage, dict):
        stored["outcome"] |= damage
    else:
        stored[damage] = None
    path.write_text("[" * 10**5 if damage == "depth" else json.dumps(stored))
    with pytest.raises(ValueError, match=f"{path.name} is not the outcome of a cell .*; delete it to run that again"):
        cache.find(cell, "0", 60)


def test_parts_and_samples_of_one_data_set(moons, tmp_path):
    part = experiment().parts[0]
    few = replace(part, name="few", data=(Sample("svmguide1", 30), Sample("svmguide1")), methods=part.methods[:1],
                  cases={"C=10": {}})  # fmt: skip
    trial = replace(experiment(), parts=(part, few))
    results = run_experiment(trial, tmp_path, Options())
    assert [str(record.cell) for record in results.parts[1].records] == [
        "svmguide1, 30 rows, exact (C=10), seed 0", "svmguide1, exact (C=10), seed 0"
    ]  # fmt: skip
    assert [(facts.name, facts.rows) for facts in results.data] == [("svmguide1", 120), ("svmguide1, 30 rows", 30)]
    run_experiment(trial, tmp_path, Options(parts=["few"]), watch := Noted())
    assert watch.known == ["exact 0", "exact 0"] and not watch.ran
    run_experiment(trial, tmp_path, Options(only=["naive"]), watch := Noted())
    assert watch.known == ["naive 0"]
    with pytest.raises(ValueError, match="trial has the parts scores, few, got fev"):
        run_experiment(trial, tmp_path, Options(parts=["fev"]))


def test_as_many_rows_as_one_wants(moons, tmp_path):
    data = (Sample("svmguide1", 30), Sample("svmguide1", 60), Sample("skin_nonskin"))
    trial = experiment(data=data, quick_data=(Sample("skin_nonskin"),))
    for options, expected in (
        (Options(only=["naive"], rows=40), {"svmguide1, 40 rows": (40, 40), "skin_nonskin, 40 rows": (40, 24)}),
        (Options(only=["naive"], rows=40, quick=True), {"skin_nonskin, 40 rows": (40, 24)}),
    ):
        results = run_experiment(trial, tmp_path, options)
        assert {facts.name: (facts.rows, facts.test_rows) for facts in results.data} == expected
        assert [record.cell.data for record in results.records] == list(expected)


def test_what_examines_a_fit_belongs_to_the_cell(moons, tmp_path):
    part = experiment().parts[0]
    run_experiment(experiment(), tmp_path, Options(only=["exact"]))
    trial = replace(experiment(), parts=(replace(part, examine=dual_objective),))
    results = run_experiment(trial, tmp_path, Options(only=["exact"]), watch := Noted())
    assert watch.ran == ["exact 0"]
    metrics = results.records[0].outcome.metrics
    assert metrics["dual_objective"] == pytest.approx(metrics["objective"], rel=2e-3)


@pytest.mark.parametrize("ends_early", [False, True])
def test_an_end_that_is_meant_to_be_early_warns_of_nothing(moons, tmp_path, ends_early):
    make = partial(dm.LinearODMClassifier, solver="svrg", max_iter=1)
    part = replace(experiment().parts[0], parameters=lambda data, method: {},
                   methods=(Method("early", make, "one stage", ends_early=ends_early),))  # fmt: skip
    results = run_experiment(replace(experiment(), parts=(part,)), tmp_path, Options())
    (outcome,) = by_method(results).values()
    assert outcome.status == "done" and ("max_iter=1" in "".join(outcome.warnings)) is not ends_early
