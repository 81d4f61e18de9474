"""The judge itself, against fractions, and against claims that are wrong in every way that a certificate can be."""

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from judge import (
    EpsilonInsensitive,
    Hinge,
    Odm,
    Problem,
    SquaredEpsilonInsensitive,
    SquaredHinge,
    complaints,
    judge,
    signed_coefficients,
)
from numpy.testing import assert_allclose
from twofold import Twofold

from dimargin import ODMClassifier, SVMClassifier

LINEAR = {"kernel": "linear", "gamma": 1.0}


def problem_of(loss, intercept=True, n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    labels = np.where(X[:, :1].T + rng.normal(size=(1, n)) > 0, 1.0, -1.0)
    return Problem(X, labels, rng.uniform(0.5, 2, n), loss, LINEAR, intercept)


def test_two_long_doubles_are_as_good_as_fractions():
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=200) * 10.0 ** rng.uniform(-8, 8, 200) for _ in range(2))
    exact = sum((Fraction(x) * Fraction(y) for x, y in zip(a, b, strict=True)), Fraction(0))
    a, b = np.append(a, [1.0]), np.append(b, [-float(exact)])  # all that float64 can hold cancels
    left = sum((Fraction(x) * Fraction(y) for x, y in zip(a, b, strict=True)), Fraction(0))
    found = (Twofold(a) * Twofold(b)).sum()
    assert_allclose(float(found), float(left), rtol=1e-9)
    third = Twofold(1.0) / 3.0
    assert abs(float(third * 3.0 - 1.0)) < 1e-30


TARGETS = np.array([-1.0, 0.3, 2.0])
OF_RESIDUALS = [EpsilonInsensitive(0.7, 0.2, TARGETS), SquaredEpsilonInsensitive(0.7, 0.2, TARGETS)]


@pytest.mark.parametrize(
    "loss", [Odm(100.0, 0.5, 0.2), Hinge(0.7), SquaredHinge(0.7), *OF_RESIDUALS], ids=lambda loss: type(loss).__name__
)
def test_losses_and_conjugates(loss):
    """Fenchel and Young: equality at the derivative, and nothing below zero anywhere."""
    weights, rng = np.array([0.5, 1.0, 2.0]), np.random.default_rng(1)
    low, high = (np.asarray(Twofold._of(b).head, dtype=float) for b in loss.box(weights))
    for _ in range(50):
        margins, dual = rng.normal(scale=2, size=3), np.clip(rng.normal(size=3), low, high)
        gaps = loss.value(Twofold(margins), weights) + loss.conjugate(Twofold(dual), weights) + Twofold(dual * margins)
        assert (gaps.head > -1e-15).all()
        step = 1e-6
        ends = [np.asarray(loss.value(Twofold(margins + s), weights).head, dtype=float) for s in (step, -step)]
        slope = -(ends[0] - ends[1]) / (2 * step)
        equal = (
            loss.value(Twofold(margins), weights) + loss.conjugate(Twofold(slope), weights) + Twofold(slope * margins)
        )
        assert_allclose(np.asarray(equal.head, dtype=float), 0, atol=1e-7)


def honest(loss, intercept):
    problem = problem_of(loss, intercept)
    y = (problem.labels[0] > 0).astype(int)
    if isinstance(loss, Odm):
        own = {"lam": loss.lam, "upsilon": loss.upsilon, "theta": loss.theta}
        machine = ODMClassifier(kernel="linear", fit_intercept=intercept, **own)
    else:
        name = "hinge" if type(loss) is Hinge else "squared_hinge"
        machine = SVMClassifier(kernel="linear", C=loss.C, loss=name, fit_intercept=intercept)
    machine.fit(problem.X, y, sample_weight=problem.weights)
    signed = signed_coefficients(problem, machine.support_, machine.dual_coef_)
    claims = {
        name: getattr(machine, name) for name in ("objective_", "dual_objective_", "duality_gap_", "status_", "tol")
    }
    return problem, signed, machine.intercept_, SimpleNamespace(**claims)


@pytest.mark.parametrize(
    "loss", [Odm(100.0, 0.5, 0.2), Hinge(0.7), SquaredHinge(0.7)], ids=lambda loss: type(loss).__name__
)
@pytest.mark.parametrize("intercept", [False, True])
def test_honest_claims_pass(loss, intercept):
    problem, signed, intercepts, claims = honest(loss, intercept)
    assert not complaints(claims, judge(problem, signed, intercepts))


def lie(what, problem, signed, intercepts, claims):
    """Break one thing, and claim what was true before."""
    signed, intercepts = signed.copy(), intercepts.copy()
    if what == "equality":  # the heavier class keeps what the lighter one lacks
        signed[0, np.flatnonzero(signed[0] > 0)[0]] *= 0.5
    if what == "box":
        signed[0, np.abs(signed[0]).argmax()] *= 1.01
    if what == "intercept":
        intercepts += 0.1
    if what == "dual objective":
        claims.dual_objective_ = claims.objective_ * (1 + 1e-12)
    if what == "gap":
        claims.duality_gap_ = 0.0
    if what == "primal objective":
        claims.objective_ *= 1 - 1e-9
    if what == "no number":
        claims.duality_gap_ = np.nan
    if what == "margins":
        problem = replace(problem, X=problem.X * (1 + 1e-6))
    return complaints(claims, judge(problem, signed, intercepts))


@pytest.mark.parametrize(
    "what", ["equality", "box", "intercept", "dual objective", "gap", "primal objective", "no number", "margins"]
)
def test_lies_do_not(what):
    assert lie(what, *honest(Hinge(0.7), True))


def test_what_the_judge_does_not_know_excuses_nobody_and_blames_nobody():
    """Between what is reached at least and at most, a claim is neither false nor true."""
    problem, signed, intercepts, claims = honest(Hinge(0.7), True)
    truth = judge(problem, signed, intercepts)
    claims.duality_gap_, size = 1e-9, abs(truth.primal)
    truth = replace(truth, primal=truth.primal - 1e-6 * size, dual=truth.dual - size, upper=truth.upper + 1e-6 * size)
    for factor, is_false in ((1 - 2e-6, True), (1 - 5e-7, False), (1 + 5e-7, False), (1 + 2e-6, True)):
        claims.objective_ = float(truth.primal[0] + truth.upper[0]) / 2 * factor
        assert any("objective of" in text for text in complaints(claims, truth, truth.upper * 2)) == is_false


def test_the_error_of_the_judge_is_that_of_its_kernel_values():
    """Steep losses that are flat at these margins cost next to nothing."""
    problem = Problem(np.array([[12.0], [-13.0]]), np.array([[-1.0, 1.0]]), np.ones(2), Odm(1e8, 0.05, 0.9),
                      {"kernel": "rbf", "gamma": 0.1})  # fmt: skip
    machine = ODMClassifier(gamma=0.1, lam=1e8, upsilon=0.05, theta=0.9, tol=0.1).fit(problem.X, [0, 1])
    truth = judge(problem, signed_coefficients(problem, machine.support_, machine.dual_coef_), np.zeros(1))
    assert truth.upper - truth.primal <= 1e-16 * truth.upper
    assert not complaints(machine, truth)


def test_another_machine_shows_that_a_bound_is_wrong():
    problem, signed, intercepts, claims = honest(Hinge(0.7), True)
    truth = judge(problem, signed, intercepts)
    assert not complaints(claims, truth, truth.upper)
    assert complaints(claims, truth, truth.upper * 0.999)
