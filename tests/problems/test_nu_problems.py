"""Levels and certificates of nu problems, against trial and arithmetic of fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.nu import NuProblem, without_rounding

SEEDS = st.integers(0, 10_000)
N = 12


def problem_of(seed, machine="classes"):
    """A problem with a linear kernel, whose values are products of numbers with few digits."""
    rng = np.random.default_rng(seed)
    kernel = KernelMatrix.of(rng.normal(size=(N, 2)).round(1), Kernel("linear")).in_float64()
    weights, nu = rng.uniform(0.5, 2.0, N).round(2), float(rng.uniform(0.1, 0.8))
    if machine == "targets":
        return NuProblem.of_targets(kernel, rng.normal(size=N).round(1), weights, nu, 2.0)
    labels = np.where(np.arange(N) % 2, 1.0, -1.0) if machine == "classes" else np.ones(N)
    return NuProblem.of_labels(kernel, labels, weights, nu)


def values_of(problem, dual):
    """The values v of the hinges, as fractions."""
    kernel, labels = problem.kernel, problem.labels[0]
    everywhere = np.arange(problem.n_rows)
    rows = [[Fraction(v) for v in row] for row in np.asarray(kernel.rows(everywhere), dtype=float)]
    signed = [Fraction(y) * Fraction(a) for y, a in zip(labels, dual[0], strict=True)]
    w = [sum(s * row[k] for s, row in zip(signed, rows, strict=True)) for k in range(2)]
    margins = [Fraction(y) * (w[0] * row[0] + w[1] * row[1]) for y, row in zip(labels, rows, strict=True)]
    return [m - Fraction(t) - 1 for m, t in zip(margins, problem.targets, strict=True)], w


def losses(problem, v, levels):
    """The part of the primal objective behind the square, in fractions."""
    total = Fraction(0)
    for (rows, mass), level in zip(problem.parts, levels, strict=True):
        hinges = (Fraction(problem.conjugate.upper[i]) * max(Fraction(level) - v[i], Fraction(0)) for i in rows)
        total += sum(hinges) - Fraction(mass) * Fraction(level)
    return total


@given(SEEDS, st.sampled_from(["classes", "targets", "one class"]))
def test_the_certificate_holds_in_fractions_and_no_levels_are_better(seed, machine):
    problem = problem_of(seed, machine)
    dual = problem.feasible(np.random.default_rng(seed).uniform(0, 1, (1, problem.n_rows)))
    margins = problem.margins(dual)
    levels = problem.intercepts(margins)
    found = problem.objectives(dual, margins, levels)
    v, w = values_of(problem, dual)
    square = (w[0] ** 2 + w[1] ** 2) / 2
    primal = square + losses(problem, v, levels[0])
    # The dual objective is -1/2 |w|^2 less the linear part, with coefficients whose sums may be rounded.
    reached = -square + sum(Fraction(a) * Fraction(t + 1) for a, t in zip(dual[0], problem.targets, strict=True))
    rounding = float(found.rounding[0] * abs(found.primal[0]))
    assert abs(float(primal) - found.primal[0]) <= rounding + 1e-12 * abs(found.primal[0])
    assert found.dual[0] <= float(reached) + 1e-12 * (1 + abs(float(reached))) and found.dual[0] <= found.primal[0]
    assert float(primal - reached) <= float(found.primal[0] - found.dual[0]) + 1e-12 * (1 + abs(float(primal)))
    for k, (rows, _) in enumerate(problem.parts):
        for i in rows:  # A kink is among the minimisers.
            other = levels[0].copy()
            other[k] = float(v[i])
            assert losses(problem, v, levels[0]) <= losses(problem, v, other) + Fraction(1, 10**10)


def test_sums_that_are_wrong_and_errors_of_margins_count_as_rounding():
    problem = problem_of(0)
    dual = problem.feasible(np.full((1, N), 0.3))
    margins = problem.margins(dual)
    levels, size = problem.intercepts(margins), np.abs(problem.hinge_values(margins))
    plain = problem.objective_sums(dual, margins, levels)
    assert plain.gap_rounding[0] <= 1e-12
    wrong = dual.copy()
    wrong[0, problem.parts[1][0][0]] += 0.01
    worse = problem.objective_sums(wrong, margins, levels)
    assert worse.gap_rounding[0] >= 0.01 * (abs(levels[0, 1]) + size[0, problem.parts[1][0]].max()) * (1 - 1e-9)
    inexact = problem.objective_sums(dual, margins, levels, np.full((1, N), 1e-3))
    assert inexact.dual_rounding[0] >= 0.5e-3 * dual.sum()


@given(SEEDS, st.sampled_from(["classes", "targets", "one class"]))
def test_feasible_coefficients_have_the_sums_and_stay_where_they_had_them(seed, machine):
    problem = problem_of(seed, machine)
    some = np.random.default_rng(seed).uniform(-1, 3, (1, problem.n_rows))
    near = problem.feasible(some)
    assert (near >= 0).all() and (near <= problem.conjugate.upper).all()
    for rows, mass in problem.parts:
        np.testing.assert_allclose(near[0, rows].sum(), mass, rtol=1e-12)
    np.testing.assert_array_equal(problem.feasible(near), near)
    part = problem.sample(np.flatnonzero(np.arange(problem.n_rows) % 3))
    for (rows, mass), (all_rows, whole) in zip(part.parts, problem.parts, strict=True):
        share = part.weights[rows].sum() / max(problem.weights[all_rows].sum(), 1e-300)
        np.testing.assert_allclose(mass, whole * share, rtol=1e-12)


def test_the_level_is_the_middle_of_an_interval_if_no_coefficient_is_free():
    kernel = KernelMatrix.of(np.array([[3.0], [1.0], [6.0], [2.0]]), Kernel("linear")).in_float64()
    weights, margins = np.array([1.0, 2.0, 1.0, 3.0]), np.array([[3.0, 1.0, 6.0, 2.0]])
    problem = NuProblem.of_labels(kernel, np.ones(4), weights, 5 / 7)
    assert problem.levels(np.array([[0.0, 2.0, 0.0, 3.0]]), margins)[0, 0] == 2.5
    problem = NuProblem.of_labels(kernel, np.ones(4), weights, 4.5 / 7)
    assert problem.levels(np.array([[0.0, 2.0, 0.0, 2.5]]), margins)[0, 0] == 2.0
    # Such coefficients are not the best of these values, so that their bounds say nothing.
    problem = NuProblem.of_labels(kernel, np.ones(4), weights, 2 / 7)
    assert 1.0 <= problem.levels(np.array([[1.0, 0.0, 1.0, 0.0]]), margins)[0, 0] <= 2.0


@pytest.mark.parametrize("nu", [0.5, 0.9])
def test_a_smaller_class_takes_at_most_its_weight(nu):
    kernel = KernelMatrix.of(np.arange(8.0)[:, None], Kernel("linear"))
    labels = np.array([1.0, 1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0])
    masses = NuProblem.of_labels(kernel, labels, np.ones(8), nu).masses
    assert masses == (2.0, 2.0)


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
