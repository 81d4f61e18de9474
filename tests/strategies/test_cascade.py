"""The cascade: what is passed on and with which mass, and rounds that lead to the optimum."""

import time
from dataclasses import replace
from threading import Event

import numpy as np
import pytest
from helpers import HINGE, LOSSES, ODM, blobs, certificate, dual_of, fit, make_problem, name, solution_of
from numpy.testing import assert_allclose, assert_array_equal
from test_dc import weighted
from trainings import RBF, Recorder, training
from travelling import TravellingEngine

from dimargin import Cascade, DiP
from dimargin.kernels.functions import Kernel
from dimargin.problems.objectives import Objectives
from dimargin.shards.parts import Part
from dimargin.strategies import Exact, TreeShape
from dimargin.strategies import cascade as cascade_module
from dimargin.strategies import feedback as feedback_module
from dimargin.strategies import levels as levels_module
from dimargin.strategies import solves as solves_module
from dimargin.strategies.passing import best_of
from dimargin.strategies.solves import Solved

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=name)
every_choice = pytest.mark.parametrize("coefficients", ["represented", "global"])
TREE = TreeShape(branching=2, n_levels=2)


@pytest.mark.slow_after(1)
@every_loss
@every_choice
def test_rounds_lead_to_the_exact_solution(loss, coefficients):
    problem = weighted(loss, 1300, n_outputs=2)
    outcome = Cascade(rounds=20, coefficients=coefficients).train(training(problem, TREE, tol=1e-4))
    exact = Exact().train(training(problem, TreeShape(), tol=1e-6))
    assert outcome.scope == "global" and outcome.status == "converged"
    assert_allclose(outcome.objectives.primal, exact.objectives.primal, rtol=2e-4)
    primal, _, gap = certificate(problem, dual_of(problem, outcome.model))
    assert_allclose(outcome.objectives.primal, primal, rtol=1e-6)
    assert gap.max() <= 1.05e-4
    rounds = [entry for entry in outcome.history if entry["level"] == 0]
    assert [entry["round"] for entry in rounds] == list(range(1, len(rounds) + 1))
    gaps = [entry["relative_gap"] for entry in rounds]
    assert len(gaps) > 1 and gaps == sorted(gaps, reverse=True)


def test_parts_of_one_class_pass_on_all_rows_where_an_intercept_leaves_them_no_support_vectors(watch):
    X = np.linspace(-1, 1, 6)[:, None]
    problem = replace(make_problem(X, np.sign(X.T), HINGE, RBF), intercept=True)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(6)
        shuffled = problem.restrict(order, 6.0)
        plan, expected = training(shuffled, replace(TREE, n_levels=1)), fit(problem, tol=1e-10).dual[:, order]
        for strategy in (Cascade(), Cascade(rounds=1)):
            dual = dual_of(shuffled, strategy.train(plan).model)
            assert_allclose(dual, expected, rtol=1e-6, atol=1e-9)
        for part, solved in zip(*watch.first[1][::2], strict=True):
            kept = np.isin(part.indices, watch.first[0][0][0].indices)
            assert np.array_equal(kept, solved.dual.any(axis=0)) if solved.dual.any() else kept.all()
    two = replace(make_problem(np.array([[-1.0], [1.0]]), [[-1.0, 1.0]], HINGE, RBF), intercept=True)
    assert dual_of(two, Cascade().train(training(two, replace(TREE, n_levels=1))).model).min() > 0


@every_loss
@pytest.mark.parametrize("n", [5, 60, 400])
def test_small_problems_are_solved_to_rounding(loss, n):
    problem = weighted(loss, n)
    outcome = Cascade().train(training(problem, TREE, tol=1e-2))
    assert_allclose(dual_of(problem, outcome.model), fit(problem, tol=1e-10).dual, rtol=1e-6, atol=1e-9)


