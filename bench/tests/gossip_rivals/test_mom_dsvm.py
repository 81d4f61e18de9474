"""MoM-DSVM finds the machine of all rows at every site; what holds of consensus ADMM, too, is in test_admm."""

import re

import numpy as np
import pytest
import test_admm
from linear_sites import ALPHA, objective, overlapping, sites
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.svm import SVC

from dimargin.gossip.rounds import ConsensusADMM, Logarithmic, Quantised, TopK
from dimargin.gossip.topology import make_graph
from dimargin.problems.hinge import HingeRows
from dimargin_bench.gossip_rivals.mom_dsvm import MoMDSVM

ROWS = overlapping()
ALGORITHMS = [MoMDSVM(), MoMDSVM(compression=Logarithmic(3))]


@pytest.mark.parametrize(
    ("algorithm", "topology", "shards"),
    [
        (MoMDSVM(), "ring", "sorted"),
        (MoMDSVM(), "star", "sorted_unequal"),
        (MoMDSVM(compression=Quantised(7)), "ring", "sorted"),
    ],
)
def test_every_site_has_the_machine_of_all_rows(algorithm, topology, shards):
    test_admm.test_every_site_has_the_machine_of_all_rows(algorithm, topology, shards)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    "check",
    [
        test_admm.test_a_lossy_network_costs_time_only,
        test_admm.test_one_site_is_the_machine_itself,
        test_admm.test_it_learns_several_outputs,
        test_admm.test_a_checkpoint_is_the_whole_state,
        test_admm.test_messages_of_no_site_are_refused,
    ],
    ids=lambda check: check.__name__,
)
def test_as_consensus_admm(check, algorithm):
    check(algorithm)


@pytest.mark.parametrize("event", ["one comes late", "one forgets"])
def test_sites_come_and_go(event):
    test_admm.test_sites_come_and_go(MoMDSVM(), event)


def by_scipy(rows, curvature, slope, c):
    """The problem of a site, for a general solver: its dual is a quadratic program in a box."""
    Z, signs = rows.X, rows.signs[0]

    def dual(a):
        w = (slope + Z.T @ (signs * a)) / curvature
        return (curvature * w * w).sum() / 2 - a.sum(), signs * (Z @ w) - 1

    found = minimize(
        dual, np.full(len(signs), c / 2), jac=True, bounds=[(0, c)] * len(signs),
        options={"ftol": 1e-16, "gtol": 1e-9, "maxiter": 20_000, "maxfun": 10**6, "maxcor": 30},
    )  # fmt: skip
    return (slope + Z.T @ (signs * found.x)) / curvature


def test_mom_is_as_in_the_paper():
    """Equations of Forero et al. with all multipliers of a site in one vector; the site does not do anything else."""
    eta, J, (X, y) = 0.05, 4, overlapping(60)
    run = sites(MoMDSVM(eta, True, 1e-10), X, y, n_sites=J)
    run.run(12)
    graph, c = make_graph("ring", J), J / len(y)
    v, a, f = np.zeros((J, 7)), np.zeros((J, 7)), np.zeros((J, 7))
    for _ in range(12):
        for j in range(J):
            U = np.array([ALPHA] * 6 + [0.0]) + 2 * eta * graph.degree(j)
            own = run.site == j
            v[j] = by_scipy(HingeRows(X[own], y[None, own]), U, -f[j], c)
        new = [sum(v[j] - v[i] for i in graph.neighbors(j)) for j in range(J)]
        a = a + eta / 2 * np.array(new)
        f = np.array([2 * a[j] - eta * sum(v[j] + v[i] for i in graph.neighbors(j)) for j in range(J)])
    assert_allclose(run.weights()[:, 0], v, atol=2e-4)


def test_mom_is_admm_without_over_relaxation():
    a = sites(MoMDSVM(0.07, tol=1e-10), *ROWS, topology="grid")
    b = sites(ConsensusADMM(0.14, 1.0, tol=1e-10), *ROWS, topology="grid")
    assert_allclose(a.run(30).weights(), b.run(30).weights(), atol=1e-4)


def test_a_free_intercept_is_that_of_libsvm():
    X, y = ROWS
    run = sites(MoMDSVM(free_intercept=True), X, y, shards="sorted")
    run.run(300)
    exact = SVC(kernel="linear", C=1 / (ALPHA * len(y)), tol=1e-8).fit(X[:, :-1], y)
    best = ALPHA / 2 * (exact.coef_[0] ** 2).sum() + np.maximum(0, 1 - y * exact.decision_function(X[:, :-1])).mean()
    for w in run.weights()[:, 0]:
        found = objective(X, y, w) - ALPHA / 2 * w[-1] ** 2
        assert best * (1 - 1e-6) < found < best * 1.001


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        (MoMDSVM(compression=TopK(0.0)), "share must be a number in (0, 1], got 0.0"),
        (MoMDSVM(eta=np.inf), "eta must be a number above 0, got inf"),
        (MoMDSVM(free_intercept=1), "free_intercept must be True or False, got 1"),
        (MoMDSVM(max_steps=1.5), "max_steps must be a whole number not below 1, got 1.5"),
        (MoMDSVM(tol="x"), "tol must be a number above 0, got 'x'"),
    ],
)
def test_parameters_out_of_range_are_refused(algorithm, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        algorithm.validate()
