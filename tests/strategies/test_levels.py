"""What a level reports of its local solves."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import ODM, blobs, make_problem
from test_diodm import RBF, training

from dimargin import DiODM
from dimargin.solution import Objectives, Solution
from dimargin.strategies import TreeShape
from dimargin.strategies.levels import Step, average, model
from dimargin.tree import Level, Node


def solved(primal, gap, rows, first_gap=1.0, intercept=0.0):
    n = len(rows)
    objectives = Objectives(np.array([primal]), np.array([primal * (1 - gap)]), np.array([gap]), np.array([intercept]))
    return Solution(np.ones((1, n)), np.ones((1, n)), objectives, "converged", "", 1, 1, [{"relative_gap": first_gap}])


@pytest.fixture
def level():
    nodes = [Node(np.arange(3), 1.0), Node(np.arange(3, 8), 3.0)]
    return Level(
        1, nodes, [solved(8.0, 0.25, nodes[0].rows, intercept=2.0), solved(4.0, 0.125, nodes[1].rows, intercept=6.0)]
    )


def test_means_are_weighted_and_the_gap_is_the_worst(level):
    objectives = average(level, 4.0)
    assert objectives.primal == [5.0]
    assert objectives.dual == [(6.0 + 3 * 3.5) / 4]
    assert objectives.relative_gap == [0.25]


def test_the_model_weighs_local_machines_by_mass(level):
    X, labels = blobs(8)
    problem = replace(make_problem(X, labels, ODM, RBF), total=4.0)
    found = model(level, problem)
    np.testing.assert_array_equal(found.dual, [[0.25] * 3 + [0.75] * 5])
    np.testing.assert_array_equal(found.intercept, [(1 * 2.0 + 3 * 6.0) / 4.0])


def test_pieces_of_the_whole_add_up(level):
    X, labels = blobs(8)
    pieces = replace(level, nodes=[replace(node, mass=8.0) for node in level.nodes])
    found = model(pieces, make_problem(X, labels, ODM, RBF))
    np.testing.assert_array_equal(found.dual, np.ones((1, 8)))
    np.testing.assert_array_equal(found.intercept, [(3 * 2.0 + 5 * 6.0) / 8.0])
    objectives = average(pieces, 8.0)
    assert objectives.primal == [12.0] and objectives.relative_gap == [0.25]


@pytest.mark.parametrize(("first_gaps", "stops"), [((1e-4, 1e-4), True), ((1e-4, 0.5), False)])
def test_early_stop_asks_every_part(level, first_gaps, stops):
    results = [
        replace(result, history=[{"relative_gap": gap}]) for result, gap in zip(level.results, first_gaps, strict=True)
    ]
    X, labels = blobs(8)
    plan = training(make_problem(X, labels, ODM, RBF), TreeShape(branching=2, n_levels=2), tol=1e-3)
    verdict = DiODM()._verdict(plan, [{}, {}], Step(replace(level, results=results), lambda: None), False)
    assert (verdict is not None) == stops
