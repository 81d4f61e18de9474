"""``dimargin train --engine spark``, beside the same command without it."""

import bz2
import json
import os
import signal
import subprocess
import sys
import threading
import time
from threading import Event, Thread

import numpy as np
import pandas as pd
import pytest
import spark_sessions
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_moons
from text_files import words_of

import dimargin as dm
from dimargin.cli.spark_engine import messages_until
from dimargin.io.data import read_data
from dimargin.io.models import load_with_header

SPARK = ["--engine", "spark"]
SEED = ["--random-state", 0]


def moons(n=400):
    X, y = make_moons(n, noise=0.2, random_state=0)
    return pd.DataFrame({"left": X[:, 0], "right": X[:, 1], "class": np.array(["ham", "spam"])[y]})


@pytest.fixture
def csv(tmp_path):
    moons().to_csv(tmp_path / "train.csv", index=False)
    return tmp_path / "train.csv"


@pytest.mark.slow
def test_the_model_is_that_of_the_command_without_spark(dimargin, spark, csv, tmp_path):
    flags = [*SEED, "--strategy", "diodm", "--n-levels", 1, "--tol", 1e-5, "--C", 1]
    flags += ["--class-weight", '{"ham": 2, "spam": 1}']
    here, there = tmp_path / "here", tmp_path / "there"
    last, n_cached = spark_sessions.last_job(), spark_sessions.n_cached()
    dimargin("train", csv, "-m", here, "--json", *flags)
    status, out, err = dimargin("train", csv, "-m", there, *SPARK, "--json", "--validate", csv, *flags)
    assert status == 0, err
    facts = json.loads(out)
    assert facts["rows"] == 400 and facts["classes"] == ["ham", "spam"] and facts["certificate"] == "global"
    assert facts["validation"]["accuracy"] > 0.9 and facts["kernel_evaluations"] > 0
    found, expected, X = dm.load(there), dm.load(here), read_data(csv).X
    assert_allclose(found[-1].objective_, expected[-1].objective_, rtol=1e-4)
    assert_array_equal(found.predict(X), expected.predict(X))
    assert found[-1].get_params() == expected[-1].get_params()
    assert found[-1].feature_names_in_.tolist() == found[0].feature_names_in_.tolist() == ["left", "right"]
    assert vars(found[0]).keys() == vars(expected[0]).keys()
    assert_array_equal(found[0].data_min_, expected[0].data_min_)
    assert json.loads(dimargin("evaluate", there, csv, "--json")[1])["accuracy"] == facts["validation"]["accuracy"]
    assert json.loads(dimargin("info", there, "--json")[1])["scaling"] == "MinMaxScaler"
    # what the driver shows, and what the user interface of Spark does
    lines = [line for line in err.splitlines() if line.startswith("level")]
    assert len(lines) == 2 and lines[0].startswith("level 1: 4 partitions, objective") and "train.csv: 400 rows" in err
    assert lines[1].startswith("level 0: 1 partition, objective") and "(global)" in lines[1] and lines[1].endswith(" s")
    names = spark_sessions.job_names(last)
    assert names and all("dimargin: " in name for name in names)
    for text in ("open", "look at", "before the first level", "level 1", "level 0"):
        assert any(f"dimargin: {text}" in name for name in names)
    assert spark_sessions.n_cached() == n_cached


@pytest.mark.slow
def test_weights_of_rows(dimargin, spark, tmp_path):
    rows = moons().assign(w=np.arange(400) % 4)
    rows.to_csv(tmp_path / "train.csv", index=False)
    flags = [*SEED, "--loss", "hinge", "--strategy", "diodm", "--n-levels", 1, "--tol", 1e-6, "--weight", "w"]
    models = []
    for name, more in (("here", []), ("there", SPARK)):
        status, _, error = dimargin("train", tmp_path / "train.csv", "-m", tmp_path / name, "-q", *flags, *more)
        assert status == 0, error
        assert load_with_header(tmp_path / name)[1]["notes"]["weight"] == "w"
        models.append(dm.load(tmp_path / name))
    assert_allclose(models[1][-1].objective_, models[0][-1].objective_, rtol=1e-5)
    X = rows[["left", "right"]]
    assert_allclose(models[1].decision_function(X), models[0].decision_function(X), atol=1e-2)


