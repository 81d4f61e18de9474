"""Lemmas, equations and the theorem of the GADGET paper's appendix, where they can be computed."""

import linear_sites
import numpy as np
import pytest
from linear_sites import ALPHA, objective

from dimargin_bench.gossip_rivals.uniform_gossip import UniformGadget


@pytest.fixture(scope="module")
def rows():
    return linear_sites.overlapping(400)


def test_definition_1_the_objective_is_strongly_convex_with_lambda_and_no_more(rows):
    X, y = rows
    rng, smallest = np.random.default_rng(3), np.inf
    for _ in range(200):
        v = rng.normal(size=X.shape[1])
        w = v + rng.normal(size=v.shape) * rng.choice([1e-3, 0.1, 10.0])
        active = y * (X @ v) < 1
        subgradient = ALPHA * v - y[active] @ X[active] / len(y)
        above = objective(X, y, w) - objective(X, y, v) - subgradient @ (w - v)
        smallest = min(smallest, above / ((w - v) @ (w - v) / 2))
    assert smallest == pytest.approx(ALPHA, rel=1e-3) and smallest > ALPHA * (1 - 1e-6)


def test_lemma_1_the_mean_loss_changes_by_at_most_the_longest_row_times_the_distance(rows):
    X, y = rows
    longest, rng, tightest = np.linalg.norm(X, axis=1).max(), np.random.default_rng(0), 0.0
    for _ in range(200):
        v, w = rng.normal(size=(2, X.shape[1])) * rng.choice([0.1, 1.0, 10.0])
        losses = [np.maximum(0, 1 - y * (X @ one)).mean() for one in (v, w)]
        tightest = max(tightest, abs(losses[0] - losses[1]) / (longest * np.linalg.norm(v - w)))
    assert 0.01 < tightest <= 1


def test_lemma_3_bounds_projected_steps_towards_any_point_of_the_ball(rows):
    X, y = rows
    rng, w, radius = np.random.default_rng(1), np.zeros(X.shape[1]), ALPHA**-0.5
    u = rng.normal(size=w.shape)
    u *= radius / np.linalg.norm(u)
    for t in range(1, 200):
        k, step = rng.integers(len(y)), 1 / (ALPHA * t)
        gradient = ALPHA * w - (y[k] * (w @ X[k]) < 1) * y[k] * X[k]
        after = w - step * gradient
        after = after * min(1, radius / np.linalg.norm(after))
        bound = (((w - u) ** 2).sum() - ((after - u) ** 2).sum()) / (2 * step) + step / 2 * (gradient @ gradient)
        assert (w - u) @ gradient <= bound + 1e-9 * abs(bound)
        w = after


def test_equation_9_averages_to_a_step_of_pegasos_on_all_rows(rows):
    """``sum_i s_i / N = w - eta (alpha w - L_g)`` where L_i is the sum over the rows of a site, and all w_i are w."""
    X, y = rows
    w, eta, site = np.random.default_rng(2).normal(size=X.shape[1]), 0.3, np.arange(400) % 7 % 3
    active = y * (X @ w) < 1
    sums = [(1 - ALPHA * eta) * (site == i).sum() * w + eta * y[active & (site == i)] @ X[active & (site == i)]
            for i in range(3)]  # fmt: skip
    np.testing.assert_allclose(np.sum(sums, axis=0) / 400, w - eta * (ALPHA * w - y[active] @ X[active] / 400))


def test_without_the_weights_of_equation_9_sites_of_unequal_size_solve_another_problem(rows):
    excess = {}
    for form in ("equation 5", "mended"):
        algorithm = UniformGadget(batch_size=None, form=form, projection=False)
        run = linear_sites.sites(algorithm, *rows, 5, "complete", "sorted_unequal").run(400)
        excess[form] = linear_sites.excess(run, *rows, linear_sites.optimum(*rows), average=True)
    assert excess["equation 5"] > 2 * excess["mended"]


def test_sites_are_farther_from_the_optimum_on_networks_that_mix_more_slowly(rows):
    best, algorithm = linear_sites.optimum(*rows), UniformGadget(batch_size=None, form="equation 5", projection=False)
    runs = [linear_sites.sites(algorithm, *rows, 16, topology, "sorted").run(200)
            for topology in ("complete", "grid", "ring", "star")]  # fmt: skip
    excesses = [linear_sites.excess(run, *rows, best) for run in runs]
    assert excesses == sorted(excesses) and excesses[-1] > 2 * excesses[0]


def test_the_bound_of_theorem_1_holds_and_says_nothing(rows):
    """Its constant is here more than the objective of no weights at all, which is one."""
    algorithm = UniformGadget(form="equation 5")
    run, n_iterations = linear_sites.sites(algorithm, *rows, 5), 300
    run.run(n_iterations)
    best = linear_sites.optimum(*rows)
    largest = ALPHA**0.5 + np.linalg.norm(rows[0], axis=1).max()  # of subgradients in the ball
    constant = 2 * largest / ALPHA**0.5
    bound = constant + largest**2 * np.log(n_iterations) / (2 * n_iterations * ALPHA)
    for weights in run.weights(average=True):
        assert 0 < objective(*rows, weights[0]) - best <= bound
    assert constant > 10 > 1 - best
