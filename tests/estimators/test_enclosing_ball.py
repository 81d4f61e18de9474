"""`minimum_enclosing_ball`: what users see of it."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from ball_reference import KNOWN, unit_sphere
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from dimargin import minimum_enclosing_ball


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("method", ["growing", "fixed"])
def test_balls_that_are_known(name, epsilon, method):
    points, radius = KNOWN[name]
    if method == "fixed" and epsilon == 0:
        return
    ball = minimum_enclosing_ball(points, epsilon, method=method)
    reach = np.linalg.norm(points - ball.center, axis=1).max()
    size = np.abs(points).max()
    assert ball.certificate is True and ball.status == "converged"
    assert ball.farthest == pytest.approx(reach, abs=1e-12 * size)
    assert ball.radius <= radius * (1 + 1e-9) + 1e-12 * size
    assert radius <= ball.farthest + 1e-12 * size and ball.farthest <= (1 + epsilon) * ball.radius + 1e-12 * size
    assert ball.dual_weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(ball.dual_weights @ points[ball.core_set_indices], ball.center, atol=1e-12 * size)


def test_a_function_and_values_computed_beforehand_are_the_named_kernel():
    X = np.random.default_rng(0).normal(size=(700, 3))
    named = minimum_enclosing_ball(X, 0, kernel="rbf", gamma=0.5)
    function = minimum_enclosing_ball(X, 0, kernel=lambda a, b: rbf_kernel(a, b, gamma=0.5))
    given = minimum_enclosing_ball(rbf_kernel(X, gamma=0.5), 0, kernel="precomputed")
    for other in (function, given):
        assert other.center is None
        np.testing.assert_array_equal(other.core_set_indices, named.core_set_indices)
        assert other.radius == pytest.approx(named.radius, rel=1e-9)
    assert named.n_kernel_evaluations > 0


def test_kinds_of_points_and_threads():
    X = np.random.default_rng(1).normal(size=(500, 4)).astype(np.float32)
    ball = minimum_enclosing_ball(X, 0)
    frame = minimum_enclosing_ball(pd.DataFrame(X, columns=list("abcd")), 0, n_jobs=1)
    np.testing.assert_array_equal(frame.center, ball.center)
    sparse = minimum_enclosing_ball(sp.csr_array(X), 0)
    np.testing.assert_allclose(sparse.center, ball.center, rtol=1e-6, atol=1e-6)
    one, two = (minimum_enclosing_ball(X, 1e-3, kernel="rbf", n_jobs=k, random_state=3) for k in (1, 2))
    np.testing.assert_array_equal(one.dual_weights, two.dual_weights)


def test_no_time_is_said():
    with pytest.warns(ConvergenceWarning, match="smallest ball has a radius of"):
        ball = minimum_enclosing_ball(unit_sphere(2000, 10), 0, max_time=1e-9)
    assert ball.certificate is False and ball.status == "max_time" and ball.radius <= 1 <= ball.farthest


def test_rounding_is_said():
    """Products of points far from the origin have lost the digits that their distances need."""
    X = np.random.default_rng(2).normal(size=(3000, 5))
    with pytest.warns(ConvergenceWarning, match="the rest is rounding"):
        ball = minimum_enclosing_ball(X @ X.T + 1e13, 0, kernel="precomputed")
    assert ball.status == "precision" and ball.certificate is False


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("jitter", [0.0, 1e-15, 1e-9])
@pytest.mark.parametrize("size", [1e-6, 7.3, 10.0, 1e6])
def test_sparse_points_that_are_nearly_one(size, jitter):
    """Their products with the mean subtracted are rounding: they were negative, and no point could come in."""
    X = size * (1 + jitter * np.random.default_rng(3).normal(size=(31, 2)))
    for epsilon in (0.0, 1e-3):
        dense, sparse = (minimum_enclosing_ball(rows, epsilon) for rows in (X, sp.csr_array(X)))
        assert sparse.radius <= dense.farthest and dense.radius <= sparse.farthest
        assert np.linalg.norm(X - sparse.center, axis=1).max() <= sparse.farthest * (1 + 1e-15)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": -0.1}, "epsilon must be a finite number in"),
        ({"epsilon": 1.5}, r"epsilon .* \[0, 1\], got 1.5"),
        ({"epsilon": 0, "method": "fixed"}, "epsilon must be above 0 for method='fixed'"),
        ({"method": "welzl"}, "method must be 'growing' or 'fixed', got 'welzl'"),
        ({"kernel": "sigmoid"}, "not positive semi-definite"),
        ({"kernel": "poly", "coef0": -1.0}, "not positive semi-definite"),
        ({"kernel": "cosine"}, "kernel must be one of .* got 'cosine'"),
        ({"kernel": "rbf", "gamma": -1}, "gamma must be"),
        ({"kernel": "precomputed"}, "square matrix of kernel values"),
        ({"max_time": 0}, "max_time must be"),
        ({"max_iter": 0}, "max_iter must be"),
    ],
)
def test_parameters_out_of_range(options, words):
    with pytest.raises(ValueError, match=words):
        minimum_enclosing_ball(np.zeros((4, 2)), **options)


def test_points_out_of_range():
    points = np.zeros((4, 3))
    points[2, 1] = np.nan
    with pytest.raises(ValueError, match=r"Input points contains NaN \(row 2, column 1\)"):
        minimum_enclosing_ball(points)
    with pytest.raises(ValueError, match=r"row 2, column 1 \('b'\)"):
        minimum_enclosing_ball(pd.DataFrame(points, columns=list("abc")))
    points[2, 1] = 1e200
    with pytest.raises(ValueError, match="column 1 is too large"):
        minimum_enclosing_ball(points)
    with pytest.raises(ValueError, match="minimum of 1 is required"):
        minimum_enclosing_ball(np.zeros((0, 3)))
