"""Exact solves across shards, against the exact solver in one place and float64 numpy."""

import time
from itertools import product
from threading import Event
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import HINGE, KERNELS, LOSSES, ODM, SQUARED_HINGE, blobs, certificate, fit, make_problem, name, scattered
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone

from dimargin import Exact, ODMClassifier, SVMClassifier
from dimargin.kernels.functions import Kernel
from dimargin.problems.losses import ODMLoss
from dimargin.shards.local_engine import LocalEngine
from dimargin.shards.parts import Part
from dimargin.solvers import Interrupted, Limits, solve
from dimargin.solvers.stopwatch import Stopwatch
from dimargin.strategies import Facts, rounds
from dimargin.strategies.round_iterate import ShardedIterate
from dimargin.strategies.round_tasks import most_violating
from dimargin.strategies.rounds import Rounds

N = 400
CASES = list(product(LOSSES, [False, True]))
every_case = pytest.mark.parametrize(("loss", "intercept"), CASES)


def problem_of(loss, intercept=False, kernel=KERNELS[2], n=N, n_outputs=1, seed=1):
    X, labels = blobs(n, seed, n_outputs=n_outputs)
    weights = np.random.default_rng(seed).uniform(0.5, 2, n)
    return make_problem(X, labels, loss, kernel, weights, intercept=intercept)


def across(problem, shards=None, working_set=100, start=None, random_state=0, **limits):
    shards = scattered(problem, 4) if shards is None else shards
    solver = Rounds(Facts.of(problem), working_set, 1, 2**30, random_state)
    support, result = solve(shards, solver, start, Limits(**{"tol": 1e-3, "max_iter": 300, **limits}))
    return SimpleNamespace(support=support, **vars(result))


def dual_of(problem, found):
    dual = np.zeros(problem.labels.shape)
    dual[:, found.support.indices] = found.support.coefficients
    return dual


def check(problem, found):
    """The certificate is true: neither objective nor gap is better than numpy's for these coefficients."""
    primal, dual, gap = certificate(problem, dual_of(problem, found))
    assert_allclose(found.objectives.primal, primal, rtol=1e-5 + found.objectives.worst_gap)
    assert (found.objectives.relative_gap >= gap - 1e-12).all()
    assert (found.objectives.dual <= dual + 1e-9 * np.abs(dual)).all()


@pytest.mark.slow_after(20)
@every_case
@pytest.mark.parametrize("kernel", KERNELS, ids=name)
@pytest.mark.parametrize("tol", [1e-3, 1e-7])
def test_the_solution_is_that_of_one_place(loss, intercept, kernel, tol):
    problem = problem_of(loss, intercept, kernel, n_outputs=2)
    found, exact = across(problem, tol=tol), fit(problem, tol)
    assert found.status == "converged" and found.objectives.worst_gap <= tol
    check(problem, found)
    assert_allclose(found.objectives.primal, exact.objectives.primal, rtol=2 * tol)


@st.composite
def dealt_rows(draw):
    """Rows dealt to up to 50 shards, of which some may be empty, tiny or of one class."""
    n_shards = draw(st.integers(1, 50))
    seed, by_class = draw(st.integers(0, 2**32 - 1)), draw(st.booleans())
    return n_shards, seed, by_class


