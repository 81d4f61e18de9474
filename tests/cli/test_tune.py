"""``dimargin tune``."""

import json
import re
import signal
import subprocess
import sys

import pytest
from text_files import words_of, write_moons

import dimargin as dm
from dimargin.cli.searches import SearchDisplay

GRID = '{"gamma": [0.5, 5], "C": [1, 100], "fit_intercept": [true]}'


@pytest.fixture
def csv(tmp_path):
    return write_moons(tmp_path / "train.csv", 400)


def test_from_a_file_to_a_tuned_model_a_table_and_a_picture(dimargin, csv, tmp_path):
    model, picture, test = (
        tmp_path / "tuned.dimargin",
        tmp_path / "tried.png",
        write_moons(tmp_path / "test.csv", 300, 1),
    )
    flags = ["--grid", GRID, "--min-rows", 80, "--random-state", 0, "--plot", picture, "--validate", test]
    status, out, err = dimargin("tune", csv, "--model", model, *flags)
    assert status == 0 and "what was tried is drawn in" in err and picture.stat().st_size > 10_000
    lines = out.splitlines()
    assert lines[0].split()[:5] == ["round", "rows", "C", "fit_intercept", "gamma"]
    best = dict(zip(lines[0].split(), lines[1].split(), strict=False))
    machine = dm.load(model)[-1]
    assert float(best["gamma"]) == pytest.approx(machine.gamma, rel=1e-3) and float(best["C"]) == machine.C
    assert sum(line.split()[0].isdigit() for line in lines if line) == 4  # every candidate once
    facts = json.loads(dimargin("tune", csv, "--model", model, *flags, "--json")[1])
    assert facts["candidates"] == 4 and facts["best"]["C"] == machine.C and facts["validation"]["accuracy"] > 0.93
    assert facts["cross_validated_score"] > 0.93 and facts["status"] == "converged"
    assert json.loads(dimargin("evaluate", model, test, "--json")[1])["accuracy"] == facts["validation"]["accuracy"]


def test_linear_machines_and_parameters_that_are_not_tuned(dimargin, csv, tmp_path):
    model = tmp_path / "m"
    status, out, _ = dimargin("tune", csv, "-m", model, "--loss", "linear_odm", "--json", "--cv", 2)
    assert status == 0 and json.loads(out)["coefficients"] == 2
    grid = '[{"C": [1]}, {"C": [10], "gamma": ["scale"]}]'
    flags = ["--kernel", "laplacian", "--strategy", "exact", "--tol", 0.01, "--grid", grid, "--scoring", "roc_auc"]
    assert dimargin("tune", csv, "-m", model, *flags, "--quiet")[:2] == (0, "")
    machine = dm.load(model)[-1]
    assert (machine.kernel, machine.strategy, machine.tol) == ("laplacian", "exact", 0.01)


def test_a_best_value_at_the_edge_of_the_grid_is_named(dimargin, csv, tmp_path):
    grid = '{"C": [1e-5, 1e-4, 10], "gamma": [0.5]}'
    flags = ["--loss", "hinge", "--grid", grid, "--cv", 2, "--random-state", 1]
    status, out, err = dimargin("tune", csv, "-m", tmp_path / "m", *flags, "--json")
    assert status == 0 and json.loads(out)["edges"] == {"C": "largest"}, err
    said = dimargin("tune", csv, "-m", tmp_path / "m", *flags)[2]
    assert "the best C is the largest that was tried: a larger one may be better (--grid)" in " ".join(said.split())


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_support_vector_machines_and_class_weights(dimargin, csv, tmp_path, loss):
    grid = '{"C": [1, 10], "gamma": [0.5], "class_weight": [null, "balanced", {"ham": 2, "spam": 1}]}'
    flags = ["--loss", loss, "--fit-intercept", "--grid", grid, "--cv", 2, "--random-state", 1]
    status, out, err = dimargin("tune", csv, "-m", tmp_path / "m", *flags, "--json")
    assert status == 0, err
    assert set(json.loads(out)["best"]) == {"C", "gamma", "class_weight"}
    machine = dm.load(tmp_path / "m")[-1]
    assert (machine.loss, machine.fit_intercept, machine.gamma) == (loss, True, 0.5)
    assert dimargin("tune", csv, "-m", tmp_path / "m", *flags)[0] == 0


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--loss", "log"], "--loss must be one of squared_hinge, hinge, odm, linear_odm, linear_hinge"),
        (["--grid", "gamma=1"], "--grid must be JSON such as"),
        (["--kernel", "sigmoid"], "kernel='sigmoid'"),
        (["--strategy", "dsvrg"], "strategy must be"),
        (["--gamma", "scale"], "--gamma is for train; tune tries the values in --grid"),
        (["--gamma", "scale"], """--grid '{"gamma": ["scale"]}'"""),
        (["--C", "1, 10,1e3"], """--grid '{"C": [1, 10, 1000.0]}'"""),
        (["--lam", "[5]"], """--grid '{"lam": [5]}'"""),
        (["--plot", "nowhere/x.png"], "the folder nowhere does not exist"),
        (["--solver", "newton"], "--solver is not a parameter of SVMClassifier; --loss linear_odm or"),
        (["--random-state", "x"], "--random-state must be a whole number"),
    ],
)
def test_what_is_wrong_is_named(dimargin, csv, tmp_path, flags, text):
    status, _, err = dimargin("tune", csv, "-m", tmp_path / "m", *flags)
    assert status == 2 and text in words_of(err)
    status, _, err = dimargin("tune", csv, "-m", tmp_path / "m", "--grid", '{"lam": [1]}')
    assert status == 1 and "--grid may hold kernel, gamma" in err and not (tmp_path / "m").exists()


