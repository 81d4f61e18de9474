"""Levels and gaps of the sides of nu problems, against trial and arithmetic of fractions."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dimargin.problems.nu import Side, without_rounding

SEEDS = st.integers(0, 10_000)


def side_of(seed, share=None, n=12):
    """A side with random values and weights, and feasible coefficients: the optimal ones, or others."""
    rng = np.random.default_rng(seed)
    values, weights = rng.normal(size=n).round(2), rng.uniform(0.5, 2.0, n).round(2)
    mass = float(weights.sum()) * float(rng.uniform(0.1, 0.9))
    if share is None:  # Rows with the smallest values come first.
        coefficients, left = np.zeros(n), mass
        for i in np.argsort(values):
            coefficients[i] = min(weights[i], left)
            left -= coefficients[i]
    else:
        coefficients = weights * mass / weights.sum()
    return Side(values, np.zeros(n), coefficients, weights, mass)


def loss(side, level):
    return side.weights @ np.maximum(level - side.values, 0) - side.mass * level


@given(SEEDS, st.booleans())
def test_no_level_has_a_smaller_loss(seed, is_optimal):
    side = side_of(seed, None if is_optimal else 1.0)
    best = min(loss(side, level) for level in side.values)  # A kink is among the minimisers.
    assert loss(side, side.level()) <= best + 1e-12 * (1 + abs(best))


def test_the_level_is_the_middle_of_an_interval_if_no_coefficient_is_free():
    values, weights = np.array([3.0, 1.0, 6.0, 2.0]), np.array([1.0, 2.0, 1.0, 3.0])
    assert Side(values, np.zeros(4), np.array([0.0, 2.0, 0.0, 3.0]), weights, 5.0).level() == 2.5
    free = Side(values, np.zeros(4), np.array([0.0, 2.0, 0.0, 2.5]), weights, 4.5)
    assert free.level() == 2.0
    # Such coefficients are not the best of these values, so that their bounds say nothing.
    assert 1.0 <= Side(values, np.zeros(4), np.array([1.0, 0.0, 1.0, 0.0]), weights, 2.0).level() <= 2.0


@given(SEEDS, st.booleans(), st.floats(-3, 3))
def test_gaps_are_those_of_fractions_and_not_negative(seed, is_optimal, level):
    side = side_of(seed, None if is_optimal else 1.0)
    gap, rounding = side.gap(level)
    exact = Fraction(0)
    for v, a, u in zip(side.values, side.coefficients, side.weights, strict=True):
        lacking = Fraction(level) - Fraction(v)
        exact += Fraction(u) * max(lacking, Fraction(0)) - Fraction(a) * lacking
    assert gap >= 0 and abs(Fraction(gap) - exact) <= Fraction(rounding)
    assert rounding <= 1e-11 * (1 + abs(level)) * side.weights.sum()
    if is_optimal:
        assert side.gap(side.level())[0] <= 1e-12


def test_errors_of_values_and_a_wrong_sum_enlarge_the_rounding():
    side = side_of(0)
    plain = side.gap(0.5)[1]
    errors = Side(side.values, np.full(12, 1e-3), side.coefficients, side.weights, side.mass)
    assert errors.gap(0.5)[1] >= plain + 1e-3 * (side.weights + side.coefficients).sum() * (1 - 1e-9)
    wrong = Side(side.values, side.errors, side.coefficients, side.weights, side.mass + 0.25)
    assert wrong.gap(0.5)[1] >= 0.25 * (0.5 + np.abs(side.values).max())


def test_coefficients_near_a_bound_are_moved_to_it_and_free_ones_take_the_rest():
    weights, sides = np.array([1.0, 1.0, 2.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    rounded = without_rounding(np.array([1e-12, 1 - 1e-12, 1.5, 0.25, 2e-10]), weights, sides)
    np.testing.assert_array_equal(rounded[[0, 1, 4]], [0.0, 1.0, 0.0])
    np.testing.assert_allclose(rounded[[2, 3]], [1.5, 0.25 + 2e-10], rtol=1e-15)
    # Without a free coefficient nothing can take more than rounding.
    kept = np.array([1.0, 5e-9, 2.0, 0.25, 0.5])
    np.testing.assert_array_equal(without_rounding(kept, weights, sides), kept)
    np.testing.assert_array_equal(
        without_rounding(np.array([1.0, 1e-17, 2.0, 0.25, 0.5]), weights, sides)[:3], [1, 0, 2]
    )
