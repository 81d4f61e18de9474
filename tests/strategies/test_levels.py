"""What a level reports of its local solves."""

from dataclasses import replace
from threading import Event

import numpy as np
import pytest
from helpers import ODM, blobs, make_problem, scattered, solution_of
from trainings import RBF, training

from dimargin import DiODM
from dimargin.problems.objectives import Objectives
from dimargin.shards.local_engine import LocalEngine
from dimargin.shards.parts import Part
from dimargin.shards.tree import Level
from dimargin.solvers import Limits
from dimargin.strategies import LevelModel, TreeShape
from dimargin.strategies.levels import Step, average, model, seconds_for
from dimargin.strategies.solves import Plan, Solved, summarise


def solved(primal, gap, rows, mass, intercept=0.0, total=4.0):
    n = len(rows)
    objectives = Objectives.of(np.array([primal]), np.array([primal * gap]), np.array([intercept]))
    part = Part(replace(make_problem(*blobs(8), ODM, RBF), total=total).restrict(rows, mass), rows)
    solution = solution_of(np.ones((1, n)), objectives)
    return Solved.of(part, solution)


def level_of(*parts):
    return Level(1, [summarise(part, None) for part in parts], LocalEngine(1, Event()).scatter(parts))


@pytest.fixture
def level():
    return level_of(
        solved(8.0, 0.25, np.array([0, 7, 3]), 1.0, intercept=2.0),
        solved(4.0, 0.125, np.array([1, 2, 4, 5, 6]), 3.0, intercept=6.0),
    )


def test_means_are_weighted_and_the_gap_is_the_worst(level):
    objectives = average(level, 4.0)
    assert objectives.primal == [5.0]
    assert objectives.dual == [(6.0 + 3 * 3.5) / 4]
    assert objectives.relative_gap == [0.25]


def test_the_model_weighs_local_machines_by_mass(level):
    found = model(level, 4.0)
    X, labels = blobs(8)
    share = np.full((1, 8), 0.75)
    share[0, [0, 3, 7]] = 0.25
    np.testing.assert_array_equal(found.indices, np.arange(8))
    np.testing.assert_array_equal(found.coefficients, labels * share)
    np.testing.assert_array_equal(found.vectors, X)


def test_the_whole_problem_keeps_its_intercept():
    whole = level_of(solved(8.0, 0.25, np.arange(8), 8.0, 2.0, 8.0))
    np.testing.assert_array_equal(model(whole, 8.0).intercept, [2.0])


def test_a_model_holds_support_vectors_in_the_order_of_their_indices():
    X, labels = blobs(8, n_outputs=2)
    part = Part(make_problem(X, labels, ODM, RBF), np.arange(8)).take(np.array([5, 1, 7, 0]), 8.0)
    found = LevelModel.of(part, np.array([[2.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 3.0]]), np.zeros(2))
    np.testing.assert_array_equal(found.indices, [0, 5])
    np.testing.assert_array_equal(found.coefficients, labels[:, [0, 5]] * [[1.0, 2.0], [3.0, 0.0]])
    np.testing.assert_array_equal(found.labels, labels[:, [0, 5]])
    np.testing.assert_array_equal(found.vectors, X[[0, 5]])


def test_pieces_of_the_whole_add_up():
    pieces = level_of(
        solved(8.0, 0.25, np.arange(3), 8.0, 2.0, 8.0), solved(4.0, 0.125, np.arange(3, 8), 8.0, 6.0, 8.0)
    )
    found = model(pieces, 8.0)
    np.testing.assert_array_equal(found.coefficients, blobs(8)[1])
    objectives = average(pieces, 8.0)
    assert objectives.primal == [12.0] and objectives.relative_gap == [0.25]


@pytest.mark.parametrize(("first_gaps", "stops"), [((1e-4, 1e-3), True), ((1e-4, 1.1e-3), False), ((0.5, 1e-4), False)])
def test_early_stop_asks_every_part(level, first_gaps, stops):
    results = [
        replace(part, result=replace(part.result, history=[{"relative_gap": gap}]))
        for part, gap in zip(level.results, first_gaps, strict=True)
    ]
    X, labels = blobs(8)
    plan = training(make_problem(X, labels, ODM, RBF), TreeShape(branching=2, n_levels=2), tol=1e-3)
    verdict = DiODM()._verdict(plan, [{}, {}], Step(replace(level, results=results), lambda: None), False)
    assert (verdict is not None) == stops


def test_levels_that_computed_few_values_do_not_make_these_slow():
    """Most values of a narrow kernel are negligible, and are not computed: a pass takes no longer than the levels."""
    plan, n_support = training(make_problem(*blobs(800), ODM, RBF), TreeShape()), 100
    history = [{"kernel_evaluations": 10**6, "seconds": 2.0, "partitions": 4}]
    assert seconds_for(plan, n_support, 3e6, history) == pytest.approx(6.0)
    history[0]["kernel_evaluations"] = 3
    assert seconds_for(plan, n_support, 800 * n_support, history) == pytest.approx(4 * 2.0)
    assert seconds_for(plan, n_support, 1e9, []) == 0.0


def test_memory_of_a_factor_does_not_depend_on_the_threads():
    """Whether Newton's method may take over decides about the model."""
    problem = make_problem(*blobs(1200), ODM, RBF)
    plans = {}
    for n_threads in (1, 4):
        plan = replace(training(problem, TreeShape()), rows=scattered(problem, 8, n_threads=n_threads), cache=8 * 10**6)
        plans[n_threads] = Plan.of(plan, plan.rows, Limits(), 1)
    assert plans[1].gram == plans[4].gram == 10**6
    assert plans[1].cache == 4 * plans[4].cache == 8 * 10**6
