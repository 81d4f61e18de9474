"""How a model reaches the executors: small ones with the function that uses them, large ones as a file of the session.

Functions are sent again with every task, and over Spark Connect with every look at a plan, of at most 128 MiB; a file
is sent once to every executor. A process that predicts reads a model once, whatever the number of batches.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any
from weakref import WeakKeyDictionary

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from dimargin.estimators import MarginClassifier
from dimargin.model_files import load, save

_LARGE = 2**20  # bytes from which a model is a file
_KEPT = 4  # models that a process remembers

_sent: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Parcel:
    """A model file on its way; equal ones hold the same model.

    Attributes
    ----------
    checksum : str
        SHA-256 of the file.
    size : int
        Bytes.
    content : bytes or None
        None where the file was sent by itself.
    """

    checksum: str
    size: int
    content: bytes | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """Name of the file among those of the session."""
        return f"dimargin-{self.checksum[:32]}.model"

    @contextmanager
    def file(self) -> Iterator[Path]:
        """The model file, on an executor."""
        if self.content is None:
            yield Path(SparkFiles.get(self.name))
            return
        with TemporaryDirectory() as folder:
            path = Path(folder, self.name)
            path.write_bytes(self.content)
            yield path


def ship(machine: MarginClassifier, session: SparkSession, known: Parcel | None = None) -> Parcel:
    """The parcel of a fitted machine, on its way to the executors of a session.

    Parameters
    ----------
    machine : MarginClassifier
    session : SparkSession
        Classic or Connect.
    known : Parcel, optional
        What this function has returned for this machine before.
    """
    sent = _sent.setdefault(session, set())
    if known is not None and (known.content is not None or known.checksum in sent):
        return known
    content = packed(machine)
    checksum = hashlib.sha256(content).hexdigest()
    if len(content) < _LARGE:
        return Parcel(checksum, len(content), content)
    parcel = Parcel(checksum, len(content))
    path = _folder() / parcel.name
    path.write_bytes(content)
    session.addArtifact(str(path), file=True)
    sent.add(checksum)
    return parcel


def packed(machine: MarginClassifier) -> bytes:
    """The model file of a machine."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "model")
        save(machine, path)
        return path.read_bytes()


def unpacked(content: bytes) -> Any:
    """The machine in a model file; raises ModelFileError as `dimargin.load`."""
    with Parcel("", len(content), content).file() as path:
        return load(path)


@lru_cache(maxsize=_KEPT)
def arrived(parcel: Parcel) -> Any:
    """The machine of a parcel, on an executor, ready to predict."""
    with parcel.file() as path:
        return ready(load(path))


def ready(machine: Any) -> Any:
    """A machine that predicts with the threads of its task, and of columns that have no names."""
    machine.n_jobs = None
    machine.__dict__.pop("feature_names_in_", None)
    return machine


@cache
def _folder() -> Path:
    """Files sent from this process: a classic session serves them from here as long as it lives."""
    folder = Path(mkdtemp(prefix="dimargin-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
