"""Jobs of a Spark session, classic or Connect, which are named, counted, and cancelled on an interrupt."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
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

_LEAST_SPARK = (4, 1)  # repartitionById
_REMEDY = (
    "ship this environment to the executors (venv-pack or conda-pack with spark.archives, and PYSPARK_PYTHON), or "
    "install the same versions there, and name that Python in PYSPARK_PYTHON before the session starts: Spark takes "
    f"the python3 of PATH else (on this machine {sys.executable} has dimargin)"
)
# Texts of errors of classic sessions and of Connect, which have no type or condition in common.
_CANCELLED = re.compile(
    r"(Job \d+ cancelled .*?|Operation has been canceled|Session was closed)\.?(?: SQLSTATE.*)?$", re.MULTILINE
)


class _SwitchedOff:
    """Context in which a Boolean setting of a session is off; the last of overlapping users restores it."""

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


# For jobs over cached frames. Where adaptive execution is on, Spark keeps the plan of a cached frame twice, each time
# with those of the frames it is made of, so that there are 2^n after n steps.
plain_plans = _SwitchedOff("spark.sql.adaptive.enabled")
# For all shuffles of shards. Where an executor is lost, its tasks run again, and what they send need not be the same
# bytes: rows come in another order and batches, solves take other times. What shards make of it is the same, but from
# Spark 4.2 on the job ends with an error.
other_bytes_again = _SwitchedOff("spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch")


class Jobs:
    """Jobs of a session, which are counted."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.count = 0  # jobs run so far, in the sense of actions
        self.received_bytes = 0  # bytes that the jobs have brought to the driver
        context = self._context = getattr(spark, "sparkContext", None)  # a Connect session has none
        if self.is_stopped:
            raise RuntimeError("the Spark session of the data was stopped; start another one, and read the data in it")
        self.threads_of_a_task = int(spark.conf.get("spark.task.cpus", "1") or 1)
        if context is None:
            self._tags = spark.addTag, spark.removeTag, spark.interruptTag
        else:
            self._tags = context.addJobTag, context.removeJobTag, context.cancelJobsWithTag
        self._texts: list[str] = []
        self._memory: int | None = None  # what `check` found

    @contextmanager
    def describe(self, text: str) -> Iterator[None]:
        """Describe in Spark's user interface the purpose of the jobs inside this context."""
        self._texts.append(text)
        try:
            yield
        finally:
            self._texts.pop()

    def named(self, operation: str) -> str:
        """Return the name, in Spark's user interface, of a job that is run now."""
        return f"dimargin: {': '.join([*self._texts, operation])}"

    def run(self, frame: DataFrame, operation: str) -> pa.Table:
        """Return the rows of a frame, in one job, which may unpickle what this process pickled: see `check`."""
        self.check()
        table = self.act(frame.toArrow, operation)
        self.received_bytes += table.nbytes
        return table

    def query(self, questions: Sequence[tuple[DataFrame, str]]) -> list[list[Row]]:
        """Return the rows of frames that have few, in jobs side by side, with `check` beside them if it is to come."""
        actions: list[tuple[Callable[[], Any], str]] = [(frame.collect, operation) for frame, operation in questions]
        if self._memory is not None:
            return self.act_together(actions)
        *found, self._memory = self.act_together([*actions, (self._look(), "check")])
        return found

    def act(self, action: Callable[[], Result], operation: str) -> Result:
        """Run an action that takes one job, and return its result; an interrupt of this thread cancels the job."""
        return cast(Result, self.act_together([(action, operation)])[0])

    def act_together(self, actions: Sequence[tuple[Callable[[], Any], str]]) -> list[Any]:
        """Run actions of one job each side by side, and return their results; an interrupt cancels the jobs.

        Where several fail, the exception of the first is raised.
        """
        self.count += len(actions)
        outcomes = self._outcomes([(action, self.named(operation)) for action, operation in actions])
        results, outcome = [], None
        try:
            for outcome in outcomes:
                results.append(outcome.result())
            return results
        finally:
            del outcomes, outcome  # or their exceptions would hold themselves, and the shards of their callers

    def _outcomes(self, actions: Sequence[tuple[Callable[[], Any], str]]) -> list[Future[Any]]:
        """Run actions in threads, since Spark's own wait for a job cannot be interrupted."""
        begun = list[tuple[Thread, Future[Any], str]]()
        cancel = self._tags[2]
        try:
            for action, name in actions:
                begun.append(self._begun(action, name))
            for thread, _, _ in begun:
                thread.join()
        except BaseException:
            for _, _, tag in begun:
                cancel(tag)
            raise
        return [outcome for _, outcome, _ in begun]

    def _begun(self, action: Callable[[], Any], name: str) -> tuple[Thread, Future[Any], str]:
        """Start a thread that runs an action, and return it with its outcome to come and the tag of its job."""
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
            thread.start()  # which inherits the tag
        except BaseException:
            cancel(tag)
            raise
        finally:
            remove(tag)
        return thread, outcome, tag

    @property
    def is_stopped(self) -> bool:
        """Whether the session has ended."""
        if self._context is None:
            return bool(self.spark.is_stopped)
        try:
            return self._context._jsc is None or bool(self._context._jsc.sc().isStopped())
        except (OSError, Py4JError):  # its Java process has ended
            return True

    def check(self) -> int:
        """Check once that the executors have this version of dimargin, and of Python.

        Returns
        -------
        int
            The bytes that a worker may use, the least of those that answered.

        Raises
        ------
        RuntimeError
            If they have not, or if Spark is too old.
        """
        if self._memory is None:
            self._memory = self.act(self._look(), "check")
        return self._memory

    def _look(self) -> Callable[[], int]:
        """Return an action that does what `check` says; raises RuntimeError if Spark is too old for it."""
        if tuple(int(number) for number in self.spark.version.split(".")[:2]) < _LEAST_SPARK:
            raise RuntimeError(f"Spark {self.spark.version} is too old: dimargin needs 4.1 or newer")
        frame = self.spark.range(256).mapInArrow(_environment(), "dimargin string, python string, memory long")
        return lambda: _min_memory(frame)


