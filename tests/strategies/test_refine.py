"""Steps 6 and 7 of divide and conquer: the support vectors alone, and then all rows."""

import time
from dataclasses import replace
from threading import Event

import numpy as np
import pytest
from helpers import ODM, blobs, dual_of, make_problem
from numpy.testing import assert_array_equal
from test_dc import separable
from trainings import RBF, TREE, Recorder, training

from dimargin import DivideAndConquer
from dimargin.problems.solution import Solution
from dimargin.strategies import levels as levels_module
from dimargin.strategies import refine as refine_module
from dimargin.strategies import solves as solves_module


@pytest.fixture
def last_solves(monkeypatch):
    """Problem, start, limits and solution of steps 6 and 7, as they are made."""
    solves, original_solve, original_task = [], solves_module.solve, refine_module.refined_and_solved

    def recording(problem, solver, start, limits) -> Solution:
        solves.append((problem, start.copy(), limits, original_solve(problem, solver, start, limits)))
        return solves[-1][-1]

    def refined_and_solved(*arguments):
        with monkeypatch.context() as patch:
            patch.setattr(solves_module, "solve", recording)
            return original_task(*arguments)

    monkeypatch.setattr(refine_module, "refined_and_solved", refined_and_solved)
    return solves


def test_refinement_solves_the_support_vectors_alone(last_solves):
    problem, recorder = separable(), Recorder()
    DivideAndConquer().train(training(problem, TREE, tol=1e-3, progress=recorder))
    before = dual_of(problem, recorder.models[1])
    support = np.flatnonzero(before.any(axis=0))
    (part, start, _, solution), (whole, start_of_whole, _, _) = last_solves
    assert (part.n_rows, part.mass) == (len(support), problem.total)
    assert_array_equal(start, before[:, support])
    assert_array_equal(whole.labels, problem.labels)
    assert_array_equal(start_of_whole[:, support], solution.dual)
    assert np.count_nonzero(start_of_whole.any(axis=0)) <= len(support)


def test_no_refinement_where_most_rows_are_support_vectors(last_solves):
    X, labels = blobs(1500, seed=3, n_features=2)
    problem, recorder = make_problem(X, labels, ODM, RBF), Recorder()
    DivideAndConquer().train(training(problem, TREE, tol=1e-3, progress=recorder))
    ((whole, start, _, _),) = last_solves
    assert_array_equal(whole.labels, problem.labels)
    assert_array_equal(start, dual_of(problem, recorder.models[1]))


def test_refinement_leaves_time_for_the_last_pass(last_solves, monkeypatch):
    monkeypatch.setattr(levels_module, "seconds_for", lambda *arguments: 11.0)
    plan = training(separable(), TREE, tol=1e-3)
    deadline = time.perf_counter() + 1000
    outcome = DivideAndConquer().train(replace(plan, limits=replace(plan.limits, deadline=deadline)))
    assert [limits.deadline for _, _, limits, _ in last_solves] == [deadline - 11.0, deadline]
    assert outcome.scope == "global"


def test_an_interrupt_while_refining_gives_the_model_of_level_1(monkeypatch):
    interrupted, recorder, original = Event(), Recorder(), refine_module.refined_and_solved

    def interrupting(*arguments):
        interrupted.set()
        return original(*arguments)

    monkeypatch.setattr(refine_module, "refined_and_solved", interrupting)
    plan = training(separable(), TREE, tol=1e-3, progress=recorder)
    outcome = DivideAndConquer().train(replace(plan, limits=replace(plan.limits, interrupted=interrupted)))
    assert (outcome.status, outcome.reason, outcome.scope) == ("stopped", "it was interrupted", "partitioned")
    assert_array_equal(outcome.model.coefficients, recorder.models[1].coefficients)
    assert outcome.model.router is not None
