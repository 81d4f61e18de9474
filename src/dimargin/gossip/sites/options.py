"""Options that the owner of a site chooses, whatever the site learns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dimargin.gossip.identity import Identity
from dimargin.gossip.programs.learner import LearnerFactory
from dimargin.gossip.schema import Schema
from dimargin.gossip.sites.row_source import Rows
from dimargin.problems.objectives import relative
from dimargin.system.value_tree import Step

_MIN_MESSAGES = 200.0  # a second, of one neighbour, that nobody is refused for
_TIMES_THE_INTERVAL = 20.0  # likewise, as a multiple of a site's own


@dataclass(frozen=True)
class SiteOptions(LearnerFactory):
    """Abstract base class of options: those that all sites must share (`terms`), and those that each may choose.

    For `n_sites`, `min_sites` and `settle` see `dimargin.gossip.programs.agreement.Agreement`.
    """

    program: ClassVar[str]

    scale: bool = True  # whether features are scaled by the least and largest values of all sites
    interval: float = 0.05  # seconds between rounds
    lease: float = 2.0  # seconds of silence after which a neighbour counts as gone
    n_sites: int | None = None
    min_sites: int = 1
    settle: float = 3.0
    poll: float = 2.0  # seconds between reads of the data file, and between model files
    identity: Identity | None = None  # where sites have certificates: rows that leave the site are signed

    @property
    def uses_labels(self) -> bool:
        """Return whether rows need labels."""
        return self.min_labels > 0

    def terms(self, data: Rows) -> dict[str, Any]:
        """Return the settings that must be the same at all sites."""
        return {
            "program": self.program,
            # what LIBSVM text leaves out is zero, and has to stay zero
            "scaling": "none" if not self.scale else "minmax" if data.zero_based is None else "maxabs",
            "features_counted_from": None if data.zero_based is None else int(not data.zero_based),
            **self.own_terms(),
        }

    @abstractmethod
    def own_terms(self) -> dict[str, Any]:
        """Return the terms that only this program has, which decide what is learnt."""

    @abstractmethod
    def machine(self, learner: Any, schema: Schema, counts: Mapping[str, int]) -> Step | None:
        """Return the model's last step, without its status; None while there is no model.

        These options have made the learner, and `counts` are numbers of rows by site.
        """

    def extra_steps(self, schema: Schema) -> list[Step]:
        """Return the model's steps between the scaling and the machine."""
        return []

    @property
    def max_messages(self) -> float:
        """Messages per second that one neighbour may send before it is refused."""
        return max(_MIN_MESSAGES, _TIMES_THE_INTERVAL / self.interval)


def longest_row(schema: Schema) -> float:
    """Return the norm that no scaled row within the limits exceeds."""
    limits = [np.abs((values - schema.shifts) * schema.factors) for values in (schema.low, schema.high)]
    return float(np.sqrt((np.maximum(*limits) ** 2).sum() + schema.has_intercept))


def width_of(schema: Schema) -> dict[str, Any]:
    """Return the attributes of any fitted step that describe its features."""
    width: dict[str, Any] = {"n_features_in_": schema.n_features}
    if schema.feature_names is not None:
        width["feature_names_in_"] = np.array(schema.feature_names, dtype=object)
    return width


def certificate(primal: Any, dual: Any) -> dict[str, Any]:
    """Return the attributes of the certificate of one output or several.

    A site can only estimate them, since no site knows all rows.
    """
    gap = float(relative(primal - dual, primal).max())
    single = len(primal) == 1
    return {
        "objective_": float(primal[0]) if single else primal, "dual_objective_": float(dual[0]) if single else dual,
        "duality_gap_": gap, "certificate_": "estimated", "history_": [],
    }  # fmt: skip


def scaler(schema: Schema, n_rows: int) -> list[Step]:
    """Return the agreed scaling as the first step of a pipeline; an empty list without scaling."""
    kind, factors, width = schema.terms["scaling"], schema.factors, width_of(schema)
    if kind == "minmax":
        limits = {"data_min_": schema.low, "data_max_": schema.high, "data_range_": schema.high - schema.low}
        own = {"scale_": factors, "min_": -schema.low * factors, "n_samples_seen_": n_rows, **limits}
        return [Step("scaler", "MinMaxScaler", {}, {**own, **width})]
    if kind == "maxabs":
        own = {"scale_": 1 / factors, "max_abs_": np.maximum(-schema.low, schema.high), "n_samples_seen_": n_rows}
        return [Step("scaler", "MaxAbsScaler", {}, {**own, **width})]
    return []
