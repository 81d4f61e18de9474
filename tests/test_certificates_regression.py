"""Certificates of regressors are judged by independent code: see `judge`."""

from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from judge import Problem, SquaredEpsilonInsensitive, complaints, judge, judge_weights, signed_coefficients
from judged_machines import fewer, fitted, judged, rarely
from judged_problems import KERNELS, regressions

import dimargin
from dimargin.estimators import kernel_machine
from dimargin.estimators.training_data import merged
from dimargin.shards import parts
from dimargin.solvers import BlockCoordinateDescent

TOLERANCES = st.sampled_from([1e-1, 1e-3, 1e-3, 1e-6, 1e-9])
LINEAR = {"kernel": "linear", "gamma": 1.0}
TREE = {"n_levels": 1, "branching": 2}
STRATEGIES = [
    *({"strategy": name, **TREE} for name in ("diodm", "cascade", "dip", "dc")),
    {"strategy": "diodm", "stop_level": 1, **TREE}, {"strategy": "dc", "stop_level": 1, **TREE},
    {"strategy": "landmark", "n_landmarks": 5}, {"strategy": dimargin.Landmark(polish=True), "n_landmarks": 5},
]  # fmt: skip


def parameters_of(loss):
    squared = isinstance(loss, SquaredEpsilonInsensitive)
    return {"C": loss.C, "epsilon": loss.epsilon, "loss": "squared_" * squared + "epsilon_insensitive"}


def machine_for(loss, kernel, intercept, **parameters):
    return dimargin.SVMRegressor(**parameters_of(loss), **kernel, fit_intercept=intercept, **parameters)


def problem_of(X, weights, loss, kernel, intercept):
    return Problem(X, np.ones((1, len(X))), weights, loss, kernel, intercept)


def truth_of(machine, problem, with_dual=True):
    """What is true of a machine; if its coefficients are not those of a dual point, of its objective."""
    truth = judge(problem, signed_coefficients(problem, machine.support_, machine.dual_coef_), machine.intercept_)
    return truth if with_dual else replace(truth, dual=np.full(1, -np.inf))


def reached(problem, kernel):
    """Objective of an exact machine for the same problem."""
    machine = machine_for(problem.loss, kernel, problem.intercept, tol=1e-9, max_iter=300, strategy="exact")
    return truth_of(fitted(machine, problem.X, problem.loss.targets, problem.weights), problem).upper


@pytest.mark.slow
@judged
@given(regressions(), KERNELS, st.booleans(), TOLERANCES)
def test_exact_regressors(data, kernel, intercept, tol):
    X, weights, loss = data
    machine = machine_for(loss, kernel, intercept, tol=tol, max_iter=200, strategy="exact")
    if fitted(machine, X, loss.targets, weights) is None:
        return
    problem = problem_of(X, weights, loss, kernel, intercept)
    assert not complaints(machine, truth_of(machine, problem))
    machine.certify(X, loss.targets, weights)
    assert not complaints(machine, truth_of(machine, problem))


@pytest.mark.slow
@fewer
@given(regressions(), KERNELS, st.booleans(), st.sampled_from(STRATEGIES), st.sampled_from([1e-1, 1e-3, 1e-6]))
def test_strategies_of_regressors(data, kernel, intercept, strategy, tol):
    X, weights, loss = data
    if "landmark" in str(strategy["strategy"]).lower() and not isinstance(loss, SquaredEpsilonInsensitive):
        return
    machine = machine_for(loss, kernel, intercept, tol=tol, max_iter=100, random_state=0, **strategy)
    if fitted(machine, X, loss.targets, weights) is None:
        return
    problem = problem_of(X, weights, loss, kernel, intercept)
    best, was_global = reached(problem, kernel), machine.certificate_ == "global"
    if was_global:
        assert not complaints(machine, truth_of(machine, problem), best)
    machine.certify(X, loss.targets, weights)
    assert not complaints(machine, truth_of(machine, problem, was_global), best)


