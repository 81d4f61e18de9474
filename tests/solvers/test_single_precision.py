"""Rounding by float32: bounded for every row, exact where it matters, sampled for stationary kernels only."""

import numpy as np
import pytest
from helpers import HINGE, ODM, blobs, make_problem
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from dimargin.kernels.functions import Kernel
from dimargin.problems.losses import HingeLoss, ODMLoss, SquaredHingeLoss
from dimargin.solvers import single_precision
from dimargin.solvers.single_precision import BoundSettings, Sample, importance, is_uneven, with_rounding

RBF, POLY = Kernel("rbf", gamma=1.0), Kernel("poly", gamma=0.5, degree=3, coef0=1.0)
EVERY_KERNEL = [RBF, POLY, Kernel("laplacian", gamma=0.5), Kernel("linear")]


def with_long_rows(n=900, n_long=4, seed=0, kernel=POLY, loss=HINGE, sparse=False):
    """A problem with few rows that are long, and coefficients of a machine that is not far from solved."""
    X, labels = blobs(n, seed)
    X[:n_long] *= 30.0
    problem = make_problem(csr_array(X) if sparse else X, labels, loss, kernel)
    rng = np.random.default_rng(seed)
    dual = problem.feasible(rng.uniform(0, 0.02, labels.shape) * (rng.random(labels.shape) < 0.3))
    return problem, dual


def exact(problem, dual, intercepts):
    double = problem.with_kernel(problem.kernel.in_float64())
    return double.objectives(dual, double.margins(dual), intercepts)


def rounded(problem, dual, work=0.0, tol=1e-3, margins=None):
    margins = problem.margins(dual) if margins is None else margins
    objectives = problem.objectives(dual, margins)
    return with_rounding(problem, dual, margins, objectives, None, np.random.default_rng(0), tol, work)


def check(problem, dual, found):
    truth, claimed = exact(problem, dual, found.objectives.intercept), found.objectives
    size = np.abs(claimed.primal)
    assert (truth.primal - claimed.primal <= 1e-12 * size).all() or found.is_bound
    assert (claimed.dual <= truth.dual + 1e-12 * size).all()
    assert (truth.relative_gap <= claimed.relative_gap + 1e-12).all()
    assert (np.abs(truth.primal - claimed.primal) <= claimed.rounding * size).all()


@pytest.mark.parametrize("kernel", EVERY_KERNEL, ids=lambda kernel: kernel.name)
@given(
    seed=st.integers(0, 2**32 - 1), n=st.integers(5, 700), size=st.sampled_from([1e-3, 1.0, 1e4]), sparse=st.booleans(),
    scale=st.sampled_from([0.1, 1.0, 10.0]),
)  # fmt: skip
def test_no_margin_errs_by_more_than_its_bound(kernel, seed, n, size, sparse, scale):
    rng = np.random.default_rng(seed)
    X = scale * rng.normal(size=(n, 3)) * 10 ** rng.uniform(-1, 1, (n, 1))
    labels = np.where(rng.random((2, n)) < 0.5, 1.0, -1.0)
    problem = make_problem(csr_array(X) if sparse else X, labels, HingeLoss(1.0), kernel)
    dual = size * rng.exponential(size=(2, n)) ** 3
    double = problem.with_kernel(problem.kernel.in_float64())
    margins, truth = problem.margins(dual), double.margins(dual)
    bounds = problem.margin_errors(dual, margins) + double.margin_errors(dual, truth)
    assert (np.abs(margins - truth) <= bounds).all()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kernel", EVERY_KERNEL, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("loss", [HingeLoss(1.0), SquaredHingeLoss(10.0), ODM], ids=str)
@pytest.mark.parametrize("work", [0.0, 1e12])
def test_objectives_are_bounded_whatever_it_may_cost(monkeypatch, loss, kernel, sparse, work):
    monkeypatch.setattr(single_precision, "BOUND_SETTINGS", BoundSettings(bound_values=0.0))
    problem, dual = with_long_rows(kernel=kernel, loss=loss, sparse=sparse)
    found = rounded(problem, dual, work)
    check(problem, dual, found)
    assert found.is_bound or (work == 0 and kernel.name in ("rbf", "laplacian"))  # long rows are never sampled


