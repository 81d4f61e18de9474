"""Kernel machines by gossip: sites learn a linear machine of random Fourier features that they draw alike.

No row leaves a site, and none is in the model. Features depend on the agreed scaling, on the number of columns, and on
terms of the schema: gamma, their number, and the seed. A digest of some of the seed's random numbers is a term too, so
that sites refuse one another whose NumPy would draw others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dimargin.gossip import limits
from dimargin.gossip.messages import digest_of
from dimargin.gossip.programs.gadget import Gadget
from dimargin.gossip.programs.learner_parameters import GossipParameters
from dimargin.gossip.schema import Schema
from dimargin.gossip.sites.options import width_of
from dimargin.kernels.fourier import fourier_features, fourier_frequencies
from dimargin.problems.losses import MAX_PARAMETER, MIN_PARAMETER
from dimargin.system.arrays import Floats
from dimargin.system.value_tree import Step

FEATURE_ROW = 2**0.5
"""Length that no row of features exceeds: one, and the constant of an intercept."""

_DRAWN, _DIGITS = 64, 6  # random numbers that sites compare, and their digits: the last ones may differ


class KernelGadget(Gadget):
    """GADGET on random features, which may be others under a wider schema."""

    def inherit(self, state: dict[str, Any], schema: Schema, before: Schema) -> None:
        """Begin anew, as weights of other features say nothing."""


def check_kernel(options: GossipParameters) -> None:
    """Raise ValueError for a parameter of the kernel out of its range."""
    if options.kernel not in ("linear", "rbf"):
        raise ValueError(f"kernel must be 'linear' or 'rbf', which has random features; got {options.kernel!r}")
    if options.gamma is not None and not MIN_PARAMETER <= options.gamma <= MAX_PARAMETER:
        raise ValueError(f"gamma must be in [{MIN_PARAMETER:g}, {MAX_PARAMETER:g}], got {options.gamma!r}")
    if not 1 <= options.components <= limits.FEATURES // 2:
        raise ValueError(f"components must be in [1, {limits.FEATURES // 2}], got {options.components!r}")
    if options.feature_seed < 0:
        raise ValueError(f"feature_seed must be a whole number of at least 0, got {options.feature_seed!r}")


def kernel_terms(options: GossipParameters) -> dict[str, Any]:
    """Return the terms that only kernel machines have."""
    if options.kernel == "linear":
        return {}
    drawn = np.random.default_rng(options.feature_seed).normal(size=_DRAWN).round(_DIGITS) + 0.0
    return {
        "kernel": options.kernel, "gamma": "1 / features" if options.gamma is None else options.gamma,
        "components": options.components, "feature_seed": options.feature_seed,
        "random_numbers": digest_of({"drawn": drawn}),
    }  # fmt: skip


def frequencies(options: GossipParameters, schema: Schema) -> Floats:
    """Return the frequencies under a schema, of shape (n_features, components)."""
    return fourier_frequencies(schema.n_features, options.components, _gamma(options, schema), options.feature_seed)


def with_features(options: GossipParameters, scaled: Any, schema: Schema) -> Floats:
    """Return the features of rows, which have been scaled, with a last one of one if there is an intercept."""
    X = scaled[:, : schema.n_features]
    features = fourier_features(X, frequencies(options, schema))
    return np.column_stack([features, np.ones(len(features))]) if schema.has_intercept else features


def feature_step(options: GossipParameters, schema: Schema) -> Step:
    """Return the step of a model that makes the features."""
    parameters = {
        "gamma": _gamma(options, schema), "n_components": options.components, "random_state": options.feature_seed
    }  # fmt: skip
    return Step(
        "features", "FourierFeatures", parameters, {"frequencies_": frequencies(options, schema)} | width_of(schema)
    )


def _gamma(options: GossipParameters, schema: Schema) -> float:
    return 1 / schema.n_features if options.gamma is None else options.gamma