@pytest.mark.slow
@judged
@given(
    regressions(),
    KERNELS,
    st.booleans(),
    st.sampled_from(["blocks", "shards", "merged"]),
    st.integers(2, 60),
    TOLERANCES,
)
def test_solvers_of_many_rows_of_regressors(data, kernel, intercept, way, size, tol):
    """Problems of several blocks or shards, few rows each, and equal rows with equal targets that are merged."""
    X, weights, loss = data
    strategy = dimargin.Exact(across_shards=True, working_set=size) if way == "shards" else "exact"
    if way == "merged":
        same = np.arange(len(X)) % size
        X, loss = X[same], replace(loss, targets=loss.targets[same])
    machine = machine_for(loss, kernel, intercept, tol=tol, max_iter=20, strategy=strategy)
    with mock.patch.object(BlockCoordinateDescent, "small", 4), ExitStack() as stack:
        if way == "shards":
            stack.enter_context(mock.patch.object(parts, "_ROWS_OF_SHARD", 8))
        if way == "merged":
            stack.enter_context(mock.patch.object(kernel_machine, "merged", partial(merged, min_rows=2)))
        machine = fitted(machine, X, loss.targets, weights)
    if machine is not None:
        problem = problem_of(X, weights, loss, kernel, intercept)
        assert not complaints(machine, truth_of(machine, problem, way != "merged"))


@pytest.mark.nightly
@rarely
@given(regressions(max_rows=900, min_rows=513), KERNELS, st.booleans(), st.sampled_from([1e-1, 1e-3, 1e-4, 1e-6]))
def test_more_rows_of_regressors_than_a_block(data, kernel, intercept, tol):
    X, weights, loss = data
    machine = machine_for(loss, kernel, intercept, tol=tol, max_iter=20, strategy="exact")
    if fitted(machine, X, loss.targets, weights) is None:
        return
    problem = problem_of(X, weights, loss, kernel, intercept)
    assert not complaints(machine, truth_of(machine, problem))
    claimed = machine.dual_objective_
    assert machine.certify(X, loss.targets, weights).objective_ >= claimed


@pytest.mark.slow
@fewer
@given(regressions(), KERNELS, st.booleans(), st.sampled_from([-1.0, 0.5, 1.0, 1.3, 1e3]), st.booleans())
def test_certify_of_changed_regressors(data, kernel, intercept, factor, uneven):
    """Their coefficients may be outside the box, and their sum may be any: no point of the dual."""
    X, weights, loss = data
    machine = machine_for(loss, kernel, intercept, tol=1e-3, max_iter=100, strategy="exact")
    if fitted(machine, X, loss.targets, weights) is None:
        return
    problem = problem_of(X, weights, loss, kernel, intercept)
    best = reached(problem, kernel)
    machine.dual_coef_ = machine.dual_coef_ * factor
    if uneven:
        machine.dual_coef_ *= np.random.default_rng(len(X)).uniform(0.5, 1.5, machine.dual_coef_.shape)
    machine.certify(X, loss.targets, weights)
    assert not complaints(machine, truth_of(machine, problem, with_dual=False), best)


@pytest.mark.slow
@judged
@given(
    regressions(), st.sampled_from(["cd", "auto", "newton", "dsvrg", "cocoa"]), st.booleans(), st.booleans(),
    st.sampled_from([1e-1, 1e-3, 1e-9]), st.sampled_from([1, 40, 400]),
)  # fmt: skip
def test_linear_regressors(data, solver, intercept, sparse, tol, max_iter):
    X, weights, loss = data
    if solver in ("newton", "dsvrg") and not isinstance(loss, SquaredEpsilonInsensitive):
        return
    own = {**parameters_of(loss), "fit_intercept": intercept, "random_state": 0}
    rows = sp.csr_array(X) if sparse else X
    max_iter = min(max_iter, 40) if solver in ("dsvrg", "cocoa") else max_iter
    machine = dimargin.LinearSVMRegressor(solver=solver, tol=tol, max_iter=max_iter, **own)
    other = dimargin.LinearSVMRegressor(solver="cd", tol=1e-10, max_iter=500, **own)
    machine, other = (fitted(one, data, loss.targets, weights) for one, data in ((machine, rows), (other, X)))
    if machine is None or other is None:
        return
    problem = problem_of(X, weights, loss, LINEAR, intercept)
    best = judge_weights(problem, other.coef_, other.intercept_).upper
    assert not complaints(machine, judge_weights(problem, machine.coef_, machine.intercept_), best)
    machine.certify(rows, loss.targets, weights)
    assert not complaints(machine, judge_weights(problem, machine.coef_, machine.intercept_), best)
