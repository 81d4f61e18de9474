"""Spark sessions for tests: on loopback addresses, with all their files in one folder."""

import os
import shutil
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir

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

    Dots in the names of further settings are double underscores:
    ``session(mode, folder, spark__ui__enabled="true")``. Workers find what this process finds on
    PYTHONPATH; functions of test modules have to travel by value (`travels`).
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


def stop(spark):
    """End a session, and remove what a cluster on this machine leaves in the folder of Spark itself."""
    application = getattr(context(), "applicationId", None)
    spark.stop()
    if application is not None:
        shutil.rmtree(Path(find_spec("pyspark").origin).parent / "work" / application, ignore_errors=True)


def _settings(folder):
    # short lives: what a session compiles well, or plans to run fast, it seldom runs again
    temporary = f"-Djava.io.tmpdir={folder} -Dderby.system.home={folder} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
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
        "spark.python.unix.domain.socket.enabled": str(len(gettempdir()) < 50).lower(),  # a path has 108 bytes
        "spark.python.unix.domain.socket.dir": gettempdir(),
        "spark.python.task.killTimeout": "200ms",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        # clusters that begin in the same second would else have one folder, which the first to end
        # removes
        "spark.deploy.appIdPattern": f"app-%s-%04d-{os.getpid()}",
        "spark.executorEnv.DIMARGIN_TEST": str(os.getpid()),
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


def cached():
    """Numbers of the data sets that Spark caches."""
    sets = context()._jsc.sc().getPersistentRDDs().keys().toSeq()
    return {sets.apply(k) for k in range(sets.size())}


def n_cached():
    """How many data sets Spark caches."""
    return len(cached())


def job_names(after=-1):
    """What Spark's user interface says of every job after that number, the last first: description and tags."""
    return [f"{job.description()} {job.jobTags()}" for job in _jobs() if job.jobId() > after]


def running_jobs():
    """Descriptions of the jobs that run now."""
    return [f"{job.description()}" for job in _jobs() if str(job.status()) == "RUNNING"]


def last_job():
    """Its number, which counts all jobs of the context; -1 before the first."""
    return max((job.jobId() for job in _jobs()), default=-1)


def _jobs():
    jobs = context()._jsc.sc().statusStore().jobsList(None)
    return [jobs.apply(k) for k in range(jobs.size())]