@pytest.mark.slow
def test_sparse_text_and_a_linear_machine_in_silence(dimargin, spark, tmp_path):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((300, 20)) < 0.2, rng.normal(size=(300, 20)), 0)
    y = np.array([3, -1, 7])[X[:, :3].argmax(axis=1)]
    rows = (" ".join(f"{j}:{v!r}" for j, v in enumerate(row) if v) for row in X.tolist())
    text = "".join(f"{label} {row}\n" for label, row in zip(y, rows, strict=True))
    (tmp_path / "rows.bz2").write_bytes(bz2.compress(text.encode()))
    flags = ["--loss", "linear_odm", "--class-weight", '{"7": 3}', *SEED]
    dimargin("train", tmp_path / "rows.bz2", "-m", tmp_path / "here", *flags)
    done = dimargin("train", tmp_path / "rows.bz2", "-m", tmp_path / "there", *SPARK, "--quiet", *flags)
    assert done == (0, "", "")
    found, expected = dm.load(tmp_path / "there"), dm.load(tmp_path / "here")
    assert found[-1].classes_.tolist() == [-1, 3, 7] and found[-1].class_weight == {7: 3.0}
    assert_array_equal(found[0].max_abs_, expected[0].max_abs_)
    assert load_with_header(tmp_path / "there")[1]["notes"] == {"label": None, "zero_based": True}
    assert_allclose(found[-1].coef_, expected[-1].coef_, atol=1e-2 * abs(expected[-1].coef_).max())
    accuracy = [
        json.loads(dimargin("evaluate", tmp_path / name, tmp_path / "rows.bz2", "--json")[1])["accuracy"]
        for name in ("here", "there")
    ]
    assert accuracy[0] == accuracy[1] > 0.7


@pytest.mark.slow
def test_ctrl_c_cancels_the_job_and_saves_nothing(dimargin, spark, csv, tmp_path):
    def interrupt():
        while not any("level" in name for name in spark_sessions.job_names(last)):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    last, n_cached = spark_sessions.last_job(), spark_sessions.n_cached()
    before = signal.getsignal(signal.SIGINT)
    Thread(target=interrupt, daemon=True).start()
    try:
        status, out, err = dimargin("train", csv, "-m", tmp_path / "m", *SPARK, "--strategy", "landmark", "--tol", 1e-9)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (status, out) == (1, "") and "dimargin: interrupted, nothing was saved" in err
    tracker = spark_sessions.context().statusTracker()
    while tracker.getActiveJobsIds():
        time.sleep(0.05)
    assert spark_sessions.n_cached() == n_cached and [path.name for path in tmp_path.iterdir()] == ["train.csv"]


def test_what_cannot_be_trained_on_is_a_line(dimargin, spark, tmp_path):
    (tmp_path / "null.csv").write_text("a,class\n1,x\n,y\n")
    for data, label, fault in (
        ("null.csv", None, "null.csv, line ',y': column 'a' is missing; a finite number expected"),
        ("null.csv", "kind", "no label column 'kind'"),
        ("nowhere.csv", None, "nowhere.csv: Spark finds no such file or folder"),
        ("hdfs://nowhere.invalid/train.csv", None, "nowhere.invalid"),
    ):
        path = data if "://" in data else tmp_path / data
        flags = [] if label is None else ["--label", label]
        status, out, err = dimargin("train", path, "-m", tmp_path / "m", *SPARK, *flags)
        assert (status, out) == (1, "") and fault in err and err.splitlines()[-1].startswith("dimargin: ")
    assert [path.name for path in tmp_path.iterdir()] == ["null.csv"]
    status, _, err = dimargin("train", tmp_path / "null.csv", "-m", tmp_path / "m", *SPARK, "--master", "local[1]")
    assert status == 1 and "this process already has a Spark session" in err


# ---- without a session -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "fault"),
    [
        (["--master", "local[2]"], "--master needs --engine spark"),
        (["--spark-conf", "spark.executor.memory=1g"], "--spark-conf needs --engine spark"),
        (["--checkpoint-dir", "there"], "--checkpoint-dir needs --engine spark"),
        ([*SPARK, "--spark-conf", "memory"], "--spark-conf 'memory': expected NAME=VALUE"),
        ([*SPARK, "--resume", "train.csv"], "not a dimargin model file"),
        ([*SPARK, "--resume", "old"], "--resume cannot be used with --engine spark"),
        ([*SPARK, "--n-jobs", 2], "--n-jobs cannot be used with --engine spark"),
        ([*SPARK, "--kernel", "precomputed"], "--kernel precomputed cannot be used with --engine spark"),
        ([*SPARK, "--C", -1], "C must be"),
        (["--engine", "magic"], "magic"),
    ],
)
def test_wrong_usage(dimargin, csv, monkeypatch, flags, fault):
    monkeypatch.chdir(csv.parent)
    if "old" in flags:
        dimargin("train", csv, "-m", "old", "--quiet")
    status, out, err = dimargin("train", "train.csv", "-m", "m", *flags)
    assert not out and fault in words_of(err) and not (csv.parent / "m").exists()
    assert status == (1 if "train.csv" in flags else 2)


