"""Certificates of the nu machines are judged by independent code: see `judge`."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from judge import Problem, Truth, complaints
from judged_machines import fitted, judged
from judged_problems import KERNELS, data, regressions
from twofold import Twofold

from dimargin.svm import NuSVC, NuSVR, OneClassSVM

NUS = st.sampled_from([0.01, 0.1, 0.3, 0.5, 0.8, 1.0])
TOLERANCES = st.sampled_from([1e-1, 1e-3, 1e-3, 1e-6, 1e-9])


class Side:
    """Rows of one side: coefficients, bounds, and the mass they have together."""

    def __init__(self, rows, upper, mass):
        self.rows, self.upper, self.mass = rows, Twofold(upper[rows]), mass

    def feasible(self, coefficients):
        """Coefficients in the box with the right sum, and by how much they moved."""
        given = coefficients[self.rows]
        a = Twofold.where(given.head < 0, 0.0, given)
        a = Twofold.where((self.upper - a).head < 0, self.upper, a)
        total = a.sum()
        if (total - self.mass).head > 0:
            a = a * (self.mass / total)
        elif float(self.mass - total) > 0:
            room = self.upper - a
            if float(room.sum()) > 0:
                a = a + room * ((self.mass - total) / room.sum())
        return a, float(abs(a - given).sum())

    def loss(self, values):
        """The least ``sum_i u_i (t - v_i)_+ - mass t`` over all levels t, one of which is a kink."""
        v = values[self.rows]
        order = np.argsort(v.head)
        below = np.cumsum(self.upper.head[order])
        first = int(np.searchsorted(below, float(self.mass)))
        kinks = [v[order[k]] for k in range(max(0, first - 1), min(len(order), first + 2))]
        return min(
            float(
                (self.upper * (t - v).positive_part()).sum() - Twofold(t.head) * self.mass - Twofold(t.tail) * self.mass
            )
            for t in kinks
        )


def truth_of(problem, labels, coefficients, sides):
    """What is true of coefficients ``a_i >= 0`` of a machine with labels."""
    gram = problem.gram()
    a, moved = Twofold(np.zeros(len(labels))), 0.0
    for side in sides:
        own, change = side.feasible(coefficients)
        a.head[side.rows], a.tail[side.rows], moved = own.head, own.tail, moved + change
    square, dual_square = (quadratic(gram, labels, own) for own in (coefficients, a))
    values = (gram * (coefficients * labels)[None]).sum(axis=1) * labels
    primal = float(square * 0.5) + sum(side.loss(values) for side in sides)
    size, bounds = float(abs(a).sum()), sum(float(side.upper.sum()) for side in sides)
    error = problem.value_error * size * (size + bounds) + 1e-28 * (abs(primal) + float(square))
    dual = float(-dual_square * 0.5)
    numbers = primal - error, dual + error, primal + error, moved / max(size, 1e-300)
    return Truth(*(np.array([number]) for number in numbers))


def quadratic(gram, labels, a):
    signed = a * labels
    return (signed * (gram * signed[None]).sum(axis=1)).sum()


def problem_of(X, weights, kernel):
    return Problem(X, np.ones((1, len(X))), weights, None, kernel, True)


def all_coefficients(machine, n):
    full = np.zeros(n)
    full[machine.support_] = machine.dual_coef_[0]
    return full


@pytest.mark.slow
@judged
@given(data(n_classes=2), KERNELS, NUS, TOLERANCES)
def test_nu_svc(rows, kernel, nu, tol):
    X, y, weights = rows
    assume(kernel["kernel"] != "laplacian")
    of_classes = [weights[y == c].sum() for c in (0, 1)]
    nu = min(nu, 2 * min(of_classes) / weights.sum())
    machine = fitted(NuSVC(nu=nu, tol=tol, max_time=0.5, **kernel), X, y, weights)
    if machine is None:
        return
    signed, labels, total = all_coefficients(machine, len(X)), np.where(y == 1, 1.0, -1.0), Twofold(weights).sum()
    mass = Twofold(nu) * total * 0.5
    if machine.objective_ >= 0 or not signed.any():
        return  # Classes that overlap leave no margin to scale coefficients by.
    scale = mass * 2.0 / abs(Twofold(signed)).sum()
    sides = [Side(np.flatnonzero(labels == sign), weights, mass) for sign in (1.0, -1.0)]
    truth = truth_of(problem_of(X, weights, kernel), labels, Twofold(signed) * labels * scale, sides)
    assert not complaints(machine, truth)


@pytest.mark.slow
@judged
@given(data(), KERNELS, NUS, TOLERANCES)
def test_one_class_svm(rows, kernel, nu, tol):
    X, _, weights = rows
    assume(kernel["kernel"] != "laplacian")
    machine = fitted(OneClassSVM(nu=nu, tol=tol, max_time=0.5, **kernel), X, None, weights)
    if machine is None:
        return
    side = Side(np.arange(len(X)), weights, Twofold(nu) * Twofold(weights).sum())
    ones, problem = np.ones(len(X)), problem_of(X, weights, kernel)
    assert not complaints(machine, truth_of(problem, ones, Twofold(all_coefficients(machine, len(X))), [side]))


@pytest.mark.slow
@judged
@given(regressions(), KERNELS, NUS, st.floats(-2, 3).map(lambda k: 10.0**k), TOLERANCES)
def test_nu_svr(rows, kernel, nu, C, tol):
    X, weights, loss = rows
    assume(kernel["kernel"] != "laplacian")
    machine = fitted(NuSVR(nu=nu, C=C, tol=tol, max_time=0.5, **kernel), X, loss.targets, weights)
    if machine is None:
        return
    problem = problem_of(X, weights, kernel)
    gram, targets, total = problem.gram(), Twofold(loss.targets), Twofold(weights).sum()
    upper, mass = Twofold(C) * Twofold(weights), Twofold(C) * Twofold(nu) * total
    signed = Twofold(all_coefficients(machine, len(X)))
    # The sums of both signs become equal, and at most half of the mass.
    parts = [Twofold.where(sign * signed.head > 0, signed * sign, 0.0) for sign in (1.0, -1.0)]
    least = min(*(part.sum() for part in parts), mass * 0.5, key=float)
    parts = [part * (least / part.sum()) if float(part.sum()) > 0 else part for part in parts]
    a = parts[0] - parts[1]
    # Coefficients of a row on both sides are not known: together they are as large as the mass.
    moved = float(abs(a - signed).sum()) / float(mass)
    assert float((abs(a) - upper).head.max()) <= 1e-9 * float(upper.head.max())
    scores = (gram * signed[None]).sum(axis=1)
    distances = abs(scores + Twofold(machine.intercept_) - targets)
    # The best half width is zero or a distance.
    order = np.argsort(-distances.head)
    first = int(np.searchsorted(np.cumsum(weights[order]), float(Twofold(nu) * total)))
    widths = [Twofold(0.0), *(distances[order[k]] for k in range(max(0, first - 1), min(len(order), first + 2)))]
    losses = min(float((upper * (distances - w).positive_part()).sum() + mass * w) for w in widths)
    primal = float((signed * scores).sum() * 0.5) + losses
    dual = float((a * targets).sum() - (a * (gram * a[None]).sum(axis=1)).sum() * 0.5)
    size = float(abs(signed).sum())
    error = problem.value_error * size * (size + float(upper.sum())) + 1e-28 * abs(primal)
    assert not complaints(
        machine, Truth(*(np.array([v]) for v in (primal - error, dual + error, primal + error, moved)))
    )
