"""Objectives of outputs and what is known of them where they overflow."""

import numpy as np

from dimargin.problems.objectives import Objectives


def test_what_an_infinite_objective_has_reached_is_not_known():
    """No warning: whoever compares with it finds that it is neither more nor less."""
    primal, gap = np.array([2.0, np.inf]), np.array([0.5, np.inf])
    found = Objectives(primal, np.array([1.0, -np.inf]), gap, np.zeros(2), np.zeros(2))
    with np.errstate(all="raise"):
        assert found.reached[0] == 1.0 and np.isnan(found.reached[1])


def test_a_gap_that_overflows_beside_an_objective_of_zero_is_infinite():
    found = Objectives.of(np.zeros(1), np.full(1, 1e3), np.zeros(1), 1e3)
    with np.errstate(all="raise"):
        assert found.relative_gap == found.unrounded == np.inf and not found.met(0.1)