class Watch:
    """Parts that are solved, by level (first round) and by round and level (later ones)."""

    def __init__(self, monkeypatch):
        self.first, self.later = {}, []
        original = solves_module.solve_parts

        def solve_parts(plan, parts, limits, *index, **options):
            level = original(plan, parts, limits, *index, **options)
            given, mass = parts.collect(), options.get("mass")
            if mass is not None:
                given = [replace(part, problem=replace(part.problem, mass=mass)) for part in given]
            if len(index) == 1:
                self.first[index[0]] = given, limits.tol, level.parts.collect()
            else:
                self.later.append((index, given, limits.tol, level.parts.collect()))
            return level

        for module in (levels_module, cascade_module, feedback_module):
            monkeypatch.setattr(module, "solve_parts", solve_parts)


@pytest.fixture
def watch(monkeypatch):
    return Watch(monkeypatch)


@every_choice
@pytest.mark.parametrize("loss", [HINGE, ODM], ids=name)
def test_parts_pass_on_their_support_vectors_and_carry_the_mass_of_the_others(watch, loss, coefficients):
    problem = weighted(loss, 1000)
    Cascade(rounds=1, coefficients=coefficients).train(training(problem, TREE, tol=1e-3))
    (leaves, loose, solved), (pairs, _, _), (top, tight, _) = (watch.first[level] for level in (2, 1, 0))
    assert (loose, tight) == (0.1, 1e-3)
    assert_array_equal(np.sort(np.concatenate([leaf.indices for leaf in leaves])), np.arange(1000))
    masses = [float(problem.weights[leaf.indices].sum()) for leaf in leaves]
    represented = coefficients == "represented"
    assert_allclose([leaf.problem.mass for leaf in leaves], masses if represented else [problem.total] * 4, rtol=1e-14)
    for k, pair in enumerate(pairs):
        two = [(leaves[i], solved[i]) for i in (2 * k, 2 * k + 1)]
        kept = [np.flatnonzero(child.dual[0]) for _, child in two]
        indices = np.concatenate([leaf.indices[i] for (leaf, _), i in zip(two, kept, strict=True)])
        assert_array_equal(pair.indices, np.sort(indices))
        assert sum(map(len, kept)) < sum(leaf.n_rows for leaf, _ in two)
        mass = masses[2 * k] + masses[2 * k + 1]
        assert pair.problem.mass == (pytest.approx(mass) if represented else problem.total)
        factors = [masses[i] / mass if represented else 1.0 for i in (2 * k, 2 * k + 1)]
        start = [f * child.dual[:, i] for f, (_, child), i in zip(factors, two, kept, strict=True)]
        assert_allclose(pair.dual, np.concatenate(start, axis=1)[:, np.argsort(indices)], rtol=1e-12)
    assert top[0].problem.mass == pytest.approx(problem.total)


def test_later_rounds_give_the_support_vectors_to_every_leaf(watch):
    problem = weighted(HINGE, 1000)
    outcome = Cascade(rounds=2, level_tol=0.3).train(training(problem, TREE, tol=1e-3))
    leaves, top = watch.first[2][0], watch.first[0]
    first = np.zeros((1, 1000))
    first[:, top[0][0].indices] = top[2][0].dual
    support = np.flatnonzero(first[0])
    assert [index for index, *_ in watch.later] == [(2, 1), (1, 1), (0, 1)]
    (_, again, tol, _), (_, pairs, _, _), (_, last, _, solved) = watch.later
    assert tol == 1e-3 / 4
    for leaf, part in zip(leaves, again, strict=True):
        assert_array_equal(part.indices, np.union1d(leaf.indices, support))
        assert_allclose(part.dual, first[:, part.indices], rtol=1e-12)
    assert {part.problem.mass for parts in (again, pairs, last) for part in parts} == {problem.total}
    assert_allclose(dual_of(problem, outcome.model)[:, last[0].indices], solved[0].dual, rtol=1e-12)
    assert outcome.history[-1]["round"] == 2