def first_line(error: Exception) -> str:
    """Return the first line of what an error of Spark says; of one of py4j, that of the error which caused it."""
    cause = java = getattr(error, "java_exception", None)
    while cause is not None:
        java, cause = cause, cause.getCause()
    return next(iter(str(error if java is None else java.toString()).strip().splitlines()), type(error).__name__)


def _cancellation(error: BaseException, name: str) -> RuntimeError | None:
    """Return an error of one line for a job that was cancelled, of which Spark has pages; None for another error."""
    found = _CANCELLED.search(str(error))
    return found and RuntimeError(f"the Spark job {name!r} was cancelled: {found[1]}")


def _min_memory(environments: DataFrame) -> int:
    """Return the least memory of workers; raises RuntimeError where their environment is not that of this process."""
    here = (version("dimargin"), ".".join(map(str, sys.version_info[:2])))
    try:
        found = environments.toArrow()
    except PySparkException as error:
        missing = re.search(r"ModuleNotFoundError: No module named '(\w+)", str(error))
        if missing:
            raise RuntimeError(f"the Python of an executor has no {missing[1]}: {_REMEDY}") from error
        if "PYTHON_VERSION_MISMATCH" not in str(error):
            raise
        raise RuntimeError(f"the driver has Python {here[1]}, the executors have another one: {_REMEDY}") from error
    answers = found.to_pylist()
    for there in sorted({(row["dimargin"], row["python"]) for row in answers}):
        if there != here:
            raise RuntimeError(
                f"the driver has dimargin {here[0]} with Python {here[1]}, an executor has dimargin {there[0]} "
                f"with Python {there[1]}: {_REMEDY}"
            )
    return min(int(row["memory"]) for row in answers)


def _environment() -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return a function that is pickled by value, since dimargin may be missing where it runs.

    It yields the versions of dimargin and Python there, and the bytes that the process may use.
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
        except ImportError:  # of a version that has it elsewhere, and is refused for that
            pass
        python = ".".join(map(str, sys.version_info[:2]))
        yield pa.RecordBatch.from_pydict({"dimargin": [found], "python": [python], "memory": [memory]})

    return look
