"""Options of sites that learn by gossip, without sharing rows: a linear machine, or one on random features of a kernel.

Random Fourier features are equal at all sites, and the model contains no rows. They depend on the
agreed scaling, on the number of columns, and on terms of the schema: gamma, the number of features,
and the seed. A digest of random numbers from this seed is a term too, so that sites refuse each
other if their versions of NumPy draw different numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.messages import digest_of
from dimargin.gossip.programs.exchange import Difference, Exchange, Sums
from dimargin.gossip.programs.gadget import Gadget
from dimargin.gossip.programs.gadget_settings import GadgetSettings
from dimargin.gossip.programs.learner_parameters import GadgetParameters, GossipParameters
from dimargin.gossip.programs.local_gadget import gadget_of
from dimargin.gossip.schema import Schema
from dimargin.gossip.sites.options import SiteOptions, certificate, longest_row, width_of
from dimargin.kernels.fourier import fourier_features, fourier_frequencies
from dimargin.problems.hinge import LOSSES, HingeRows, loss_of
from dimargin.problems.losses import MAX_PARAMETER, MIN_PARAMETER, Loss
from dimargin.system.arrays import Floats
from dimargin.system.value_tree import Step


@dataclass(frozen=True)
class GossipOptions(SiteOptions, GossipParameters):
    """Options of GADGET."""

    program, shares, messages = "gadget", "parameters", (Exchange, Difference)
    min_labels = 2

    def __post_init__(self) -> None:
        if not MIN_PARAMETER <= self.alpha <= MAX_PARAMETER:
            raise ValueError(f"alpha must be in [{MIN_PARAMETER:g}, {MAX_PARAMETER:g}], got {self.alpha!r}")
        if self.loss_function not in LOSSES:
            raise ValueError(f"loss_function must be one of {', '.join(LOSSES)}, got {self.loss_function!r}")
        if self.compression not in ("none", "quantised"):
            raise ValueError(f"compression must be none or quantised, got {self.compression!r}")
        if self.compression != "none" and self.gradient != "tracked":
            raise ValueError(f"compression must be none for local gradients, got {self.compression!r}")
        if not 0 <= self.theta < 1:
            raise ValueError(f"theta must be in [0, 1), got {self.theta!r}")
        if not 0 < self.upsilon <= 1:
            raise ValueError(f"upsilon must be in (0, 1], got {self.upsilon!r}")
        if self.loss_function != "hinge" and self.step_size == "pegasos":
            raise ValueError(f"step_size must be 'auto' or a number for {self.loss_function}, got 'pegasos'")
        if self.kernel not in ("linear", "rbf"):
            raise ValueError(f"kernel must be 'linear' or 'rbf', got {self.kernel!r}")
        if self.gamma is not None and not MIN_PARAMETER <= self.gamma <= MAX_PARAMETER:
            raise ValueError(f"gamma must be in [{MIN_PARAMETER:g}, {MAX_PARAMETER:g}], got {self.gamma!r}")
        if not 1 <= self.components <= LIMITS.features // 2:
            raise ValueError(f"components must be in [1, {LIMITS.features // 2}], got {self.components!r}")
        if self.feature_seed < 0:
            raise ValueError(f"feature_seed must be a whole number not below 0, got {self.feature_seed!r}")

    def own_terms(self) -> dict[str, Any]:
        """Return the terms that only this program has."""
        band = {"theta": self.theta, "upsilon": self.upsilon} if self.loss_function == "odm" else {}
        return {
            "loss": self.loss_function,
            "alpha": self.alpha,
            "gradient": self.gradient,
            "step_size": self.step_size,
            "fit_intercept": self.fit_intercept,
            **band,
            **self._kernel_terms(),
        }

    def _kernel_terms(self) -> dict[str, Any]:
        if not self.is_kernel:
            return {}
        # Sites compare 64 random numbers to six digits, since the last digits may differ.
        drawn = np.random.default_rng(self.feature_seed).normal(size=64).round(6) + 0.0
        return {
            "kernel": self.kernel,
            "gamma": "1 / features" if self.gamma is None else self.gamma,
            "components": self.components,
            "feature_seed": self.feature_seed,
            "random_numbers": digest_of({"drawn": drawn}),
        }

    @property
    def loss(self) -> Loss:
        """Loss of a row's margin."""
        return loss_of(self.loss_function, self.theta, self.upsilon)

    @property
    def is_kernel(self) -> bool:
        """Return whether rows are random features of a kernel."""
        return self.kernel != "linear"

    def extra_steps(self, schema: Schema) -> list[Step]:
        """Return the step of the random features, if there are any."""
        if not self.is_kernel:
            return []
        parameters = {
            "gamma": self._gamma(schema), "n_components": self.components, "random_state": self.feature_seed
        }  # fmt: skip
        attributes = {"frequencies_": self._frequencies(schema)} | width_of(schema)
        return [Step("features", "FourierFeatures", parameters, attributes)]

    def _gamma(self, schema: Schema) -> float:
        return 1 / schema.n_features if self.gamma is None else self.gamma

    def _frequencies(self, schema: Schema) -> Floats:
        """Return the random frequencies, of shape (n_features, components)."""
        return fourier_frequencies(schema.n_features, self.components, self._gamma(schema), self.feature_seed)

    def message_size(self, schema: Schema) -> int:
        """Return the bytes of a message with weights, gradient sums and statistics of features."""
        n_outputs, width = schema.n_outputs, (2 * self.components if self.is_kernel else schema.n_features) + 1
        return 8 * (n_outputs * width + Sums.size((n_outputs, width)))

    def rows(self, X: Any, y: NDArray[Any], schema: Schema) -> HingeRows:
        """Return scaled rows, or their random features, with the signs of their labels."""
        found = schema.scaled(X)
        if self.is_kernel:
            found = fourier_features(found[:, : schema.n_features], self._frequencies(schema))
            found = np.column_stack([found, np.ones(len(found))]) if schema.has_intercept else found
        return HingeRows(found, schema.signs(y), self.loss)

    def learner(self, name: str, rows: Any, schema: Schema, n_rows: int, seed: tuple[int, ...]) -> Gadget:
        """Return the learner of a site."""
        return gadget_of(rows, self.settings(schema, n_rows), seed)

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
        n_constant = int(schema.has_intercept)
        intercept = weights[:, -1].copy() if schema.has_intercept else np.zeros(len(weights))
        parameters = {
            "alpha": self.alpha,
            "gradient": self.gradient,
            "fit_intercept": self.fit_intercept,
            "n_sites": len(counts),
            "loss_function": self.loss_function,
            "theta": self.theta,
            "upsilon": self.upsilon,
        }
        attributes = {
            "classes_": np.array(schema.labels),
            "coef_": weights[:, : weights.shape[1] - n_constant].copy(),
            "intercept_": intercept,
            **certificate(learner.objective, learner.dual_objective),
            "n_iter_": max(1, learner.rounds),
            **({"n_features_in_": 2 * self.components} if self.is_kernel else width_of(schema)),
        }
        return Step("machine", "GossipSVMClassifier", parameters, attributes)
