"""Checkpoints of a fit, from which a new driver resumes.

    dir/0000    manifest                    before the work begins
    dir/0001    results, shards, manifest   after a level
    dir/0002    results, manifest           after a step that needs results only

``results`` are those of the jobs since the previous checkpoint, ``shards`` the parts of the level
with their solutions. They are not pickled, and loading them executes nothing. The manifest is
written last, and a checkpoint without one is ignored. It holds the parameters, the seed, the number
of rows, a fingerprint of the data, and checksums of everything including itself. A new driver reads
the source again and repeats the algorithm, taking the results of the first jobs from the
checkpoint, which brings it to the same state (`dimargin.spark.engine.record`). When a fit has
ended, its checkpoints are marked as finished, and the next fit in the folder starts from scratch.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, is_dataclass
from hashlib import sha256
from importlib.metadata import version
from typing import Any, ClassVar
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from dimargin.estimators.input_checks import seed_of
from dimargin.estimators.margin_machine import MarginMachine  # noqa: F401  This imports every strategy.
from dimargin.kernels.matrix import KernelMatrix
from dimargin.spark.engine.jobs import first_line
from dimargin.spark.engine.packing import Packing
from dimargin.spark.engine.record import Saved
from dimargin.spark.engine.spark import SparkEngine, SparkShards
from dimargin.spark.engine.spark_folder import Folder
from dimargin.strategies import Resumption

_FORMAT_VERSION = 3
_READ_ERRORS = (PySparkException, Py4JJavaError)  # Spark raises these for a damaged file.


def _classes_to_pack() -> Iterator[type]:
    """Yield the classes that results and shards consist of: dataclasses of some packages, and kernel matrices."""
    packages = {"kernels", "problems", "shards", "solvers", "strategies"}
    for name, module in sorted(sys.modules.items()):
        package, _, rest = name.partition(".")
        if package == "dimargin" and rest.split(".")[0] in packages:
            own = [value for value in vars(module).values() if isinstance(value, type) and value.__module__ == name]
            yield from (cls for cls in own if is_dataclass(cls) or issubclass(cls, KernelMatrix))


PACKING = Packing(tuple(_classes_to_pack()))

Manifest = dict[str, Any]


class Checkpoints(Resumption):
    """Checkpoints of a fit in a folder, resumed from those of an earlier driver if there are any.

    Raises
    ------
    ValueError
        If checkpoints in the folder are damaged.
    """

    save_interval: ClassVar[float] = 60.0
    """Seconds between checkpoints within a level."""

    def __init__(self, engine: SparkEngine, path: str) -> None:
        self._engine, self._folder = engine, engine.folder(path)
        self._past = self._read_manifests()
        if self._past and self._past[-1]["finished"]:
            self._past = []
        self._next: Manifest = {}
        self._spent: list[str] = []  # Folders whose shards are deleted when the fit ends.
        self._clock = time.perf_counter()

    def seed_for(self, machine: Any) -> int:
        """Return the machine's seed or, if its random_state is None, that of the fit to resume."""
        if self._past and machine.random_state is None:
            return int(self._past[0]["fit"]["seed"])
        return seed_of(machine.random_state)

    def begin(self, machine: Any, seed: int, n_rows: int, fingerprint: str) -> None:
        """Start recording results after those of the checkpoints.

        Raises
        ------
        ValueError
            If the checkpoints are damaged or belong to another fit; the message names the parameter
            that differs.
        """
        changeable = {"max_time", "memory_limit"}  # A resumed fit may have other values of these.
        fit = {
            "dimargin": version("dimargin"),
            "machine": type(machine).__name__,
            **{name: repr(value) for name, value in machine.get_params(deep=False).items() if name not in changeable},
            "seed": seed,
            "rows": n_rows,
            "data": fingerprint,
        }
        if not self._past:
            self._engine.record(PACKING)
            self._next = {
                "format": _FORMAT_VERSION, "fit": fit, "id": uuid4().hex, "number": 0, "shards": None,
                "finished": False,
            }  # fmt: skip
            return self._write([])
        self._check_same(fit)
        past = [result for manifest in self._past for result in self._read_results(manifest)]
        saved = self._read_shards()
        self._engine.record(PACKING, past, saved)
        self._next = {**self._past[-1], "number": len(self._past)}
        if saved is not None:
            self._spent.append(
                self._next["shards"]["folder"]
            )  # Until the fit ends, lost shards are read from it again.

    def is_replaying(self) -> bool:
        """See `Resumption`."""
        return self._engine.is_replaying

    def save(self, parts: Any = None) -> None:
        """Write the results since the last checkpoint, and the parts that all later work depends on."""
        results = self._engine.news()
        if not results:
            return  # The fit is still replaying the results of an earlier driver.
        before, name = self._next["shards"], _name_of(self._next["number"])
        folder = self._folder / name / "shards"
        saved = self._engine.save(parts, folder.path) if isinstance(parts, SparkShards) else None
        if saved is not None:
            self._next["shards"] = {**asdict(saved), "folder": name}
        self._write(results)
        if saved is not None and before is not None and before["folder"] not in self._spent:
            self._delete_shards(before["folder"])
        self._clock = time.perf_counter()

    def save_now_and_then(self) -> None:
        """Call `save` if the last checkpoint is older than `save_interval`."""
        if time.perf_counter() - self._clock >= self.save_interval:
            self.save()

    def finish(self) -> None:
        """Mark the fit as finished, so that another one can use the folder, and delete its shards."""
        shards = self._next["shards"]
        self._next |= {"shards": None, "finished": True}
        self._write([])
        for name in {*self._spent, *([shards["folder"]] if shards else [])}:
            self._delete_shards(name)

    def _delete_shards(self, name: str) -> None:
        (self._folder / name / "shards").write([])

    # ---- reading -------------------------------------------------------------------------------------------------

    def _read_manifests(self) -> list[Manifest]:
        """Return the manifests of the last fit in the folder."""
        try:
            lines = self._folder.lines("manifest")
        except _READ_ERRORS as error:
            found = re.search(r"/(\d{4})/manifest/", str(error))  # Spark's message contains the path of the file.
            here = self._folder / found[1] if found else self._folder
            raise self._damaged(here, f"its manifest cannot be read: {first_line(error)}") from None
        chain = list[Manifest]()
        while _name_of(len(chain)) in lines:
            name = _name_of(len(chain))
            manifest = self._parse_manifest(lines[name], self._folder / name)
            if chain and manifest["id"] != chain[0]["id"]:
                break
            chain.append(manifest)
        return chain

    def _parse_manifest(self, line: bytes | None, here: Folder) -> Manifest:
        try:
            if not line:
                raise ValueError("it is empty, or too large")
            written = json.loads(line)
            manifest: Manifest = written["manifest"]
            if written["sha256"] != _digest(_text(manifest).encode()):
                raise ValueError("its checksum differs")
            if manifest["format"] != _FORMAT_VERSION:
                raise ValueError(f"it has format {manifest['format']}, and this dimargin reads {_FORMAT_VERSION}")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._damaged(here, f"its manifest cannot be read: {error}") from error
        return manifest

    def _check_same(self, fit: dict[str, Any]) -> None:
        there = self._past[0]["fit"]
        for name in {**fit, **there}:
            if fit.get(name) != there.get(name):
                raise ValueError(
                    f"checkpoint_dir {self._folder.path!r} holds checkpoints of another fit: {name} is "
                    f"{there.get(name)} there and {fit.get(name)} here; use another folder, or delete its content"
                )

    def _read_results(self, manifest: Manifest) -> list[tuple[str, bytes]]:
        """Return the names and packed results of a checkpoint."""
        names, digests = manifest["jobs"], manifest["results"]
        here = self._folder / _name_of(manifest["number"])
        if not names:
            return []
        try:
            results = (here / "results").read()
        except _READ_ERRORS as error:
            raise self._damaged(here, f"its results cannot be read: {first_line(error)}") from None
        if [_digest(data) for data in results] != digests:
            raise self._damaged(here, "its results do not have the checksums of its manifest")
        return list(zip(names, results, strict=True))

    def _read_shards(self) -> Saved | None:
        """Return the last saved shards after verifying their checksums, or None without saved shards."""
        shards = self._past[-1]["shards"]
        if shards is None:
            return None
        here = self._folder / shards["folder"]
        saved = Saved(shards["number"], (here / "shards").path, shards["digests"])
        try:
            found = self._engine.digests(saved)
        except _READ_ERRORS as error:
            raise self._damaged(here, f"its shards cannot be read: {first_line(error)}") from None
        if found != saved.digests:
            raise self._damaged(here, "its shards do not have the checksums of its manifest")
        return saved

    def _damaged(self, here: Folder, reason: str) -> ValueError:
        return ValueError(
            f"checkpoint {here.path!r} is damaged: {reason}; delete {self._folder.path!r} to train from the beginning"
        )

    # ---- writing -------------------------------------------------------------------------------------------------

    def _write(self, results: Sequence[tuple[str, bytes]]) -> None:
        here = self._folder / _name_of(self._next["number"])
        if results:
            (here / "results").write([data for _, data in results])
        manifest = self._next | {
            "jobs": [name for name, _ in results],
            "results": [_digest(data) for _, data in results],
        }
        text = _text(manifest)
        (here / "manifest").write_line(f'{{"sha256": "{_digest(text.encode())}", "manifest": {text}}}')
        self._next["number"] += 1


def _name_of(number: int) -> str:
    return f"{number:04d}"


def _text(manifest: Manifest) -> str:
    return json.dumps(manifest, sort_keys=True)


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()
