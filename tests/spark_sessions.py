"""Spark sessions for tests: on loopback addresses, with all their files in one folder."""

import os
import shutil
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest

MODES = ("local", "cluster", "connect")
MASTERS = {"local": "local[2]", "cluster": "local-cluster[2,1,1024]", "connect": "local[2]"}


def why_no_spark():
    """What Spark lacks here, for a test that skips; nothing if it can be started."""
    if find_spec("pyspark") is None:
        return "pyspark is not installed"
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java") if home is None else shutil.which("java", path=str(Path(home) / "bin"))
    return None if java else "Spark needs Java 17 or newer, and neither JAVA_HOME nor PATH leads to a java"


needs_spark = pytest.mark.skipif(why_no_spark() is not None, reason=str(why_no_spark()))


def session(mode, folder, **settings):
    """The one session that this process can have: classic ("local", "cluster") or of Spark Connect ("connect").

    Dots in the names of further settings are double underscores: ``session(mode, folder, spark__ui__enabled="true")``.
    Workers find what this process finds on PYTHONPATH; functions of test modules have to travel by value
    (`travels`).
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    if mode == "connect":
        os.environ["SPARK_TESTING"] = "1"  # a Connect server on a free port, which the session finds
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    builder = builder.remote(MASTERS[mode]) if mode == "connect" else builder.master(MASTERS[mode])
    settings = {name.replace("__", "."): value for name, value in settings.items()}
    for name, value in {**_settings(Path(folder)), **settings}.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Failed to set spark")  # Connect, of what was set before it started
        return builder.getOrCreate()


def _settings(folder):
    temporary = f"-Djava.io.tmpdir={folder} -Dderby.system.home={folder}"
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": temporary,
        "spark.executor.extraJavaOptions": temporary,
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "4",
        "spark.default.parallelism": "4",
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }


def travels(module):
    """Have Spark send the functions and classes of a module with the tasks, as it does with those of a notebook."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(module)


def context():
    """The classic context in this process, which is also what a Connect session of it is served by."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context


def n_cached():
    """Data sets that Spark caches."""
    return context()._jsc.sc().getPersistentRDDs().size()


def job_names():
    """What Spark's user interface says of every job: description and tags."""
    jobs = context()._jsc.sc().statusStore().jobsList(None)
    jobs = [jobs.apply(k) for k in range(jobs.size())]
    return [f"{job.description()} {job.jobTags()}" for job in jobs]
