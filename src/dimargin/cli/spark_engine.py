"""``dimargin train --engine spark``: the Spark session, its rows, and the display of its jobs."""

from __future__ import annotations

import os
import stat
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from dimargin.cli.open_model import how_read
from dimargin.cli.shared import Output, Scale, Trained, timed
from dimargin.cli.terminal import JobDisplay
from dimargin.io.data.opening import FileOptions
from dimargin.system.extras import require
from dimargin.system.java import find_java
from dimargin.system.printing import printable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_flags(given: Mapping[str, Any], resumed: Any, data: str) -> None:
    """Raise ValueError for a flag that is for one computer only."""
    if resumed is not None:
        raise ValueError("--resume cannot be used with --engine spark, only with --engine local")
    if data == "-" or stat.S_ISFIFO(Path(data).stat().st_mode if Path(data).exists() else 0):
        raise ValueError("DATA cannot be a pipe with --engine spark: executors read a file, a folder or a URL")
    if given.get("n_jobs") is not None:
        raise ValueError("--n-jobs cannot be used with --engine spark, which sets the number of threads of a task")
    if given.get("kernel") == "precomputed":
        raise ValueError("--kernel precomputed cannot be used with --engine spark: no executor has all kernel values")


def settings(given: Sequence[str]) -> dict[str, str]:
    """Return the names and values of ``--spark-conf``; raises ValueError for one that is malformed."""
    found = {}
    for setting in given:
        name, equals, value = setting.partition("=")
        if not (name and equals):
            raise ValueError(f"--spark-conf {setting!r}: expected NAME=VALUE, such as spark.executor.memory=4g")
        found[name] = value
    return found


def train(
    machine: Any,
    data: str,
    label: str | None,
    weight: str | None,
    scale: Scale,
    master: str | None,
    conf: Mapping[str, str],
    checkpoint_dir: str | None,
    options: FileOptions,
    out: Output,
) -> Trained:
    """Train a machine on Spark's executors, on data at a path or URL that Spark reads.

    `master` is Spark's URL, or None for Spark's own configuration, `conf` holds settings of Spark,
    `options` are for reading the data, and `checkpoint_dir` is as in
    `dimargin.spark.training.train`. Raises the errors of that function and of
    `dimargin.spark.executor_files.read_rows`, MissingExtra without pyspark, and OSError if Spark is
    not available or fails.
    """
    with _explained(), _session(master, conf, out) as spark:
        from dimargin.spark.executor_files import read_rows

        out.say(_described(spark))
        display = JobDisplay(out.errors, machine.tol, out.quiet)
        with display.running():
            display.describe("reading the rows")
            rows = read_rows(spark, data, label, scale.value, options, weight)
            out.warn(rows.remarks)
            out.say_shape(data, (rows.n_rows, rows.n_features), rows.sparse)
            display.fit_begin()
            trained, seconds, complaints = timed(lambda: rows.train(machine, display, checkpoint_dir))
    return Trained(
        machine=trained,
        scalers=[] if rows.scaler is None else [("scaler", rows.scaler)],
        notes=how_read(rows),
        feature_names=rows.feature_names,
        shape=(rows.n_rows, rows.n_features),
        seconds=seconds,
        complaints=complaints,
    )


@contextmanager
def _session(master: str | None, conf: Mapping[str, str], out: Output) -> Iterator[SparkSession]:
    """Yield the Spark session of this process, or a new one that ends with the command."""
    require("--engine spark", "pyspark")
    try:
        from pyspark.sql import SparkSession

        from dimargin.spark import Columns  # noqa: F401 (raises for an old pyspark)
    except ImportError as error:
        raise OSError("--engine spark needs pyspark 4.1 or newer: pip install 'dimargin[spark]'") from error
    running = SparkSession.getActiveSession()
    if running is not None:
        if master is not None or conf:
            raise ValueError("--master and --spark-conf cannot be used: this process already has a Spark session")
        yield running
        return
    builder = SparkSession.builder.appName("dimargin train").config("spark.sql.caseSensitive", "true")
    if master is not None and master.startswith("sc://"):
        builder = builder.remote(master)
    elif "SPARK_REMOTE" not in os.environ or master is not None:
        _check_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        local = master is None or master.startswith("local")
        # On a cluster, warnings matter: Spark warns, for example, about executors that do not
        # start.
        builder = builder.config("spark.log.level", "ERROR" if local else "WARN")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
        if local:  # Other folders may have a path that is too long for a socket.
            builder = builder.config("spark.python.unix.domain.socket.enabled", "true")
            builder = builder.config("spark.python.unix.domain.socket.dir", gettempdir())
        builder = builder if master is None else builder.master(master)
    for name, value in conf.items():
        builder = builder.config(name, value)
    out.say(f"Waiting for Spark{'' if master is None else f' at {master}'}")
    ending = Event()
    with messages_until(ending), warnings.catch_warnings():
        # Spark Connect warns about settings that only the server may change.
        warnings.filterwarnings("ignore", "Failed to set spark")
        spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        ending.set()
        spark.stop()


@contextmanager
def messages_until(ending: Event) -> Iterator[None]:
    """Forward the standard error of child processes until Spark ends.

    After that, Spark's idle workers print tracebacks about closed connections.
    """
    theirs, mine = os.pipe()
    shown = os.dup(2)

    def forward() -> None:
        with os.fdopen(theirs, "rb") as lines:
            for line in lines:
                if not ending.is_set():
                    with suppress(OSError):  # Spark must be able to write even if standard error is closed.
                        os.write(shown, printable(line.decode(errors="replace"), keep="\t\r\n").encode())
        os.close(shown)  # All writers, including this process, have closed the pipe.

    Thread(target=forward, daemon=True).start()
    os.dup2(mine, 2)
    os.close(mine)
    try:
        yield
    finally:
        os.dup2(shown, 2)


def _check_java() -> None:
    if find_java() is None:
        home = os.environ.get("JAVA_HOME")
        where = "JAVA_HOME or PATH" if home is None else f"JAVA_HOME={home}"
        raise OSError(
            f"--engine spark needs Java 17 or newer, which was not found by {where}; install it, such as Eclipse "
            "Temurin, or use a Spark Connect server: --master sc://host:port"
        )


def _described(spark: SparkSession) -> str:
    context = getattr(spark, "sparkContext", None)
    if context is None:
        return f"Spark {spark.version}, by Spark Connect"
    return f"Spark {spark.version} at {context.master}{f', {context.uiWebUrl}' if context.uiWebUrl else ''}"


@contextmanager
def _explained() -> Iterator[None]:
    """Turn errors of Spark into an OSError with a message of one line."""
    try:
        yield
    except (ValueError, TypeError, OSError, MemoryError):
        raise
    except Exception as error:
        # The engine raises RuntimeError, for example if an executor lacks a package.
        if not (isinstance(error, RuntimeError) or type(error).__module__.startswith(("pyspark.", "py4j."))):
            raise
        from dimargin.spark.engine.jobs import first_line

        raise OSError(f"Spark: {first_line(error)}") from error
