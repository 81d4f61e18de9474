"""Kernel machines by gossip: sites learn a linear machine on random Fourier features that are equal at all sites.

No row leaves a site, and the model contains no rows. Features depend on the agreed scaling, on the
number of columns, and on terms of the schema: gamma, the number of features, and the seed. A digest
of random numbers from this seed is a term too, so that sites refuse each other if their versions of
NumPy draw different numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dimargin.gossip.limits import LIMITS
from dimargin.gossip.messages import digest_of
from dimargin.gossip.programs.learner_parameters import GossipParameters
from dimargin.gossip.schema import Schema
from dimargin.gossip.sites.options import width_of
from dimargin.kernels.fourier import fourier_features, fourier_frequencies
from dimargin.problems.losses import MAX_PARAMETER, MIN_PARAMETER
from dimargin.system.arrays import Floats
from dimargin.system.value_tree import Step


def check_kernel(options: GossipParameters) -> None:
    """Raise ValueError for a parameter of the kernel out of its range."""
    if options.kernel not in ("linear", "rbf"):
        raise ValueError(f"kernel must be 'linear' or 'rbf', got {options.kernel!r}")
    if options.gamma is not None and not MIN_PARAMETER <= options.gamma <= MAX_PARAMETER:
        raise ValueError(f"gamma must be in [{MIN_PARAMETER:g}, {MAX_PARAMETER:g}], got {options.gamma!r}")
    if not 1 <= options.components <= LIMITS.features // 2:
        raise ValueError(f"components must be in [1, {LIMITS.features // 2}], got {options.components!r}")
    if options.feature_seed < 0:
        raise ValueError(f"feature_seed must be a whole number not below 0, got {options.feature_seed!r}")


def kernel_terms(options: GossipParameters) -> dict[str, Any]:
    """Return the terms that only kernel machines have."""
    if options.kernel == "linear":
        return {}
    # Sites compare 64 random numbers to six digits, since the last digits may differ.
    drawn = np.random.default_rng(options.feature_seed).normal(size=64).round(6) + 0.0
    return {
        "kernel": options.kernel,
        "gamma": "1 / features" if options.gamma is None else options.gamma,
        "components": options.components,
        "feature_seed": options.feature_seed,
        "random_numbers": digest_of({"drawn": drawn}),
    }


def frequencies(options: GossipParameters, schema: Schema) -> Floats:
    """Return the random frequencies under a schema, of shape (n_features, components)."""
    return fourier_frequencies(schema.n_features, options.components, _gamma(options, schema), options.feature_seed)


def with_features(options: GossipParameters, scaled: Any, schema: Schema) -> Floats:
    """Return the random features of scaled rows, with a last feature of one if there is an intercept."""
    X = scaled[:, : schema.n_features]
    features = fourier_features(X, frequencies(options, schema))
    return np.column_stack([features, np.ones(len(features))]) if schema.has_intercept else features


def feature_step(options: GossipParameters, schema: Schema) -> Step:
    """Return the step of a model that computes the random features."""
    gamma, seed = _gamma(options, schema), options.feature_seed
    parameters = {"gamma": gamma, "n_components": options.components, "random_state": seed}
    attributes = {"frequencies_": frequencies(options, schema)} | width_of(schema)
    return Step("features", "FourierFeatures", parameters, attributes)


def _gamma(options: GossipParameters, schema: Schema) -> float:
    return 1 / schema.n_features if options.gamma is None else options.gamma