@pytest.mark.slow_after(2)
@every_case
@settings(max_examples=6)
@given(dealt=dealt_rows(), tol=st.sampled_from([1e-2, 1e-3, 1e-5]))  # in float32, with a sample, and in float64
def test_rows_may_be_in_any_shards(loss, intercept, dealt, tol):
    n_shards, seed, by_class = dealt
    problem = problem_of(loss, intercept, n=150, seed=seed % 1000)
    rng = np.random.default_rng(seed)
    whole = Part(problem, np.arange(problem.n_rows))
    shard_of = rng.integers(0, n_shards, problem.n_rows)
    if by_class:
        shard_of = np.where(problem.labels[0] > 0, shard_of // 2, (n_shards + shard_of) // 2)
    parts = [whole.take(np.flatnonzero(shard_of == shard), problem.mass) for shard in range(n_shards)]
    found = across(problem, LocalEngine(1, Event()).scatter(parts), working_set=40, tol=tol)
    assert found.status == "converged"
    check(problem, found)
    assert_allclose(found.objectives.primal, fit(problem, tol).objectives.primal, rtol=2 * tol)


@pytest.mark.parametrize("loss", [HINGE, SQUARED_HINGE])
def test_a_round_that_moves_only_the_intercept_is_certified_with_it(loss, monkeypatch):
    problem, solved = problem_of(loss, intercept=True), Rounds._solve_round

    def unmoved(self, state, rows, margins):
        dual = solved(self, state, rows, margins)
        if state.rounds == 0:
            return dual
        state.intercepts = np.array([[7.0], [8.0]])  # none of which is as good as that of the round before
        return rows.coefficients

    monkeypatch.setattr(Rounds, "_solve_round", unmoved)
    seen, check_gap = [], Rounds.check

    def noted(self, state):
        best = check_gap(self, state)
        seen.append((state.evaluated.evaluations, state.evaluated.objectives))
        return best

    monkeypatch.setattr(Rounds, "check", noted)
    across(problem, max_iter=2)
    (_, first), (values, second) = seen[1:3]
    assert first.intercept[0] != second.intercept[0] == 7.0
    assert second.primal[0] > first.primal[0]
    assert values == 0


def test_the_shards_do_not_change_the_solution():
    problem = problem_of(HINGE, True)
    duals = [dual_of(problem, across(problem, scattered(problem, n), tol=1e-9)) for n in (1, 2, 4, 8)]
    for dual in duals[1:]:
        assert_allclose(dual, duals[0], atol=1e-4)


def test_a_local_kernel():
    """Values between far rows are left out, where shards have their rows side by side with their neighbours."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(1500, 2)) + 30 * k for k in range(12)])
    X = X[rng.permutation(len(X))]
    labels = np.where(np.sin(3 * X[:, 0]) + 0.3 * rng.normal(size=len(X)) > 0, 1.0, -1.0)[None]
    problem = make_problem(X, labels, HINGE, Kernel("rbf", gamma=1.0))
    assert problem.kernel.local
    found = across(problem, scattered(problem, 3), working_set=8000, tol=1e-2)
    assert found.status == "converged"
    assert_allclose(found.objectives.primal, fit(problem, 1e-2).objectives.primal, rtol=2e-2)
    again = across(problem, scattered(problem, 3), working_set=8000, tol=1e-2, start=found.support)
    assert again.passes == 1 and again.status == "converged"
    assert again.kernel_evaluations < 0.2 * len(X) * found.support.n_rows


def test_a_start_saves_rounds():
    problem = problem_of(SQUARED_HINGE, True)
    cold = across(problem, tol=1e-3)
    start = Part(problem, np.arange(N), fit(problem, 1e-4).dual)
    warm = across(problem, start=start, tol=1e-3)
    assert warm.passes < cold.passes and warm.status == "converged"
    check(problem, warm)


def test_a_start_that_is_not_feasible():
    problem = problem_of(HINGE, True)
    start = Part(problem, np.arange(N), np.full((1, N), 50.0))
    found = across(problem, start=start)
    assert found.status == "converged"
    check(problem, found)


@every_case
@pytest.mark.parametrize(
    ("limits", "status"),
    [({"max_iter": 1}, "max_iter"), ({"deadline": 0.0}, "max_time"), ({"max_iter": 3, "tol": 1e-9}, "max_iter")],
)
def test_limits_return_the_best_model_so_far(loss, intercept, limits, status):
    problem = problem_of(loss, intercept)
    found = across(problem, **limits)
    assert found.status == status
    if len(found.support.indices):
        check(problem, found)
    else:
        assert found.objectives.worst_gap > 0


@every_case
def test_a_time_limit_in_any_phase_leaves_a_certified_model(loss, intercept):
    problem = problem_of(loss, intercept)
    began = time.perf_counter()
    across(problem, tol=1e-8)
    seconds = time.perf_counter() - began
    for share in (0.02, 0.1, 0.3, 0.6, 0.9):
        found = across(problem, tol=1e-8, deadline=time.perf_counter() + share * seconds)
        assert found.status in ("max_time", "converged")
        if len(found.support.indices):
            check(problem, found)


def test_no_float64_pass_begins_that_the_time_limit_would_not_let_end(monkeypatch):
    problem, begun = problem_of(SQUARED_HINGE), []
    switch = ShardedIterate.switch_to_float64
    monkeypatch.setattr(ShardedIterate, "switch_to_float64", lambda *given: begun.append(given) or switch(*given))
    assert across(problem, tol=1e-6).status == "converged" and begun
    begun.clear()
    monkeypatch.setattr(rounds, "FLOAT64_COST", 1e12)
    monkeypatch.setattr(Stopwatch, "min_seconds", 0.0)
    found = across(problem, tol=1e-6, deadline=time.perf_counter() + 1e3)
    assert found.status == "max_time" and "float64" in found.reason and not begun
    assert found.objectives.rounding.max() > 0
    check(problem, found)


def test_every_support_vector_has_been_timed_with_all_rows(monkeypatch):
    """So a pass over all of them is not thought to take longer than all jobs so far, whatever the last one computed."""
    check_gap, known = Rounds.check, []

    def noted(self, state):
        found = check_gap(self, state)
        known.append((state.iterate.times.stopwatch.values, state.iterate.n_support))
        return found

    monkeypatch.setattr(Rounds, "check", noted)
    assert across(problem_of(HINGE, True), tol=1e-7).status == "converged"
    assert len(known) > 3 and all(values >= N * n_support for values, n_support in known)


def test_callbacks_and_interrupts_end_it():
    problem = problem_of(ODM)
    seen = []
    stopped = across(problem, tol=1e-9, stop_requested=lambda entry: seen.append(entry) or len(seen) == 3)
    assert stopped.status == "stopped" and len(stopped.history) == 3
    check(problem, stopped)
    interrupted = Event()
    interrupted.set()
    assert across(problem, interrupted=interrupted).status == "stopped"


def test_a_tolerance_below_rounding():
    problem = problem_of(ODMLoss(lam=1e4, upsilon=0.4, theta=0.2))
    found = across(problem, tol=1e-18, working_set=N)
    assert found.status == "precision" and "float64" in found.reason
    assert found.objectives.worst_gap < 1e-9


def test_float32_is_not_trusted_where_it_rounds_too_much():
    """Margins near 1e5 of a wide kernel: their rounding is all of the gap."""
    problem = problem_of(ODMLoss(lam=1e9, upsilon=0.4, theta=0.2), kernel=Kernel("rbf", gamma=1e-3), n=200)
    found = across(problem, tol=1e-3, working_set=200, max_iter=40)
    check(problem, found)


@pytest.mark.parametrize("loss", [HINGE, SQUARED_HINGE, ODM], ids=name)
@pytest.mark.parametrize("double", [False, True])
def test_long_rows_of_a_polynomial_are_bounded_not_sampled(monkeypatch, loss, double):
    """Two long rows of either label have nearly all of the error, and no sample would be sure to have them."""
    problem = problem_of(loss, kernel=Kernel("poly", gamma=1.0, degree=2, coef0=1.0), n=600)
    X = problem.kernel.rows(np.arange(600)).copy()
    X[1] = 100 * X[0]
    X[0] = X[1] + 0.05
    labels = problem.labels.copy()
    labels[0, :2] = 1.0, -1.0
    weights = np.where(np.arange(600) < 2, 20.0, 1e-3)
    problem = make_problem(X, labels, loss, problem.kernel.transform.kernel, weights)
    monkeypatch.setattr(Rounds, "_sampled_errors", None)  # it is never asked
    if not double:
        monkeypatch.setattr(rounds, "FLOAT64_COST", 1e12)
    found = across(problem, max_iter=40, deadline=time.perf_counter() + 1e6)
    check(problem, found)
    assert found.status == "converged" if double else found.status in ("converged", "max_time", "max_iter")


def test_violators_are_balanced():
    directions = np.array([3.0, -1.0, 2.0, 0.0, 5.0, -4.0, 1.0])
    assert most_violating(directions, 4).tolist() == [0, 1, 4, 5]
    assert most_violating(directions, 5).tolist() == [0, 1, 2, 4, 5] or most_violating(directions, 5).size == 5
    assert most_violating(directions, 100).tolist() == [0, 1, 2, 4, 5, 6]
    assert most_violating(-np.abs(directions), 3).tolist() == [0, 4, 5]


@pytest.mark.parametrize("machine", [ODMClassifier(random_state=0), SVMClassifier(random_state=0)], ids=name)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_estimators(machine, n_classes):
    X, _ = blobs(900, 5)
    y = np.digitize(X[:, 0] + 0.2 * X[:, 1], [0.0] if n_classes == 2 else [-0.5, 0.5])
    rest = clone(machine).set_params(multi_class="one_vs_rest", tol=1e-5)
    exact = clone(rest).set_params(strategy="exact").fit(X, y)
    found = clone(rest).set_params(strategy=Exact(across_shards=True, working_set=200)).fit(X, y)
    assert found.certificate_ == "global" and found.status_ == "converged"
    assert_allclose(found.objective_, exact.objective_, rtol=2e-5)
    assert (found.predict(X) == exact.predict(X)).mean() > 0.998
    assert all(entry["level"] == 0 and entry["seconds"] >= 0 for entry in found.history_)


PHASES = [(Rounds, "init"), (Rounds, "_solve_round"), (ShardedIterate, "change"), (Rounds, "step"), (Rounds, "check")]


@pytest.mark.parametrize(("owner", "phase"), PHASES)
def test_the_answer_is_there_when_time_ends_in_any_phase(monkeypatch, owner, phase):
    of_phase = getattr(owner, phase)

    def until_time_is_over(self, *args):
        found = of_phase(self, *args)
        time.sleep(0.6)
        return found

    monkeypatch.setattr(owner, phase, until_time_is_over)
    problem = problem_of(HINGE, True)
    found = across(problem, working_set=40, tol=1e-8, deadline=time.perf_counter() + 0.5)
    assert found.status == "max_time" and found.objectives.worst_gap < np.inf
    assert found.passes == 1
    check(problem, found)


def test_a_cancelled_fit_ends():
    problem, cancelled = problem_of(ODM), Event()
    cancelled.set()
    with pytest.raises(Interrupted):
        across(problem, cancelled=cancelled)


def test_margins_are_computed_afresh_after_many_changes(monkeypatch):
    problem, n_changes, check_gap = problem_of(HINGE, True), [], Rounds.check
    monkeypatch.setattr(ShardedIterate, "max_changes", 3)
    monkeypatch.setattr(
        Rounds, "check", lambda self, state: n_changes.append(state.iterate.n_changes) or check_gap(self, state)
    )
    found = across(problem, working_set=40, tol=1e-3)
    assert found.status == "converged" and n_changes.count(1) >= 3 and max(n_changes) == 2
    check(problem, found)
