"""Jobs of a Spark session, classic or Connect: named, counted, and cancelled on an interrupt."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import version
from threading import Lock, Thread
from typing import Any, TypeVar, cast
from uuid import uuid4
from weakref import WeakKeyDictionary

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

Result = TypeVar("Result")

_REMEDY_TEXT = (
    "ship this environment to the executors (venv-pack or conda-pack with spark.archives, and PYSPARK_PYTHON), or "
    "install the same versions there, and set PYSPARK_PYTHON to that Python before the session starts; otherwise Spark "
    f"uses the python3 of PATH (on this machine {sys.executable} has dimargin)"
)


class _SwitchedOff:
    """Context in which a Boolean setting of a session is off; the last of several users restores it."""

    def __init__(self, name: str) -> None:
        self.name, self.lock = name, Lock()
        self.users: WeakKeyDictionary[SparkSession, tuple[int, str]] = WeakKeyDictionary()

    @contextmanager
    def __call__(self, spark: SparkSession) -> Iterator[None]:
        with self.lock:
            users, before = self.users.get(spark) or (0, spark.conf.get(self.name))
            if users == 0:
                spark.conf.set(self.name, "false")
            self.users[spark] = users + 1, before
        try:
            yield
        finally:
            with self.lock:
                users, before = self.users.pop(spark)
                if users > 1:
                    self.users[spark] = users - 1, before
                else:
                    spark.conf.set(self.name, before)


# Jobs over cached frames need this: with adaptive execution, Spark keeps the plan of a cached frame
# twice, each with the plans of the frames it is made of, so that there are 2^n plans after n steps.
plain_plans = _SwitchedOff("spark.sql.adaptive.enabled")
# Shuffles of shards need this: after the loss of an executor, its tasks run again and may send
# other bytes, since the order of rows, batches and times may differ. The shards made from these are
# the same, but since Spark 4.2 such a job would end with an error.
other_bytes_again = _SwitchedOff("spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch")


class Jobs:
    """Runner and counter of the jobs of a session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.count = 0  # Number of jobs (Spark's actions) run so far.
        self.received_bytes = 0  # Bytes that the driver received from the jobs.
        context = self._context = getattr(spark, "sparkContext", None)  # A Connect session has no context.
        if self.is_stopped:
            raise RuntimeError("the Spark session of the data was stopped; start another one, and read the data in it")
        self.threads_of_a_task = int(spark.conf.get("spark.task.cpus", "1") or 1)
        if context is None:
            self._tags = spark.addTag, spark.removeTag, spark.interruptTag
        else:
            self._tags = context.addJobTag, context.removeJobTag, context.cancelJobsWithTag
        self._texts: list[str] = []
        self._memory: int | None = None  # Result of `check`.

    @contextmanager
    def describe(self, text: str) -> Iterator[None]:
        """Describe the jobs inside this context in Spark's user interface."""
        self._texts.append(text)
        try:
            yield
        finally:
            self._texts.pop()

    def named(self, operation: str) -> str:
        """Return the name of a job in Spark's user interface, with the current descriptions."""
        return f"dimargin: {': '.join([*self._texts, operation])}"

    def run(self, frame: DataFrame, operation: str) -> pa.Table:
        """Return the rows of a frame, in one job, after `check`, because the job may unpickle our tasks."""
        self.check()
        table = self.act(frame.toArrow, operation)
        self.received_bytes += table.nbytes
        return table

    def query(self, questions: Sequence[tuple[DataFrame, str]]) -> list[list[Row]]:
        """Return the rows of small frames, in concurrent jobs, together with `check` if it has not run yet."""
        actions: list[tuple[Callable[[], Any], str]] = [(frame.collect, operation) for frame, operation in questions]
        if self._memory is not None:
            return self.act_together(actions)
        *found, self._memory = self.act_together([*actions, (self._environment_check(), "check")])
        return found

    def act(self, action: Callable[[], Result], operation: str) -> Result:
        """Run an action of one job, and return its result; an interrupt of this thread cancels the job."""
        return cast(Result, self.act_together([(action, operation)])[0])

    def act_together(self, actions: Sequence[tuple[Callable[[], Any], str]]) -> list[Any]:
        """Run actions of one job each concurrently, and return their results; an interrupt cancels the jobs.

        If several fail, the exception of the first is raised.
        """
        self.count += len(actions)
        outcomes = self._outcomes([(action, self.named(operation)) for action, operation in actions])
        results, outcome = [], None
        try:
            for outcome in outcomes:
                results.append(outcome.result())
            return results
        finally:
            del outcomes, outcome  # Otherwise their exceptions would keep themselves and their callers' shards alive.

    def _outcomes(self, actions: Sequence[tuple[Callable[[], Any], str]]) -> list[Future[Any]]:
        """Run actions in threads, because Spark's own wait for a job cannot be interrupted."""
        started = list[tuple[Thread, Future[Any], str]]()
        cancel = self._tags[2]
        try:
            for action, name in actions:
                started.append(self._start_action(action, name))
            for thread, _, _ in started:
                thread.join()
        except BaseException:
            for _, _, tag in started:
                cancel(tag)
            raise
        return [outcome for _, outcome, _ in started]

    def _start_action(self, action: Callable[[], Any], name: str) -> tuple[Thread, Future[Any], str]:
        """Start a thread that runs an action; return it with the future of its outcome and the tag of its job."""
        outcome: Future[Any] = Future()

        def work() -> None:
            try:
                if self._context is not None:
                    self._context.setJobDescription(name)
                outcome.set_result(action())
            except BaseException as error:
                outcome.set_exception(_cancellation(error, name) or error)

        tag = f"{name.replace(',', ';')} [{uuid4().hex[:8]}]"
        add, remove, cancel = self._tags
        add(tag)
        try:
            thread = InheritableThread(work, session=self.spark, daemon=True)
            thread.start()  # The thread inherits the tag.
        except BaseException:
            cancel(tag)
            raise
        finally:
            remove(tag)
        return thread, outcome, tag

    @property
    def is_stopped(self) -> bool:
        """Return whether the session has ended."""
        if self._context is None:
            return bool(self.spark.is_stopped)
        try:
            return self._context._jsc is None or bool(self._context._jsc.sc().isStopped())
        except (OSError, Py4JError):  # The session's Java process has ended.
            return True

    def check(self) -> int:
        """Check once that the executors have the versions of dimargin and Python of this process.

        Returns
        -------
        int
            The smallest number of bytes that a worker may use.

        Raises
        ------
        RuntimeError
            If an executor has another version, or if Spark is too old.
        """
        if self._memory is None:
            self._memory = self.act(self._environment_check(), "check")
        return self._memory

    def _environment_check(self) -> Callable[[], int]:
        """Return the action of `check`; raises RuntimeError if Spark is too old, or tasks lack this environment."""
        # Spark 4.1 introduced repartitionById.
        if tuple(int(number) for number in self.spark.version.split(".")[:2]) < (4, 1):
            raise RuntimeError(f"Spark {self.spark.version} is too old: dimargin needs 4.1 or newer")
        check_local_python(self.spark)
        frame = self.spark.range(256).mapInArrow(_environment(), "dimargin string, python string, memory long")
        return lambda: _min_memory(frame)


