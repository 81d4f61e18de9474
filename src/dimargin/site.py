"""One real site: a data file that may grow goes in, a model file that is always current comes out.

Light on purpose: neither scikit-learn nor pyarrow is loaded. The program that learns knows nothing of files; a wrapper
around it reads, writes and reports between two of its rounds.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from dimargin.files.growing import GrowingFile
from dimargin.files.model_format import Step, write_model
from dimargin.files.pieces import DataFileError, DataSet
from dimargin.files.writing import write_file
from dimargin.network.live import LiveSite
from dimargin.network.messages import Message
from dimargin.network.program import Action, Report, SiteProgram, Wake
from dimargin.network.programs.agreement import Agreement
from dimargin.network.programs.gadget import GadgetSettings
from dimargin.network.schema import Schema

_TIMER = "files"
_LEAST_MESSAGES = 200.0  # a second, of one neighbour, that nobody is refused for
_TIMES_THE_INTERVAL = 20.0  # likewise, as a multiple of a site's own


@dataclass(frozen=True)
class SiteFolder:
    """Where a site keeps what it knows.

    Attributes
    ----------
    path : Path
    """

    path: Path

    @property
    def state(self) -> Path:
        """What a killed site goes on from."""
        return self.path / "state"

    @property
    def status(self) -> Path:
        """JSON, written every second."""
        return self.path / "status.json"

    @property
    def model(self) -> Path:
        """For ``dimargin predict``; replaced as a whole."""
        return self.path / "model.dimargin"

    def read_status(self) -> dict[str, Any]:
        """What the site wrote last, and the seconds since then as ``age``.

        Raises
        ------
        OSError
            If no site has run here.
        ValueError
            If the file is damaged.
        """
        try:
            text = self.status.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise FileNotFoundError(f"{self.status} does not exist: no site has run in this folder") from None
        try:
            return {**json.loads(text), "age": max(0.0, time.time() - self.status.stat().st_mtime)}
        except ValueError as error:
            raise ValueError(f"{self.status} is damaged: {error}") from error


@dataclass(frozen=True)
class SiteOptions:
    """What all sites must have alike (`terms`), and what each may choose.

    Attributes
    ----------
    alpha, gradient, batch_size, gossip_rounds, step_size, fit_intercept
        As in `dimargin.GossipSVMClassifier`.
    scale : bool
        Whether features are scaled by the least and largest values of all sites.
    interval, lease : float
        Seconds between rounds, and of silence after which a neighbour counts as gone.
    n_sites : int or None
        See `dimargin.network.programs.agreement.Agreement`, as for `least_sites` and `settle`.
    least_sites : int
    settle : float
    poll : float
        Seconds between looks at the data file, and between model files.
    """

    alpha: float = 1e-4
    gradient: Literal["tracked", "local"] = "tracked"
    batch_size: int | None = None
    gossip_rounds: int | float = 1
    step_size: str | float = "auto"
    fit_intercept: bool = True
    scale: bool = True
    interval: float = 0.05
    lease: float = 2.0
    n_sites: int | None = None
    least_sites: int = 1
    settle: float = 3.0
    poll: float = 2.0

    def terms(self, data: DataSet) -> dict[str, Any]:
        """What must be the same everywhere."""
        return {
            "program": "gadget",
            "loss": "hinge",
            "alpha": self.alpha,
            "gradient": self.gradient,
            "step_size": self.step_size,
            "fit_intercept": self.fit_intercept,
            # what LIBSVM text leaves out is zero, and has to stay zero
            "scaling": "none" if not self.scale else "minmax" if data.zero_based is None else "maxabs",
            "features_counted_from": None if data.zero_based is None else int(not data.zero_based),
        }

    def settings(self, schema: Schema, n_rows: int) -> GadgetSettings:
        """For the program, once the schema is known."""
        limits = [np.abs((values - schema.shifts) * schema.factors) for values in (schema.low, schema.high)]
        radius = float(np.sqrt((np.maximum(*limits) ** 2).sum() + schema.has_intercept))
        return GadgetSettings(
            alpha=self.alpha, gradient=self.gradient, batch_size=self.batch_size, gossip_rounds=self.gossip_rounds,
            step_size=self.step_size, interval=self.interval, lease=self.lease,
            norm_bound=10 * np.sqrt(len(schema.labels)) * max(radius, 1.0) / self.alpha,  # |w| <= radius / alpha
            mass_bound=10 * max(n_rows, 1) * max(radius, 1.0) ** 2 * max(self.lease / self.interval, 1.0),
            most_messages=self.most_messages, schema=schema.digest,
        )  # fmt: skip

    @property
    def most_messages(self) -> float:
        """A second, of one neighbour; who sends more is refused."""
        return max(_LEAST_MESSAGES, _TIMES_THE_INTERVAL / self.interval)


class LearningSite(SiteProgram):
    """The program of a site with its files: new rows in, model and status out.

    Parameters
    ----------
    name : str
    data : GrowingFile
    folder : SiteFolder
    options : SiteOptions
    seed : int

    Attributes
    ----------
    live : LiveSite or None
        What runs this, for its counters.

    Raises
    ------
    DataFileError, OSError
        If the data cannot be read.
    """

    shares: ClassVar[Literal["parameters", "rows"]] = Agreement.shares
    messages: ClassVar[tuple[type[Message], ...]] = Agreement.messages

    def __init__(self, name: str, data: GrowingFile, folder: SiteFolder, options: SiteOptions, seed: int = 0) -> None:
        self.name, self.folder, self.options = name, folder, options
        self.live: LiveSite | None = None
        self._data = data
        first = data.read()
        self._first = first
        self._terms = options.terms(first)
        self.agreement = Agreement(
            name, first.X, _labels(first), self._schema(first), options.settings, options.n_sites,
            options.least_sites, options.settle, most_messages=options.most_messages, seed=(seed, *name.encode()),
        )  # fmt: skip
        self._looked = 0.0
        self._trouble = ""

    def start(self, now: float, neighbours: Collection[str]) -> Iterator[Action]:
        """Begin, or go on."""
        yield from self.agreement.start(now, neighbours)
        yield Wake(1.0, _TIMER)

    def wake(self, now: float, name: str) -> Iterator[Action]:
        """The program's timers, and every second the files."""
        if name != _TIMER:
            yield from self.agreement.wake(now, name)
            return
        is_time = now - self._looked >= self.options.poll
        if is_time:
            self._looked = now
            yield from self._take_rows(now)
        if is_time or not self.folder.model.exists():
            self.write_model()
        self.write_status()
        yield Wake(1.0, _TIMER)

    def receive(self, now: float, sender: str, message: Message) -> Iterator[Action]:
        """For the program."""
        yield from self.agreement.receive(now, sender, message)

    def neighbours_changed(self, now: float, neighbours: Collection[str]) -> Iterator[Action]:
        """For the program."""
        yield from self.agreement.neighbours_changed(now, neighbours)

    def checkpoint(self) -> dict[str, Any]:
        """Of the program."""
        return self.agreement.checkpoint()

    def restore(self, state: dict[str, Any]) -> None:
        """For the program."""
        self.agreement.restore(state)

    # ---- files -------------------------------------------------------------------------------------------------

    def _take_rows(self, now: float) -> Iterator[Action]:
        """Rows that were appended; what is wrong with them is said once, and tried again."""
        try:
            new = self._data.read()
            if len(_labels(new)):
                yield from self.agreement.append(now, new.X, _labels(new), self._schema(new))
                yield Report("rows appended", {"rows": len(_labels(new)), "all": self.agreement.n_rows})
            self._trouble = ""
        except (DataFileError, OSError, ValueError) as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                yield Report("data refused", {"file": str(self._data.path), "reason": str(error)})

    def _schema(self, data: DataSet) -> Schema:
        names = None if data.feature_names is None else tuple(data.feature_names)
        return Schema.of(data.X, _labels(data), self._terms, names)

    @property
    def _has_finished(self) -> bool:
        """Whether the site's own rule for stopping has held; it goes on all the same, for the others and new rows."""
        return self.live is not None and self.live.status()["finished"] is not None

    def write_status(self) -> None:
        """Replace the status file."""
        network = {} if self.live is None else self.live.status()
        traffic = network.get("traffic", {}).values()
        facts = {
            "site": self.name, "shares": self.shares, "rows_shared": 0, **self.agreement.status(),
            "bytes_in": sum(one["bytes_in"] for one in traffic), "bytes_out": sum(one["bytes_out"] for one in traffic),
            "process": os.getpid(), "converged": self._has_finished, "trouble": self._trouble, "network": network,
        }  # fmt: skip
        write_file(self.folder.status, json.dumps(facts, default=str).encode(), durable=False)

    def write_model(self, durable: bool = False) -> None:
        """Replace the model file, if there is anything to predict with."""
        weights = self.agreement.weights
        if weights is not None and self._is_sound(weights):
            write_model(self.folder.model, self._steps(weights), self._notes(), pipeline=True, durable=durable)

    def _is_sound(self, weights: Any) -> bool:
        """Whether there is an estimate of their objective: none for a moment when a neighbour's part is undone."""
        learner = self.agreement.learner
        return learner is not None and bool(np.isfinite(weights).all() and np.isfinite(learner.objective).all())

    def _notes(self) -> dict[str, Any]:
        status, schema = self.agreement.status(), self.agreement.schema
        return {
            "site": self.name,
            "schema": {"digest": schema.digest, "terms": dict(schema.terms), "labels": list(schema.labels),
                       "low": schema.low.tolist(), "high": schema.high.tolist(), "sites": status["sites"]},
            "label": self._first.label, "zero_based": self._first.zero_based,
        }  # fmt: skip

    def _steps(self, weights: Any) -> list[Step]:
        """What `dimargin.load` makes a pipeline of: the agreed scaling, then the machine."""
        schema, options, learner = self.agreement.schema, self.options, self.agreement.learner
        assert learner is not None
        width: dict[str, Any] = {"n_features_in_": schema.n_features}
        if schema.feature_names is not None:
            width["feature_names_in_"] = np.array(schema.feature_names, dtype=object)
        machine = Step(
            "machine", "GossipSVMClassifier",
            {"alpha": options.alpha, "gradient": options.gradient, "fit_intercept": options.fit_intercept,
             "n_sites": len(self.agreement.rows)},
            {
                "classes_": np.array(schema.labels),
                "coef_": weights[:, : schema.n_features].copy(),
                "intercept_": weights[:, -1].copy() if schema.has_intercept else np.zeros(len(weights)),
                **_certificate(learner.objective, learner.dual_objective), "n_iter_": max(1, learner.rounds),
                "status_": "converged" if self._has_finished else "learning", **width,
            },
        )  # fmt: skip
        return [*_scaler(schema, width, self.agreement.n_rows), machine]


