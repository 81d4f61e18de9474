"""What is said of jobs of Spark that were cancelled, and of sessions that have ended."""

import sys
import time
from threading import Thread
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark", reason="dimargin[spark] is not installed")

import spark_sessions
from py4j.protocol import Py4JNetworkError

from dimargin.spark.engine.jobs import Jobs, _cancellation, first_line
from dimargin.spark.engine.spark import SparkEngine

spark_sessions.travels(sys.modules[__name__])

SPARK = "org.apache.spark.SparkException"
TRACE = "\n\tat org.apache.spark.scheduler.DAGScheduler.handleJobCancellation(DAGScheduler.scala:4404)\n\tat java/a"
# what Spark 4.1 says, in sessions of both kinds
CANCELLED = {
    "all jobs": (
        f"An error occurred while calling o124.collectToPython.\n: {SPARK}: [SPARK_JOB_CANCELLED] "
        f"Job 5 cancelled as part of cancellation of all jobs SQLSTATE: XXKDA{TRACE}",
        "Job 5 cancelled as part of cancellation of all jobs",
    ),
    "shut down": (
        f"An error occurred while calling o819.getResult.\n: {SPARK}: Exception thrown in awaitResult: \n\tat a.b(c)\n"
        f"Caused by: {SPARK}: Job 23 cancelled because SparkContext was shut down{TRACE}",
        "Job 23 cancelled because SparkContext was shut down",
    ),
    "connect": (
        "(org.apache.spark.SparkSQLException) [OPERATION_CANCELED] Operation has been canceled. SQLSTATE: HY008\n\nJVM "
        f"stacktrace:{TRACE}",
        "Operation has been canceled",
    ),
    "connect, closed": (
        "[INVALID_HANDLE.SESSION_CLOSED] The handle 0683 is invalid. Session was closed. SQLSTATE: 08003",
        "Session was closed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CANCELLED)
def test_a_cancelled_job_is_a_line(case):
    text, reason = CANCELLED[case]
    found = _cancellation(ValueError(text), "dimargin: level 0: collect 2 shards")
    assert str(found) == f"the Spark job 'dimargin: level 0: collect 2 shards' was cancelled: {reason}"


def test_another_error_is_no_cancellation():
    for text in ("", "Job aborted due to stage failure", "[PATH_NOT_FOUND] Path does not exist: Job 3"):
        assert _cancellation(ValueError(text), "x") is None


class JavaError:
    def __init__(self, text, cause=None):
        self._text, self._cause = text, cause

    def toString(self):
        return self._text

    def getCause(self):
        return self._cause


def test_the_first_line_is_that_of_the_cause():
    error = ValueError("An error occurred while calling o1.toArrow.\n: org.apache.spark.SparkException")
    assert first_line(error) == "An error occurred while calling o1.toArrow."
    error.java_exception = JavaError("awaitResult:", JavaError("job", JavaError("ChecksumException: file:/a at 0\nx")))
    assert first_line(error) == "ChecksumException: file:/a at 0"
    assert first_line(ValueError()) == "ValueError"


def context_with(is_stopped):
    return SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=is_stopped)))


def gone():
    raise Py4JNetworkError("the Java process has ended")


STOPPED = {
    "stopped": SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None)),
    "stopped by Java": SimpleNamespace(sparkContext=context_with(lambda: True)),
    "killed": SimpleNamespace(sparkContext=context_with(gone)),
    "connect": SimpleNamespace(is_stopped=True),
}


@pytest.mark.parametrize("session", STOPPED.values(), ids=STOPPED)
def test_a_session_that_was_stopped_is_refused(session):
    with pytest.raises(RuntimeError, match="the Spark session of the data was stopped; start another one"):
        Jobs(session)


def test_whatever_fails_when_a_session_is_stopped_is_explained():
    engine = object.__new__(SparkEngine)
    engine._jobs = SimpleNamespace(is_stopped=True)
    with pytest.raises(RuntimeError, match="the Spark session was stopped before the work was done") as found, engine:
        raise AttributeError("'NoneType' object has no attribute 'sc'")
    assert found.value.__suppress_context__
    with pytest.raises(KeyboardInterrupt), engine:  # which is not Spark's
        engine._store = SimpleNamespace(close=lambda: None)
        raise KeyboardInterrupt


def asleep(number, folder):
    (folder / str(number)).touch()
    time.sleep(600)


@pytest.mark.slow
def test_all_jobs_are_cancelled_by_somebody_else(spark, tmp_path):
    tracker = spark_sessions.context().statusTracker()

    def cancel():
        while not list(tmp_path.iterdir()):
            time.sleep(0.05)
        (spark.sparkContext.cancelAllJobs if hasattr(spark, "sparkContext") else spark.interruptAll)()

    message = r"^the Spark job 'dimargin: collect 2 shards' was cancelled: .*"
    with pytest.raises(RuntimeError, match=message) as found, SparkEngine(spark) as engine:
        shards = engine.scatter([1, 2])
        Thread(target=cancel, daemon=True).start()
        shards.map(asleep, tmp_path).collect()
    assert "\n" not in str(found.value) and found.value.__cause__ is None
    while tracker.getActiveJobsIds():  # or the tasks would sleep on, and this test with them
        time.sleep(0.05)