@pytest.mark.parametrize("kernel", EVERY_KERNEL[::2], ids=lambda kernel: kernel.name)
def test_large_coefficients_of_stationary_kernels_are_sampled_where_bounds_cost_too_much(monkeypatch, kernel):
    monkeypatch.setattr(single_precision, "BOUND_SETTINGS", BoundSettings(bound_values=0.0, spare=0.0))
    problem, dual = with_long_rows(kernel=kernel, loss=ODMLoss(1e5, 0.3, 0.1))
    found = rounded(problem, 1e3 * dual)
    assert not found.is_bound and 0 < found.evaluations < 900 * np.count_nonzero(dual)
    check(problem, 1e3 * dual, found)


def test_rows_that_matter_are_computed_in_float64():
    """A long row carries all of the error: here its margin in float32 is wrong by a hundred."""
    problem, dual = with_long_rows(n_long=1)
    assert not problem.kernel.double
    margins = problem.margins(dual)
    margins[:, 0] += 100.0  # far beyond what rounding does, which a bound would not cover
    found = rounded(problem, dual, margins=margins)
    double = problem.with_kernel(problem.kernel.in_float64())
    assert_allclose(found.margins[:, 0], double.margins(dual)[:, 0], rtol=1e-12)
    assert found.objectives.rounding[0] <= 0.01 * max(1e-3, found.objectives.unrounded[0]) * 1.01


def test_unaffordable_bounds_count_in_full(monkeypatch):
    monkeypatch.setattr(single_precision, "BOUND_SETTINGS", BoundSettings(bound_values=0.0))
    problem, dual = with_long_rows(loss=ODMLoss(1e5, 0.3, 0.1))
    found = rounded(problem, dual)
    assert found.is_bound and found.evaluations == 0
    plain = problem.objectives(dual, problem.margins(dual))
    assert found.objectives.rounding[0] > 1e-4 and found.objectives.unrounded[0] == pytest.approx(plain.unrounded[0])


def test_one_row_that_errs_far_more_than_others_is_no_sample():
    rng = np.random.default_rng(0)
    parts = np.abs(rng.normal(size=(2, 320)))
    assert not is_uneven(parts)
    parts[1, 7] = 30.0
    assert is_uneven(parts)
    assert not is_uneven(np.zeros((1, 320)))  # equal rows: nothing is rounded


def test_a_sample_knows_the_rows_that_matter_most_exactly():
    """Errors of a heavy row at its kink were once left to the luck of the draw."""
    problem, dual = with_long_rows(kernel=RBF)
    margins = problem.margins(dual)
    objectives = problem.objectives(dual, margins)
    matter = importance(problem, dual, margins, objectives, problem.margin_errors(dual, margins))
    heavy = np.argsort(-dual[0])[:2]
    matter[heavy] = 1e3
    sample = Sample.of(problem, dual, margins, objectives.intercept, matter, np.random.default_rng(1), 64)
    certain = sample.rows[sample.certain]
    assert set(heavy) <= set(certain) and len(certain) == 16
    assert not set(certain) & set(sample.rows[sample.draws])
    errors = np.zeros((1, len(sample.rows)))
    errors[:, sample.certain] = 1e-6
    largest = np.full_like(errors, 1e-5)
    rows = problem.of_rows(sample.rows, problem.mass)
    estimates, variances = sample.slopes(
        rows, dual[:, sample.rows], margins[:, sample.rows], objectives.intercept, errors, largest
    )
    assert_allclose(estimates[1], 1e-6 * dual[0, certain].sum() / 2)
    assert_allclose(variances, 0)


def test_a_sample_of_fewer_rows_than_it_wants_is_all_of_them():
    problem, dual = with_long_rows(n=12, kernel=RBF)
    margins, matter = problem.margins(dual), np.arange(12.0)
    sample = Sample.of(problem, dual, margins, np.zeros(1), matter, np.random.default_rng(0), 64)
    assert len(sample.certain) == 12 and len(sample.draws) == 0
    rows = problem.of_rows(sample.rows, problem.mass)
    estimates, variances = sample.slopes(rows, dual, margins, np.zeros(1), 1e-6 + 0 * dual, 1e-5 + 0 * dual)
    assert_allclose(estimates[1], 1e-6 * dual.sum() / 2)
    assert not variances.any()
