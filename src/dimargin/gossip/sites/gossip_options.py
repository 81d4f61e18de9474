"""Options of sites that learn a linear machine by GADGET, without sharing rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.programs.exchange import Difference, Exchange, Sums
from dimargin.gossip.programs.gadget import Gadget
from dimargin.gossip.programs.gadget_settings import GadgetSettings
from dimargin.gossip.programs.learner_parameters import GadgetParameters, GossipParameters
from dimargin.gossip.programs.local_gadget import gadget_of
from dimargin.gossip.schema import Schema
from dimargin.gossip.sites.linear_options import LinearOptions
from dimargin.gossip.sites.options import certificate, longest_row
from dimargin.problems.hinge import HingeRows
from dimargin.system.value_tree import Step


@dataclass(frozen=True)
class GossipOptions(LinearOptions, GossipParameters):
    """Options of GADGET."""

    program, messages = "gadget", (Exchange, Difference)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.compression not in ("none", "quantised"):
            raise ValueError(f"compression must be none or quantised, got {self.compression!r}")
        if self.compression != "none" and self.gradient != "tracked":
            raise ValueError(f"compression must be none for local gradients, got {self.compression!r}")
        if self.loss_function != "hinge" and self.step_size == "pegasos":
            raise ValueError(f"step_size must be 'auto' or a number for {self.loss_function}, got 'pegasos'")

    def own_terms(self) -> dict[str, Any]:
        """Return the terms that only this program has."""
        return {**super().own_terms(), "gradient": self.gradient, "step_size": self.step_size}

    def message_size(self, schema: Schema) -> int:
        """Return the bytes of a message with weights, gradient sums and statistics of features."""
        shape = self.shape(schema)
        return 8 * (shape[0] * shape[1] + Sums.size(shape))

    def learner(self, name: str, rows: Any, schema: Schema, counts: Mapping[str, int], seed: tuple[int, ...]) -> Gadget:
        """Return the learner of a site."""
        return gadget_of(rows, self.settings(schema, sum(counts.values())), seed)

    def settings(self, schema: Schema, n_rows: int) -> GadgetSettings:
        """Return the settings under a schema, with bounds on the messages of correct sites."""
        # The norm of a row of random features is one, and the constant of the intercept is one.
        radius = 2**0.5 if self.is_kernel else max(longest_row(schema), 1.0)
        # A smooth loss grows with margins, whose size is bounded for weights better than zero.
        steepness = HingeRows(np.zeros((0, 1)), np.zeros((1, 0)), self.loss).steepness
        rise = steepness * (1 + radius * np.sqrt(2 / self.alpha)) ** 2 if self.loss.smooth else 1.0
        max_norm = 10 * np.sqrt(len(schema.labels)) * radius * rise / self.alpha  # Since |w| <= radius / alpha.
        max_mass = 10 * rise * max(n_rows, 1) * radius**2 * max(self.lease / self.interval, 1.0)
        return GadgetSettings(
            **{field.name: getattr(self, field.name) for field in fields(GadgetParameters)},
            interval=self.interval,
            lease=self.lease,
            norm_bound=min(max_norm, LIMITS.number),
            mass_bound=min(max_mass, LIMITS.number),
            max_messages=self.max_messages,
            schema=schema.digest,
            inherits_weights=not self.is_kernel,
        )

    def machine(self, learner: Gadget, schema: Schema, counts: Mapping[str, int]) -> Step | None:
        """Return the model's last step, or None before the first step or without an estimate of the objective.

        There is no estimate while a neighbour's contribution is being undone.
        """
        weights = learner.weights
        if not (learner.steps and np.isfinite(weights).all() and np.isfinite(learner.objective).all()):
            return None
        attributes = {
            **certificate(learner.objective, learner.dual_objective, "estimated"),
            "n_iter_": max(1, learner.rounds),
        }
        return self.classifier(weights, schema, {"gradient": self.gradient, "n_sites": len(counts)}, attributes)
