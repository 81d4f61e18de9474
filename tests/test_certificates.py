"""Certificates of kernel machines, core-sets and balls are judged by independent code: see `judge`."""

import warnings
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import combinations
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from judge import (
    Hinge,
    Problem,
    SquaredHinge,
    complaints,
    judge,
    judge_ball,
    judge_plane,
    objectives_of_values,
    rho_of,
    signed_coefficients,
    squared_radius,
)
from judged_machines import fewer, fitted, judged, machine_for, rarely, reached
from judged_problems import KERNELS, LOSSES, data, labels_of
from sklearn.exceptions import ConvergenceWarning
from twofold import Twofold

import dimargin
from dimargin.estimators import kernel_machine
from dimargin.estimators.training_data import merged
from dimargin.shards import parts
from dimargin.solvers import BlockCoordinateDescent, block_coordinate_descent


def judged_by_its_coefficients(machine, problem, best=None):
    signed = signed_coefficients(problem, machine.support_, machine.dual_coef_)
    return complaints(machine, judge(problem, signed, np.broadcast_to(machine.intercept_, len(signed))), best)


@pytest.mark.slow
@judged
@given(data(), LOSSES, KERNELS, st.booleans(), st.sampled_from([1e-1, 1e-3, 1e-3, 1e-6, 1e-9]))
def test_exact_machines(data, loss, kernel, intercept, tol):
    X, y, weights = data
    machine = fitted(machine_for(loss, kernel, intercept, tol=tol, max_iter=200, strategy="exact"), X, y, weights)
    if machine is not None:
        problem = Problem(X, labels_of(y), weights, loss, kernel, intercept)
        assert not judged_by_its_coefficients(machine, problem)


def truth_of_pairs(machine, X, y, weights, loss, kernel, intercept):
    """What is true of a machine of three classes, of one against one."""
    truths = []
    for (a, b), shift in zip(combinations(range(3), 2), machine.intercept_, strict=True):
        rows = np.flatnonzero((y == a) | (y == b))
        signed = np.zeros((1, len(y)))
        # a support vector's coefficients against the other classes, in their order
        against = np.where(y[machine.support_] == a, b - 1, a)
        signed[0, machine.support_] = machine.dual_coef_[against, np.arange(len(machine.support_))]
        labels = np.where(y[rows] == b, 1.0, -1.0)[None]
        problem = Problem(X[rows], labels, weights[rows], loss, kernel, intercept)
        truths.append(judge(problem, signed[:, rows], [shift]))
    fields = ("primal", "dual", "upper", "moved")
    return replace(truths[0], **{name: np.concatenate([getattr(t, name) for t in truths]) for name in fields})


@pytest.mark.slow
@fewer
@given(data(n_classes=3), LOSSES, KERNELS, st.booleans(), st.sampled_from([1e-1, 1e-3, 1e-3, 1e-6, 1e-9]))
def test_pairs_of_classes(data, loss, kernel, intercept, tol):
    """Each pair is a problem of its own rows, of which the second class is the positive one."""
    X, y, weights = data
    machine = machine_for(loss, kernel, intercept, tol=tol, max_iter=200, multi_class="one_vs_one")
    machine = fitted(machine, X, y, weights) if len(np.unique(y)) == 3 else None
    if machine is None:
        return
    assert not complaints(machine, truth_of_pairs(machine, X, y, weights, loss, kernel, intercept))


def judged_by_its_objective(machine, problem, best):
    """Of a machine whose coefficients are not those of a dual point."""
    signed = signed_coefficients(problem, machine.support_, machine.dual_coef_)
    truth = judge(problem, signed, np.broadcast_to(machine.intercept_, len(signed)))
    return complaints(machine, replace(truth, dual=np.full(len(signed), -np.inf)), best)


STRATEGIES = [
    {"strategy": "diodm", "n_levels": 1, "branching": 2},
    {"strategy": "diodm", "n_levels": 1, "branching": 2, "stop_level": 1},
    {"strategy": "cascade", "n_levels": 1, "branching": 2},
    {"strategy": "dip", "n_levels": 1, "branching": 2},
    {"strategy": "dc", "n_levels": 1, "branching": 2},
    {"strategy": "landmark", "n_landmarks": 5},
    {"strategy": dimargin.Landmark(polish=True), "n_landmarks": 5},
]