def _certificate(primal: Any, dual: Any) -> dict[str, Any]:
    """What the site believes of its model, which no one can know without all rows."""
    gap = float(((primal - dual) / np.maximum(np.abs(primal), np.finfo(float).tiny)).max())
    single = len(primal) == 1
    return {
        "objective_": float(primal[0]) if single else primal, "dual_objective_": float(dual[0]) if single else dual,
        "duality_gap_": gap, "certificate_": "estimated", "history_": [],
    }  # fmt: skip


def _scaler(schema: Schema, width: dict[str, Any], n_rows: int) -> list[Step]:
    kind, factors = schema.terms["scaling"], schema.factors
    if kind == "minmax":
        limits = {"data_min_": schema.low, "data_max_": schema.high, "data_range_": schema.high - schema.low}
        own = {"scale_": factors, "min_": -schema.low * factors, "n_samples_seen_": n_rows, **limits}
        return [Step("scaler", "MinMaxScaler", {}, {**own, **width})]
    if kind == "maxabs":
        own = {"scale_": 1 / factors, "max_abs_": np.maximum(-schema.low, schema.high), "n_samples_seen_": n_rows}
        return [Step("scaler", "MaxAbsScaler", {}, {**own, **width})]
    return []


def _labels(data: DataSet) -> Any:
    assert data.y is not None  # files without labels have been refused
    return data.y


def json_log(name: str, write: Callable[[str], object]) -> Callable[[str, dict[str, Any]], None]:
    """A log of one JSON object a line: time of this site's own clock, site, what happened, facts."""

    def log(what: str, facts: dict[str, Any]) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + "Z"
        about = {("about" if key == "site" else key): value for key, value in facts.items()}
        write(json.dumps({"time": now, "site": name, "what": what, **about}, default=str) + "\n")

    return log
