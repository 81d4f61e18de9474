"""The exact small solver, beside closed forms, a quadratic program and its own optimality conditions."""

import numpy as np
import pytest
from ball_reference import KNOWN, quadratic_optimum, unit_sphere
from hypothesis import given
from hypothesis import strategies as st

from dimargin.solvers.balls.active_set import enclose


def solved(products, linear, start=(0,), tol=0.0):
    return enclose(lambda indices: products[indices], linear, np.asarray(start), tol)


def around(points, **options):
    points = points - points.mean(axis=0)
    return solved(points @ points.T, (points**2).sum(axis=1), **options)


def assert_optimal(found, products, linear, rounding=1e-9):
    """What only the optimum satisfies, computed here from the weights alone."""
    x = np.zeros(len(linear))
    x[found.indices] = found.weights
    assert found.weights.min() >= 0 and x.sum() == pytest.approx(1, abs=1e-12)
    square = x @ products @ x
    distances, value = linear - 2 * products @ x + square, linear @ x - square
    size = np.abs(linear).max()
    assert found.value == pytest.approx(value, abs=rounding * size)
    np.testing.assert_allclose(found.distances, distances, atol=rounding * size)
    assert distances.max() <= value + rounding * size
    np.testing.assert_allclose(distances[found.indices], value, atol=rounding * size)


@pytest.mark.parametrize("name", KNOWN)
def test_balls_that_are_known(name):
    points, radius = KNOWN[name]
    assert around(points).value ** 0.5 == pytest.approx(radius, rel=1e-9, abs=1e-9 * np.ptp(points))


@pytest.mark.slow
@given(
    st.integers(1, 40), st.integers(1, 12), st.integers(0, 10**6), st.sampled_from(["normal", "integer", "sphere"]),
    st.booleans(),
)  # fmt: skip
def test_random_points(n, d, seed, kind, shifted):
    rng = np.random.default_rng(seed)
    points = {
        "normal": rng.normal(size=(n, d)),
        "integer": rng.integers(-1, 2, size=(n, d)).astype(float),  # many duplicates, lines and equal distances
        "sphere": unit_sphere(n, d, seed),
    }[kind]
    points = points + (rng.normal(size=d) if shifted else 0.0)
    products, linear = points @ points.T, (points**2).sum(axis=1) + 1e-300
    assert_optimal(solved(products, linear, start=rng.integers(0, n, size=3)), products, linear)


@given(st.integers(2, 30), st.integers(0, 10**6), st.floats(0.0, 2.0))
def test_any_linear_part(n, seed, spread):
    """Also what is no ball: a constant, or anything else, in the place of squared lengths."""
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(n, n // 2 + 1))
    products, linear = half @ half.T, 1 + spread * rng.random(n)
    found = solved(products, linear)
    assert_optimal(found, products, linear)
    assert found.value == pytest.approx(quadratic_optimum(products, linear), abs=1e-6 * np.abs(products).max())


@pytest.mark.slow
@pytest.mark.parametrize(("n", "d"), [(300, 50), (60, 200), (2000, 3)])
def test_quadratic_program_agrees(n, d):
    points = np.random.default_rng(0).normal(size=(n, d))
    points -= points.mean(axis=0)
    found = around(points)
    assert found.value == pytest.approx(quadratic_optimum(points @ points.T, (points**2).sum(axis=1)), rel=1e-6)
    assert len(found.indices) <= d + 1


def test_points_on_a_sphere_are_enclosed_to_rounding():
    """Weights of 1e-9 and hundreds of points that could take the place of any other."""
    points = unit_sphere(5000, 100)
    points -= points.mean(axis=0)
    linear = (points**2).sum(axis=1)
    found = enclose(lambda indices: points[indices] @ points.T, linear, np.array([int(linear.argmax())]))
    assert found.distances.max() <= found.value * (1 + 1e-11)


def test_a_tolerance_saves_points():
    points = np.random.default_rng(1).normal(size=(500, 30))
    exact, loose = around(points), around(points, tol=0.1)
    assert len(loose.indices) < len(exact.indices)
    assert loose.value <= exact.value * (1 + 1e-12)
    assert loose.distances.max() <= loose.value * 1.1


def test_the_start_does_not_matter():
    points = np.random.default_rng(2).normal(size=(200, 5))
    exact = around(points)
    for start in ([7], range(200), [3, 3, 3], [199, 0]):
        other = around(points, start=list(start))
        np.testing.assert_array_equal(other.indices, exact.indices)
        np.testing.assert_allclose(other.weights, exact.weights, rtol=1e-9)
