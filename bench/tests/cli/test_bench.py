"""``dimargin bench``: an experiment by its name."""

import csv
import json
import pickle
import signal
from dataclasses import replace

import numpy as np
import pytest
from experiment_methods import experiment as failing
from report_page import Page
from sklearn.datasets import dump_svmlight_file, make_moons
from text_files import write_moons

from dimargin_bench.experiments import EXPERIMENTS, experiment
from dimargin_bench.experiments.cache import described
from dimargin_bench.experiments.declarations import Sample
from dimargin_bench.experiments.environment import installed
from dimargin_bench.experiments.split_data import load

FAST = ("--part", "table-2", "--only", "svc", "--only", "boosting")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder for results, beside data that have the name of a known set."""
    monkeypatch.setenv("DIMARGIN_DATA", str(tmp_path))
    monkeypatch.setenv("DIMARGIN_CACHE", str(tmp_path / "cache"))
    for name, n, seed in (("ijcnn1", 200, 0), ("ijcnn1.t", 100, 1)):
        X, y = make_moons(n, noise=0.2, random_state=seed)
        dump_svmlight_file(X, y, str(tmp_path / name))
    return tmp_path / "results"


def test_every_experiment_declares_cells_that_can_be_made():
    for name in EXPERIMENTS:
        declared = experiment(name)
        assert declared.name == name and len({part.name for part in declared.parts}) == len(declared.parts)
        for part in declared.parts:
            # The smallest set may stand in for those of a paper in a quick run.
            assert {sample.name for sample in part.quick_data} <= {sample.name for sample in part.data} | {"svmguide1"}
            assert set(part.quick_cases) <= set(part.cases)
            cells = [cell for sample in (*part.data, Sample("mine.csv")) for cell in part.cells(sample)]
            for cell in cells:
                assert json.dumps(cell.parameters) and pickle.dumps(cell)
                if not cell.method.requires or installed(cell.method.requires):
                    assert hasattr(cell.make(), "fit") and " at 0x" not in described(cell)
            published = {key[1] for table in part.tables for key in table.published}
            names = {name for cell in cells for name in (cell.method.name, f"{cell.method.name}, {cell.case}")}
            assert published <= names


def test_what_is_missing_is_said_once_for_all_parts(dimargin, folder):
    mine = write_moons(folder.parent / "mine.csv", 60)
    chosen = [flag for part in ("table-2", "table-9") for flag in ("--part", part)]
    status, _, err = dimargin("bench", "dcsvm", *chosen, "--only", "svc", "--data", mine, "--output", folder)
    assert status == 0
    said = [line.partition(" is left out:")[0] for line in err.splitlines() if " is left out:" in line]
    assert sorted(said) == sorted(set(said)) and "covtype.libsvm.binary" in said


def test_a_quick_run_with_a_file_of_ones_own(dimargin, folder):
    mine = write_moons(folder.parent / "mine.csv", 100)
    status, out, err = dimargin("bench", "dcsvm", "--quick", "--output", folder, "--data", mine, *FAST)
    assert status == 0 and out.split() == ["cells", "4", "failed", "0"]
    assert [line.split(":")[0] for line in err.splitlines()] == [
        "mine.csv, svc, seed 0", "mine.csv, boosting, seed 0", "ijcnn1, svc, seed 0", "ijcnn1, boosting, seed 0",
        str(folder),
    ]  # fmt: skip
    page, split = Page(folder / "report.html"), load("ijcnn1", 3000)
    (table_2,) = experiment("dcsvm").chosen(["table-2"])
    svc = table_2.cells(Sample("ijcnn1"), only=["svc"])[0].make().fit(split.X, split.y)
    row = page.tables["table-table-2-data-1-0"][1]
    assert row[:3] == ["svc", f"{100 * np.mean(svc.predict(split.X_test) == split.y_test):.2f}", "98.69"]
    assert page.tables["table-table-2-data-0-0"][0] == [
        "method",
        "accuracy, %",
        "seconds",
        "prediction, s",
    ]  # mine is in no paper
    with open(folder / "cells.csv", newline="") as file:
        assert [line["data"] for line in csv.DictReader(file)] == ["mine.csv"] * 2 + ["ijcnn1"] * 2
    status, out, err = dimargin("bench", "dcsvm", "--quick", "-o", folder, "--data", mine, *FAST)
    assert status == 0 and err.count("(known)") == 4
    assert dimargin("bench", "dcsvm", "--quick", "-o", folder, *FAST, "--quiet") == (0, "", "")


def test_missing_data_are_no_failure(dimargin, folder, monkeypatch):
    monkeypatch.delenv("DIMARGIN_DATA")
    status, out, err = dimargin("bench", "dcsvm", "--quick", "-o", folder, *FAST)
    assert status == 0 and "missing data  ijcnn1" in out
    said = "ijcnn1 is left out: ijcnn1.bz2 and ijcnn1.t.bz2 are missing. `dimargin datasets fetch ijcnn1` gets"
    assert err.startswith(said)
    assert "No results of ijcnn1: " in (folder / "report.html").read_text()
    assert json.loads((folder / "cells.json").read_text())["missing"].keys() == {"ijcnn1"}


def test_the_exit_status_is_that_of_a_failure(dimargin, folder, monkeypatch):
    monkeypatch.setattr("dimargin_bench.cli.bench.experiment", lambda name: failing("throws", data=[Sample("ijcnn1")]))
    status, out, err = dimargin("bench", "trial", "-o", folder, "--only", "throws", "--only", "naive")
    assert status == 1 and out.split() == ["cells", "2", "failed", "1"]
    assert "ijcnn1, throws, seed 0: raised: RuntimeError: no such luck\n" in err
    assert Page(folder / "report.html").texts["n-failed"] == "1"


def test_a_method_whose_package_is_missing_is_named_and_no_failure(dimargin, folder, monkeypatch):
    trial = failing(data=[Sample("ijcnn1")])
    naive = next(method for method in trial.methods if method.name == "naive")
    other = replace(naive, name="other", requires="no-such-package")
    trial = replace(trial, parts=[replace(trial.parts[0], methods=[naive, other])])
    monkeypatch.setattr("dimargin_bench.cli.bench.experiment", lambda name: trial)
    status, out, err = dimargin("bench", "trial", "-o", folder)
    assert status == 0 and out.split() == ["cells", "2", "failed", "0"]
    assert "ijcnn1, other, seed 0: not installed: no-such-package" in err
    page = Page(folder / "report.html")
    assert page.tables["table-scores-data-0-0"][2][:2] == ["other", "not installed"]
    assert page.tables["table-methods"][2][1].endswith("; left out: no-such-package is not installed")
    assert "table-failures" not in page.tables and len(list((folder / "cells").iterdir())) == 1


def test_an_interrupted_run_says_what_it_keeps(dimargin, folder, monkeypatch):
    monkeypatch.setattr(
        "dimargin_bench.cli.bench.experiment", lambda name: failing("interrupts", data=[Sample("ijcnn1")])
    )
    # as in a process of its own: a Spark session, in this one perhaps, has a handler that raises
    # wherever it is called
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        status, out, err = dimargin("bench", "trial", "-o", folder, "--only", "naive", "--only", "interrupts")
    finally:
        signal.signal(signal.SIGINT, before)  # which the command leaves ignored, as it is about to end
    said = f"Interrupted: the cells that have ended are in {folder / 'cells'}; the same command resumes"
    assert (status, out, err.splitlines()[-1]) == (1, "", said)
    assert len(list((folder / "cells").iterdir())) == 1 and not (folder / "report.html").exists()


def test_wrong_usage(dimargin, folder):
    for flags, said in (
        (("nosuch",), "there is no experiment 'nosuch', but dcsvm"),
        (("dcsvm", "--only", "nosuch"), "got nosuch"),
        (("dcsvm", "--part", "table-11"), "dcsvm has the parts figure-1, figure-2, table-1,"),
        (("dcsvm", "--limit", 0), "limit must be"),
        (("dcsvm", "--jobs", 0), "jobs must be"),
        (("dcsvm", "--rows", 0), "rows must be"),
    ):
        status, _, err = dimargin("bench", *flags, "--output", folder)
        assert status == 2 and said in " ".join(err.replace("│", " ").split())
    assert not folder.exists()
