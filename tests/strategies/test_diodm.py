"""DiODM against the exact solve, and its levels against models put together by hand."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import HINGE, ODM, blobs, certificate, counted, dual_of, gram, make_problem
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_svmlight_file
from sklearn.metrics.pairwise import rbf_kernel
from trainings import RBF, Recorder, training

from dimargin import DiODM, ODMClassifier
from dimargin.kernels.functions import Kernel
from dimargin.solvers import BlockCoordinateDescent, Limits, solve
from dimargin.strategies import Exact, TreeShape, diodm
from dimargin.strategies.diodm import merged
from dimargin.strategies.solves import Solved


@pytest.fixture(scope="module")
def weighted():
    X, labels = blobs(1300, seed=7)
    weights = np.random.default_rng(7).uniform(0.5, 3.0, 1300)
    return make_problem(X, labels, ODM, RBF, weights=weights)


def test_one_leaf_is_the_exact_machine(weighted):
    shape = TreeShape(branching=2, n_levels=0, n_landmarks=3)
    tree = DiODM(early_stop=False).train(training(weighted, shape))
    exact = Exact().train(training(weighted, TreeShape()))
    assert_array_equal(tree.model.indices, exact.model.indices)
    assert_array_equal(tree.model.coefficients, exact.model.coefficients)
    assert tree.objectives.worst_gap == exact.objectives.worst_gap <= 1e-6


def test_a_level_is_the_weighted_average_of_its_local_machines(weighted):
    recorder = Recorder()
    shape = TreeShape(branching=2, n_levels=2, n_landmarks=5, stop_level=1)
    outcome = DiODM().train(training(weighted, shape, tol=1e-8, progress=recorder))
    assert outcome.scope == "partitioned"
    assert recorder.begun == [(2, 4), (1, 2)]
    # the same leaves again, each solved as a problem of its own on its rows and mass alone
    leaves = DiODM()._leaves(training(weighted, shape), 2, 2).parts.collect()
    K = gram(weighted)
    values = np.zeros(1300)
    for pair in (leaves[:2], leaves[2:]):
        rows = np.concatenate([leaf.indices for leaf in pair])
        part = make_problem(weighted.kernel.rows(rows), weighted.labels[:, rows], ODM, RBF, weighted.weights[rows])
        local = solve(part, BlockCoordinateDescent(), None, Limits(tol=1e-9))
        mass = weighted.weights[rows].sum()
        assert mass == pytest.approx(sum(leaf.problem.mass for leaf in pair))
        values += mass / weighted.total * (K[:, rows] @ (weighted.labels[0, rows] * local.dual[0]))
    ours = K[:, outcome.model.indices] @ outcome.model.coefficients[0]
    allowed = 4 * np.sqrt(2e-8 * outcome.objectives.primal[0])
    assert_allclose(ours, values, rtol=0, atol=allowed)
    assert_array_equal(recorder.models[-1].coefficients, outcome.model.coefficients)


@pytest.mark.parametrize("seed", range(6))
def test_rescaled_warm_starts_beat_concatenation(seed):
    X, labels = blobs(1100, seed)
    problem = make_problem(X, labels, replace(ODM, lam=10.0 ** (1 + seed % 4)), Kernel("rbf", gamma=0.2 + 0.3 * seed))
    shape = TreeShape(branching=4, n_levels=1, n_landmarks=5)
    leaves = DiODM()._leaves(training(problem, shape), 4, 1).parts.collect()
    children = [
        Solved.of(leaf, solve(leaf.problem, BlockCoordinateDescent(), None, Limits(tol=1e-4))) for leaf in leaves
    ]
    optimum = certificate(problem, solve(problem, BlockCoordinateDescent(), None, Limits(tol=1e-6)).dual)[1]

    def suboptimality(rescale):
        whole = merged(children, rescale)
        assert_array_equal(whole.indices, np.arange(1100))
        return ((optimum - certificate(whole.problem, whole.dual)[1]) / np.abs(optimum))[0]

    assert suboptimality(True) < (0.1 if seed % 4 < 2 else 0.8) * suboptimality(False)


def test_estimator_counts_what_the_core_computes(monkeypatch):
    X, labels = blobs(700)
    with counted(monkeypatch) as counts:
        machine = ODMClassifier(random_state=0).fit(X, labels[0])
    assert sum(entry["kernel_evaluations"] for entry in machine.history_) == sum(counts)


def test_early_stop_needs_every_merged_start_to_meet_the_tolerance(weighted):
    shape = TreeShape(branching=2, n_levels=3, n_landmarks=5)
    loose = DiODM(level_tol=1e-6).train(training(weighted, shape, tol=0.3))
    assert loose.scope == "partitioned"
    assert loose.status == "converged"
    assert "met tol" in loose.reason
    assert loose.history[-1]["level"] == 2
    assert loose.objectives.worst_gap <= 0.3
    assert DiODM(early_stop=False).train(training(weighted, shape, tol=0.3)).scope == "global"
    assert DiODM().train(training(weighted, shape, tol=1e-6)).scope == "global"


def test_levels_above_the_last_are_no_tighter_than_the_tolerance(weighted):
    shape = TreeShape(branching=2, n_levels=1, n_landmarks=5)
    outcome = DiODM(level_tol=1e-6).train(training(weighted, shape, tol=0.3))
    assert 1e-3 < outcome.history[0]["relative_gap"] <= 0.3


def test_objectives_of_a_level_are_means_and_the_gap_the_worst(weighted):
    plan = training(weighted, TreeShape(branching=2, n_levels=1, n_landmarks=5, stop_level=1), tol=1e-2)
    outcome = DiODM().train(plan)
    primal, dual, gaps = 0.0, 0.0, []
    for leaf in DiODM()._leaves(plan, 2, 1).parts.collect():
        mass = leaf.problem.mass
        local = dual_of(weighted, outcome.model)[:, leaf.indices] * weighted.total / mass
        p, d, gap = certificate(leaf.problem, local)
        primal, dual, gaps = primal + mass * p[0], dual + mass * d[0], [*gaps, gap[0]]
    assert outcome.objectives.primal[0] == pytest.approx(primal / weighted.total, rel=1e-5)
    assert outcome.objectives.dual[0] == pytest.approx(dual / weighted.total, rel=1e-5)
    assert outcome.objectives.worst_gap == pytest.approx(max(gaps), rel=0.05)
    assert max(gaps) > 1.1 * min(gaps)  # else the worst could not be told apart


def test_a_warm_start_reaches_the_leaves(weighted):
    shape = TreeShape(branching=2, n_levels=2, n_landmarks=5)
    solved = DiODM(early_stop=False).train(training(weighted, shape, tol=1e-7))
    start = dual_of(weighted, solved.model)
    again = DiODM(early_stop=False).train(training(weighted, shape, tol=1e-3, start=start))
    assert again.history[0]["relative_gap"] <= 0.1
    for leaf in DiODM()._leaves(training(weighted, shape, start=start), 2, 2).parts.collect():
        assert_allclose(leaf.dual * leaf.problem.mass / weighted.total, start[:, leaf.indices])


def test_a_warm_start_of_several_outputs():
    X, labels = blobs(1300, seed=7, n_outputs=3)
    problem = make_problem(X, labels, ODM, RBF)
    shape = TreeShape(branching=2, n_levels=1, n_landmarks=5)
    solved = DiODM(early_stop=False).train(training(problem, shape, tol=1e-7))
    start = dual_of(problem, solved.model)
    again = DiODM(early_stop=False).train(training(problem, shape, tol=1e-3, start=start))
    assert again.objectives.worst_gap <= 1e-3


def test_the_time_of_the_next_level_is_that_of_its_support_vectors(monkeypatch):
    asked = []
    monkeypatch.setattr(diodm, "out_of_time", lambda plan, what, *others: asked.append((what, *others[:2])))
    problem = make_problem(*blobs(1300, seed=7), HINGE, RBF)
    plan = training(problem, TreeShape(branching=2, n_levels=2, n_landmarks=5), tol=1e-3)
    recorder = Recorder()
    DiODM(early_stop=False).train(replace(plan, progress=recorder))
    for (what, n_support, passes), level in zip(asked, (2, 1), strict=True):
        assert what == f"no level below {level}" and passes == 1 / 2 ** (level - 1)
        assert n_support == len(recorder.models[2 - level].indices) < 1300


def test_default_depth_aims_at_leaves_of_4096_rows():
    depth = DiODM().n_levels
    assert [depth(n, TreeShape()) for n in (100, 4096 * 4, 4096 * 4 + 1, 4096 * 64)] == [1, 1, 2, 3]
    assert depth(100, TreeShape(stop_level=2)) == 2
    assert depth(10**6, TreeShape(n_levels=1)) == 1


def newton_odm(K, y, lam, upsilon, theta):
    """The primal optimum by generalised Newton steps with line search, float64, on a stored Gram matrix."""
    n, a = len(y), np.zeros(len(y))
    scale = lam / (n * (1 - theta) ** 2)

    def objective(a):
        m = y * (K @ a)
        low, high = np.maximum(1 - theta - m, 0), np.maximum(m - 1 - theta, 0)
        return 0.5 * a @ K @ a + 0.5 * scale * np.sum(low**2 + upsilon * high**2)

    for _ in range(60):
        m = y * (K @ a)
        weight = scale * np.where(m < 1 - theta, 1.0, np.where(m > 1 + theta, upsilon, 0.0))
        target = np.where(m < 1 - theta, 1 - theta, 1 + theta)
        active = weight > 0
        new = np.zeros(n)
        new[active] = np.linalg.solve(K[np.ix_(active, active)] + np.diag(1 / weight[active]), (y * target)[active])
        t = 1.0
        while objective(a + t * (new - a)) > objective(a) and t > 1e-6:
            t /= 2
        if np.abs(t * (new - a)).max() < 1e-9 * np.abs(new).max():
            break
        a = a + t * (new - a)
    return a, objective(a)


@pytest.mark.slow
def test_svmguide1_against_an_independent_solver(data_folder):
    X, y = load_svmlight_file(str(data_folder / "svmguide1.bz2"))
    X_test, y_test = load_svmlight_file(str(data_folder / "svmguide1.t.bz2"))
    X, X_test = X.toarray(), X_test.toarray()
    low, span = X.min(axis=0), np.ptp(X, axis=0)
    X, X_test = (X - low) / span, (X_test - low) / span
    y, y_test = np.sign(y - 0.5), np.sign(y_test - 0.5)
    options = {"lam": 8192.0, "upsilon": 0.3, "theta": 0.1, "gamma": 16.0, "random_state": 0}
    a, optimum = newton_odm(rbf_kernel(X, gamma=16.0), y, 8192.0, 0.3, 0.1)
    accuracy = np.mean(np.sign(rbf_kernel(X_test, X, gamma=16.0) @ a) == y_test)
    assert accuracy == pytest.approx(0.971, abs=0.002)
    for strategy in ({"strategy": "exact"}, {"strategy": DiODM(early_stop=False), "n_levels": 1}):
        machine = ODMClassifier(**options, **strategy, tol=1e-6).fit(X, y)
        assert machine.objective_ == pytest.approx(optimum, rel=1.1e-6)
        assert machine.dual_objective_ <= optimum * (1 + 1e-9)
        assert machine.score(X_test, y_test) == pytest.approx(accuracy, abs=0.001)