def test_two_scalings_are_in_one_table_and_the_model_has_probabilities(dimargin, csv, tmp_path):
    model = tmp_path / "m"
    flags = ["--grid", GRID, "--min-rows", 80, "--random-state", 0, "--scale", "minmax", "--scale", "standard"]
    status, out, err = dimargin("tune", csv, "-m", model, *flags, "--probabilities")
    lines = out.splitlines()
    assert status == 0 and lines[0].split()[:3] == ["scaling", "round", "rows"], err
    assert lines[0].endswith("std over folds") and "\nedges" not in out
    tried = [line.split() for line in lines if line.startswith(("MinMaxScaler ", "StandardScaler "))]
    assert sorted((row[0], *row[3:6]) for row in tried) == sorted(
        (scaler, C, "True", gamma)
        for scaler in ("MinMaxScaler", "StandardScaler")
        for C in ("1", "100")
        for gamma in ("0.5", "5")
    )
    assert [row[1] for row in tried] == sorted((row[1] for row in tried), reverse=True)  # later rounds first
    shown = dict(re.split("  +", line.strip()) for line in lines if "seconds" in line)
    assert [*shown] == ["seconds of training", "calibration seconds, added", "search seconds, included"]
    assert float(shown["search seconds, included"]) < float(shown["seconds of training"])
    assert "calibrating probabilities (sigmoid)" in err and dm.load(model).predict_proba([[0.0, 0.0]]).shape == (1, 2)
    facts = json.loads(dimargin("tune", csv, "-m", model, *flags, "--json")[1])
    assert facts["candidates"] == 8 and facts["seconds"] > facts["search_seconds"] > 0


def test_the_table_has_the_score_of_the_choice_though_a_later_round_was_cut_short(dimargin, csv, tmp_path, monkeypatch):
    """Interrupt the search when the last round has scored one candidate on one fold."""
    rounds = []
    begin = SearchDisplay.level_begin

    def record_round(display, level, n_tasks):
        rounds.append(level)
        begin(display, level, n_tasks)

    def interrupt_in_last_round(display, index):
        if rounds[-1] == 1:
            display.interrupted.set()

    monkeypatch.setattr(SearchDisplay, "level_begin", record_round)
    monkeypatch.setattr(SearchDisplay, "task_end", interrupt_in_last_round)
    flags = [
        "--grid",
        '{"gamma": [0.5, 5], "C": [1, 100]}',
        "--min-rows",
        80,
        "--n-jobs",
        1,
        "--plot",
        tmp_path / "p.svg",
    ]
    status, out, err = dimargin("tune", csv, "-m", tmp_path / "m", *flags)
    assert status == 1 and "cut short after 1 of 2 rounds" in words_of(err)
    lines = [line.split() for line in out.splitlines() if line]
    table = [dict(zip(lines[0], row, strict=False)) for row in lines[1:] if row[0].isdigit()]
    assert [row["round"] for row in table] == ["0"] * 4
    facts = {" ".join(row[:-1]): row[-1] for row in lines}
    machine, best = dm.load(tmp_path / "m")[-1], table[0]
    assert (float(best["C"]), float(best["gamma"])) == (machine.C, pytest.approx(machine.gamma))
    assert float(best["score"]) == pytest.approx(float(facts["cross validated score"]), abs=1e-3)


@pytest.mark.slow
def test_ctrl_c_trains_the_best_so_far(tmp_path):
    data, model = write_moons(tmp_path / "train.csv", 30_000), tmp_path / "model"
    command = ["-m", "dimargin", "tune", str(data), "-m", str(model), "--loss", "odm", "--min-rows", "15000"]
    process = subprocess.Popen([sys.executable, *command], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    while "rows" not in process.stderr.readline():
        pass
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(2.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and "the search was cut short" in err
    assert "Interrupted: the best machine so far is in" in err
    assert dm.load(model)[-1].status_ == "converged"


def test_scalings_are_compared_on_the_same_rows_though_one_search_was_cut_short(dimargin, tmp_path, monkeypatch):
    """Interrupt the second search in its last round: its scores are then of fewer rows than those of the first."""
    displays, begin = {}, SearchDisplay.level_begin

    def record_round(display, level, n_tasks):
        displays[display] = level
        begin(display, level, n_tasks)

    def interrupt_in_last_round_of_second(display, index):
        if len(displays) == 2 and displays[display] == 1:
            display.interrupted.set()

    monkeypatch.setattr(SearchDisplay, "level_begin", record_round)
    monkeypatch.setattr(SearchDisplay, "task_end", interrupt_in_last_round_of_second)
    csv = write_moons(tmp_path / "train.csv", 400, 1)
    grid = ["--grid", '{"gamma": [0.5, 5], "C": [1, 100]}', "--min-rows", 80, "--n-jobs", 1]
    status, out, err = dimargin("tune", csv, "-m", tmp_path / "m", *grid, "--scale", "minmax", "--scale", "standard")
    assert status == 1 and "cut short after 1 of 2 rounds" in words_of(err)
    table = [line.split() for line in out.splitlines() if "Scaler" in line]
    of_all_rows, of_few = (max(float(row[5]) for row in table if row[1] == number) for number in ("1", "0"))
    assert of_all_rows > of_few and {row[0] for row in table if row[1] == "1"} == {"MinMaxScaler"}
    scores = dict(re.findall(r"(\w+): cross-validated score (0\.\d+) on 89 rows", err))
    assert float(scores["MinMaxScaler"]) < of_few == float(scores["StandardScaler"])
    assert type(dm.load(tmp_path / "m")[0]).__name__ == "StandardScaler"