@every_loss
def test_the_dual_objective_never_falls(watch, loss):
    problem = weighted(loss, 1000, n_outputs=2)
    Cascade(rounds=20, level_tol=0.5).train(training(problem, TREE, tol=1e-4))
    assert watch.later
    best = np.full(2, -np.inf)
    for _, parts, _, results in watch.later:
        reached = []
        for part, solved in zip(parts, results, strict=True):
            dual = np.zeros(problem.labels.shape)
            dual[:, part.indices] = part.dual
            reached.append(certificate(problem, dual)[1])
            dual[:, part.indices] = solved.dual
            reached.append(certificate(problem, dual)[1])
        assert np.all(np.max(reached, axis=0) >= best * (1 - 1e-6))
        assert np.all(np.min(reached, axis=0) >= best * (1 - 1e-6)) or len(parts) > 1
        best = np.max(reached, axis=0)


def test_a_merged_part_starts_from_the_best_of_its_children_output_by_output():
    problem = make_problem(*blobs(7, n_outputs=2), HINGE, RBF)

    def child(rows, dual, objectives):
        dual, values = np.array(dual), np.array(objectives)
        found = Objectives(values, values, values, values, values)
        part = Part(problem.restrict(np.array(rows), 3.0), np.array(rows))
        return Solved.of(part, solution_of(dual, found))

    part = best_of(
        [
            child([1, 3, 5], [[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]], [5.0, 1.0]),
            child([5, 3, 4], [[8.0, 8.0, 0.0], [5.0, 4.0, 0.0]], [4.0, 2.0]),
        ]
    )
    assert_array_equal(part.indices, [1, 3, 5])
    assert_array_equal(part.dual, [[1.0, 0.0, 2.0], [0.0, 4.0, 5.0]])
    assert_array_equal(part.problem.labels, problem.labels[:, [1, 3, 5]])
    assert part.problem.mass == problem.total


def test_one_round_says_what_its_gap_is():
    problem = weighted(HINGE, 1000)
    outcome = Cascade(rounds=1).train(training(problem, TREE, tol=1e-3))
    assert (outcome.status, outcome.scope) == ("max_iter", "global")
    assert outcome.reason == "1 round of the cascade did not meet tol 1.00e-03"
    assert outcome.objectives.relative_gap[0] == pytest.approx(
        certificate(problem, dual_of(problem, outcome.model))[2][0], rel=1e-3
    )
    assert [entry["level"] for entry in outcome.history] == [2, 1, 0]


@every_loss
def test_a_level_is_the_mean_of_its_parts(watch, loss):
    problem = weighted(loss, 1000)
    outcome = Cascade().train(training(problem, replace(TREE, stop_level=1), tol=1e-3))
    assert outcome.scope == "partitioned"
    expected = np.zeros((1, 1000))
    parts, tol, solved = watch.first[1]
    assert tol == 1e-3
    for part, own in zip(parts, solved, strict=True):
        expected[:, part.indices] = part.problem.mass / problem.total * own.dual
    assert_array_equal(dual_of(problem, outcome.model), expected)


@every_choice
def test_a_warm_start_reaches_the_leaves(watch, coefficients):
    problem = weighted(ODM, 1000, n_outputs=2)
    start = fit(problem, tol=1e-4).dual
    Cascade(coefficients=coefficients).train(training(problem, TREE, tol=1e-3, start=start))
    for leaf in watch.first[2][0]:
        share = leaf.problem.mass / problem.total  # one where the coefficients are global
        assert_allclose(leaf.dual * share, start[:, leaf.indices], rtol=1e-12)


def test_a_deadline_ends_at_a_round(monkeypatch):
    plan, original = training(weighted(HINGE, 1000), TREE), levels_module.out_of_time
    monkeypatch.setattr(
        levels_module,
        "out_of_time",
        lambda plan, what, n_vectors, passes, history: original(
            plan, what, n_vectors, passes * (1e12 if "round" in what else 0), history
        ),
    )
    plan = replace(plan, limits=replace(plan.limits, deadline=time.perf_counter() + 1000))
    outcome = Cascade(rounds=20).train(plan)
    assert (outcome.status, outcome.scope) == ("max_time", "global")
    assert outcome.reason == "the time limit allows no more rounds"
    assert outcome.history[-1]["round"] == 1


