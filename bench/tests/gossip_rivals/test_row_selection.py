"""Rules by which sites select rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dimargin.problems.hinge import HingeRows
from dimargin_bench.gossip_rivals.hinge_machine import HingeMachine
from dimargin_bench.gossip_rivals.hull_vertices import hull_vertices
from dimargin_bench.gossip_rivals.row_selection import RowSelection, codes_of, signs_of


def classes(n, seed=0, n_classes=2):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    X = rng.normal(size=(n, 3)) + y[:, None]
    outputs = [1] if n_classes == 2 else range(n_classes)
    return HingeRows(X, np.array([np.where(y == k, 1.0, -1.0) for k in outputs])), y


def test_support_vectors_are_rows_of_margin_one_or_less():
    rows, _ = classes(200)
    machine = HingeMachine.of(rows, 0.1, tol=1e-10)
    margins = rows.signs[0] * (rows.X @ machine.weights[0])
    found = RowSelection("support", 0.01).of(rows, machine)
    assert set(np.flatnonzero(margins < 1 - 1e-6)) <= set(found) <= set(np.flatnonzero(margins < 1 + 1e-6))


@given(st.integers(4, 60), st.integers(0, 50), st.sampled_from([2, 3]), st.floats(0.001, 1.0))
@settings(max_examples=30)
def test_ranked_rows_are_the_nearest_of_either_side_and_no_others(n, seed, n_classes, share):
    rows, _ = classes(n, seed, n_classes)
    machine = HingeMachine.of(rows, 0.1)
    found, near = RowSelection("ranked", share).of(rows, machine), np.zeros(n, dtype=bool)
    for weights, signs in zip(machine.weights, rows.signs, strict=True):
        distance = np.abs(rows.X @ weights) / max(np.linalg.norm(weights), 1e-300)
        for side in (np.flatnonzero(signs == sign) for sign in (-1, 1)):
            if len(side):
                farthest = np.sort(distance[side])[max(1, int(share * len(side))) - 1]
                assert np.isin(side[distance[side] < farthest - 1e-9], found).all()
                near[side] |= distance[side] <= farthest + 1e-9
    assert near[found].all() and len(found) <= 2 * len(rows.signs) * max(1, int(share * n))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_hulls_of_rows_that_come_bit_by_bit_are_those_of_all(n_classes):
    rows, y = classes(120, 3, n_classes)
    machine, rule = HingeMachine.untrained(rows), RowSelection("hull", 0.01)
    for n in (1, 40, 41, 120):
        some = HingeRows(rows.X[:n], rows.signs[:, :n])
        parts = [np.flatnonzero(y[:n] == k) for k in range(n_classes)]
        expected = np.sort(np.concatenate([part[hull_vertices(rows.X[part])] for part in parts]))
        assert_array_equal(rule.of(some, machine), expected)
        assert_array_equal(rule.of(some, machine), expected)


def test_codes_stand_for_signs():
    for n_classes in (2, 4):
        rows, y = classes(30, 1, n_classes)
        codes = codes_of(rows.signs)
        assert_array_equal(codes, 2 * y - 1 if n_classes == 2 else y)
        assert_array_equal(signs_of(codes, len(rows.signs)), rows.signs)
