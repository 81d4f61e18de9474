"""The search for a share, on a problem of one variable whose solutions are known."""

import time

import numpy as np
import pytest
from helpers import solution_of

from dimargin.problems.objectives import Objectives
from dimargin.solvers.loop import Limits
from dimargin.solvers.nu_search import MAX_SOLVES, NuSearch, Point

N = 10


class Curve:
    """Coefficients that fall with the parameter; solves are as inaccurate as their tolerance allows."""

    def __init__(self, share, error=0.0):
        self.share, self.error, self.asked = share, error, []

    def solve_at(self, parameter, last, limits):
        self.asked.append((parameter, limits.tol))
        off = self.error * limits.tol * (1 if len(self.asked) % 2 else -1)
        share = float(np.clip(self.share(parameter) + off, 0.0, 1.0))
        objectives = Objectives.of(np.ones(1), np.array([0.5 * limits.tol]), np.zeros(1))
        return Point(
            parameter, share, np.full(N, share), np.full(N, parameter), solution_of(np.zeros((1, N)), objectives)
        )

    def certify(self, coefficients, margins):
        """The gap is the distance of the parameter at which the coefficients were found, from the right one."""
        at = self.root if margins is None else float(margins.mean())
        gap = abs(at - self.root) + 1e-12
        return Objectives.of(np.ones(1), np.array([gap]), np.zeros(1))

    def search(self, nu, bounds=(0.0, 10.0), largest=None):
        low, high = bounds
        for _ in range(200):  # By halves, to know what is right.
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.share(middle) >= nu else (low, middle)
        self.root = 0.5 * (low + high)
        return NuSearch(self.solve_at, self.certify, largest, nu, float(N), bounds)


SHARES = {
    "straight": lambda p: 1 - p / 10,
    "steep": lambda p: 1 / (1 + np.exp(8 * (p - 3))),
    "curved": lambda p: np.exp(-p),
    "broken": lambda p: max(1 - p, 0.2 - p / 50),
}


@pytest.mark.parametrize("start", [0.0, 0.3, 5.0, 10.0])
@pytest.mark.parametrize("nu", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("share", SHARES)
def test_the_right_share_is_found(share, nu, start):
    curve = Curve(SHARES[share])
    search = curve.search(nu)
    found = search.run(start, 0.5, Limits(tol=1e-6))
    assert found.status == "converged" and abs(found.at - curve.root) <= 1e-4
    np.testing.assert_allclose(found.coefficients.sum(), nu * N, rtol=1e-12)
    assert len(curve.asked) <= 40 and found.passes == len(curve.asked)


@pytest.mark.parametrize("error", [0.5, 2.0])
@pytest.mark.parametrize("nu", [0.3, 0.7])
def test_rough_solutions_at_the_ends_do_not_mislead(error, nu):
    """A rough solve may be on the wrong side: the search begins again with accurate ones."""
    curve = Curve(SHARES["straight"], error)
    found = curve.search(nu).run(curve.root + 0.01, 0.05, Limits(tol=1e-4))
    # Shares err by as much as these parameters differ.
    assert abs(found.at - curve.root) <= 10 * error * 0.3e-4 + 1e-4
    assert len(curve.asked) <= 30


def test_solves_are_rough_until_both_sides_are_known_and_accurate_from_then_on():
    curve = Curve(SHARES["curved"])
    curve.search(0.2).run(0.0, 0.5, Limits(tol=1e-6))
    tolerances = [tol for _, tol in curve.asked]
    first = tolerances.index(min(tolerances))
    assert set(tolerances[:first]) == {0.02} and set(tolerances[first:]) == {0.3e-6}


def test_a_smaller_share_than_nu_at_the_least_parameter_uses_the_largest_coefficients():
    curve = Curve(lambda p: 0.3 - p / 100)
    search = curve.search(0.5, largest=np.full(N, 0.8))
    found = search.run(0.0, 0.5, Limits(tol=1e-9))
    np.testing.assert_allclose(found.coefficients.sum(), 0.5 * N)
    assert found.coefficients.max() <= 0.8
    # Of a regressor smaller shares are feasible.
    np.testing.assert_allclose(curve.search(0.5).run(0.0, 0.5, Limits(tol=1e-9)).coefficients, np.full(N, 0.3))


def test_a_search_that_has_solved_nothing_still_gives_feasible_coefficients():
    curve = Curve(lambda p: 0.0)
    found = curve.search(0.5, largest=np.full(N, 0.8)).run(0.0, 0.5, Limits(tol=1e-9, deadline=time.perf_counter() - 1))
    assert found.status == "max_time"
    np.testing.assert_allclose(found.coefficients, np.full(N, 0.5))


def test_a_larger_share_at_the_largest_parameter_is_scaled():
    curve = Curve(lambda p: 0.9 - p / 100)
    found = curve.search(0.5).run(0.0, 0.5, Limits(tol=1e-9))
    assert found.status == "converged" or found.at == 10.0
    np.testing.assert_allclose(found.coefficients, np.full(N, 0.5))


def test_the_number_of_solves_is_limited():
    curve = Curve(lambda p: 1.0 if p < np.pi else 0.0)  # No combination near the step is good enough.
    search = curve.search(0.5)
    search.certify = lambda coefficients, margins: Objectives.of(np.ones(1), np.ones(1), np.zeros(1))
    found = search.run(0.0, 0.5, Limits(tol=1e-6))
    assert found.status == "precision" and len(curve.asked) <= MAX_SOLVES
