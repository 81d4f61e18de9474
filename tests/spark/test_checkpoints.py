"""A fit that ends early, however it ends, and the next one, which goes on from its last checkpoint."""

import inspect
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import killed_driver
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from pyspark.sql import functions as F
from sklearn.base import clone
from sklearn.datasets import make_classification

import dimargin as dm
from dimargin.problems import losses
from dimargin.shards import parts
from dimargin.spark import ODMClassifier, checkpoints, training
from dimargin.spark.columns import Columns
from dimargin.spark.engine import spark_folder
from dimargin.spark.engine.jobs import Jobs
from dimargin.spark.engine.spark_folder import Folder
from dimargin.spark.engine.stored import Store
from dimargin.spark.training import train
from dimargin.strategies import Progress

COLUMNS = Columns("features", "label")
TREE = {"branching": 2, "n_levels": 2}
ODM = killed_driver.MACHINES["diodm"]
SVM = dm.SVMClassifier(C=2.0, gamma=0.3, tol=1e-6, random_state=0, **TREE)
LINEAR = dm.LinearODMClassifier(lam=100.0, tol=1e-6, random_state=0)
MACHINES = {
    **killed_driver.MACHINES,
    "dc": clone(SVM).set_params(strategy=dm.DivideAndConquer(sample_size=100)),
    "cascade": clone(SVM).set_params(strategy="cascade", fit_intercept=True, tol=1e-3),
    "landmark": clone(killed_driver.KERNEL).set_params(strategy="landmark", n_landmarks=30),
    "newton": LINEAR,
    "dsvrg": clone(LINEAR).set_params(solver=dm.LinearDSVRG(n_partitions=2), lam=10.0, tol=1e-2),
}


class Killed(BaseException):
    """The driver is gone."""


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    monkeypatch.setattr(parts, "_ROWS_OF_SHARD", 200)
    monkeypatch.setattr(training, "MAX_VALUES_OF_TASK", 0)
    monkeypatch.setattr(checkpoints.Checkpoints, "save_interval", 0.0)  # after every step


@pytest.fixture(scope="module")
def frame(spark):
    X, y = make_classification(600, 5, n_informative=4, n_redundant=0, flip_y=0.05, random_state=0)
    return spark.createDataFrame(
        pd.DataFrame({"features": list(X), "label": y.astype(float), "id": range(len(y))})
    ).cache()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "checkpoints"


@pytest.fixture
def ran(monkeypatch):
    """Names of the jobs."""
    names, act = [], Jobs.act

    def noted(self, action, operation):
        names.append(self.named(operation))
        return act(self, action, operation)

    monkeypatch.setattr(Jobs, "act", noted)
    return names


def killed_after(monkeypatch, n_checkpoints, *arguments, **options):
    """Train until so many checkpoints have been written."""
    write, left = checkpoints.Checkpoints._write, [n_checkpoints]

    def counted(self, results):
        write(self, results)
        left[0] -= 1
        if not left[0] and not self._next["finished"]:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(checkpoints.Checkpoints, "_write", counted)
        with pytest.raises(Killed):
            train(*arguments, **options)


class Levels(Progress):
    def __init__(self):
        self.ended = []

    def level_end(self, entry, found):
        self.ended.append(entry["level"])
        return False


def trained(machine, frame, **options):
    """The machine, and the levels that it reported."""
    levels = Levels()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = train(machine, frame, COLUMNS, levels, **options)
    return found, levels.ended


@pytest.fixture(scope="module")
def whole(frame):
    """A machine's fit that nothing has stopped; made once, for it is compared with often."""
    return cache(lambda name: trained(MACHINES[name], frame))


def assert_same(found, expected):
    for name in ("dual_coef_", "support_", "coef_", "intercept_", "objective_"):
        if name in vars(expected):
            assert_array_equal(getattr(found, name), getattr(expected, name))
    values = [[entry["kernel_evaluations"] for entry in machine.history_] for machine in (found, expected)]
    assert values[0] == values[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("exact", marks=pytest.mark.nightly), *sorted({*MACHINES} - {"exact"})])
