"""Every engine keeps the contract of shards; each kind of Spark session needs a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import spark_sessions

HERE = Path(__file__).parent


def run(engine, *files, **variables):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
    environment = {**os.environ, "DIMARGIN_TEST_ENGINE": engine, **variables}
    ended = subprocess.run(command, env=environment, cwd=HERE, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-20_000:] + ended.stderr[-5_000:]
    assert " passed" in ended.stdout


def test_threads_keep_the_contract():
    run("threads", "contract.py")


@pytest.mark.slow
@spark_sessions.needs_spark
@pytest.mark.parametrize("mode", ["cluster", "connect"])  # "local" is what tests/spark runs on
def test_spark_keeps_the_contract(mode):
    run(mode, "contract.py", "contract_spark.py")


@pytest.mark.slow
@spark_sessions.needs_spark
def test_no_engine_is_made_where_executors_have_another_environment(tmp_path):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="$DIMARGIN_TEST_FOUND:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    run("local", "contract_environment.py", PYSPARK_PYTHON=str(python))