@pytest.mark.slow
@fewer
@given(data(), LOSSES, KERNELS, st.booleans(), st.sampled_from(STRATEGIES), st.sampled_from([1e-1, 1e-3, 1e-6]))
def test_strategies(data, loss, kernel, intercept, strategy, tol):
    X, y, weights = data
    if "landmark" in str(strategy["strategy"]).lower() and type(loss) is Hinge:
        return
    machine = fitted(machine_for(loss, kernel, intercept, tol=tol, max_iter=100, **strategy), X, y, weights)
    if machine is None:
        return
    problem = Problem(X, labels_of(y), weights, loss, kernel, intercept)
    best = reached(problem, loss, kernel, intercept, X, y, weights)
    was = machine.certificate_
    if was != "global":
        machine.certify(X, y, weights)
    judged_by = judged_by_its_coefficients if was == "global" else judged_by_its_objective
    assert not judged_by(machine, problem, best)


@pytest.mark.slow
@fewer
@given(data(), LOSSES, KERNELS, st.booleans(), st.integers(1, 20), st.sampled_from([1e-1, 1e-3, 1e-6, 1e-9]))
def test_rows_that_stand_for_others(data, loss, kernel, intercept, n_different, tol):
    """Judged by their objective on all rows, beside the optimum of a machine that knows all of them."""
    X, y, weights = data
    X = X[np.arange(len(X)) % n_different]
    problem = Problem(X, labels_of(y), weights, loss, kernel, intercept)
    parameters = {"tol": tol, "max_iter": 100, "strategy": "exact"}
    with mock.patch.object(kernel_machine, "merged", partial(merged, min_rows=2)):
        machine = fitted(machine_for(loss, kernel, intercept, **parameters), X, y, weights)
        if machine is None:
            return
        best = reached(problem, loss, kernel, intercept, X, y, weights)
        assert not judged_by_its_objective(machine, problem, best)
        machine.certify(X, y, weights)
        assert not judged_by_its_objective(machine, problem, best)


@pytest.mark.slow
@fewer
@given(data(), LOSSES, KERNELS, st.booleans(), st.sampled_from([-1.0, 0.5, 1.0, 1.3, 1e3]), st.booleans())
def test_certify_of_changed_models(data, loss, kernel, intercept, factor, uneven):
    """Their coefficients may be outside the box, and their sum may be any: no point of the dual."""
    X, y, weights = data
    machine = fitted(machine_for(loss, kernel, intercept, tol=1e-3, max_iter=100, strategy="exact"), X, y, weights)
    if machine is None:
        return
    problem = Problem(X, labels_of(y), weights, loss, kernel, intercept)
    best = reached(problem, loss, kernel, intercept, X, y, weights)
    machine.dual_coef_ = machine.dual_coef_ * factor
    if uneven:
        machine.dual_coef_ *= np.random.default_rng(len(y)).uniform(0.5, 1.5, machine.dual_coef_.shape)
    machine.certify(X, y, weights)
    assert not judged_by_its_objective(machine, problem, best)


def gap_of_decision_values(machine, problem):
    """Gap between the objective of `decision_function` and the lower bound that is claimed, of the worst output.

    It is less what the rounding of sums in float64 may do to the losses of the values: every term
    of a value takes part in as many additions as there are terms at most, and a kernel value is a
    sum over features.
    """
    signed = signed_coefficients(problem, machine.support_, machine.dual_coef_)
    values = np.reshape(machine.decision_function(problem.X).T, signed.shape)
    terms = replace(problem, X=abs(problem.X)) if problem.kernel["kernel"] in ("linear", "poly") else problem
    n_roundings = np.count_nonzero(signed, axis=1, keepdims=True) + problem.X.shape[1] + 4
    rounding = n_roundings * 2.0**-53 * abs(signed) @ np.asarray(terms.gram().head, dtype=float)
    used, *moved = (objectives_of_values(problem, signed, v) for v in (values, values - rounding, values + rounding))
    used = used - np.max([other - used for other in moved], axis=0)
    return float(np.max((used - machine.dual_objective_) / np.maximum(used, machine.objective_)))


@pytest.mark.nightly
@rarely
@given(data(max_rows=900, min_rows=513), LOSSES, KERNELS, st.booleans(), st.sampled_from([1e-1, 1e-3, 1e-4, 1e-6]))
def test_more_rows_than_a_block(data, loss, kernel, intercept, tol):
    X, y, weights = data
    machine = fitted(machine_for(loss, kernel, intercept, tol=tol, max_iter=20, strategy="exact"), X, y, weights)
    if machine is None:
        return
    problem = Problem(X, labels_of(y), weights, loss, kernel, intercept)
    assert not judged_by_its_coefficients(machine, problem)
    assert gap_of_decision_values(machine, problem) <= machine.duality_gap_ + 1e-9
    claimed = np.min(np.atleast_1d(machine.dual_objective_))
    machine.certify(X, y, weights)
    assert np.max(np.atleast_1d(machine.objective_)) >= claimed