def test_a_fit_goes_on_where_another_one_was_and_gives_the_same_machine(frame, folder, monkeypatch, whole, name):
    machine = MACHINES[name]
    expected, levels = whole(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        killed_after(monkeypatch, 2, machine, frame, COLUMNS, checkpoint_dir=str(folder))
        if name == "diodm":
            killed_after(monkeypatch, 1, machine, frame, COLUMNS, checkpoint_dir=str(folder))
    found, reported = trained(machine, frame, checkpoint_dir=str(folder))
    assert_same(found, expected)
    assert reported == levels


def test_every_loss_can_be_saved():
    named = [loss for loss in vars(losses).values() if inspect.isclass(loss) and issubclass(loss, losses.Loss)]
    own = [loss for loss in named if not inspect.isabstract(loss)]
    assert own
    for loss in own:
        given = loss(*range(1, 1 + len(fields(loss))))
        assert checkpoints.PACKING.unpack(checkpoints.PACKING.pack(given)) == given


@pytest.mark.slow
def test_the_jobs_of_an_earlier_driver_are_not_run_again(frame, folder, monkeypatch, ran):
    killed_after(monkeypatch, 3, ODM, frame, COLUMNS, checkpoint_dir=str(folder))
    assert any("level 2" in name for name in ran) and any("level 1" in name for name in ran)
    ran.clear()
    trained(ODM, frame, checkpoint_dir=str(folder))
    solves = [name for name in ran if "dimargin: level" in name]
    assert solves and all("level 0" in name for name in solves)


@pytest.mark.slow
def test_the_next_level_is_made_of_the_shards_that_were_saved(frame, folder, monkeypatch):
    killed_after(monkeypatch, 2, ODM, frame, COLUMNS, checkpoint_dir=str(folder))
    digests = json.loads(text_of(folder, "0001").read_text())["manifest"]["shards"]["digests"]
    for part in (folder / "0001" / "shards").glob("*.parquet"):
        part.unlink()
    monkeypatch.setattr(Store, "digests", lambda *arguments: digests)
    with pytest.raises(ValueError, match="shard 0 was sent nothing"):
        train(ODM, frame, COLUMNS, checkpoint_dir=str(folder))


@pytest.mark.slow
@pytest.mark.nightly_after(1)
@pytest.mark.parametrize(("name", "checkpoint"), [("diodm", "0001"), ("exact", "0003")])
def test_a_driver_that_is_killed_is_gone_on_with(frame, folder, whole, tmp_path, name, checkpoint):
    rows = tmp_path / "rows"
    frame.write.parquet(str(rows))
    here = Path(__file__)
    path = os.pathsep.join([str(here.parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, str(here.parent / "killed_driver.py"), name, str(rows), str(folder), str(tmp_path)]
    driver = subprocess.Popen(command, env=environment, start_new_session=True, stderr=subprocess.PIPE)
    try:
        while not list(folder.glob(f"{checkpoint}/manifest/*.txt")):
            assert driver.poll() is None, driver.stderr.read().decode()
            time.sleep(0.05)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.communicate()
    found, _ = trained(MACHINES[name], frame, checkpoint_dir=str(folder))
    assert_same(found, whole(name)[0])
    assert json.loads(next(folder.glob(f"{checkpoint}/manifest/*.txt")).read_text())["manifest"]["jobs"]


def text_of(folder, name):
    return next((folder / name / "manifest").glob("*.txt"))


def damage(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # what guards the files of a local disk


def manifest(**changes):
    made = {"format": 3, "id": "1", "finished": False} | changes
    return json.dumps({"sha256": checkpoints._digest(checkpoints._text(made).encode()), "manifest": made}).encode()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (manifest().replace(b"finished", b"f\xe9nished"), "'utf-8' codec can't decode"),
        (manifest()[:-9], "Expecting"),
        (manifest().replace(b"finished", b"finjshed"), "its checksum differs"),
        (b"\0" * 4096, "Expecting value"),
        (b"[" * 200_000, "maximum recursion depth"),
        (b"7" * 5000, "4300 digits"),
        (b"[1]", "list indices"),
        (b"null", "subscriptable"),
        (b"{}", "'manifest'"),
        (None, "it is empty, or too large"),
        (b"", "it is empty, or too large"),
        (manifest(format=4), "it has format 4, and this dimargin reads 3"),
    ],
)
def test_a_damaged_manifest_is_named(line, reason):
    class There(Folder):
        def lines(self, name):
            return {"0000": manifest(), "0001": line}

    engine = SimpleNamespace(folder=lambda path: There(None, path))
    message = (
        rf"checkpoint 'hdfs:/a/0001' is damaged: its manifest cannot be read: .*{reason}.*; delete 'hdfs:/a' to train"
    )
    with pytest.raises(ValueError, match=message):
        checkpoints.Checkpoints(engine, "hdfs:/a")


@pytest.mark.slow
def test_manifests_are_read_whatever_they_hold(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(spark_folder.Folder, "max_bytes_of_line", 1000)
    here = Folder(Jobs(spark), str(tmp_path))
    assert here.lines("manifest") == {}
    given = {"0000": "größe", "0001": "x", "0002": "x", "0003": "x", "0004": "x"}
    for name, text in given.items():
        (here / name / "manifest").write_line(text)
    broken = {"0001": b"\xff\0\n\n", "0002": b"", "0003": b"x" * 1001}
    for name, content in broken.items():
        text_of(tmp_path, name).write_bytes(content)
        text_of(tmp_path, name).with_name(f".{text_of(tmp_path, name).name}.crc").unlink()
    text_of(tmp_path, "0004").unlink()
    expected = {"0000": "größe\n".encode(), "0001": b"\xff\0\n\n", "0002": None, "0003": None}
    assert here.lines("manifest") == expected


@pytest.mark.slow
def test_a_manifest_that_the_file_system_finds_damaged_is_named(frame, folder, monkeypatch):
    killed_after(monkeypatch, 2, ODM, frame, COLUMNS, checkpoint_dir=str(folder))
    text = text_of(folder, "0001")
    text.write_bytes(text.read_bytes().replace(b"finished", b"f\xe9nished"))  # and its checksum beside it is as it was
    with pytest.raises(
        ValueError, match=r"^checkpoint '.*0001' is damaged: its manifest cannot be read: .*; delete '"
    ) as found:
        train(ODM, frame, COLUMNS, checkpoint_dir=str(folder))
    assert "\n" not in str(found.value) and found.value.__cause__ is None


@pytest.mark.slow
def test_damaged_checkpoints_are_refused(frame, folder, monkeypatch):
    killed_after(monkeypatch, 2, ODM, frame, COLUMNS, checkpoint_dir=str(folder))

    def refused(path, reason):
        whole = path.read_bytes()
        damage(path)
        with pytest.raises(ValueError, match=rf"checkpoint '.*000\d' is damaged: .*{reason}.*; delete"):
            train(ODM, frame, COLUMNS, checkpoint_dir=str(folder))
        path.write_bytes(whole)

    refused(text_of(folder, "0001"), "manifest cannot be read")
    refused(text_of(folder, "0000"), "manifest cannot be read")
    for name in ("results", "shards"):
        largest = max((folder / "0001" / name).glob("*.parquet"), key=lambda path: path.stat().st_size)
        refused(largest, f"its {name}")
    for part in (folder / "0001" / "shards").glob("*.parquet"):
        part.unlink()
    with pytest.raises(ValueError, match="its shards do not have the checksums"):
        train(ODM, frame, COLUMNS, checkpoint_dir=str(folder))
    text = text_of(folder, "0000")
    written = json.loads(text.read_text())
    written["manifest"]["format"] = 1
    written["sha256"] = checkpoints._digest(checkpoints._text(written["manifest"]).encode())
    text.write_text(json.dumps(written))
    text.with_name(f".{text.name}.crc").unlink(missing_ok=True)
    with pytest.raises(ValueError, match="format 1, and this dimargin reads 3"):
        train(ODM, frame, COLUMNS, checkpoint_dir=str(folder))


@pytest.mark.slow
def test_checkpoints_of_another_fit_are_refused(frame, folder, whole, monkeypatch):
    killed_after(monkeypatch, 2, ODM, frame, COLUMNS, checkpoint_dir=str(folder))

    def refused(match, machine=ODM, frame=frame):
        with pytest.raises(ValueError, match=f"holds checkpoints of another fit: {match}; use another folder"):
            train(machine, frame, COLUMNS, checkpoint_dir=str(folder))

    refused("lam is 100.0 there and 10.0 here", clone(ODM).set_params(lam=10.0))
    refused(r"strategy is 'diodm' there and DiODM\(.*\) here", clone(ODM).set_params(strategy=dm.DiODM(level_tol=0.2)))
    refused("random_state is 0 there and 1 here", clone(ODM).set_params(random_state=1))
    refused("machine is ODMClassifier there and SVMClassifier here", SVM)
    refused("rows is 600 there and 599 here", frame=frame.where("id > 0"))
    moved = F.transform("features", lambda x: F.when(F.col("id") == 3, x * 1.0001).otherwise(x))
    refused("data is .* there and .* here", frame=frame.withColumn("features", moved))
    found, _ = trained(clone(ODM).set_params(max_time=600.0), frame, checkpoint_dir=str(folder))
    assert_same(found, whole("diodm")[0])


@pytest.mark.slow
def test_a_checkpoint_counts_once_its_manifest_is_there(frame, folder, whole, monkeypatch):
    def killed(self, text):
        raise Killed

    killed_after(monkeypatch, 2, ODM, frame, COLUMNS, checkpoint_dir=str(folder))
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(Folder, "write_line", killed)
        train(ODM, frame, COLUMNS, checkpoint_dir=str(folder))
    assert (folder / "0002" / "shards").exists() and not (folder / "0002" / "manifest").exists()
    found, _ = trained(ODM, frame, checkpoint_dir=str(folder))
    assert_same(found, whole("diodm")[0])


@pytest.mark.slow
def test_data_of_the_same_sums_are_not_the_same_data(spark, folder, monkeypatch):
    rows = [([float(k), float(k % 3)], float(k % 2)) for k in range(40)]
    names = ["features", "label"]
    killed_after(monkeypatch, 1, LINEAR, spark.createDataFrame(rows, names), COLUMNS, checkpoint_dir=str(folder))
    rows[0], rows[2] = ([0.0, 2.0], 0.0), ([2.0, 0.0], 0.0)
    with pytest.raises(ValueError, match=r"data is .* there and .* here"):
        train(LINEAR, spark.createDataFrame(rows, names), COLUMNS, checkpoint_dir=str(folder))


@pytest.mark.slow
def test_a_folder_is_free_when_its_fit_has_ended(frame, folder, monkeypatch, ran):
    model = ODMClassifier(lam=100.0, gamma=0.3, strategy="diodm", branching=2, nLevels=2, seed=0)
    model.setCheckpointDir(str(folder)).fit(frame)
    assert sum(path.stat().st_size for path in folder.glob("*/shards/*.parquet")) < 10_000  # columns without rows
    other = clone(ODM).set_params(lam=10.0)
    killed_after(monkeypatch, 2, other, frame, COLUMNS, checkpoint_dir=str(folder))
    assert (folder / "0003" / "manifest").exists()  # of the fit before
    assert [path for path in folder.rglob("*.parquet") if path.stat().st_mode & 0o077] == [], "others can read rows"
    ran.clear()
    found, _ = trained(other, frame, checkpoint_dir=str(folder))
    assert not any("level 2" in name for name in ran)
    assert_same(found, trained(other, frame)[0])


@pytest.mark.slow
def test_a_seed_that_was_drawn_is_drawn_once(frame, folder, monkeypatch):
    machine = clone(ODM).set_params(random_state=None)
    killed_after(monkeypatch, 2, machine, frame, COLUMNS, checkpoint_dir=str(folder))
    found, _ = trained(machine, frame, checkpoint_dir=str(folder))
    seed = json.loads(text_of(folder, "0000").read_text())["manifest"]["fit"]["seed"]
    monkeypatch.setattr("dimargin.spark.training.seed_of", lambda random_state: seed)
    assert_same(found, trained(machine, frame)[0])


@pytest.mark.slow
def test_a_time_limit_ends_no_fit_before_the_last_checkpoint(frame, folder, whole, monkeypatch):
    killed_after(monkeypatch, 3, ODM, frame, COLUMNS, checkpoint_dir=str(folder))
    found, levels = trained(clone(ODM).set_params(max_time=1e-3), frame, checkpoint_dir=str(folder))
    assert levels == [2, 1]
    assert found.status_ == "max_time" and found.certificate_ == "partitioned"
    expected, _ = whole("diodm")
    assert found.objective_ == pytest.approx(expected.history_[1]["objective"], rel=1e-9)  # raised by its rounding
    assert found.score(*rows_of(frame)) > 0.95


@pytest.mark.slow
def test_a_time_limit_may_take_another_course(frame, folder, monkeypatch):
    machine = MACHINES["landmark"]
    killed_after(monkeypatch, 4, machine, frame, COLUMNS, checkpoint_dir=str(folder))
    found, _ = trained(clone(machine).set_params(max_time=1e-3), frame, checkpoint_dir=str(folder))
    assert found.status_ == "max_time" and found.duality_gap_ > machine.tol


def rows_of(frame):
    table = frame.toPandas()
    return np.array(table["features"].tolist()), table["label"]
