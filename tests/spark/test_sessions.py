"""Other sessions than the local one: executors that are processes, or have an environment, Spark Connect.

A process can have one session only, and a session takes its time: hence all tests of a kind in one
process.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import spark_sessions

HERE = Path(__file__).parent
ENGINE = "engine/test_spark_engine.py"
CONTRACT = "engine/test_contract.py"  # in a local session, too, whose tasks reach Python as those of a cluster do
LINEAR = "test_training.py::test_the_machine_is_the_one_of_the_same_rows_here[LinearODMClassifier-auto]"
ROUNDS = "test_training.py::test_every_other_machine_is_too[SVMClassifier-Exact(across_shards=True, working_set=150)2]"
RESUMED = "test_checkpoints.py::test_a_fit_goes_on_where_another_one_was_and_gives_the_same_machine"


@pytest.mark.nightly
@spark_sessions.needs_spark
@pytest.mark.parametrize(
    "mode, tests",
    [
        ("cluster", [ENGINE, "engine/lost_executors.py", "faults.py"]),
        ("connect", [CONTRACT, ENGINE, LINEAR, ROUNDS, f"{RESUMED}[diodm]"]),
        ("cluster", ["packed_environment.py"]),
    ],
    ids=["cluster", "connect", "packed"],
)
def test_sessions(mode, tests):
    command = [sys.executable, "-m", "pytest", "-qrfEs", "--show-capture=no", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "DIMARGIN_SPARK": mode}
    ended = subprocess.run(command, env=environment, cwd=HERE, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-20_000:] + ended.stderr[-5_000:]
    if " passed" not in ended.stdout:
        pytest.skip(next(line for line in ended.stdout.splitlines() if line.startswith("SKIPPED")))