def check_local_python(spark: SparkSession) -> None:
    """Raise RuntimeError if tasks run on this computer, by a Python that differs from this one in its versions.

    Without an activated environment, Spark takes the python3 of PATH, and its own message has a
    hundred lines.
    """
    context = getattr(spark, "sparkContext", None)
    if context is None or not context.master.startswith("local"):
        return
    python = shutil.which(context.pythonExec) or context.pythonExec
    if os.path.abspath(python) != os.path.abspath(sys.executable):
        _check_versions(python)


@lru_cache
def _check_versions(python: str) -> None:
    asked = "import sys, pyarrow, importlib.metadata as m; print(m.version('dimargin'), sys.version_info[:2])"
    done = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=False)
    if done.stdout.strip() == f"{version('dimargin')} {sys.version_info[:2]}":
        return
    missing = re.search(r"No (?:module named|package metadata was found for) '?(\w+)", done.stderr)
    what = f"has no {missing[1]}" if missing else "has another version of dimargin or of Python"
    raise RuntimeError(
        f"Spark runs tasks by {python}, which {what}; activate the environment of {sys.executable}, or set "
        "PYSPARK_PYTHON to that path, before the session starts"
    )


def first_line(error: Exception) -> str:
    """Return the first line of the message of a Spark error, or of the root cause of a py4j error."""
    cause = java = getattr(error, "java_exception", None)
    while cause is not None:
        java, cause = cause, cause.getCause()
    return next(iter(str(error if java is None else java.toString()).strip().splitlines()), type(error).__name__)


def _cancellation(error: BaseException, name: str) -> RuntimeError | None:
    """Return a one-line error for a cancelled job instead of Spark's pages, or None for another error."""
    # The errors of classic sessions and of Connect have no type or condition in common, only these
    # texts.
    texts = r"(Job \d+ cancelled .*?|Operation has been canceled|Session was closed)\.?(?: SQLSTATE.*)?$"
    found = re.search(texts, str(error), re.MULTILINE)
    return found and RuntimeError(f"the Spark job {name!r} was cancelled: {found[1]}")


def _min_memory(environments: DataFrame) -> int:
    """Return the smallest memory of workers; raises RuntimeError if their environment differs from this one."""
    here = (version("dimargin"), ".".join(map(str, sys.version_info[:2])))
    try:
        found = environments.toArrow()
    except PySparkException as error:
        missing = re.search(r"ModuleNotFoundError: No module named '(\w+)", str(error))
        if missing:
            raise RuntimeError(f"the Python of an executor has no {missing[1]}: {_REMEDY_TEXT}") from error
        if "PYTHON_VERSION_MISMATCH" not in str(error):
            raise
        raise RuntimeError(
            f"the driver has Python {here[1]}, the executors have a different one: {_REMEDY_TEXT}"
        ) from error
    answers = found.to_pylist()
    for there in sorted({(row["dimargin"], row["python"]) for row in answers}):
        if there != here:
            raise RuntimeError(
                f"the driver has dimargin {here[0]} with Python {here[1]}, an executor has dimargin {there[0]} "
                f"with Python {there[1]}: {_REMEDY_TEXT}"
            )
    return min(int(row["memory"]) for row in answers)


def _environment() -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return a function that yields a worker's versions of dimargin and Python, and the bytes that it may use.

    It is pickled by value, because dimargin may be missing on the worker.
    """

    def look(batches: Iterator[Any]) -> Iterator[Any]:
        import sys
        from importlib.metadata import PackageNotFoundError, version

        import pyarrow as pa

        for _ in batches:
            pass
        memory = 0
        try:
            found = version("dimargin")
            from dimargin.system.memory import memory_of_process

            memory = memory_of_process()
        except PackageNotFoundError:
            found = "(none)"
        except ImportError:  # Another version, which is refused below, may have this function elsewhere.
            pass
        python = ".".join(map(str, sys.version_info[:2]))
        yield pa.RecordBatch.from_pydict({"dimargin": [found], "python": [python], "memory": [memory]})

    return look
