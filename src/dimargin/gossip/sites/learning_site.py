"""Program of a real site, which learns from a data file and writes a model file and a status file.

The learner knows nothing of files; they are read and written between two of its rounds.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dimargin.gossip.live import LiveSite
from dimargin.gossip.program import Action, Report, Wake
from dimargin.gossip.programs.agreement import Agreement, AgreementSettings
from dimargin.gossip.schema import Schema
from dimargin.gossip.sites.certificate_history import CertificateHistory
from dimargin.gossip.sites.options import SiteOptions, scaler
from dimargin.gossip.sites.site_folder import SiteFolder
from dimargin.system.value_tree import Step
from dimargin.system.writing import write_file

_FILES_TIMER = "files"


class RowSource(Protocol):
    """Growing source of a site's rows, such as `dimargin.io.data.GrowingFile`."""

    @property
    def path(self) -> Path:
        """Path of the source, for messages."""

    def read(self) -> Any:
        """Return the rows that have come since the last call, with the attributes of `dimargin.io.data.DataSet`.

        Raises ValueError or OSError for a missing or invalid file.
        """


class LearningSite(Agreement):
    """Agreement that reads rows from a growing file, and writes the model and its status to files.

    `content_of` returns the content of a model file from the steps of a model and notes. Raises
    ValueError or OSError if the data cannot be read.
    """

    def __init__(
        self,
        name: str,
        data: RowSource,
        folder: SiteFolder,
        options: SiteOptions,
        content_of: Callable[[list[Step], dict[str, Any]], bytes],
        seed: int = 0,
    ) -> None:
        self.folder, self.options, self._data, self._content_of = folder, options, data, content_of
        self.live: LiveSite | None = None  # Runner of this program, for its counters.
        self._first = first = data.read()
        self._terms = options.terms(first.zero_based)
        rows = first.X, self._labels(first), self._schema(first)
        settings = AgreementSettings(
            options.n_sites, options.min_sites, options.settle,
            max_messages=options.max_messages, seed=(seed, *name.encode()),
        )  # fmt: skip
        super().__init__(name, *rows, options, settings)
        self._last_read = 0.0
        self._trouble = ""  # Error of the last read of the data.
        self._unwritten: dict[str, str] = {}  # Reasons of failed writes, by file.
        self._written = b""  # Content of the model file.
        self._certificates = CertificateHistory()
        self.last_status: dict[str, Any] | None = None  # Last status, for other threads; it is replaced, not changed.

    def start(self, now: float, neighbours: Collection[str]) -> Iterator[Action]:
        """Start or resume learning, and set the timer for the files."""
        for remark in self._first.remarks:
            yield Report("data remark", {"file": str(self._data.path), "remark": remark})
        yield from super().start(now, neighbours)
        yield Wake(1.0, _FILES_TIMER)

    def wake(self, now: float, name: str) -> Iterator[Action]:
        """Read and write the files that are due, every second; pass other timers on to the agreement."""
        if name != _FILES_TIMER:
            yield from super().wake(now, name)
            return
        is_time = now - self._last_read >= self.options.poll
        if is_time:
            self._last_read = now
            yield from self._take_rows(now)
        if is_time or not os.path.exists(self.folder.model):  # Path.exists raises on a failing disk.
            yield from self._replace(self.folder.model, self.write_model)
        self._certificates.add(now, self.status())
        yield from self._replace(self.folder.status, self.write_status)
        yield Wake(1.0, _FILES_TIMER)

    # ---- files -------------------------------------------------------------------------------------------------

    def _replace(self, file: Path, write: Callable[[], None]) -> Iterator[Action]:
        """Write a file, or report why it cannot be written; the next try comes in a second or two."""
        before = self._unwritten.pop(file.name, "")
        try:
            write()
        except OSError as error:
            reason = self._unwritten[file.name] = f"{file} cannot be written: {error.strerror or error}"
            if reason != before:
                yield Report("trouble", {"with": file.name, "reason": reason})
        else:
            if before:
                yield Report("trouble over", {"with": file.name})

    def _take_rows(self, now: float) -> Iterator[Action]:
        """Add rows that were appended to the file; report an error once, and read again later."""
        try:
            new = self._data.read()
            if new.X.shape[0]:
                yield from self.append(now, new.X, self._labels(new), self._schema(new))
                yield Report("rows appended", {"rows": new.X.shape[0], "all": self.n_rows})
            self._trouble = ""
        except (OSError, ValueError) as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                yield Report("data refused", {"file": str(self._data.path), "reason": str(error)})

    def _labels(self, data: Any) -> Any:
        """Return the labels of the file, or ones if the program uses no labels."""
        if not self.options.uses_labels:
            return np.ones(data.X.shape[0], dtype=np.int64)
        assert data.y is not None  # Files without labels have been refused.
        return data.y

    def _schema(self, data: Any) -> Schema:
        names = None if data.feature_names is None else tuple(data.feature_names)
        labels = self._labels(data) if self.options.uses_labels else np.zeros(0)
        schema = Schema.of(data.X, labels, self._terms, names)
        if self.options.is_private:
            schema = replace(schema, low=np.zeros(schema.n_features), high=np.zeros(schema.n_features))
        return schema

    def write_status(self) -> None:
        """Replace the status file."""
        network = {} if self.live is None else self.live.status()
        traffic = network.get("traffic", {}).values()
        trouble = "" if self.learner is None else self.learner.trouble
        with_files = self._trouble, *self._unwritten.values()
        all_trouble = *with_files, trouble, network.get("trouble"), _withheld(network), *self.similar_labels.values()
        own = self.status()
        self.last_status = facts = {
            "site": self.name,
            "time": time.time(),
            "program": self.options.program,
            "shares": self.shares,
            "rows_shared": 0,
            **own,
            "refused": {**network.get("refused", {}), **own["refused"]},
            "bytes_in": sum(one["bytes_in"] for one in traffic),
            "bytes_out": sum(one["bytes_out"] for one in traffic),
            "process": os.getpid(),
            "converged": self._has_finished and not trouble,
            "certificates": list(self._certificates.entries),
            "network": network,
            "trouble": "; ".join(filter(None, all_trouble)),
        }
        write_file(self.folder.status, json.dumps(facts, default=str).encode(), durable=False)

    @property
    def _has_finished(self) -> bool:
        """Return whether the stopping rule has held; the site continues, for other sites and new rows."""
        return self.learner is not None and self.learner.has_finished

    def write_model(self, durable: bool = False) -> None:
        """Replace the model file if there is a model; remove it if rows have shown that there can be none."""
        machine = None if self.learner is None else self.options.machine(self.learner, self.schema, self.counts)
        if machine is None:
            if self.learner is not None and self.learner.trouble:
                self.folder.model.unlink(missing_ok=True)
            return
        status = "converged" if self._has_finished else "learning"
        machine = machine._replace(attributes={"status_": status, **machine.attributes})
        steps = [*scaler(self.schema, self.n_rows), *self.options.extra_steps(self.schema), machine]
        content = self._content_of(steps, self._notes())
        if durable or content != self._written or not self.folder.model.exists():
            write_file(self.folder.model, content, durable, private=True)
            self._written = content

    def _notes(self) -> dict[str, Any]:
        schema = self.schema
        agreed = {
            "digest": schema.digest,
            "terms": dict(schema.terms),
            "labels": list(schema.labels),
            "low": schema.low.tolist(),
            "high": schema.high.tolist(),
            "sites": self.counts,
        }
        first = self._first
        return {"site": self.name, "schema": agreed, "label": first.label, "zero_based": first.zero_based}


def _withheld(network: dict[str, Any]) -> str:
    """Return why messages are withheld from neighbours, according to the status of a live site."""
    withheld = network.get("withheld", {})
    return "; ".join(f"a message to {name} is withheld: {reason}" for name, reason in withheld.items())


def json_log(name: str, write: Callable[[str], object]) -> Callable[[str, dict[str, Any]], None]:
    """Return a log that writes one JSON object per line.

    The object has the time by this site's own clock, the site, what happened, and the facts. Lines
    that cannot be written, as on a full disk, are left out and counted in a later line.
    """
    left_out = 0

    def log(what: str, facts: dict[str, Any]) -> None:
        nonlocal left_out
        try:
            if left_out:
                write(line("lines left out", {"about": "log", "lines": left_out}))
                left_out = 0
            write(line(what, facts))
        except OSError:
            left_out += 1

    def line(what: str, facts: dict[str, Any]) -> str:
        now = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + "Z"
        about = {("about" if key == "site" else key): value for key, value in facts.items()}
        return json.dumps({"time": now, "site": name, "what": what, **about}, default=str) + "\n"

    return log
