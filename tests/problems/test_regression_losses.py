"""Losses of residuals: values, conjugates with targets, best intercepts, and the rows of their kinks."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar

from dimargin.problems.margin_losses import MarginLosses
from dimargin.problems.regression_losses import EpsilonInsensitiveLoss, SquaredEpsilonInsensitiveLoss

KINDS = [EpsilonInsensitiveLoss, SquaredEpsilonInsensitiveLoss]
every_kind = pytest.mark.parametrize("kind", KINDS)
SEEDS = st.integers(0, 2**32 - 1)
HALF_WIDTHS = st.sampled_from([0.0, 1e-3, 0.3, 1.0, 50.0])


def written_out(loss, residuals, weights):
    """The losses of residuals, by the definition."""
    excess = np.maximum(np.abs(residuals) - loss.epsilon, 0)
    return loss.C * weights * (excess if type(loss) is EpsilonInsensitiveLoss else excess**2)


def losses_of(loss, targets, weights=None, intercept=True, mass=None):
    n = len(targets)
    weights = np.ones(n) if weights is None else weights
    total = float(weights.sum())
    return MarginLosses(np.ones((1, n)), weights, loss, mass or total, total, intercept, targets)


def drawn(seed, n, has_ties):
    """Decision values, targets and weights of rows."""
    rng = np.random.default_rng(seed)
    values, targets = rng.normal(size=(1, n)), 3 * rng.normal(size=n)
    weights = rng.uniform(0.3, 3, n)
    return (np.round(values), np.round(targets), np.round(weights + 0.5)) if has_ties else (values, targets, weights)


@every_kind
@given(SEEDS, HALF_WIDTHS, st.floats(0.01, 100), st.floats(0.2, 1))
def test_values(kind, seed, epsilon, C, share):
    values, targets, weights = drawn(seed, 20, False)
    loss, total = kind(C, epsilon), float(weights.sum())
    found = losses_of(loss, targets, weights, mass=share * total).values(values)
    assert_allclose(found, written_out(loss, values - targets, weights / share), rtol=1e-12)


@every_kind
@given(st.floats(-5, 5), st.floats(-1, 1), HALF_WIDTHS, st.floats(0.01, 100), st.floats(0.1, 10))
def test_the_conjugate_with_a_target_is_the_supremum(kind, target, share, epsilon, C, weight):
    loss = kind(C, epsilon)
    conjugate = losses_of(loss, np.array([target]), np.array([weight])).conjugate
    end = C * weight if kind is EpsilonInsensitiveLoss else 2 * C * weight * 5
    g = share * end
    found = minimize_scalar(
        lambda f: g * f + written_out(loss, f - target, weight),
        bounds=(target - epsilon - 20, target + epsilon + 20), method="bounded", options={"xatol": 1e-12},
    )  # fmt: skip
    size = 1 + abs(g) * (1 + abs(target) + epsilon)
    # Between the ends of the band, the minimum may be at either of them.
    ends = [g * (target + side * epsilon) for side in (-1, 1)]
    assert conjugate.value(np.array([g]))[0] == pytest.approx(-min(found.fun, *ends), abs=1e-7 * size)
    assert (conjugate.lower[0], conjugate.upper[0]) == pytest.approx(
        (-end, end) if kind is EpsilonInsensitiveLoss else (-np.inf, np.inf)
    )


@every_kind
@given(SEEDS, st.integers(1, 40), st.booleans(), HALF_WIDTHS)
def test_fenchel_and_young(kind, seed, n, has_ties, epsilon):
    """Equality at the coefficients that answer decision values, and nothing below zero at any others."""
    values, targets, weights = drawn(seed, n, has_ties)
    losses = losses_of(kind(2.0, epsilon), targets, weights)
    residuals = values - targets
    excess = np.maximum(np.abs(residuals) - epsilon, 0)
    answers = (
        -np.sign(residuals) * 2.0 * weights * (2 * excess if kind is SquaredEpsilonInsensitiveLoss else excess > 0)
    )
    assert_allclose(losses.gaps(answers, values), 0, atol=1e-10 * (1 + np.abs(answers).max() * np.abs(values).max()))
    if losses.loss.smooth:
        assert_allclose(losses.conjugate.response(values)[0], answers, atol=1e-12 * (1 + np.abs(answers).max()))
    other = np.clip(3 * np.random.default_rng(seed).normal(size=(1, n)), losses.conjugate.lower, losses.conjugate.upper)
    terms = losses.values(values) + losses.conjugate.value(other) + other * values
    assert terms.min() > -1e-10 * (1 + np.abs(terms).max())


@every_kind
@given(SEEDS, st.sampled_from([1, 2, 3, 10, 41, 1500]), st.booleans(), HALF_WIDTHS, st.floats(-0.9, 0.9) | st.just(0.0))
@example(0, 2, True, 0.0, 0.0)
@example(5, 1500, True, 0.3, 0.0)
def test_best_intercepts(kind, seed, n, has_ties, epsilon, share):
    values, targets, weights = drawn(seed, n, has_ties)
    loss = kind(2.0, epsilon)
    losses = losses_of(loss, targets, weights)
    residuals, pull = (values - targets)[0], share * 2.0 * float(weights.sum())
    kinks = np.sort(np.concatenate([side * epsilon - residuals for side in (-1, 1)]))

    def total(b):
        return written_out(loss, residuals[:, None] + b, weights[:, None]).sum(axis=0) - pull * np.asarray(b)

    found = loss.best_intercept(residuals, np.ones(n), losses.conjugate, pull)
    if not pull:
        assert losses.intercepts(values)[0] == found
    if kind is EpsilonInsensitiveLoss:  # piecewise linear: least at all kinks of an interval, whose middle is taken
        at = total(kinks)
        least = kinks[at <= at.min() + 1e-9 * (1 + np.abs(at).min())]
        assert least.min() - 1e-6 <= found <= least.max() + 1e-6
        flat = kinks[at <= at.min() + 1e-13 * (1 + np.abs(at).min())]  # Wider intervals may rise by little.
        if np.array_equal(flat, least):
            assert found == pytest.approx((least.min() + least.max()) / 2, abs=1e-6)
        return
    ends = (kinks[0] - abs(pull), kinks[-1] + abs(pull))
    best = minimize_scalar(lambda b: total(b).item(), bounds=ends, method="bounded")
    assert total(found) <= best.fun + 1e-9 * (1 + abs(best.fun))
    middle = (kinks[n - 1] + kinks[n]) / 2
    if total(middle).item() == 0 and not pull:  # of all intercepts without loss
        assert found == pytest.approx(middle)


@every_kind
@given(SEEDS, st.integers(1, 30), st.booleans(), HALF_WIDTHS, st.floats(-5, 5))
def test_rows_with_one_kink_each_have_the_same_loss(kind, seed, n, has_ties, epsilon, b):
    values, targets, weights = drawn(seed, n, has_ties)
    losses = losses_of(kind(2.0, epsilon), targets, weights)
    ((kinks, labels, own),) = losses.kinks(values)
    assert len(kinks) == 2 * n
    # A row of the one-sided loss has a margin of one where the intercept is at its kink.
    margins = 1 + labels * (b - kinks)
    found = losses.loss.one_sided.value(margins, own, losses.mass, losses.total).sum()
    assert found == pytest.approx(losses.values(values + b).sum(), rel=1e-9, abs=1e-9)


@every_kind
def test_parts_keep_their_targets(kind):
    values, targets, weights = drawn(3, 30, False)
    losses = losses_of(kind(2.0, 0.1), targets, weights)
    rows = np.array([4, 1, 17])
    part, rest = losses.of_rows(rows, 5.0), losses.of_rows(slice(20, 30), 7.0)
    assert_array_equal(part.targets, targets[rows])
    assert_array_equal(rest.targets, targets[20:])
    assert_allclose(part.values(values[:, rows]), losses.values(values)[:, rows] * losses.total / 5.0)
    joined = MarginLosses.joined([part, rest])
    assert_array_equal(joined.targets, targets[[4, 1, 17, *range(20, 30)]])
    assert joined.mass == 5.0 and joined.n_rows == 13
    assert_array_equal(joined.conjugate.slope_right, 0.1 - joined.targets)
    assert MarginLosses.joined([replace(part, targets=None), replace(rest, targets=None)]).targets is None


def test_a_shifted_conjugate_is_less_by_the_targets_times_the_coefficients():
    conjugate = SquaredEpsilonInsensitiveLoss(2.0, 0.5).conjugate(np.ones(4), 4.0, 4.0)
    targets, dual = np.array([-3.0, 0.0, 0.5, 1e6]), np.array([-1.0, 2.0, 0.0, 1.0])
    shifted = conjugate.shifted(targets)
    assert_allclose(shifted.value(dual), conjugate.value(dual) - targets * dual)
    assert_array_equal(shifted.upper, conjugate.upper)
    assert_array_equal(shifted.curvature_left, conjugate.curvature_left)


@given(
    st.sampled_from(KINDS), st.floats(1e-4, 1e4), st.sampled_from([0.0, 0.1, 1 / 3, 7e5]),
    st.sampled_from([0.0, 0.1, 1.0]), st.sampled_from([1.0, -1.0, 0.7, 0.0, 1e6]),
    st.sampled_from([0.0, 1e-18, 1e-9, 1.0]), st.floats(-1, 1) | st.just(0.0), st.booleans(),
)  # fmt: skip
def test_rounding_of_residuals_is_bounded(kind, weight, target, epsilon, intercept, error, share, at_the_edge):
    """What the rounding of decision values may cost, in exact arithmetic; see test_margin_losses.py."""
    value, b = 0.3, intercept
    epsilon = abs(value + b - target) if at_the_edge else epsilon  # where rounding decides whether there is a loss
    losses = losses_of(kind(2.0, epsilon), np.array([target]), np.array([weight]))
    end = min(losses.conjugate.upper[0], 10.0)
    dual = np.array([[share * end]])
    sums = losses.objective_sums(dual, np.array([[value]]), np.array([b]), np.array([[error]]))
    g = Fraction(dual[0, 0])

    def term(f):
        excess = max(abs(f + Fraction(b) - Fraction(target)) - Fraction(epsilon), 0)
        return 2 * Fraction(weight) * (excess if kind is EpsilonInsensitiveLoss else excess**2) + g * (f + Fraction(b))

    computed = Fraction(float(losses.values(np.array([[value + b]]))[0, 0])) + g * Fraction(value + b)
    ends = [Fraction(value) + side * Fraction(error) for side in (-1, 1)]
    assert max(map(term, ends)) - computed <= Fraction(sums.gap_rounding[0])