def command(*arguments, script="from dimargin.cli import main; main()", **environment):
    arguments = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(
        arguments, capture_output=True, text=True, timeout=120, env={**os.environ, **environment}, check=False
    )


@pytest.mark.slow
def test_without_pyspark_or_java_a_line_says_what_to_install(csv, tmp_path):
    train = ["train", csv, "-m", tmp_path / "m", *SPARK]
    without = "import sys; sys.modules['pyspark'] = None; from dimargin.cli import main; main()"
    done = command(*train, script=without)
    needed = 'dimargin: --engine spark needs the extra "spark": pip install "dimargin[spark]"\n'
    assert (done.returncode, done.stdout, done.stderr) == (2, "", needed)
    if spark_sessions.find_spec("pyspark"):
        done = command(*train, JAVA_HOME=str(tmp_path))
        assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done.stderr
        assert f"--engine spark needs Java 17 or newer, which was not found by JAVA_HOME={tmp_path}" in done.stderr


def test_what_is_started_falls_silent_when_the_session_ends(capfd):
    says = "import sys; print('before', file=sys.stderr, flush=True); input(); print('after', file=sys.stderr)"
    ending, others = Event(), set(threading.enumerate())
    with messages_until(ending):
        child = subprocess.Popen([sys.executable, "-c", says], stdin=subprocess.PIPE)
    shown = ""
    while "before" not in shown:
        shown += capfd.readouterr().err
    ending.set()
    child.communicate(b"\n")
    for forwarding in set(threading.enumerate()) - others:
        forwarding.join(10)
    os.write(2, b"our own\n")
    assert child.returncode == 0 and capfd.readouterr().err == "our own\n"


AND_THEN = """
import sys
from dimargin.cli import main
try:
    main()
finally:
    from pyspark import SparkContext
    print("session:", SparkContext._active_spark_context, file=sys.stderr)
"""


@pytest.mark.nightly
@spark_sessions.needs_spark
def test_a_session_of_its_own(tmp_path):
    """From a folder of Parquet to a model, in a process of its own."""
    rows = moons()
    (tmp_path / "train.parquet").mkdir()
    rows[:150].to_parquet(tmp_path / "train.parquet" / "0.parquet")
    rows[150:].to_parquet(tmp_path / "train.parquet" / "1.parquet")
    settings = {
        "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1",
        "spark.local.dir": tmp_path / "local", "spark.sql.codegen.wholeStage": "false",
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={tmp_path} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.eventLog.enabled": "true", "spark.eventLog.dir": tmp_path,
        "spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false",
    }  # fmt: skip
    conf = [part for name, value in settings.items() for part in ("--spark-conf", f"{name}={value}")]
    flags = ["--master", "local[1]", "--loss", "linear_odm", "--max-iter", 2, "--json"]
    arguments = ["train", tmp_path / "train.parquet", "-m", tmp_path / "m", *SPARK, *flags, *conf]
    arguments += ["--checkpoint-dir", tmp_path / "checkpoints"]
    done = command(*arguments, script=AND_THEN, SPARK_LOCAL_IP="127.0.0.1")
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert (tmp_path / "checkpoints" / "0000" / "manifest").exists()
    assert json.loads(done.stdout)["status"] == "max_iter" and "Stage" not in done.stderr
    assert " at local[1]" in done.stderr and "level 0: 1 partition" in done.stderr
    assert done.stderr.endswith("session: None\n")
    (log,) = tmp_path.glob("local-*")
    jobs = [json.loads(line) for line in log.read_text().splitlines() if "SparkListenerJobStart" in line]
    assert jobs and all(job["Properties"]["spark.job.description"].startswith("dimargin: ") for job in jobs)
    assert dm.load(tmp_path / "m")[-1].feature_names_in_.tolist() == ["left", "right"]
