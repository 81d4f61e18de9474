"""Fits that lose an executor in each of their phases. test_sessions.py runs this with executors of their own."""

import os
import signal
import time
from functools import cache
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pandas as pd
import pytest
import spark_sessions
from numpy.testing import assert_array_equal
from sklearn.datasets import make_classification

import dimargin as dm
from dimargin.shards import parts
from dimargin.spark.columns import Columns
from dimargin.spark.training import train

MACHINE = dm.ODMClassifier(lam=100.0, gamma=0.3, tol=1e-4, random_state=0, strategy="diodm", branching=2, n_levels=2)
ROUNDS = dm.ODMClassifier(
    lam=100.0, gamma=0.3, tol=1e-3, random_state=0, strategy=dm.Exact(across_shards=True, working_set=1500)
)
PHASES = {  # machines, and the names of their jobs
    "partitioning and merge": (MACHINE, ["deal rows to shards", "level 1, 2 partitions"]),
    "leaves and level 0": (MACHINE, ["level 2, 4 partitions", "level 0"]),
    "rounds across shards": (ROUNDS, ["level 0: collect", "level 0: aggregate"]),
}


@pytest.fixture(scope="module")
def frame(spark):
    X, y = make_classification(6000, 8, n_informative=6, n_redundant=0, flip_y=0.05, random_state=0)
    return spark.createDataFrame(pd.DataFrame({"features": list(X), "label": y.astype(float)})).repartition(4).cache()


@pytest.fixture(scope="module")
def expected(frame):
    return cache(lambda machine: train(machine, frame, Columns("features", "label")))


@pytest.fixture(autouse=True)
def several_shards(monkeypatch):
    monkeypatch.setattr(parts, "_ROWS_OF_SHARD", 1000)


def executors():
    """Processes of the executors of this session."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
        except OSError:  # it has ended
            continue
        if b"CoarseGrainedExecutorBackend" in command and OURS.encode() in environment.split(b"\0"):
            found.append(int(folder.name))
    return found


OURS = f"DIMARGIN_TEST={os.getpid()}"


class Killer(Thread):
    """Kills an executor as soon as a job of each phase runs."""

    def __init__(self, phases):
        super().__init__(daemon=True)
        self.phases, self.ended, self.killed = list(phases), Event(), []

    def run(self):
        while self.phases and not self.ended.wait(0.01):
            if any(self.phases[0] in name for name in spark_sessions.running_jobs()):
                self.phases.pop(0)
                self.killed.append(executors()[0])
                os.kill(self.killed[-1], signal.SIGKILL)


@pytest.mark.parametrize("phases", PHASES)
def test_an_executor_is_killed_in_the_phases_of(frame, expected, phases):
    while len(executors()) < 2:  # until the one before has been replaced
        time.sleep(0.1)
    machine, jobs = PHASES[phases]
    killer = Killer(jobs)
    killer.start()
    found = train(machine, frame, Columns("features", "label"))
    killer.ended.set()
    killer.join()
    assert len(set(killer.killed)) == 2 and not set(killer.killed) & set(executors())
    for name in ("dual_coef_", "support_", "support_vectors_", "objective_"):
        assert_array_equal(getattr(found, name), getattr(expected(machine), name))
    assert found.status_ == "converged" and np.isfinite(found.duality_gap_)
