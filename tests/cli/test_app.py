"""The command line, through the same door as a user's: `main` with arguments, a pipe, a terminal, signals."""

import bz2
import inspect
import itertools
import json
import os
import pty
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, make_moons
from text_files import words_of, write_moons

import dimargin as dm
from dimargin.cli.searches import FIRST_NAMES
from dimargin.io.data import read_data

PARAMETERS = {
    "kernel": ("laplacian", "laplacian"),
    "gamma": ("0.7", 0.7),
    "degree": ("2", 2),
    "coef0": ("1.5", 1.5),
    "lam": ("12.5", 12.5),
    "upsilon": ("0.25", 0.25),
    "theta": ("0.125", 0.125),
    "multi_class": ("one_vs_rest", "one_vs_rest"),
    "pair_scores": ("votes", "votes"),
    "strategy": ("diodm", "diodm"),
    "branching": ("2", 2),
    "n_levels": ("1", 1),
    "n_landmarks": ("7", 7),
    "stop_level": ("1", 1),
    "tol": ("0.01", 0.01),
    "max_iter": ("77", 77),
    "max_time": ("99.5", 99.5),
    "class_weight": ('{"ham": 2, "spam": 1}', {"ham": 2.0, "spam": 1.0}),
    "memory_limit": ("1000000000", 10**9),
    "n_jobs": ("1", 1),
    "random_state": ("5", 5),
}


@pytest.fixture
def csv(tmp_path):
    return write_moons(tmp_path / "train.csv", 300)


def test_the_work_that_begins_is_described(dimargin, csv, tmp_path):
    said = {
        (): f"choosing between {FIRST_NAMES}, strategy exact; no time estimate; --max-time limits it",
        ("--loss", "odm", "--strategy", "diodm", "--max-time", 60): (
            "training with --loss odm, strategy diodm, for at most 60 s"
        ),
        ("--loss", "linear_odm", "--max-time", 0.5): "training with --loss linear_odm, for at most 0.5 s",
    }
    for flags, words in said.items():
        _, _, err = dimargin("train", csv, "--model", tmp_path / "m", *flags)
        assert f"{csv}: 300 rows, 2 features\n{words}\n" in err


def test_what_many_classes_have_is_summed_up(dimargin, tmp_path):
    rows, model = tmp_path / "rows.csv", tmp_path / "m"
    lines = [f"{k % 60 + k / 1e4},{k % 7},c{k % 60}" for k in range(180)]
    rows.write_text("\n".join(["a,b,class", *lines]))
    text = words_of(dimargin("train", rows, "--model", model)[1])
    assert "(1770 values)" in text and "c59, ... " not in text and ", ... (60 values)" in text and len(text) < 1000
    assert len(json.loads(dimargin("info", model, "--json")[1])["objective"]) == 1770
    _, out, err = dimargin("evaluate", model, rows)
    assert len(out.splitlines()) < 10
    assert "The scores by class and the confusion matrix of 60 classes are in the output of --json." in err
    assert np.shape(json.loads(dimargin("evaluate", model, rows, "--json")[1])["confusion"]) == (60, 60)


def test_from_a_file_to_predictions_that_python_agrees_with(dimargin, csv, tmp_path):
    model, test = tmp_path / "spam.dimargin", write_moons(tmp_path / "test.csv", 200, seed=1)
    status, out, _ = dimargin("train", csv, "--model", model, "--validate", test, "--json", "--random-state", 0)
    facts = json.loads(out)
    assert status == 0 and facts["status"] == "converged" and facts["certificate"] == "global"
    assert facts["relative_duality_gap"] <= 1e-3 and facts["classes"] == ["ham", "spam"] and facts["rows"] == 300
    data, loaded = read_data(test), dm.load(model)
    accuracy = loaded.score(data.X, data.y)
    assert facts["validation"]["accuracy"] == accuracy > 0.93
    assert json.loads(dimargin("evaluate", model, test, "--json")[1])["accuracy"] == accuracy
    predicted = loaded.predict(data.X).tolist()
    status, out, err = dimargin("predict", model, test)
    assert status == 0 and out.splitlines() == predicted and "rows per second" in err
    dimargin("predict", model, test, "--output", tmp_path / "labels", "--decision-values")
    lines = [line.split("\t") for line in (tmp_path / "labels").read_text().splitlines()]
    assert [line[0] for line in lines] == predicted
    np.testing.assert_allclose([float(line[1]) for line in lines], loaded.decision_function(data.X), rtol=1e-8)