@pytest.mark.parametrize("travelling", [False, True])
@pytest.mark.parametrize("when", [0, 1])
def test_an_interrupt_in_a_round_gives_what_was_there_before(monkeypatch, when, travelling):
    interrupted, recorder = Event(), Recorder()
    module = (cascade_module, feedback_module)[when]
    original = module.solve_parts

    def interrupting(plan, parts, limits, level, *index, **options):
        if when or level == 0:
            interrupted.set()
        return original(plan, parts, limits, level, *index, **options)

    monkeypatch.setattr(module, "solve_parts", interrupting)
    plan = training(weighted(HINGE, 1000), TREE, tol=1e-6, progress=recorder)
    rows = TravellingEngine().scatter(plan.rows.collect()) if travelling else plan.rows
    outcome = Cascade(rounds=20).train(replace(plan, rows=rows, limits=replace(plan.limits, interrupted=interrupted)))
    assert (outcome.status, outcome.reason) == ("stopped", "it was interrupted")
    assert outcome.scope == ("partitioned", "global")[when]
    if when == 0:
        assert_array_equal(outcome.model.coefficients, recorder.models[1].coefficients)


@pytest.mark.slow
def test_a_tolerance_beyond_the_arithmetic_ends_the_rounds():
    outcome = Cascade(rounds=20).train(training(weighted(HINGE, 520), replace(TREE, n_levels=1), tol=1e-17))
    assert outcome.status == "precision" and "another round left the relative gap at" in outcome.reason
    assert outcome.objectives.worst_gap < 1e-10


def test_a_callback_stops_after_a_round():
    class Stop(Recorder):
        def check(self, entry):
            return True

    outcome = Cascade(rounds=20).train(training(weighted(HINGE, 1000), TREE, progress=Stop()))
    assert (outcome.status, outcome.reason) == ("stopped", "a callback asked to stop")
    assert outcome.history[-1]["round"] == 1 and outcome.scope == "global"


def separated(n=3000):
    X = np.random.default_rng(0).normal(size=(n, 2))
    return make_problem(X, np.where(X[:, 0] > 0, 1.0, -1.0), HINGE, Kernel("linear"))


@pytest.mark.parametrize(("loss", "many"), [(HINGE, True), (ODM, True), (None, False)])
@pytest.mark.parametrize("strategy", [Cascade, DiP])
def test_unless_rounds_are_asked_for_the_whole_problem_is_solved_after_the_first(loss, many, strategy, watch):
    problem = weighted(loss, 3000) if many else separated()
    outcome = strategy().train(training(problem, TREE, tol=1e-3))
    assert (outcome.status, outcome.scope) == ("converged", "global")
    assert [entry["level"] for entry in outcome.history] == [2, 1, 0]
    assert certificate(problem, dual_of(problem, outcome.model))[2].max() <= 1.05e-3
    # the last part of the round, which only has to start the whole problem, is left out where it
    # has too many rows
    assert {level: tol for level, (_, tol, _) in watch.first.items()} == {2: 0.1, 1: 0.1} | ({} if many else {0: 0.1})
    ((index, (whole,), tol, _),) = watch.later
    assert (index, whole.n_rows, tol) == ((0, 1), 3000, 1e-3)
    start = np.zeros((1, 3000))
    if many:
        for part, solved in zip(watch.first[1][0], watch.first[1][2], strict=True):
            start[:, part.indices] = part.problem.mass / problem.total * solved.dual
    else:
        start[:, watch.first[0][0][0].indices] = watch.first[0][2][0].dual
    assert_allclose(whole.dual, start[:, whole.indices], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.5, 8.0])
@pytest.mark.parametrize("loss", [HINGE, ODM], ids=name)
@pytest.mark.parametrize("strategy", [Cascade, DiP])
def test_the_gap_does_not_cost_much_more_than_by_the_whole_problem_alone(strategy, loss, gamma):
    X, labels = blobs(6000)
    problem = make_problem(X, labels, loss, Kernel("rbf", gamma=gamma))
    outcome = strategy().train(training(problem, TreeShape(), tol=1e-3))
    exact = Exact().train(training(problem, TreeShape(), tol=1e-3))
    assert outcome.status == exact.status == "converged" and outcome.scope == "global"
    spent, alone = (sum(e["kernel_evaluations"] for e in found.history) for found in (outcome, exact))
    assert spent <= 1.5 * alone
