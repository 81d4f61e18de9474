"""Newton's method on the kernel matrix against other solvers, and the judge of certificates."""

import time

import judge
import numpy as np
import pytest
from helpers import KERNELS, LOSSES, SQUARED_HINGE, blobs, certificate, fit, gram, make_problem, name
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dimargin.kernels.functions import Kernel
from dimargin.problems.losses import ODMLoss, SquaredHingeLoss
from dimargin.solvers import BlockCoordinateDescent, Limits, block_coordinate_descent, solve
from dimargin.solvers.gram_factor import GramFactor, OutOfTimeError
from dimargin.solvers.gram_newton import GramNewton
from dimargin.solvers.precision import continue_in_float64

RBF = Kernel("rbf", gamma=1.0)
HARD = ODMLoss(lam=1e7, upsilon=0.5, theta=0.3)
smooth_losses = pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss.smooth], ids=name)


@pytest.fixture
def blocks_give_up(monkeypatch):
    """Hand every problem over after a pass of blocks."""
    monkeypatch.setattr(
        block_coordinate_descent,
        "is_newton_faster",
        lambda state, now: state.schedule.order is None and state.schedule.visited and not state.switch.outgrew_memory,
    )


def newton(problem, **limits):
    problem = type(problem).of(problem, problem.kernel.in_float64())
    outputs = np.arange(len(problem.labels))
    return GramNewton.begin(problem, Limits(**limits), outputs, np.random.default_rng(0), 2**31)


def minimise(problem, steps=40):
    """Steps until no row changes pieces: their number, and the method."""
    method = newton(problem)
    for step in range(steps):
        if not method.fewest.any():
            return step, method
        method.step()
    raise AssertionError(f"{method.fewest} rows at least change pieces after {steps} steps")


@pytest.mark.parametrize("lam", [1e2, 1e5, 1e8])
@pytest.mark.parametrize("kernel", KERNELS[2:], ids=name)
def test_steps_close_the_gap(kernel, lam):
    """The gap is that of numpy, which bounds the distance from any optimum."""
    X, labels = blobs(700)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 700)
    problem = make_problem(X, labels, ODMLoss(lam, 0.4, 0.2), kernel, weights)
    _, method = minimise(problem)
    assert certificate(problem, labels * method.signed)[2] <= 1e-10
    assert_allclose(method.products, method.signed @ gram(problem), rtol=1e-5, atol=1e-6)


@smooth_losses
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kernel", KERNELS, ids=name)
def test_other_solver(blocks_give_up, loss, kernel, intercept):
    X, labels = blobs(900, n_outputs=2)
    problem = make_problem(X, labels, loss, kernel, intercept=intercept)
    solution = fit(problem, tol=1e-9)
    assert solution.status == "converged" and solution.history[-1]["factorizations"] > 0
    _, dual, gap = certificate(problem, solution.dual)
    assert (gap <= 2e-9).all()
    by_blocks = solve(problem, BlockCoordinateDescent(gram=0), None, Limits(tol=1e-5))
    assert "factorizations" in by_blocks.history[-1]
    assert (dual >= by_blocks.objectives.dual * (1 - 1e-8)).all()


@pytest.mark.parametrize("intercept", [False, True])
def test_few_steps(intercept):
    X, labels = blobs(1500)
    loss = SquaredHingeLoss(1e5) if intercept else HARD
    problem = make_problem(X, labels, loss, RBF, intercept=intercept)
    steps, method = minimise(problem)
    assert steps <= 20
    assert abs(method.signed.sum()) <= 1e-9 * np.abs(method.signed).sum() or not intercept