def test_a_linear_machine(dimargin, csv, tmp_path):
    model, again = tmp_path / "spam.dimargin", tmp_path / "again.dimargin"
    flags = ["--loss", "linear_odm", "--solver", "dsvrg", "--strategy-option", "n_partitions=3"]
    flags += ["--lam", 20, "--theta", 0.1]
    status, out, _ = dimargin("train", csv, "--model", model, "--json", "--random-state", 0, *flags)
    facts, machine = json.loads(out), dm.load(model)[-1]
    assert status == 0 and facts["status"] == "converged" and facts["coefficients"] == 2
    assert machine.solver.n_partitions == 3 and (machine.lam, machine.theta) == (20, 0.1)
    status, out, _ = dimargin("train", csv, "--resume", model, "--model", again, "--json", "--tol", 1e-8)
    assert status == 0 and json.loads(out)["relative_duality_gap"] <= 1e-8
    facts = json.loads(dimargin("info", again, "--certify", csv, "--json")[1])
    assert facts["machine"] == "LinearODMClassifier" and facts["relative_duality_gap"] <= 1e-8
    assert "no training row" in facts["privacy"]
    assert json.loads(dimargin("evaluate", again, csv, "--json")[1])["accuracy"] > 0.8
    for wrong, text in (
        (["--gamma", 1], "--gamma is not a parameter of LinearODMClassifier"),
        (["--strategy-option", "rounds=2"], "--strategy-option needs --solver newton or cd or svrg"),
        (["--solver", "svrg", "--strategy-option", "radius=2"], "expected NAME=VALUE"),
    ):
        status, _, err = dimargin("train", csv, "--model", model, "--loss", "linear_odm", *wrong)
        assert status == 2 and text in words_of(err)


def test_every_parameter_is_a_flag(dimargin, csv, tmp_path):
    assert set(PARAMETERS) == set(inspect.signature(dm.ODMClassifier).parameters) - {
        "verbose", "warm_start", "fit_intercept",
    }  # fmt: skip
    flags = [part for name, (text, _) in PARAMETERS.items() for part in (f"--{name.replace('_', '-')}", text)]
    status, _, err = dimargin("train", csv, "--model", tmp_path / "m", "--loss", "odm", "--scale", "none", *flags)
    assert status == 0, err
    stored = dm.load(tmp_path / "m").get_params()
    assert {name: stored[name] for name in PARAMETERS} == {name: value for name, (_, value) in PARAMETERS.items()}
    # as the estimators spell them, too
    assert dimargin("train", csv, "--model", tmp_path / "m", "--n_jobs", 1, "--max_iter", 50)[0] == 0


@pytest.mark.parametrize(
    ("flags", "loss", "intercept"),
    [
        (["--loss", "hinge", "--fit-intercept"], "hinge", True),
        (["--loss", "hinge", "--no-fit-intercept"], "hinge", False),
        (["--loss", "squared_hinge"], "squared_hinge", True),
    ],
)
def test_a_support_vector_machine(dimargin, csv, tmp_path, flags, loss, intercept):
    status, _, err = dimargin("train", csv, "-m", tmp_path / "m", *flags, "--C", 5, "--scale", "none", "--json")
    assert status == 0, err
    machine = dm.load(tmp_path / "m")
    assert (machine.loss, machine.fit_intercept, machine.C) == (loss, intercept, 5.0)
    assert (machine.intercept_ != 0) == intercept
    # and goes on with the same loss only
    assert dimargin("train", csv, "-m", tmp_path / "m", "--resume", tmp_path / "m", "--loss", loss)[0] == 0
    assert dimargin("train", csv, "-m", tmp_path / "m", "--resume", tmp_path / "m", "--loss", "odm")[0] == 2


