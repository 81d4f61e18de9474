"""Steps: as long as a majoriser of the second moments allows, and damped where they go to and fro."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from dimargin.gossip.messages import pack, unpack
from dimargin.gossip.programs.steps import Steps
from dimargin.problems.hinge import HingeRows

numbers = st.floats(-5, 5).map(lambda x: round(x, 3))


def matrix_of(steps, curvature, n_features=4):
    """What a gradient is divided by, column for column."""
    inverse = [steps.step(one[None], 0.5, 1.0, curvature, may_damp=False)[0] for one in np.eye(n_features)]
    return np.linalg.inv(np.array(inverse))


@given(arrays(float, (7, 4), elements=numbers), arrays(float, 4, elements=numbers), st.booleans())
def test_the_majoriser_is_above_the_second_moments_whatever_the_centre(X, centre, is_centred):
    steps = Steps(np.zeros(4))
    steps.centre = centre if is_centred else np.zeros(4)
    curvature = HingeRows(X, np.ones((1, 7))).curvature(steps.centre)
    assert_allclose(HingeRows(sp.csr_array(X), np.ones((1, 7))).curvature(steps.centre), curvature, atol=1e-9)
    distances = np.abs(X - steps.centre)
    assert_allclose(curvature, (distances * distances.sum(axis=1, keepdims=True)).sum(axis=0), atol=1e-9)
    majoriser = matrix_of(steps, curvature / 7) - 0.5 * np.eye(4)
    scale = 1 + np.abs(majoriser).max()
    assert np.linalg.eigvalsh((majoriser + majoriser.T) / 2 - X.T @ X / 7)[0] >= -1e-9 * scale


def test_the_step_is_that_of_the_whole_matrix():
    rng = np.random.default_rng(0)
    steps, curvature, gradient = Steps(np.zeros(4)), rng.uniform(size=4), rng.normal(size=(3, 4))
    assert_allclose(steps.step(gradient, 0.5, 1.0, curvature, True), gradient / (0.5 + curvature))
    steps = Steps(np.zeros(4))
    steps.centre = rng.normal(size=4)
    matrix = np.diag(0.5 + 1.25 * curvature) + 5 * np.outer(steps.centre, steps.centre)
    assert_allclose(steps.step(gradient, 0.5, 1.0, curvature, True), np.linalg.solve(matrix, gradient.T).T)
    assert_allclose(matrix_of(steps, curvature), matrix)


def test_moments_are_sums():
    X = np.random.default_rng(0).normal(size=(9, 3))
    for rows in (X, sp.csr_array(X)):
        first, second = HingeRows(rows, np.ones((1, 9))).moments()
        assert_allclose([first, second], [X.sum(axis=0), (X**2).sum(axis=0)])


def test_the_centre_is_the_mean_of_features_that_vary_little():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(5, 1, 500), rng.normal(0, 1, 500), rng.random(500) < 0.1, np.ones(500)])
    first, second, steps = X.mean(axis=0), (X**2).mean(axis=0), Steps(np.zeros(4))
    moved = [steps.move_centre(first * (1 + 1e-2 * (k > 40) + 1e-6 * k), second) for k in range(200)]
    assert np.flatnonzero(moved).tolist() == [31, 63]  # at 127 it would have moved by less than a thousandth
    assert steps.damping == 16
    assert_allclose(steps.centre, first * [1, 0, 0, 1], rtol=0.02)


def test_steps_that_go_to_and_fro_are_damped_and_others_are_not():
    g, curvature, steps = np.array([[1.0, -2.0, 0.5, 1.0]]), np.ones(4), Steps(np.zeros(4))
    first = steps.step(g, 0.0, 1.0, curvature, True)
    for k in range(10):
        steps.step(g * (-1) ** (k + 1), 0.0, 1.0, curvature, True)
    assert steps.damping == pytest.approx(1.4**10)
    again = Steps(**unpack(pack(vars(steps))))
    assert_allclose(again.step(g, 0.0, 1.0, curvature, True), steps.step(g, 0.0, 1.0, curvature, True))
    for _ in range(200):
        last = steps.step(g, 0.0, 1.0, curvature, True)
    assert steps.damping == 1 and np.array_equal(last, first)
    for k in range(10):
        steps.step(g * (-1) ** k, 0.0, 1.0, curvature, may_damp=False)
    assert steps.damping == 1
