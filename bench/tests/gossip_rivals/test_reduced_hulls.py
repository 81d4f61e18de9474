"""Convex layers, the reduced hulls that they keep, and sites that come to the machine of all rows by them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog
from test_set_gossip import ALPHA, FAULTS, best, network, overlapping, weights

from dimargin.gossip.simulation.conditions import Conditions
from dimargin.problems.hinge import HingeRows
from dimargin_bench.gossip_rivals import ReducedHulls, SetGossip
from dimargin_bench.gossip_rivals.hinge_machine import HingeMachine
from dimargin_bench.gossip_rivals.reduced_hulls import LayerSelection, convex_layers
from dimargin_bench.gossip_rivals.row_selection import RowSelection


def farthest(X, direction, bound):
    """How far the reduced hull reaches in a direction, by a linear program over the coefficients."""
    found = linprog(-(X @ direction), A_eq=np.ones((1, len(X))), b_eq=[1.0], bounds=(0.0, bound), method="highs")
    return -found.fun


@given(st.integers(2, 5), st.integers(1, 4), st.integers(0, 99), st.booleans())
@settings(max_examples=30)
def test_layers_have_the_reduced_hull_of_all_rows(m, d, seed, on_a_grid):
    """In every direction, for the smallest bound 1/m and a larger one."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, size=(40, d)).astype(float) if on_a_grid else rng.normal(size=(40, d))
    kept = X[convex_layers(X, m)]
    for direction in rng.normal(size=(5, d)):
        assert farthest(X, direction, 1 / m) == pytest.approx(np.sort(X @ direction)[-m:].mean())
        for bound in (1 / m, 1.5 / m):
            assert farthest(kept, direction, bound) == pytest.approx(farthest(X, direction, bound))


def test_a_layer_less_is_too_little_and_so_are_hulls_of_each_site():
    line, along = np.arange(60.0)[:, None], np.ones(1)
    reached = [farthest(line[convex_layers(line, n)], along, 1 / 4) for n in (3, 4)]
    assert_allclose(reached, [(59 + 58 + 57 + 2) / 4, (59 + 58 + 57 + 56) / 4])
    own, other = np.array([[0.0, 0.0], [0.0, 2.0]]), np.array([[2.0, 0.0], [2.0, 2.0]])
    sent = np.array([own.mean(axis=0), other.mean(axis=0)])  # the extreme points for mu = 1/2, one at each site
    both = np.concatenate([own, other])
    assert farthest(sent, np.array([0.0, 1.0]), 1.0) < farthest(both, np.array([0.0, 1.0]), 1 / 2)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_layers_of_rows_that_come_bit_by_bit_are_those_of_all(n_classes):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(120, 3)), rng.integers(0, n_classes, 120)
    signs = np.array([np.where(y == k, 1.0, -1.0) for k in ([1] if n_classes == 2 else range(n_classes))])
    rule, machine = LayerSelection(3), HingeMachine.untrained(HingeRows(X, signs))
    for n in (1, 40, 41, 120):
        parts = [np.flatnonzero(y[:n] == k) for k in range(n_classes)]
        expected = np.sort(np.concatenate([part[convex_layers(X[part], 3)] for part in parts]))
        assert_array_equal(rule.of(HingeRows(X[:n], signs[:, :n]), machine), expected)


def layers_needed(X, signs):
    """The larger sum of a class's coefficients over the largest that one may have."""
    weight = 1 / (ALPHA * len(signs))
    dual = HingeMachine.of(HingeRows(X, signs[None]), weight, tol=1e-10).dual[0]
    return int(np.ceil(max(dual[signs == sign].sum() for sign in (-1, 1)) / weight))


@pytest.mark.parametrize("conditions", [Conditions(), FAULTS], ids=["no faults", "faults"])
def test_enough_layers_lead_to_the_machine_of_all_rows(conditions):
    X, signs = overlapping()
    X, n_layers = X + 0.7 * signs[:, None], layers_needed(X + 0.7 * signs[:, None], signs)
    assert 5 < n_layers < 40
    simulator = network(ReducedHulls(n_layers=n_layers, tol=1e-9), X, signs, conditions=conditions)
    assert simulator.run(until=400) == "stopped"
    assert_allclose(weights(simulator), np.tile(best(X, signs), (5, 1)), atol=1e-5)
    if conditions is not FAULTS:
        hulls = network(SetGossip("hull", tol=1e-9), X, signs)
        assert hulls.run(until=400) == "stopped" and np.abs(weights(hulls) - best(X, signs)).max() > 1e-2


def test_one_layer_is_the_hull():
    X, signs = overlapping(60)
    machine, rows = HingeMachine.untrained(HingeRows(X, signs[None])), HingeRows(X, signs[None])
    assert_array_equal(LayerSelection(1).of(rows, machine), RowSelection("hull", 0.01).of(rows, machine))


@pytest.mark.parametrize(("values", "words"), [
    ({"n_layers": 0}, "n_layers must be 1 or more, got 0"),
    ({"selection": "support"}, "selection must be 'hull', got 'support'"),
    ({"tol": 0.0}, "tol"),
])  # fmt: skip
def test_parameters_are_checked(values, words):
    with pytest.raises(ValueError, match=words):
        ReducedHulls(**values).validate()