WAYS = [*STRATEGIES, {"strategy": dimargin.Exact(across_shards=True, working_set=60)}, {"multi_class": "one_vs_one"}]


@pytest.mark.nightly
@rarely
@given(
    data(max_rows=900, min_rows=513, n_classes=3), LOSSES, KERNELS, st.booleans(), st.sampled_from(WAYS),
    st.sampled_from([1e-1, 1e-3, 1e-4, 1e-6]),
)  # fmt: skip
def test_certify_and_fits_of_more_rows_than_a_block(data, loss, kernel, intercept, way, tol):
    """Strategies, shards and pairs use float32 there: a fit's claims are true, and so are those of `certify`."""
    X, y, weights = data
    if "landmark" in str(way).lower() and type(loss) is Hinge:
        return
    with mock.patch.object(parts, "_ROWS_OF_SHARD", 128):
        machine = fitted(machine_for(loss, kernel, intercept, tol=tol, max_iter=20, **way), X, y, weights)
    if machine is None:
        return
    if machine.multi_class == "one_vs_one":
        truth = truth_of_pairs(machine, X, y, weights, loss, kernel, intercept)
    else:
        problem = Problem(X, labels_of(y), weights, loss, kernel, intercept)
        signed = signed_coefficients(problem, machine.support_, machine.dual_coef_)
        truth = judge(problem, signed, np.broadcast_to(machine.intercept_, len(signed)))
    if machine.certificate_ == "global":
        assert not complaints(machine, truth)
    else:
        truth = replace(truth, dual=np.full(len(truth.dual), -np.inf))  # The coefficients are those of no dual point.
    machine.certify(X, y, weights)
    assert not complaints(machine, truth)


@pytest.mark.slow
@judged
@given(data(), LOSSES, KERNELS, st.booleans(), st.booleans(), st.sampled_from([1e-1, 1e-3, 1e-4, 1e-6, 1e-9]))
def test_solvers_of_many_rows(data, loss, kernel, intercept, gives_up, tol):
    """Problems of several blocks, few rows each, and those that blocks hand over to Newton's method."""
    X, y, weights = data
    machine = machine_for(loss, kernel, intercept, tol=tol, max_iter=20, strategy="exact")
    with mock.patch.object(BlockCoordinateDescent, "small", 4), ExitStack() as stack:
        if gives_up:
            stack.enter_context(mock.patch.object(block_coordinate_descent, "is_newton_faster", _gives_up))
        machine = fitted(machine, X, y, weights)
    if machine is not None:
        assert not judged_by_its_coefficients(machine, Problem(X, labels_of(y), weights, loss, kernel, intercept))


def _gives_up(state, now):
    is_possible = state.iterate.problem.loss.smooth and not state.blocks.is_one_block
    return is_possible and state.schedule.visited > 0 and not state.switch.outgrew_memory


@pytest.mark.nightly
@fewer
@given(data(), LOSSES, KERNELS, st.booleans(), st.integers(2, 60), st.sampled_from([1e-1, 1e-3, 1e-4, 1e-6, 1e-9]))
def test_rounds_across_shards(data, loss, kernel, intercept, working_set, tol):
    """Shards of eight rows, as they keep them where there are too many for one place."""
    X, y, weights = data
    strategy = dimargin.Exact(across_shards=True, working_set=working_set)
    with mock.patch.object(parts, "_ROWS_OF_SHARD", 8):
        machine = machine_for(loss, kernel, intercept, tol=tol, max_iter=20, strategy=strategy)
        machine = fitted(machine, X, y, weights)
    if machine is not None:
        assert not judged_by_its_coefficients(machine, Problem(X, labels_of(y), weights, loss, kernel, intercept))


@pytest.mark.slow
@fewer
@given(
    data(),
    LOSSES,
    st.booleans(),
    st.sampled_from(["sparse", "function", "values"]),
    st.sampled_from([1e-1, 1e-3, 1e-9]),
)
def test_own_kernels_and_sparse_rows(data, loss, intercept, how, tol):
    X, y, weights = data
    kernel = {"kernel": "linear", "gamma": 1.0}
    machine = machine_for(loss, kernel, intercept, tol=tol, max_iter=100, strategy="exact")
    if how != "sparse":  # of whole numbers, whose products are exact: rounding inside a user's kernel is not ours
        X = np.rint(8 * np.random.default_rng(len(y)).normal(size=X.shape))
        machine.set_params(kernel=(lambda A, B: A @ B.T) if how == "function" else "precomputed")
    given = {"sparse": sp.csr_array(X), "function": X, "values": X @ X.T}[how]
    if fitted(machine, given, y, weights) is not None:
        assert not judged_by_its_coefficients(machine, Problem(X, labels_of(y), weights, loss, kernel, intercept))