@pytest.mark.parametrize("intercept", [True, False])
def test_an_odm_has_an_intercept_where_one_is_asked_for(dimargin, csv, tmp_path, intercept):
    flags = ["--loss", "odm", "--scale", "none", "--json", *["--fit-intercept"] * intercept]
    status, _, err = dimargin("train", csv, "-m", tmp_path / "m", *flags)
    assert status == 0, err
    machine = dm.load(tmp_path / "m")
    assert (machine.intercept_ != 0) == machine.fit_intercept == intercept


def test_options_of_a_strategy(dimargin, csv, tmp_path):
    options = ["--strategy-option", "early_stop=false", "--strategy-option", "sample-size=50"]
    dimargin("train", csv, "-m", tmp_path / "m", "--strategy", "diodm", "--n-levels", 1, *options)
    strategy = dm.load(tmp_path / "m")[-1].strategy
    assert (strategy.early_stop, strategy.sample_size) == (False, 50)


@pytest.mark.parametrize(
    ("scale", "scaler"), [("none", None), ("minmax", "MinMaxScaler"), ("standard", "StandardScaler")]
)
def test_scaling_is_stored(dimargin, csv, tmp_path, scale, scaler):
    dimargin("train", csv, "-m", tmp_path / "m", "--scale", scale)
    model = dm.load(tmp_path / "m")
    assert (type(model[0]).__name__ if scaler else None) == scaler
    assert json.loads(dimargin("info", tmp_path / "m", "--json")[1])["scaling"] == (scaler or "none")


def test_sparse_rows_stay_sparse(dimargin, tmp_path):
    (tmp_path / "rows").write_text("".join(f"{k % 2} {3 * k + 1}:{1 + k % 2} 400:{k % 2}\n" for k in range(100)))
    for scale in ("minmax", "standard"):
        assert dimargin("train", tmp_path / "rows", "-m", tmp_path / "m", "--scale", scale)[0] == 0
        assert dm.load(tmp_path / "m")[-1].support_vectors_.format == "csr"
    assert json.loads(dimargin("evaluate", tmp_path / "m", tmp_path / "rows", "--json")[1])["accuracy"] > 0.9


@pytest.mark.slow
@pytest.mark.nightly_after(2)
@pytest.mark.parametrize(
    "name",
    ["SUSY-30k", "a9a", "cod-rna", "covtype.libsvm.binary", "ijcnn1", "phishing", "reuters", "skin_nonskin",
     "svmguide1", "usps"],
)  # fmt: skip
def test_every_command_on_real_data(dimargin, data_folder, tmp_path, name):
    train = data_folder / f"{name}.bz2"
    test = data_folder / f"{name}.t.bz2"
    if not test.exists():
        test = tmp_path / "rows"
        with bz2.open(train) as lines:
            test.write_bytes(b"".join(itertools.islice(lines, 3000)))
    model = tmp_path / "m"
    status, out, _ = dimargin("train", train, "-m", model, "--validate", test, "--max-time", 20, "--json")
    facts = json.loads(out)
    assert status == 0 and facts["rows"] == len(read_data(train).y)
    assert 0.4 < facts["validation"]["accuracy"] <= 1
    status, out, _ = dimargin("predict", model, test)
    labels = read_data(test).y
    assert (
        status == 0 and np.mean([int(line) for line in out.splitlines()] == labels) == facts["validation"]["accuracy"]
    )
    assert dimargin("evaluate", model, test, "--plot", tmp_path / "p.svg")[0] == 0
    assert facts["certificate"] in dimargin("info", model)[1]


def test_the_label_is_remembered_by_name(dimargin, csv, tmp_path):
    """Given by place once; another file has its columns in another order."""
    dimargin("train", csv, "-m", tmp_path / "m", "--label", "2")
    lines = [line.split(",") for line in csv.read_text().splitlines()]
    (tmp_path / "turned.csv").write_text("".join(f"{c},{b},{a}\n" for a, b, c in lines))
    for rows in (csv, tmp_path / "turned.csv"):
        assert json.loads(dimargin("evaluate", tmp_path / "m", rows, "--json")[1])["accuracy"] > 0.9


