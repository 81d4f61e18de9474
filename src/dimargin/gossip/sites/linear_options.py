"""Options of sites that learn without sharing rows: a linear machine, or one on random features of a kernel.

Random Fourier features are equal at all sites, and the model contains no rows. They depend on the
agreed scaling, on the number of columns, and on terms of the schema: gamma, the number of features,
and the seed. A digest of random numbers from this seed is a term too, so that sites refuse each
other if their versions of NumPy draw different numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.messages import digest_of
from dimargin.gossip.programs.learner_parameters import LinearParameters
from dimargin.gossip.schema import Schema
from dimargin.gossip.sites.options import SiteOptions, width_of
from dimargin.kernels.fourier import fourier_features, fourier_frequencies
from dimargin.problems.hinge import LOSSES, HingeRows, loss_of
from dimargin.problems.losses import MAX_PARAMETER, MIN_PARAMETER, Loss
from dimargin.system.arrays import Floats
from dimargin.system.value_tree import Step


@dataclass(frozen=True)
class LinearOptions(SiteOptions, LinearParameters):
    """Abstract base class of options of linear machines."""

    shares = "parameters"
    min_labels = 2

    def __post_init__(self) -> None:
        if not MIN_PARAMETER <= self.alpha <= MAX_PARAMETER:
            raise ValueError(f"alpha must be in [{MIN_PARAMETER:g}, {MAX_PARAMETER:g}], got {self.alpha!r}")
        if self.loss_function not in LOSSES:
            raise ValueError(f"loss_function must be one of {', '.join(LOSSES)}, got {self.loss_function!r}")
        if not 0 <= self.theta < 1:
            raise ValueError(f"theta must be in [0, 1), got {self.theta!r}")
        if not 0 < self.upsilon <= 1:
            raise ValueError(f"upsilon must be in (0, 1], got {self.upsilon!r}")
        if self.kernel not in ("linear", "rbf"):
            raise ValueError(f"kernel must be 'linear' or 'rbf', got {self.kernel!r}")
        if self.gamma is not None and not MIN_PARAMETER <= self.gamma <= MAX_PARAMETER:
            raise ValueError(f"gamma must be in [{MIN_PARAMETER:g}, {MAX_PARAMETER:g}], got {self.gamma!r}")
        if not 2 <= self.features <= LIMITS.features or self.features % 2:
            raise ValueError(f"features must be an even number in [2, {LIMITS.features}], got {self.features!r}")
        if self.feature_seed < 0:
            raise ValueError(f"feature_seed must be a whole number not below 0, got {self.feature_seed!r}")

    def own_terms(self) -> dict[str, Any]:
        """Return the terms that only this program has."""
        band = {"theta": self.theta, "upsilon": self.upsilon} if self.loss_function == "odm" else {}
        return {
            "loss": self.loss_function,
            "alpha": self.alpha,
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
            "features": self.features,
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
            "gamma": self._gamma(schema), "n_components": self.features // 2, "random_state": self.feature_seed
        }  # fmt: skip
        attributes = {"frequencies_": self._frequencies(schema)} | width_of(schema)
        return [Step("features", "FourierFeatures", parameters, attributes)]

    def _gamma(self, schema: Schema) -> float:
        return 1 / schema.n_features if self.gamma is None else self.gamma

    def _frequencies(self, schema: Schema) -> Floats:
        """Return the random frequencies, of shape (n_features, features / 2)."""
        return fourier_frequencies(schema.n_features, self.features // 2, self._gamma(schema), self.feature_seed)

    def shape(self, schema: Schema) -> tuple[int, int]:
        """Return the shape of the weights, with that of the intercept."""
        return schema.n_outputs, (self.features if self.is_kernel else schema.n_features) + 1

    def rows(self, X: Any, y: NDArray[Any], schema: Schema) -> HingeRows:
        """Return scaled rows, or their random features, with the signs of their labels."""
        found = schema.scaled(X)
        if self.is_kernel:
            found = fourier_features(found[:, : schema.n_features], self._frequencies(schema))
            found = np.column_stack([found, np.ones(len(found))]) if schema.has_intercept else found
        return HingeRows(found, schema.signs(y), self.loss)

    def classifier(
        self, weights: Floats, schema: Schema, parameters: Mapping[str, Any], attributes: Mapping[str, Any]
    ) -> Step:
        """Return the model's last step with these weights, and with more parameters and attributes."""
        n_constant = int(schema.has_intercept)
        intercept = weights[:, -1].copy() if schema.has_intercept else np.zeros(len(weights))
        known = "alpha", "fit_intercept", "loss_function", "theta", "upsilon"
        problem = {name: getattr(self, name) for name in known}
        own = {
            "classes_": np.array(schema.labels),
            "coef_": weights[:, : weights.shape[1] - n_constant].copy(),
            "intercept_": intercept,
            **({"n_features_in_": self.features} if self.is_kernel else width_of(schema)),
        }
        return Step("machine", "GossipSVMClassifier", {**problem, **parameters}, {**own, **attributes})
