"""Algorithm 1 of the DiODM paper as it is printed: its strata, its starts, what it returns, and where it ends."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import HINGE, ODM, blobs, certificate, dual_of, fit, make_problem
from numpy.testing import assert_allclose, assert_array_equal
from trainings import RBF, training

from dimargin import ODMClassifier
from dimargin.shards.partition import stratified
from dimargin.shards.partition.landmarks import pivoted_cholesky
from dimargin.solvers import Limits
from dimargin.strategies import DiODM, TreeShape
from dimargin_bench.experiments.literal_diodm import ConcatenatingDiODM, CoordinateDescent, CoordinateDiODM
from dimargin_bench.experiments.literal_dsvrg import LiteralDSVRG

SHAPE = TreeShape(branching=2, n_levels=2, n_landmarks=5)


def train(strategy, problem, **shape):
    """Train as the estimator does, with the strategy's solver."""
    return strategy.train(training(problem, replace(SHAPE, **shape), solver=strategy.solver))


@pytest.fixture
def problem():
    X, labels = blobs(300, seed=1, n_outputs=2)
    return make_problem(X, labels, ODM, RBF, weights=np.linspace(1, 2, 300))


@pytest.fixture
def solves(monkeypatch):
    """The solutions of all parts, with their starts, in the order in which they were solved."""
    found = []

    class Recorded(CoordinateDescent):
        def init(self, problem, start, limits):
            state = super().init(problem, start, limits)
            found.append([start, state.dual, state])
            return state

        def finish(self, *args):
            solution = super().finish(*args)
            (solve,) = (solve for solve in found if solve[2] is args[0])
            solve[2] = solution
            return solution

    monkeypatch.setattr(CoordinateDiODM, "solver", Recorded)
    return found


@pytest.mark.parametrize("strategy", [ConcatenatingDiODM, CoordinateDiODM])
def test_level_zero_is_the_optimum(strategy, problem):
    tree, exact = train(strategy(early_stop=False), problem), fit(problem, tol=1e-7)
    assert tree.status == "converged"
    assert_allclose(tree.objectives.primal, exact.objectives.primal, rtol=2e-6)
    assert certificate(problem, dual_of(problem, tree.model))[2].max() <= 1.1e-6


def test_solves_start_from_the_concatenated_solutions_as_they_are(problem, solves):
    train(ConcatenatingDiODM(), problem, stop_level=1)
    *leaves, first, second = solves
    assert len(leaves) == 4 and all(start is None and not begun.any() for start, begun, _ in leaves)
    for (_, begun, _), children in ((first, leaves[:2]), (second, leaves[2:])):
        expected = np.concatenate([solution.dual for _, _, solution in children], axis=1)
        assert_array_equal(np.sort(begun), np.sort(expected))


def test_rescaled_starts_are_half_of_them(problem, solves):
    train(CoordinateDiODM(), problem, stop_level=1)
    *leaves, first, _ = solves
    expected = np.concatenate([solution.dual for _, _, solution in leaves[:2]], axis=1)
    assert_allclose(np.sort(first[1]), np.sort(expected) / 2, rtol=0.02)  # parts of nearly the same weight


def test_it_ends_with_p_parts_and_returns_their_coefficients_as_they_are(problem, solves):
    outcome = train(ConcatenatingDiODM(), problem, stop_level=1)
    assert [entry["partitions"] for entry in outcome.history] == [4, 2]
    found = np.concatenate([solution.dual for _, _, solution in solves[-2:]], axis=1)
    assert_allclose(np.sort(np.abs(dual_of(problem, outcome.model))), np.sort(np.abs(found)), rtol=1e-12)


def test_strata_ignore_the_labels():
    X, labels = blobs(300, seed=1)
    parts = []
    for y in (labels[0], np.roll(labels[0], 1)):
        problem = make_problem(X, y[None], ODM, RBF)
        dealt = ConcatenatingDiODM()._leaves(training(problem, SHAPE), 2, 1)
        parts.append([part.indices for part in dealt.parts.collect()])
    assert_array_equal(parts[0], parts[1])


def test_landmarks_are_chosen_among_all_rows(monkeypatch):
    """Equation 5; dimargin's DiODM chooses among 2,000."""
    candidates = []

    def recorded(kernel, rows, *args):
        candidates.append(len(rows))
        return pivoted_cholesky(kernel, rows, *args)

    monkeypatch.setattr(stratified, "pivoted_cholesky", recorded)
    X, labels = blobs(2100, seed=1)
    problem = make_problem(X, labels, ODM, RBF)
    for strategy in (DiODM(), ConcatenatingDiODM(), CoordinateDiODM()):
        strategy._leaves(training(problem, SHAPE), 2, 1)
    LiteralDSVRG()._parts(X, labels[0] > 0)
    assert candidates == [2000, 2100, 2100, 2100]


def test_the_estimator_takes_its_solver():
    X, labels = blobs(300, seed=1)
    shape = {"branching": 2, "n_levels": 1, "stop_level": 1, "n_landmarks": 5}
    machine = ODMClassifier(lam=50.0, gamma=0.8, strategy=ConcatenatingDiODM(), **shape, random_state=0)
    entry = machine.fit(X, labels[0]).history_[0]
    assert (
        entry["passes"] > 1 and machine.score(X, labels[0]) > 0.7
    )  # a part of so few rows takes one of the exact solver


def test_steps_read_a_row_of_the_kernel_for_every_change(problem):
    solver, limits = CoordinateDescent(random_state=0), Limits(tol=1e-3)
    state = solver.init(problem, None, limits)
    assert solver.evaluations(state) == 0
    solver.step(state)
    assert 0 < solver.evaluations(state) <= 2 * 2 * 300 * 300
    assert_allclose(state.duals[0].margins, problem.margins(state.dual)[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("options", [{"loss": HINGE}, {"loss": ODM, "intercept": True}])
def test_it_is_for_the_odm_without_intercept(options):
    X, labels = blobs(50)
    loss = options.pop("loss")
    with pytest.raises(NotImplementedError, match="ODM without intercept"):
        CoordinateDescent().init(make_problem(X, labels, loss, RBF, **options), None, Limits())
