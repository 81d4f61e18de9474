"""FedAvg and FedProx: one step is subgradient descent of all rows, and exact solutions end where a solver says."""

import re

import numpy as np
import pytest
import qpsolvers
from linear_sites import ALPHA, objective, optimum, overlapping
from numpy.testing import assert_allclose
from sklearn.utils import check_random_state

from dimargin.gossip.simulation.gossip_run import deal
from dimargin_bench.gossip_rivals import FederatedAveraging

X, Y = overlapping()
POWERS = {"hinge": 1, "squared_hinge": 2}


def trained(n_sites=5, rows=(X, Y), **parameters):
    given = {"alpha": ALPHA, "precision": "double", "random_state": 0, **parameters}
    return FederatedAveraging(n_sites=n_sites, **given).fit(*rows)


def descent(loss, step_size, decay, n_steps):
    """Subgradient descent on all rows in one place."""
    w, power = np.zeros(X.shape[1]), POWERS[loss]
    for t in range(n_steps):
        short = np.maximum(0, 1 - Y * (X @ w))
        slopes = power * short ** (power - 1) * (short > 0)
        w = w - step_size / (1 + t / decay) * (ALPHA * w - (slopes * Y) @ X / len(Y))
    return w


@pytest.mark.parametrize("loss", POWERS)
@pytest.mark.parametrize("shards", ["random", "unequal", "sorted_unequal"])
def test_one_step_on_all_rows_is_subgradient_descent(loss, shards):
    machine = trained(shards=shards, loss_function=loss, step_size=0.2, decay=30.0, max_iter=60)
    assert_allclose(machine.coef_[0], descent(loss, 0.2, 30.0, 60), rtol=1e-12, atol=1e-13)
    assert machine.objective_ == pytest.approx(objective(X, Y, machine.coef_[0], power=POWERS[loss]), rel=1e-12)


def test_many_steps_on_batches_are_those_of_each_site():
    """FedProx by hand, for two sites and two rounds; its distance is from the weights that a round starts with."""
    found = trained(2, epochs=2, batch_size=50, mu=0.3, step_size=0.2, decay=1.0, max_iter=2)
    seed = int(check_random_state(0).randint(2**31 - 1))
    site = deal("random", Y, np.random.default_rng(seed).permutation(len(Y)), 2)
    rngs, start = [np.random.default_rng((seed, k)) for k in range(2)], np.zeros(X.shape[1])
    for step in (0.2, 0.1):
        sent = []
        for k in range(2):
            A, b, w = X[site == k], Y[site == k], start
            for _ in range(2):
                for batch in np.split(rngs[k].permutation(200), 4):
                    active = batch[b[batch] * (A[batch] @ w) < 1]
                    w = w - step * (ALPHA * w - b[active] @ A[active] / 50 + 0.3 * (w - start))
            sent.append(w)
        start = np.mean(sent, axis=0)
    assert_allclose(found.coef_[0], start, rtol=1e-10)


def test_fedprox_without_distance_is_fedavg():
    terms = {"epochs": 3, "batch_size": 20, "max_iter": 5}
    plain, zero, near = (trained(**terms, **more).coef_ for more in ({}, {"mu": 0.0}, {"mu": 1.0}))
    assert np.array_equal(plain, zero) and not np.allclose(plain, near)


def envelopes(A, b, site, mu):
    """The server's weights at the minimum of ``sum_k n_k/N (F_k(v_k) + mu/2 |v_k - w|^2)``, by a QP over all v_k, w."""
    m, d, n = site.max() + 1, A.shape[1], len(b)
    size = (m + 1) * d + n  # all v_k, w, and a slack for every row
    P, G, h = np.zeros((size, size)), np.zeros((n, size)), -np.ones(n)
    w = slice(m * d, (m + 1) * d)
    for k in range(m):
        share, v = np.mean(site == k), slice(k * d, (k + 1) * d)
        P[v, v] += share * (ALPHA + mu) * np.eye(d)
        P[w, w] += share * mu * np.eye(d)
        P[v, w], P[w, v] = -share * mu * np.eye(d), -share * mu * np.eye(d)
        G[site == k, v] = -b[site == k, None] * A[site == k]
    slacks = np.arange((m + 1) * d, size)
    G[np.arange(n), slacks], q, low = -1.0, np.zeros(size), np.full(size, -np.inf)
    q[slacks], low[slacks] = 1 / n, 0.0
    found = qpsolvers.solve_qp(P, q, G, h, lb=low, solver="clarabel", tol_gap_rel=1e-12, tol_feas=1e-12)
    return found[w]


@pytest.mark.parametrize("shards", ["random", "sorted_unequal"])
@pytest.mark.parametrize("mu", [0.1, 1.0])
@pytest.mark.filterwarnings("ignore:Converted matrix:UserWarning")
def test_exact_solutions_end_at_the_minimum_of_the_envelopes(mu, shards):
    A, b = X[:90], Y[:90]
    seed = int(check_random_state(0).randint(2**31 - 1))
    site = deal(shards, b, np.random.default_rng(seed).permutation(90), 3)
    found = trained(3, (A, b), epochs=None, mu=mu, shards=shards, max_iter=1500).coef_[0]
    assert_allclose(found, envelopes(A, b, site, mu), atol=2e-4)
    assert objective(A, b, found) > optimum(A, b) * 1.0005  # This minimum is another one.


def test_exact_solutions_of_the_squared_hinge_are_minima():
    machine = trained(1, epochs=None, mu=1e-3, loss_function="squared_hinge", max_iter=200)
    assert machine.objective_ == pytest.approx(optimum(X, Y, power=2), rel=1e-5)


@pytest.mark.parametrize(("precision", "size"), [("single", 4), ("double", 8)])
def test_both_directions_are_counted_as_they_are_sent(precision, size):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 1000)), np.repeat([1.0, -1.0], 20)
    machine = trained(3, rows, precision=precision, step_size=1e-3, max_iter=3)
    assert [entry["round"] for entry in machine.history_] == [1, 2, 3]
    assert [entry["messages"] for entry in machine.history_] == [6, 12, 18]
    assert 6 * 1000 * size < machine.history_[0]["bytes"] < 6 * (1000 * size + 60)
    is_rounded = np.array_equal(machine.coef_, machine.coef_.astype(np.float32))
    assert is_rounded == (precision == "single")


def test_sites_have_the_weights_of_the_server():
    rows = np.column_stack([X[:, 0], X[:, 1]]), Y
    machine = trained(4, rows, fit_intercept=True, max_iter=20)
    assert machine.site_coef_.shape == (4, 1, 2) and machine.site_intercept_.shape == (4, 1)
    assert (machine.site_coef_ == machine.coef_).all() and (machine.site_intercept_ == machine.intercept_).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"epochs": None}, "mu must be a finite number in (0, inf), got 0.0"),
        ({"mu": -1.0}, "mu must be a finite number in [0, inf), got -1.0"),
        ({"epochs": 0}, "epochs must be"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"step_size": 0}, "step_size must be"),
        ({"precision": "half"}, "precision must be 'single' or 'double', got 'half'"),
        ({"loss_function": "odm"}, "loss_function must be 'hinge' or 'squared_hinge', got 'odm'"),
    ],
)
def test_parameters_out_of_range_are_refused(parameters, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        trained(**parameters)
