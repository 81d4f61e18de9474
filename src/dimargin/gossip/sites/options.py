"""Options that the owner of a site chooses for any kind of learner."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dimargin.gossip.identity import Identity
from dimargin.gossip.programs.learner import LearnerFactory
from dimargin.gossip.schema import Schema
from dimargin.problems.objectives import relative
from dimargin.system.value_tree import Step


@dataclass(frozen=True)
class SiteOptions(LearnerFactory):
    """Abstract base class of options: those that all sites must share (`terms`), and those that each site may choose.

    For `n_sites`, `min_sites` and `settle` see
    `dimargin.gossip.programs.agreement.AgreementSettings`.
    """

    program: ClassVar[str]

    scale: bool = True  # Whether features are scaled by the smallest and largest values of all sites.
    interval: float = 0.05  # Seconds between rounds.
    lease: float = 2.0  # Seconds of silence after which a neighbour counts as gone.
    n_sites: int | None = None
    min_sites: int = 1
    settle: float = 3.0
    poll: float = 2.0  # Seconds between reads of the data file, and between writes of the model file.
    birth: float = 0.0  # As in `LearnerSettings`.
    identity: Identity | None = None  # Signs the rows that leave the site, if sites have certificates.

    @property
    def is_private(self) -> bool:
        """Return whether nothing may be sent that one row decides, such as the smallest value of a column."""
        return False

    @property
    def uses_labels(self) -> bool:
        """Return whether rows need labels."""
        return self.min_labels > 0

    def terms(self, zero_based: bool | None) -> dict[str, Any]:
        """Return the settings that must be the same at all sites.

        `zero_based` says whether features are counted from zero, for LIBSVM text; None for other
        files.
        """
        return {
            "program": self.program,
            # Features that LIBSVM text omits are zero, and must stay zero.
            "scaling": "none" if not self.scale else "minmax" if zero_based is None else "maxabs",
            "features_counted_from": None if zero_based is None else int(not zero_based),
            **self.own_terms(),
        }

    @abstractmethod
    def own_terms(self) -> dict[str, Any]:
        """Return the terms that only this program has."""

    @abstractmethod
    def machine(self, learner: Any, schema: Schema, counts: Mapping[str, int]) -> Step | None:
        """Return the model's last step, without its status, or None while there is no model.

        The learner is one of these options, and `counts` are numbers of rows by site.
        """

    def extra_steps(self, schema: Schema) -> list[Step]:
        """Return the model's steps between the scaling and the machine."""
        return []

    @property
    def max_messages(self) -> float:
        """Messages per second that one neighbour may send: 200, or 20 per round of this site if these are more."""
        return max(200.0, 20.0 / self.interval)


def longest_row(schema: Schema) -> float:
    """Return the largest norm of a scaled row within the limits."""
    limits = [np.abs((values - schema.shifts) * schema.factors) for values in (schema.low, schema.high)]
    return float(np.sqrt((np.maximum(*limits) ** 2).sum() + schema.has_intercept))


def width_of(schema: Schema) -> dict[str, Any]:
    """Return the attributes that describe the features of a fitted step."""
    width: dict[str, Any] = {"n_features_in_": schema.n_features}
    if schema.feature_names is not None:
        width["feature_names_in_"] = np.array(schema.feature_names, dtype=object)
    return width


def certificate(primal: Any, dual: Any, scope: str) -> dict[str, Any]:
    """Return the attributes of the certificate of one output or several.

    The scope is "network" if all sites have computed it together, or "estimated" by this site.
    """
    single = len(primal) == 1
    return {
        "objective_": float(primal[0]) if single else primal,
        "dual_objective_": float(dual[0]) if single else dual,
        "duality_gap_": float(relative(primal - dual, primal).max()),
        "certificate_": scope,
        "history_": [],
    }


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
