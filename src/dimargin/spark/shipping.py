"""Transfer of models to executors: small ones within the function that uses them, large ones as a file.

Functions are sent with every task and, over Spark Connect, with every analysis of a plan, which may
have at most 128 MiB. A file of the session is sent once to every executor. A process that predicts
loads a model once for all batches.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any
from weakref import WeakKeyDictionary

from pyspark import SparkFiles
from pyspark.sql import SparkSession
from sklearn.calibration import CalibratedClassifierCV

from dimargin.io.models import load, save

_sent: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Parcel:
    """Model file that is sent to executors; equal parcels hold the same model."""

    checksum: str  # SHA-256 of the file.
    size: int  # Size of the file in bytes.
    content: bytes | None = field(default=None, compare=False, repr=False)  # None if the file was sent separately.

    @property
    def name(self) -> str:
        """Name of the file in the session."""
        return f"dimargin-{self.checksum[:32]}.model"

    @contextmanager
    def file(self) -> Iterator[Path]:
        """Context with the path of the model file, on an executor."""
        if self.content is None:
            yield Path(SparkFiles.get(self.name))
            return
        with TemporaryDirectory() as folder:
            path = Path(folder, self.name)
            path.write_bytes(self.content)
            yield path


def ship(machine: Any, session: SparkSession, known: Parcel | None = None) -> Parcel:
    """Send a fitted machine to the executors of a session, classic or Connect, and return its parcel.

    `known` is the result of an earlier call for the same machine.
    """
    sent = _sent.setdefault(session, set())
    if known is not None and (known.content is not None or known.checksum in sent):
        return known
    content = packed(machine)
    checksum = hashlib.sha256(content).hexdigest()
    if len(content) < 2**20:
        return Parcel(checksum, len(content), content)
    parcel = Parcel(checksum, len(content))
    path = _folder() / parcel.name
    path.write_bytes(content)
    session.addArtifact(str(path), file=True)
    sent.add(checksum)
    return parcel


def packed(machine: Any) -> bytes:
    """Return the model file of a machine as bytes."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "model")
        save(machine, path)
        return path.read_bytes()


def unpacked(content: bytes) -> Any:
    """Return the machine in a model file; raises ModelFileError as `dimargin.load` does."""
    with Parcel("", len(content), content).file() as path:
        return load(path)


@lru_cache(maxsize=4)
def arrived(parcel: Parcel) -> Any:
    """Return the machine of a parcel, on an executor, ready to predict."""
    with parcel.file() as path:
        return ready(load(path))


def ready(model: Any) -> Any:
    """Return a copy of a model that predicts with the threads of its task, and from columns without names."""
    model = copy(model)
    model.n_jobs = None
    model.__dict__.pop("feature_names_in_", None)
    if isinstance(model, CalibratedClassifierCV):
        inside = copy(model.calibrated_classifiers_[0])
        inside.estimator, model.calibrated_classifiers_ = ready(inside.estimator), [inside]
    return model


def machine_in(model: Any) -> Any:
    """Return the machine of a model, which may be calibrated."""
    return model.calibrated_classifiers_[0].estimator if isinstance(model, CalibratedClassifierCV) else model


@cache
def _folder() -> Path:
    """Return the folder of the files to send, from which a classic session serves them until it ends."""
    folder = Path(mkdtemp(prefix="dimargin-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