def test_a_model_of_a_table_reads_libsvm_text(dimargin, csv, tmp_path):
    X, y = make_moons(300, noise=0.2, random_state=0)
    (tmp_path / "rows").write_text("".join(f"{k} 1:{a!r} 2:{b!r}\n" for (a, b), k in zip(X.tolist(), y, strict=True)))
    csv.write_text(csv.read_text().replace("ham", "0").replace("spam", "1"))
    dimargin("train", csv, "-m", tmp_path / "m", "--label", "class")
    assert json.loads(dimargin("evaluate", tmp_path / "m", tmp_path / "rows", "--json")[1])["accuracy"] > 0.9


# ---- what people do wrong --------------------------------------------------------------------------------------------

TRAIN = "train train.csv --model m"
USAGE = {
    "no such file": ("train nowhere.csv --model m", "nowhere.csv"),
    "no model": ("train train.csv", "--model"),
    "unknown flag": (f"{TRAIN} --lambda 3", "--lambda"),
    "lam below zero": (f"{TRAIN} --loss odm --lam -1", "lam must be"),
    "text for a number": (f"{TRAIN} --tol small", "--tol"),
    "unknown strategy": (f"{TRAIN} --strategy magic", "'magic'"),
    "unknown loss": (f"{TRAIN} --loss log", "'log'"),
    "unknown scaling": (f"{TRAIN} --scale log", "log"),
    "unused parameter": (f"{TRAIN} --strategy exact --n-levels 2", "n_levels=2"),
    "option without strategy": (f"{TRAIN} --strategy-option a=1", "--strategy-option"),
    "unknown option": (f"{TRAIN} --strategy diodm --strategy-option a=1", "level_tol, sample_size"),
    "no such folder": ("train train.csv --model none/m", "none"),
    "weights that are no JSON": (f"{TRAIN} --class-weight {{ham}}", "--class-weight"),
    "scaling of a model to resume": (
        f"{TRAIN} --resume old.dimargin --scale none", "--scale none cannot be used with --resume"
    ),
    "seed": (f"{TRAIN} --random-state x", "--random-state"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", sorted(USAGE))
def test_bad_usage_is_status_2_and_says_why(dimargin, csv, monkeypatch, mistake):
    monkeypatch.chdir(csv.parent)
    arguments, expected = USAGE[mistake]
    if "--resume" in arguments:
        dimargin("train", csv, "--model", "old.dimargin", "--quiet")
    before = sorted(csv.parent.iterdir())
    status, out, err = dimargin(*arguments.split())
    unwrapped = words_of(err).replace(" ", "")
    assert status == 2 and not out and "".join(expected.split()) in unwrapped
    assert sorted(csv.parent.iterdir()) == before


FAILURES = {
    "no label column": (f"{TRAIN} --label sort", "'sort'"),
    "text among numbers": ("train text.csv --model m", "text.csv, line 3"),
    "one class": (f"{TRAIN} --label -1 --validate one.csv", "one.csv"),
    "no model": ("predict train.csv train.csv", "not a dimargin model file"),
    "other columns": ("predict old.dimargin other.csv", "'right'"),
    "unknown labels": ("evaluate old.dimargin one.csv", "one.csv"),
    "memory": (f"{TRAIN} --memory-limit 1000", "--memory-limit 1000 bytes is too small"),
    "other rows to resume": ("train shorter.csv --model m --resume old.dimargin", "shorter.csv"),
    "other rows to certify": ("info old.dimargin --certify shorter.csv", "a certificate needs all 300 rows"),
    "no label to evaluate": ("evaluate old.dimargin bare.csv", "bare.csv"),
    "picture of an unknown kind": ("evaluate old.dimargin train.csv --plot p.abc", "abc"),
}


@pytest.mark.parametrize("failure", sorted(FAILURES))
def test_a_failed_run_is_status_1_and_leaves_nothing(dimargin, csv, monkeypatch, failure):
    monkeypatch.chdir(csv.parent)
    dimargin("train", csv, "--model", "old.dimargin", "--quiet")
    (csv.parent / "text.csv").write_text("left,right,class\n1,2,ham\n1,x,spam\n")
    (csv.parent / "one.csv").write_text("left,right,class\n1,2,eggs\n")
    (csv.parent / "other.csv").write_text("left,wrong\n1,2\n")
    (csv.parent / "bare.csv").write_text("left,right\n1,2\n")
    write_moons(csv.parent / "shorter.csv", 299)
    before = {path.name: path.read_bytes() for path in csv.parent.iterdir()}
    arguments, expected = FAILURES[failure]
    status, out, err = dimargin(*arguments.split())
    assert status == 1 and not out and expected in err
    after = {path.name: path.read_bytes() for path in csv.parent.iterdir()}
    if failure == "one class":  # trained and saved before it is scored
        del after["m"]
    assert after == before


def test_quiet_and_no_terminal(dimargin, csv, tmp_path):
    assert dimargin("train", csv, "-m", tmp_path / "m", "--quiet") == (0, "", "")
    assert dimargin("evaluate", tmp_path / "m", csv, "--quiet")[2] == ""
    assert "\x1b" not in "".join(dimargin("train", csv, "-m", tmp_path / "m")[1:])


def test_a_time_limit_gives_a_model_and_a_warning(dimargin, tmp_path):
    csv = write_moons(tmp_path / "many.csv", 6000)
    flags = ["--loss", "odm", "--max-time", 0.05, "--tol", 1e-7, "--json"]
    status, out, err = dimargin("train", csv, "-m", tmp_path / "m", *flags)
    assert status == 0 and json.loads(out)["status"] == "max_time" and "warning: training stopped" in err


def test_resume_goes_on(dimargin, tmp_path):
    csv, first, second = write_moons(tmp_path / "many.csv", 3000), tmp_path / "first", tmp_path / "second"
    dimargin("train", csv, "-m", first, "--max-iter", 2, "--C", 100, "--max-time", 1000)
    status, out, _ = dimargin("train", csv, "-m", second, "--resume", first, "--max-iter", 1000, "--json")
    assert status == 0 and json.loads(out)["status"] == "converged"
    machine = dm.load(second)[-1]
    assert machine.C == 100 and machine.max_time is None
    assert machine.history_[0]["relative_gap"] == pytest.approx(dm.load(first)[-1].duality_gap_, rel=0.05)


def test_certify_upgrades_the_model(dimargin, csv, tmp_path):
    model = tmp_path / "m"
    dimargin("train", csv, "-m", model, "--strategy", "diodm", "--n-levels", 1, "--stop-level", 1)
    assert json.loads(dimargin("info", model, "--json")[1])["certificate"] == "partitioned"
    facts = json.loads(dimargin("info", model, "--certify", csv, "--json")[1])
    assert facts["certificate"] == dm.load(model)[-1].certificate_ == "global"
    said = " ".join(dimargin("info", model, "--certify", csv)[2].split())
    assert f"certified now on the 300 rows of {csv}, and stored in {model}: relative duality gap " in said
    assert f"{facts['relative_duality_gap']:.4g}, above the tolerance 0.001" in said
    assert "training rows" in facts["privacy"]


def test_a_picture(dimargin, csv, tmp_path):
    dimargin("train", csv, "-m", tmp_path / "m")
    status, out, _ = dimargin("evaluate", tmp_path / "m", csv, "--plot", tmp_path / "margins.png")
    assert status == 0 and "accuracy" in out and "true" in out
    assert (tmp_path / "margins.png").read_bytes().startswith(b"\x89PNG")


# ---- a process of its own --------------------------------------------------------------------------------------------


def command(*arguments):
    return [sys.executable, "-m", "dimargin", *map(str, arguments)]


@pytest.fixture(scope="module")
def long_work(tmp_path_factory):
    """Data whose fit takes far longer than the tests wait."""
    path = tmp_path_factory.mktemp("long") / "noise"
    rng = np.random.default_rng(0)
    X, y = rng.random((20_000, 10)), rng.integers(0, 2, 20_000)
    dump_svmlight_file(X, y, str(path), zero_based=False)
    return path


SLOW = ["--format", "libsvm", "--loss", "odm", "--lam", "1e8", "--tol", "1e-9", "--gamma", "2", "--n-jobs", "1"]


def wait_for_training(process):
    while "rows" not in process.stderr.readline():
        assert process.poll() is None
    time.sleep(2.5)
    assert process.poll() is None


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["exact", "diodm"])
def test_ctrl_c_saves_the_best_model(long_work, tmp_path, strategy):
    model = tmp_path / "m"
    with subprocess.Popen(
        command("train", long_work, "-m", model, "--strategy", strategy, *SLOW), stdout=-1, stderr=-1, text=True
    ) as process:
        wait_for_training(process)
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and "Interrupted" in err and "Traceback" not in err, err
    assert time.monotonic() - began < 30
    machine = dm.load(model)[-1]
    assert machine.status_ == "interrupted" and 0 < machine.duality_gap_ <= 1 + 1e-9
    resuming = f"resume with: dimargin train {long_work} --resume {model} --model {model} --format=libsvm"
    assert resuming in " ".join(err.split())


@pytest.mark.slow
def test_a_second_ctrl_c_leaves_without_a_model(long_work, tmp_path):
    with subprocess.Popen(
        command("train", long_work, "-m", tmp_path / "m", *SLOW), stdout=-1, stderr=-1, text=True
    ) as process:
        wait_for_training(process)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert not list(tmp_path.iterdir()) or dm.load(tmp_path / "m")  # the first may have been fast enough


@pytest.mark.slow
def test_a_terminal_shows_progress(csv, tmp_path):
    leader, follower = pty.openpty()
    with subprocess.Popen(
        command("train", csv, "-m", tmp_path / "m"),
        stdout=follower,
        stderr=follower,
        env={**os.environ, "TERM": "xterm"},
    ) as process:
        os.close(follower)
        shown = b""
        while True:
            try:
                part = os.read(leader, 4096)
            except OSError:
                break
            if not part:
                break
            shown += part
    os.close(leader)
    assert process.returncode == 0 and b"level 0: relative gap" in shown and b"\x1b[" in shown


@pytest.mark.slow
def test_completion_knows_the_commands():
    environment = {**os.environ, "_DIMARGIN_COMPLETE": "complete_bash", "COMP_WORDS": "dimargin pr", "COMP_CWORD": "1"}
    code = "import sys; sys.argv = ['dimargin']; from dimargin.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert "predict" in done.stdout


@pytest.mark.parametrize("loss", ["hinge", "linear_odm"])
@pytest.mark.parametrize("scale", ["minmax", "standard"])
def test_hashed_features_cost_nothing(dimargin, tmp_path, loss, scale):
    rng, largest = np.random.default_rng(0), 3 * 10**9
    rows = [f"{u > 0:d} 1:{u:.3f} {rng.integers(2, largest)}:1 {largest}:0.5\n" for u in rng.normal(size=60)]
    (tmp_path / "hashed").write_text("".join(rows))
    assert dimargin("train", tmp_path / "hashed", "-m", tmp_path / "m", "--loss", loss, "--scale", scale)[0] == 0
    model = dm.load(tmp_path / "m")
    assert type(model[0]).__name__ == "SparseScaler" and model.n_features_in_ == largest
    assert (tmp_path / "m").stat().st_size < 20_000
    status, out, _ = dimargin("evaluate", tmp_path / "m", tmp_path / "hashed", "--json")
    assert status == 0 and json.loads(out)["accuracy"] == 1
    status, out, _ = dimargin("info", tmp_path / "m", "--certify", tmp_path / "hashed", "--json")
    assert status == 0 and json.loads(out)["status"] == "converged"
