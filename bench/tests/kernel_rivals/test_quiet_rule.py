"""The GADGET paper's rule of convergence against changes by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dimargin_bench.kernel_rivals.quiet_rule import QuietRule, check_rule


@given(st.integers(0, 99), st.sampled_from(["norm", "weights"]), st.floats(0.05, 1.0))
@settings(max_examples=20)
def test_counts_are_those_of_changes_by_hand(seed, reading, epsilon):
    rng = np.random.default_rng(seed)
    path = np.cumsum(rng.normal(scale=0.2, size=(30, 3, 2)), axis=0)
    path[:2, 0] = 0.0  # the first of three has not begun for two iterations
    rule, counts, last = QuietRule(epsilon, reading), [0, 0, 0], np.zeros((3, 2))
    for weights in path:
        for k in range(3):
            a, b = weights[k], last[k]
            change = abs(np.hypot(*a) - np.hypot(*b)) if reading == "norm" else np.hypot(*(a - b))
            counts[k] = counts[k] + 1 if change < epsilon and a.any() else 0
        assert rule.look(weights).tolist() == counts
        last = weights


def test_vectors_on_a_sphere_are_quiet_by_their_norm_alone():
    norm, weights = QuietRule(1e-3, "norm"), QuietRule(1e-3, "weights")
    for angle in range(5):
        w = 10 * np.array([[np.cos(angle), np.sin(angle)]])
        by_norm, by_weights = norm.look(w)[0], weights.look(w)[0]
    assert (by_norm, by_weights) == (4, 0)


def test_parameters_out_of_range():
    check_rule(None, "weights")
    for epsilon, reading, message in ((0.0, "norm", "epsilon must be"), (1.0, "length", "'norm' or 'weights'")):
        with pytest.raises(ValueError, match=message):
            check_rule(epsilon, reading)