@pytest.mark.slow
@fewer
@given(
    data(),
    st.floats(-4, 5).map(lambda k: 10.0**k),
    KERNELS,
    st.sampled_from([1e-1, 1e-3, 1e-6]),
    st.sampled_from([1, 1, 3]),
)
def test_machines_of_core_sets(data, C, kernel, tol, n_sites):
    X, y, weights = data
    own = {k: v for k, v in kernel.items() if k != "kernel"}
    machine = dimargin.CoreSetSVMClassifier(C=C, kernel=kernel["kernel"], **own, tol=tol, n_sites=n_sites, max_iter=100)
    if len(y) >= 3 * n_sites and fitted(machine, X, y, weights) is not None:
        problem = Problem(X, labels_of(y), weights, SquaredHinge(C / 2), kernel, offset=1.0)
        signed = signed_coefficients(problem, machine.support_, machine.dual_coef_)
        assert not complaints(machine, judge(problem, signed, np.zeros(len(signed))))


@pytest.mark.slow
@fewer
@given(
    data(),
    st.one_of(st.floats(-3, 4).map(lambda k: 10.0**k), st.just(np.inf)),
    KERNELS,
    st.sampled_from([1e-1, 1e-3, 1e-6]),
)
def test_balls(data, C, kernel, tol):
    X, _, weights = data
    own = {k: v for k, v in kernel.items() if k != "kernel"}
    machine = dimargin.CoreSetSVDD(C=C, kernel=kernel["kernel"], **own, tol=tol, max_iter=100)
    if fitted(machine, X, None, weights, ignored="The radius of the ball is zero") is not None:
        problem = Problem(X, np.ones((1, len(X))), weights, SquaredHinge(C), kernel)
        x = signed_coefficients(problem, machine.support_, machine.dual_coef_)[0]
        assert not complaints(machine, judge_ball(problem, x, squared_radius(machine, problem, x, C), C))


@pytest.mark.slow
@fewer
@given(data(), st.floats(-3, 4).map(lambda k: 10.0**k), KERNELS, st.sampled_from([1e-1, 1e-3, 1e-6]))
def test_planes(data, C, kernel, tol):
    X, _, weights = data
    own = {k: v for k, v in kernel.items() if k != "kernel"}
    machine = dimargin.OneClassCoreSetSVM(C=C, kernel=kernel["kernel"], **own, tol=tol, max_iter=100)
    if fitted(machine, X, None, weights) is not None:
        problem = Problem(X, np.ones((1, len(X))), weights, SquaredHinge(C), kernel)
        x = signed_coefficients(problem, machine.support_, machine.dual_coef_)[0]
        assert not complaints(machine, judge_plane(problem, x, rho_of(machine, problem, x, C), C))


@pytest.mark.slow
@fewer
@given(
    data(),
    KERNELS,
    st.sampled_from([0.0, 1e-9, 1e-3, 0.1]),
    st.sampled_from(["growing", "growing", "fixed"]),
    st.booleans(),
)
def test_enclosing_balls(data, kernel, epsilon, method, sparse):
    X, _, weights = data
    if method == "fixed":
        epsilon = max(epsilon, 1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            ball = dimargin.minimum_enclosing_ball(
                sp.csr_array(X) if sparse else X, epsilon, method=method, max_iter=100, **kernel
            )
        except ValueError as refusal:
            assert "too large" in str(refusal)
            return
    x = np.zeros(len(X))
    x[ball.core_set_indices] = ball.dual_weights
    problem = Problem(X, np.ones((1, len(X))), weights, SquaredHinge(1.0), kernel)
    truth = judge_ball(problem, x, 0.0, np.inf)
    assert ball.radius**2 * (1 - 1e-15) <= truth.dual[0]
    if ball.center is None:  # else what rounding has done to the centre counts
        assert ball.farthest**2 * (1 + 1e-15) >= truth.primal[0]
    else:
        distances = ((Twofold(X) - Twofold(ball.center)[None]) * (Twofold(X) - Twofold(ball.center)[None])).sum()
        assert ball.farthest**2 * (1 + 1e-15) >= float(distances.head.max())
    if ball.certificate:
        assert ball.farthest <= (1 + max(epsilon, 1e-9)) * ball.radius
