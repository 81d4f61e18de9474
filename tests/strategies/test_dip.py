"""DiP: what its parts look like and pass on, and that it ends where every cascade ends."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import HINGE, ODM
from numpy.testing import assert_array_equal
from test_dc import weighted
from trainings import training

from dimargin import DiP
from dimargin.shards.partition import InputClusterPartition
from dimargin.shards.parts import Part
from dimargin.solvers import BlockCoordinateDescent, Limits, solve
from dimargin.strategies import Exact, TreeShape
from dimargin.strategies import cascade as cascade_module
from dimargin.strategies.solves import Solved

TREE = TreeShape(branching=2, n_levels=2)
every_rule = pytest.mark.parametrize("relevance", ["sv", "margin"])


def test_one_part_is_the_exact_machine():
    problem = weighted(ODM, 1300)
    outcome = DiP(rounds=1).train(training(problem, TreeShape(branching=2, n_levels=0), tol=1e-4))
    exact = Exact().train(training(problem, TreeShape(), tol=1e-4))
    assert_array_equal(outcome.model.indices, exact.model.indices)
    assert_array_equal(outcome.model.coefficients, exact.model.coefficients)


def test_one_round_of_two_parts_is_near_the_exact_machine():
    problem = weighted(ODM, 700)
    outcome = DiP(rounds=1).train(training(problem, TreeShape(branching=2, n_levels=1), tol=1e-4))
    exact = Exact().train(training(problem, TreeShape(), tol=1e-6))
    assert outcome.objectives.primal[0] <= exact.objectives.primal[0] * 1.05


@pytest.mark.parametrize("intercept", [False, True])
def test_what_is_relevant_is_a_support_vector_or_near_the_boundary(intercept):
    problem = replace(weighted(HINGE, 900), intercept=intercept)
    solution = solve(problem, BlockCoordinateDescent(), None, Limits(tol=1e-4))
    solved = Solved.of(Part(problem, np.arange(900)), solution)
    support = np.flatnonzero(solution.dual[0])
    assert_array_equal(DiP(relevance="sv")._passed_on(solved), support)
    relevant = DiP()._passed_on(solved)
    decision = problem.labels * solution.margins + solution.objectives.intercept[:, None]
    distance = np.abs(decision[0])
    near = distance <= distance.mean()
    assert_array_equal(relevant, np.flatnonzero(near | np.isin(np.arange(900), support)))
    assert len(support) < len(relevant) < 900


def test_the_leaves_preserve_the_distribution(monkeypatch):
    problem, dealt = weighted(HINGE, 1300), []
    climb = cascade_module.climb

    def watched(leaves, *others):
        dealt.extend(leaves.collect())
        return climb(leaves, *others)

    monkeypatch.setattr(cascade_module, "climb", watched)
    plan = training(problem, TREE, tol=0.1)
    DiP(rounds=1, n_clusters=9, sample_size=300).train(plan)
    rng = np.random.default_rng(plan.random_state)
    expected = InputClusterPartition(9, 300).deal(plan.rows, 1300, 4, rng).parts.collect()
    for part, other in zip(dealt, expected, strict=True):
        assert_array_equal(part.indices, other.indices)