def test_a_step_that_is_cut_lowers_the_objective():
    """Where whole steps are not tried, which is how the method ends in any case."""
    X, labels = blobs(1200)
    method, before = newton(make_problem(X, labels, HARD, Kernel("rbf", gamma=8.0))), np.inf
    method.fewest[:] = 0
    problem = method.problem
    for _ in range(5):
        method.step()
        now = problem.objectives(problem.labels * method.signed, problem.labels * method.products).primal[0]
        assert now < before or not method.progressed
        before = now


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    log_lam=st.floats(2, 12),
    log_gamma=st.floats(-3, 2),
    twins=st.booleans(),
    squared_hinge=st.booleans(),
    intercept=st.booleans(),
)
def test_judge(seed, log_lam, log_gamma, twins, squared_hinge, intercept):
    """Conditions of K + D up to 1e12 and more, and kernel matrices that are singular: no certificate is false."""
    n, gamma = 70, 10.0**log_gamma
    X, labels = blobs(n, seed)
    if twins:
        X[n // 2 :] = X[: n // 2]
    loss = SquaredHingeLoss(10.0**log_lam / n) if squared_hinge else ODMLoss(10.0**log_lam, 0.4, 0.2)
    problem = make_problem(X, labels, loss, Kernel("rbf", gamma=gamma), intercept=intercept)
    method = newton(problem)
    for _ in range(30):
        method.step()
    problem = method.problem
    dual, _ = problem.at_feasible(labels * method.signed, problem.margins(labels * method.signed))
    claimed = problem.objectives(dual, problem.margins(dual))
    assert claimed.unrounded[0] <= 1e-6 or log_lam > 9
    judged = judge.SquaredHinge(loss.C) if squared_hinge else judge.Odm(loss.lam, loss.upsilon, loss.theta)
    exact = judge.Problem(X, labels, problem.weights, judged, {"kernel": "rbf", "gamma": gamma})
    truth = judge.judge(exact, labels * dual, claimed.intercept)
    gap = (truth.upper - truth.dual) / np.abs(truth.primal)
    assert gap[0] <= claimed.worst_gap * (1 + 1e-9) and claimed.dual[0] <= truth.dual[0]


def test_the_number_of_threads_does_not_matter(blocks_give_up):
    X, labels = blobs(1300)
    solutions = [fit(make_problem(X, labels, HARD, RBF, n_threads=k)) for k in (1, 2, 3)]
    assert_array_equal(solutions[0].dual, solutions[1].dual)
    assert_array_equal(solutions[0].dual, solutions[2].dual)
    assert solutions[0].history[-1]["factorizations"] == solutions[2].history[-1]["factorizations"] > 0


def test_blocks_that_creep_hand_over():
    X, labels = blobs(2000, n_features=2)
    creeping = fit(make_problem(X, labels, HARD, RBF))
    assert creeping.status == "converged" and creeping.history[-1]["factorizations"] > 0
    assert creeping.passes <= 20
    easy = fit(make_problem(X, labels, ODMLoss(1e3, 0.5, 0.3), RBF))
    assert easy.status == "converged" and easy.history[-1]["factorizations"] == 0


def test_memory_that_does_not_suffice():
    X, labels = blobs(1200, n_features=2)
    problem = make_problem(X, labels, HARD, RBF)
    solution = solve(problem, BlockCoordinateDescent(gram=10**6), None, Limits(max_iter=5))
    assert solution.status == "max_iter" and solution.history[-1]["factorizations"] == 0


@pytest.mark.parametrize("tol", [1e-3, 1e-5])
def test_rows_that_outgrow_the_memory(blocks_give_up, monkeypatch, tol):
    """More rows may count at a later iterate than at the one where blocks gave up: blocks go on."""
    sizes, memory = [], GramNewton.bytes_per_entry * 700**2

    class Recorded(GramFactor):
        def __init__(self, kernel, rows, *others):
            sizes.append(len(rows))
            super().__init__(kernel, rows, *others)

    monkeypatch.setattr("dimargin.solvers.gram_newton.GramFactor", Recorded)
    X, labels = blobs(5000, n_features=2)
    problem = make_problem(X, labels, ODMLoss(1e5, 0.5, 0.3), RBF)
    solution = solve(problem, BlockCoordinateDescent(gram=memory), None, Limits(tol=tol))
    assert solution.status == "converged" and certificate(problem, solution.dual)[2][0] <= tol
    assert sizes and max(sizes) <= 700 and solution.history[-1]["factorizations"] == len(sizes)
    assert solution.kernel_evaluations >= problem.n_rows**2  # of blocks, and of Newton's method before


def test_limits(blocks_give_up, monkeypatch):
    """A limit within a step leaves the best model so far, and its certificate."""
    X, labels = blobs(1500)
    problem = make_problem(X, labels, HARD, RBF)
    with pytest.raises(OutOfTimeError):
        newton(problem, deadline=0.0).step()
    limits = Limits(tol=1e-9)

    def interrupted(*arguments):
        limits.interrupted.set()
        raise OutOfTimeError

    monkeypatch.setattr("dimargin.solvers.gram_newton.GramFactor", interrupted)
    solution = solve(problem, BlockCoordinateDescent(), None, limits)
    assert solution.status == "stopped"
    gap = certificate(problem, solution.dual)[2]
    assert gap <= solution.objectives.relative_gap + 1e-9 and solution.objectives.relative_gap < 1


@pytest.mark.slow
def test_time_limit(blocks_give_up):
    X, labels = blobs(8000)
    problem = make_problem(X, labels, HARD, RBF, n_threads=2)
    began = time.perf_counter()
    solution = fit(problem, tol=1e-9, deadline=began + 1.0)
    assert solution.status == "max_time" and solution.objectives.relative_gap <= 1


def test_outputs_that_are_done_rest(blocks_give_up):
    X, labels = blobs(900, n_outputs=3)
    labels[2] = np.where(X[:, 0] > 0, 1.0, -1.0)
    solution = fit(make_problem(X, labels, HARD, RBF), tol=1e-6)
    assert solution.status == "converged"
    for q in range(3):
        alone = fit(make_problem(X, labels[[q]], HARD, RBF), tol=1e-6)
        assert_allclose(solution.objectives.primal[q], alone.objectives.primal[0], rtol=2e-6)


def test_squared_hinge_is_certified_inside_its_box(blocks_give_up):
    X, labels = blobs(900)
    problem = make_problem(X, labels, SQUARED_HINGE, RBF)
    for max_iter in (2, 3, 4):
        solution = fit(problem, tol=1e-9, max_iter=max_iter)
        assert (solution.dual >= 0).all()
        assert certificate(problem, solution.dual)[2] <= solution.objectives.relative_gap + 1e-10


def test_an_intercept_of_which_rounding_leaves_nothing_stays(monkeypatch):
    """With features near 1e7 the kernel hides the curvature of an intercept, and the shift was a division by zero."""
    X, labels = blobs(40, 0)
    method = newton(make_problem(X, labels, SQUARED_HINGE, RBF, intercept=True))
    solved = GramNewton._solve

    def without_ones(self, factor, rows, bend, right):
        found, images, travelled = solved(self, factor, rows, bend, right)
        return (found, images, travelled) if (right != 1.0).any() else (0 * found, 0 * images, travelled)

    monkeypatch.setattr(GramNewton, "_solve", without_ones)
    before = method.intercepts.copy()
    method.step()
    assert np.isfinite(method.signed).all() and np.isfinite(method.products).all()
    assert_array_equal(method.intercepts, before)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kernel", [Kernel("linear"), Kernel("poly", gamma=1.0, degree=1, coef0=0.0)], ids=name)
def test_the_certificate_of_large_features_is_that_of_the_coefficients(blocks_give_up, kernel, intercept):
    """Products that steps are added up to are wrong in the fourth digit here, where a step of length zero ends."""
    for seed in range(1, 5):
        rng = np.random.default_rng(seed)
        X, labels = rng.normal(size=(600, 2)) * [1e3, 5e5], np.where(rng.random(600) < 0.5, 1.0, -1.0)
        problem = make_problem(X, labels, SquaredHingeLoss(1.0), kernel, np.full(600, 2.0), intercept=intercept)
        found = fit(problem, tol=1e-6, max_iter=20)
        signed, rows = np.longdouble(labels * found.dual[0]), np.longdouble(X)
        margins = labels * (rows @ (signed @ rows) + found.objectives.intercept[0])
        square, dual = (signed @ rows) @ (signed @ rows), found.dual[0]
        primal = square / 2 + 2 * (np.maximum(0, 1 - margins) ** 2).sum()
        bound = dual.sum() - (dual**2).sum() / 8 - square / 2
        assert found.status == "converged" and found.objectives.dual[0] <= bound
        assert abs(found.objectives.primal[0] - primal) <= found.objectives.worst_gap * primal


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.floats(-2, 6), steps=st.integers(1, 6), intercept=st.booleans())
def test_products_err_by_no_more_than_they_have_travelled(seed, size, steps, intercept):
    """Corrections of a direction can be many times as large as it is."""
    rng = np.random.default_rng(seed)
    X, labels = rng.normal(size=(120, 2)) * [1.0, 10.0**size], np.where(rng.random(120) < 0.5, 1.0, -1.0)
    kernel = Kernel("poly", gamma=1.0, degree=1, coef0=0.0)
    method = newton(make_problem(X, labels, SquaredHingeLoss(1e4), kernel, intercept=intercept))
    for _ in range(steps):
        method.step()
    rows, kernel = np.longdouble(X), method.problem.kernel
    error = np.abs(method.products[0] - rows @ (np.longdouble(method.signed[0]) @ rows))
    assert (error <= kernel.rounding(len(X)) * method.travelled[0] * kernel.row_sizes).all()
    method.refresh()
    assert method.travelled is None
    error = np.abs(method.products[0] - rows @ (np.longdouble(method.signed[0]) @ rows))
    assert (error <= kernel.rounding(len(X)) * method.problem.reach(method.signed)[0] * kernel.row_sizes).all()


def test_outputs_that_had_rested_come_back(blocks_give_up):
    """Their gaps may be beyond the tolerance again once margins are computed afresh."""
    X, labels = blobs(900, n_outputs=3)
    solver = BlockCoordinateDescent()
    state = solver.init(make_problem(X, labels, SQUARED_HINGE, RBF), None, Limits(tol=1e-9))
    while state.switch.newton is None:
        solver.step(state)
        solver.check(state)
    iterate = state.iterate
    iterate.keep_outputs(np.array([0, 2]))
    solver.step(state)
    assert len(state.switch.newton.signed) == 2
    continue_in_float64(state)
    solver.step(state)
    assert_array_equal(state.switch.newton.outputs, [0, 1, 2])
    assert_allclose(iterate.margins, iterate.problem.margins(iterate.dual), rtol=1e-9, atol=1e-9)
