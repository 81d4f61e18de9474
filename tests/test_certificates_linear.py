"""Certificates of linear machines, of one place or of gossiping sites, are judged by independent code: see `judge`."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import strategies as st
from judge import Hinge, Odm, Problem, SquaredHinge, Truth, complaints, judge_weights
from judged_machines import fewer, fitted, judge_sites, problem_of_sites, rarely, reached
from judged_problems import OPPOSED, data, labels_of

import dimargin
from dimargin.gossip import rounds
from dimargin.gossip.programs.algorithm import Problem as NetworkProblem
from dimargin.gossip.simulation.gossip_run import GossipRun
from dimargin.gossip.topology import make_graph
from dimargin.problems.hinge import loss_of


@pytest.mark.slow
@fewer
@given(
    data(), st.floats(-2, 8).map(lambda k: 10.0**k), st.sampled_from([0.05, 0.5, 1]), st.sampled_from([0.0, 0.2, 0.9]),
    st.sampled_from(["newton", "newton", "dsvrg", "svrg", "csvrg"]), st.booleans(), st.sampled_from([1e-1, 1e-3, 1e-9]),
)  # fmt: skip
def test_linear_machines(data, lam, upsilon, theta, solver, intercept, tol):
    X, y, weights = data
    own = {"lam": lam, "upsilon": upsilon, "theta": theta, "fit_intercept": intercept}
    problem = Problem(X, labels_of(y), weights, Odm(lam, upsilon, theta), {"kernel": "linear", "gamma": 1.0}, intercept)
    machine = fitted(dimargin.LinearODMClassifier(solver=solver, tol=tol, max_iter=30, **own), X, y, weights)
    other = fitted(dimargin.LinearODMClassifier(solver="newton", tol=1e-12, **own), X, y, weights)
    if machine is None or other is None:
        return
    best = judge_weights(problem, other.coef_, other.intercept_).upper
    assert not complaints(machine, judge_weights(problem, machine.coef_, machine.intercept_), best)
    machine.certify(X, y, weights)
    assert not complaints(machine, judge_weights(problem, machine.coef_, machine.intercept_), best)


@pytest.mark.slow
@fewer
@given(
    data(), st.floats(-4, 6).map(lambda k: 10.0**k), st.sampled_from(["hinge", "squared_hinge"]),
    st.sampled_from(["cd", "auto"]), st.booleans(), st.booleans(), st.sampled_from([1e-1, 1e-3, 1e-9]),
    st.sampled_from([1, 40, 400]),
)  # fmt: skip
def test_linear_support_vector_machines(data, C, loss, solver, intercept, sparse, tol, max_iter):
    X, y, weights = data
    own = {"C": C, "loss": loss, "fit_intercept": intercept}
    judged = Hinge(C) if loss == "hinge" else SquaredHinge(C)
    problem = Problem(X, labels_of(y), weights, judged, {"kernel": "linear", "gamma": 1.0}, intercept)
    given_rows = sp.csr_array(X) if sparse else X
    machine = fitted(
        dimargin.LinearSVMClassifier(solver=solver, tol=tol, max_iter=max_iter, **own), given_rows, y, weights
    )
    other = fitted(dimargin.LinearSVMClassifier(solver="cd", tol=1e-10, max_iter=500, **own), X, y, weights)
    if machine is None or other is None:
        return
    best = judge_weights(problem, other.coef_, other.intercept_).upper
    assert not complaints(machine, judge_weights(problem, machine.coef_, machine.intercept_), best)
    machine.certify(given_rows, y, weights)
    assert not complaints(machine, judge_weights(problem, machine.coef_, machine.intercept_), best)


def exact_objective(machine, X, y, weights):
    """Objective of the machine of Crammer and Singer in rational numbers, rounded up; no intercept."""
    vectors = [[Fraction(w) for w in row] for row in machine.coef_.tolist()]
    if len(vectors) == 1:
        vectors = [[-w / 2 for w in vectors[0]], [w / 2 for w in vectors[0]]]
    total = sum(w * w for row in vectors for w in row) / 2
    for x, own, weight in zip(X.tolist(), np.searchsorted(machine.classes_, y), weights.tolist(), strict=True):
        scores = [sum(Fraction(a) * w for a, w in zip(x, row, strict=True)) for row in vectors]
        highest = max(score + (k != own) for k, score in enumerate(scores))
        total += Fraction(machine.C) * Fraction(weight) * (highest - scores[own])
    return np.nextafter(float(total), np.inf)


@pytest.mark.slow
@fewer
@given(
    data(), st.floats(-4, 4).map(lambda k: 10.0**k), st.booleans(), st.sampled_from([1e-1, 1e-3, 1e-6]),
    st.sampled_from([1, 40, 400]),
)  # fmt: skip
def test_the_machine_of_crammer_and_singer(data, C, sparse, tol, max_iter):
    X, y, weights = data
    own = {"C": C, "multi_class": "crammer_singer", "fit_intercept": False, "random_state": 0}
    given_rows = sp.csr_array(X) if sparse else X
    machine = fitted(dimargin.LinearSVMClassifier(tol=tol, max_iter=max_iter, **own), given_rows, y, weights)
    other = fitted(dimargin.LinearSVMClassifier(tol=1e-7, max_iter=1000, **own), X, y, weights)
    if machine is None or other is None:
        return
    best = np.array([exact_objective(other, X, y, weights)])
    for _ in range(2):
        upper = np.array([exact_objective(machine, X, y, weights)])
        nobody = np.array([-np.inf])
        truth = Truth(primal=np.nextafter(upper, -np.inf), upper=upper, dual=nobody, moved=nobody)
        assert not complaints(machine, truth, best)
        machine.certify(given_rows, y, weights)


# The last step of L-BFGS-B has no curvature in float64.
STEEP = np.array([[1e4], [0.0], [-1e4], [-1e4]]), np.array([0, 1, 0, 0]), np.ones(4)


@pytest.mark.slow
@fewer
@given(
    data(), st.floats(-8, 2).map(lambda k: 10.0**k), st.sampled_from([1, 2, 3]), st.booleans(),
    st.sampled_from(["objective", "quiet"]), st.booleans(), st.sampled_from([1e-1, 1e-3]),
    st.sampled_from(["hinge", "squared_hinge", "odm"]),
)  # fmt: skip
@example(STEEP, 1.0, 1, False, "quiet", False, 0.1, "hinge")
def test_gossiping_sites(data, alpha, n_sites, intercept, stop, sparse, tol, loss_function):
    machine = dimargin.GossipSVMClassifier(
        n_sites=n_sites, alpha=alpha, fit_intercept=intercept, stop=stop, tol=tol, max_iter=30, random_state=0,
        loss_function=loss_function, theta=0.3, upsilon=0.6,
    )  # fmt: skip
    judge_sites(machine, data, sparse)


@pytest.mark.slow
@rarely
@given(
    data(), st.floats(-6, 2).map(lambda k: 10.0**k), st.sampled_from([1, 2, 4]), st.booleans(),
    st.sampled_from([1e-1, 1e-3, 1e-6]), st.sampled_from(["hinge", "squared_hinge", "odm"]),
)  # fmt: skip
def test_certificates_that_sites_compute_together(data, alpha, n_sites, sparse, tol, loss_function):
    """Each bounds the objective of its weights from above, and that of any other machine from below."""
    X, y, _ = data
    if len(np.unique(y)) < 2 or np.abs(X).max() > 1e100:
        return
    problem, loss = problem_of_sites(X, y, alpha, loss_function)
    own = loss_of(loss_function, 0.3, 0.6)
    network = NetworkProblem(alpha, n_sites, len(X), tol=tol)
    site, make = np.arange(len(X)) % n_sites, partial(rounds.ConsensusADMM().program, network)
    rows = sp.csr_array(X) if sparse else X
    run = GossipRun(rows, problem.labels, site, n_sites, network, make_graph("complete", n_sites), make=make, loss=own)
    run.run(40)
    best = reached(problem, loss, {"kernel": "linear"}, False, X, y, np.ones(len(X)))
    for program in run.programs:
        found = program.certification.certificate
        if found is not None:
            truth = judge_weights(problem, found.weights, np.zeros(len(found.weights)))
            assert (np.nextafter(found.objective / alpha, np.inf) >= truth.primal).all()
            assert (np.nextafter(found.dual_objective / alpha, -np.inf) <= best).all()
            assert (found.rows, found.sites) == (len(X), n_sites)


ALGORITHMS = [
    rounds.ConsensusADMM(), rounds.ConsensusADMM(0.01, 1.9, compression=rounds.Logarithmic(3)),
    rounds.ConsensusADMM(compression=rounds.TopK(0.3)), rounds.RobustGossip(rounds.Mean()),
    rounds.RobustGossip(rounds.Mean(), gradient="tracked"),
]  # fmt: skip


@pytest.mark.nightly
@fewer
@given(
    data(), st.floats(-8, 2).map(lambda k: 10.0**k), st.sampled_from([1, 2, 3]), st.booleans(), st.booleans(),
    st.sampled_from(ALGORITHMS),
)  # fmt: skip
@example(OPPOSED, 1e-3, 2, False, False, rounds.ConsensusADMM())
def test_gossiping_sites_of_other_algorithms(data, alpha, n_sites, intercept, sparse, algorithm):
    machine = dimargin.GossipSVMClassifier(
        algorithm, n_sites=n_sites, alpha=alpha, fit_intercept=intercept, max_iter=30, random_state=0, share_rows=True
    )
    judge_sites(machine, data, sparse)
