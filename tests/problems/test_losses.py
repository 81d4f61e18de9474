"""The contract of a loss: value, conjugate, box, optimality condition, weights and mass."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar

from dimargin.problems.losses import HingeLoss, ODMLoss, SquaredHingeLoss
from dimargin.problems.regression_losses import EpsilonInsensitiveLoss, SquaredEpsilonInsensitiveLoss

# A new loss needs one entry here.
LOSSES = {
    "odm": st.builds(ODMLoss, lam=st.floats(0.1, 1e4), upsilon=st.floats(0.05, 1), theta=st.floats(0, 0.9)),
    "hinge": st.builds(HingeLoss, C=st.floats(0.01, 100)),
    "squared hinge": st.builds(SquaredHingeLoss, C=st.floats(0.01, 100)),
    **{
        name: st.builds(kind, C=st.floats(0.01, 100), epsilon=st.floats(0, 2))
        for name, kind in (
            ("epsilon insensitive", EpsilonInsensitiveLoss),
            ("squared epsilon insensitive", SquaredEpsilonInsensitiveLoss),
        )
    },
}
every_loss = pytest.mark.parametrize("losses", LOSSES.values(), ids=LOSSES)
margins = st.floats(-5, 5)
positive = st.floats(0.1, 10)


def one_row(loss, weight, mass, total):
    """Loss of a margin, conjugate of a coefficient, and the box, of a row with this weight."""
    weights = np.array([weight])
    conjugate = loss.conjugate(weights, mass, total)
    return (
        lambda m: loss.value(np.array([m]), weights, mass, total)[0],
        lambda g: conjugate.value(np.array([g]))[0],
        conjugate,
    )


def minus_slope(value, m, step=1e-5):
    """The coefficient that belongs to a margin: exact, where a quadratic piece has no kink within the step."""
    return (value(m - step) - value(m + step)) / (2 * step)


@every_loss
@given(data=st.data(), m=margins, other=margins, weight=positive, mass=positive, total=positive)
def test_conjugate_is_the_supremum_and_its_box_the_slopes(losses, data, m, other, weight, mass, total):
    value, phi, conjugate = one_row(data.draw(losses), weight, mass, total)
    g = float(np.clip(minus_slope(value, m), conjugate.lower[0], conjugate.upper[0]))
    found = minimize_scalar(
        lambda x: value(x) + g * x, bounds=(-40, 40), method="bounded", options={"xatol": 1e-11, "maxiter": 500}
    )
    size = max(1.0, abs(g), value(m))
    assert phi(g) == pytest.approx(-found.fun, abs=1e-7 * size)
    # Fenchel-Young: equality for a margin and its coefficient, an inequality for any other margin
    if abs(minus_slope(value, m, 1e-4) - g) < 1e-6 * size:
        assert value(m) + phi(g) + g * m == pytest.approx(0, abs=1e-7 * size)
    assert value(other) + phi(g) + g * other >= -1e-7 * size
    # slopes never leave the box, and all but reach its finite ends
    ends = [minus_slope(value, 1e3), minus_slope(value, -1e3)]
    for end, bound in zip(ends, (conjugate.lower[0], conjugate.upper[0]), strict=True):
        assert end == pytest.approx(bound, rel=1e-6, abs=1e-6) if np.isfinite(bound) else abs(end) > 1e-3


@every_loss
@given(
    data=st.data(),
    k=positive,
    b=st.floats(-20, 20),
    # at the kink or clear of it: a difference quotient across it says nothing
    start=st.floats(-5, 5).map(lambda x: 0.0 if abs(x) < 1e-5 else x),
    mass=positive,
)
def test_optimality_condition(losses, data, k, b, start, mass):
    """In one dimension, against the best of the few places where the minimum can lie."""
    _, phi, conjugate = one_row(data.draw(losses), 1.0, mass, 2.0)
    lower, upper = conjugate.lower[0], conjugate.upper[0]

    def objective(x):
        return 0.5 * k * x * x + b * x + phi(x)

    right = -(b + conjugate.slope_right[0]) / (k + conjugate.curvature_right[0])
    left = -(b + conjugate.slope_left[0]) / (k + conjugate.curvature_left[0])
    candidates = [np.clip(max(right, 0.0), lower, upper), np.clip(min(left, 0.0), lower, upper)]
    best = float(min(candidates, key=objective))

    def distance(x):
        return conjugate.subgradient_distance(np.array([k * x + b]), np.array([x]))[0]

    assert distance(best) == pytest.approx(0, abs=1e-9 * (1 + abs(b)))
    x = float(np.clip(start, lower, upper))
    if abs(x - best) > 1e-3:
        towards, step = np.sign(best - x), 1e-7
        assert np.sign(distance(x)) == towards
        fall = (objective(x) - objective(x + towards * step)) / step
        assert abs(distance(x)) == pytest.approx(fall, rel=1e-3, abs=1e-3)


@every_loss
@given(data=st.data(), mass=positive)
def test_bounds_excuse_the_side_that_they_close(losses, data, mass):
    conjugate = one_row(data.draw(losses), 1.0, mass, 2.0)[2]
    for bound, outwards in ((conjugate.lower[0], 1.0), (conjugate.upper[0], -1.0)):
        if np.isfinite(bound):
            assert conjugate.subgradient_distance(np.array([outwards * 1e3]), np.array([bound]))[0] == 0
            assert conjugate.subgradient_distance(np.array([-outwards * 1e3]), np.array([bound]))[0] != 0


@every_loss
@given(data=st.data(), m=margins, weight=positive, mass=positive)
def test_weight_two_is_a_row_twice(losses, data, m, weight, mass):
    loss = data.draw(losses)
    value, phi, _ = one_row(loss, weight, mass, 2 * mass)
    twice, phi_twice, conjugate = one_row(loss, 2 * weight, mass, 2 * mass)
    assert twice(m) == pytest.approx(2 * value(m))
    g = float(np.clip(minus_slope(twice, m), conjugate.lower[0], conjugate.upper[0]))
    assert phi_twice(g) == pytest.approx(2 * phi(g / 2))


@every_loss
@given(data=st.data(), rows=st.lists(st.tuples(margins, positive), min_size=1, max_size=5), parts=st.integers(2, 9))
def test_a_part_with_its_mass_stands_for_the_whole(losses, data, rows, parts):
    loss = data.draw(losses)
    m, weights = np.array(rows).T
    mass = weights.sum()
    whole = loss.value(np.tile(m, parts), np.tile(weights, parts), parts * mass, parts * mass).sum()
    assert loss.value(m, weights, mass, parts * mass).sum() == pytest.approx(whole)
    # and its coefficients are those of the whole problem times the number of parts: the merge rule
    # turned round
    conjugate, of_part = (
        loss.conjugate(weights, parts * mass, parts * mass),
        loss.conjugate(weights, mass, parts * mass),
    )
    assert_allclose(of_part.upper, parts * conjugate.upper)
    assert_allclose(of_part.curvature_right, conjugate.curvature_right / parts)
    assert_allclose(of_part.curvature_left, conjugate.curvature_left / parts)


@every_loss
@given(data=st.data(), m=margins, weight=positive, mass=positive, scale=st.floats(0.1, 10))
def test_only_odm_forgets_the_scale_of_weights(losses, data, m, weight, mass, scale):
    loss = data.draw(losses)
    once, scaled = one_row(loss, weight, mass, mass)[0], one_row(loss, scale * weight, scale * mass, scale * mass)[0]
    assert scaled(m) == pytest.approx(once(m) * (1 if isinstance(loss, ODMLoss) else scale))


def test_values_written_out():
    m, s = np.array([[-1.0, 0.5, 1.0, 3.0]]), np.array([1.0, 2.0, 1.0, 2.0])
    odm = ODMLoss(lam=8.0, upsilon=0.5, theta=0.2).value(m, s, mass=5.0, total=10.0)
    assert_allclose(odm, [[8 / 6.4 * 1.8**2, 2 * 8 / 6.4 * 0.3**2, 0, 2 * 8 / 6.4 * 0.5 * 1.8**2]])
    # C W/W_k = 2 C for a part of half the weight
    assert_allclose(HingeLoss(3.0).value(m, s, mass=5.0, total=10.0), [[12, 6, 0, 0]])
    assert_allclose(SquaredHingeLoss(3.0).value(m, s, mass=5.0, total=10.0), [[24, 3, 0, 0]])
    assert_allclose(HingeLoss(3.0).conjugate(s, 5.0, 10.0).upper, [6, 12, 6, 12])


SMOOTH = ["odm", "squared hinge", "squared epsilon insensitive"]


@pytest.mark.parametrize("losses", [LOSSES[name] for name in SMOOTH], ids=SMOOTH)
@given(data=st.data(), m=margins, weight=positive, mass=positive, total=positive)
def test_the_response_to_a_margin_is_minus_the_derivative(losses, data, m, weight, mass, total):
    loss = data.draw(losses)
    value, _, conjugate = one_row(loss, weight, mass, total)
    dual, stiffness, same = (float(part[0]) for part in conjugate.response(np.array([m])))
    assert loss.smooth
    steps = 1e-4 * np.array([-1, 0, 1])
    below, here, above = (value(m + step) for step in steps)
    size = max(1.0, abs(dual), here)
    assert same == pytest.approx(here, rel=1e-9, abs=1e-12 * size)
    assert stiffness <= conjugate.largest_curvature[0] * (1 + 1e-12)
    at = [float(conjugate.response(np.array([m + step]))[0][0]) for step in steps]
    slopes = [float(conjugate.response(np.array([m + step]))[1][0]) for step in steps]
    # the slope may jump within the step
    assert dual == pytest.approx((below - above) / 2e-4, abs=1e-4 * max(slopes) + 1e-9 * size)
    if slopes[0] == slopes[1] == slopes[2]:  # no kink within the step
        assert stiffness == pytest.approx((at[0] - at[2]) / 2e-4, rel=1e-6, abs=1e-6)


@every_loss
@given(data=st.data())
def test_a_loss_is_smooth_if_its_conjugate_is_curved(losses, data):
    loss = data.draw(losses)
    conjugate = loss.conjugate(np.ones(1), 1.0, 1.0)
    curved = conjugate.curvature_right[0] > 0 and (conjugate.lower[0] == 0 or conjugate.curvature_left[0] > 0)
    assert loss.smooth == curved
