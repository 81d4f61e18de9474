"""An independent judge of certificates: it knows public attributes only, and shares no code with the package.

Everything is computed in twice the widest floating-point precision of the machine (see `twofold`),
and errs by 1e-30 of the sizes of its terms or so; only the exponential function of kernels has the
precision of one long double, and what that may cost is counted.

For a machine with coefficients ``a_i = y_i g_i`` and intercept b it computes

    P = 1/2 a'Ka + sum_i loss_i(y_i (Ka + b)_i),    D = -1/2 a'Ka - sum_i loss_i*(-g_i),

the latter at a point that is feasible: coefficients are cut to their box, and with an intercept
those of the heavier sign shrink until ``sum_i a_i = 0``. The optimum is between D and P, whatever
the package says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from twofold import EPSILON, Twofold

_FAR = 1e300  # where nothing is meant to be bounded: infinity less infinity is no number


def products(X, Z):
    """X Z' of float64 rows."""
    total = Twofold(np.zeros((len(X), len(Z))))
    for x, z in zip(np.transpose(X), np.transpose(Z), strict=True):
        total = total + Twofold(x[:, None]) * Twofold(z[None])
    return total


def kernel_values(X, Z, kernel, gamma, degree=3, coef0=0.0):
    """Kernel values of float64 rows, by scikit-learn's conventions."""
    X, Z = np.asarray(X, dtype=float), np.asarray(Z, dtype=float)
    if kernel in ("linear", "poly"):
        inner = products(X, Z)
        if kernel == "linear":
            return inner
        base = inner * gamma + coef0
        power = base
        for _ in range(degree - 1):
            power = power * base
        return power
    distance = Twofold(np.zeros((len(X), len(Z))))
    for x, z in zip(X.T, Z.T, strict=True):
        difference = Twofold(x[:, None]) - Twofold(z[None])
        distance = distance + (difference * difference if kernel == "rbf" else abs(difference))
    scaled = -(distance * gamma)
    with np.errstate(under="ignore"):
        return Twofold(np.exp(scaled.head) * (1 + scaled.tail))


@dataclass(frozen=True)
class Odm:
    """``lam s / (2 W (1 - theta)^2) [(1 - theta - m)_+^2 + upsilon (m - 1 - theta)_+^2]``."""

    lam: float
    upsilon: float
    theta: float

    def scale(self, weights):
        """Of the square of what a margin lacks."""
        band = Twofold(1.0) - self.theta
        return Twofold(self.lam) * Twofold(weights) / (band * band * Twofold(weights).sum() * 2.0)

    def value(self, margins, weights):
        """Of every row."""
        below, beyond = (1.0 - margins - self.theta).positive_part(), (margins - 1.0 - self.theta).positive_part()
        return self.scale(weights) * (below * below + beyond * beyond * self.upsilon)

    def conjugate(self, dual, weights):
        """``loss*(-g)``."""
        square = dual * dual / (self.scale(weights) * 4.0)
        right = square - (Twofold(1.0) - self.theta) * dual
        left = square / self.upsilon - (Twofold(1.0) + self.theta) * dual
        return Twofold.where(dual.head >= 0, right, left)

    def box(self, weights):
        """Nothing is outside."""
        return np.full(len(weights), -_FAR), np.full(len(weights), _FAR)


@dataclass(frozen=True)
class Hinge:
    """``C s (1 - m)_+``."""

    C: float

    def value(self, margins, weights):
        """Of every row."""
        return Twofold(self.C) * Twofold(weights) * (1.0 - margins).positive_part()

    def conjugate(self, dual, weights):
        """``loss*(-g)`` in the box."""
        return -dual

    def box(self, weights):
        """Bounds, exactly."""
        return Twofold(np.zeros(len(weights))), Twofold(self.C) * Twofold(weights)


@dataclass(frozen=True)
class SquaredHinge(Hinge):
    """``C s (1 - m)_+^2``."""

    def value(self, margins, weights):
        """Of every row."""
        lacking = (1.0 - margins).positive_part()
        return Twofold(self.C) * Twofold(weights) * lacking * lacking

    def conjugate(self, dual, weights):
        """``loss*(-g)`` from zero on."""
        return dual * dual / (Twofold(self.C) * Twofold(weights) * 4.0) - dual

    def box(self, weights):
        """Zero is the only bound."""
        return Twofold(np.zeros(len(weights))), np.full(len(weights), _FAR)


@dataclass(frozen=True)
class EpsilonInsensitive:
    """``C s (|f - t| - epsilon)_+`` of decision values f and targets t, whose labels are one."""

    C: float
    epsilon: float
    targets: np.ndarray

    def excess(self, values):
        """Of residuals over the half width of the band."""
        return (abs(values - self.targets) - self.epsilon).positive_part()

    def value(self, margins, weights):
        """Of every row."""
        return Twofold(self.C) * Twofold(weights) * self.excess(margins)

    def conjugate(self, dual, weights):
        """``loss*(-g)`` in the box."""
        return abs(dual) * self.epsilon - dual * self.targets

    def box(self, weights):
        """Bounds, exactly."""
        end = Twofold(self.C) * Twofold(weights)
        return -end, end


@dataclass(frozen=True)
class SquaredEpsilonInsensitive(EpsilonInsensitive):
    """``C s (|f - t| - epsilon)_+^2``."""

    def value(self, margins, weights):
        """Of every row."""
        excess = self.excess(margins)
        return Twofold(self.C) * Twofold(weights) * excess * excess

    def conjugate(self, dual, weights):
        """``loss*(-g)``."""
        return super().conjugate(dual, weights) + dual * dual / (Twofold(self.C) * Twofold(weights) * 4.0)

    def box(self, weights):
        """Nothing is outside."""
        return np.full(len(weights), -_FAR), np.full(len(weights), _FAR)


@dataclass(frozen=True)
class Problem:
    """What a machine was to solve.

    Attributes
    ----------
    X : ndarray of shape (n, n_features)
    labels : ndarray of shape (n_outputs, n)
        Plus or minus one; of regression, ones.
    weights : ndarray of shape (n,)
        Positive.
    loss : Odm, Hinge, EpsilonInsensitive or their squares
    kernel : dict
        Of the arguments of `kernel_values`.
    intercept : bool
        Whether there is one that nothing counts.
    offset : float
        Added to every kernel value: an intercept that the regulariser counts.
    """

    X: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    loss: Odm | Hinge | EpsilonInsensitive
    kernel: dict
    intercept: bool = False
    offset: float = 0.0

    def gram(self):
        """Kernel values."""
        return kernel_values(self.X, self.X, **self.kernel) + self.offset

    @property
    def value_error(self):
        """Relative error of a kernel value by the exponential function."""
        return 8 * EPSILON if self.kernel["kernel"] in ("rbf", "laplacian") else 0.0


@dataclass(frozen=True)
class Truth:
    """What is true of coefficients, a float64 number for every output, rounded away from what would excuse a claim.

    Attributes
    ----------
    primal : ndarray of shape (n_outputs,)
        Objective of the machine, or less by the judge's own error.
    dual : ndarray of shape (n_outputs,)
        Dual objective of the coefficients, made feasible, or more by that error.
    upper : ndarray of shape (n_outputs,)
        Objective of the machine, or more: the optimum is not above.
    moved : ndarray of shape (n_outputs,)
        By how much coefficients had to be changed, relative to all of them.
    """

    primal: np.ndarray
    dual: np.ndarray
    upper: np.ndarray
    moved: np.ndarray

    @property
    def gap(self):
        """Of the machine and its coefficients, or less."""
        return self.primal - self.dual


def signed_coefficients(problem, support, dual_coef):
    """Coefficients of all rows, of shape (n_outputs, n)."""
    signed = np.zeros(problem.labels.shape)
    signed[:, support] = dual_coef
    return signed


def judge(problem, signed, intercepts):
    """What is true of signed coefficients of shape (n_outputs, n) and intercepts of shape (n_outputs,)."""
    gram = problem.gram()
    return _stacked([
        _judge_one(problem, gram, labels, a, b) for labels, a, b in zip(problem.labels, signed, intercepts, strict=True)
    ])  # fmt: skip


def objectives_of_values(problem, signed, values):
    """Objectives of signed coefficients whose decision values are those given, both of shape (n_outputs, n).

    Each is less than it is by the judge's own error.
    """
    gram, found = problem.gram(), []
    for labels, a, own in zip(problem.labels, signed, values, strict=True):
        a = Twofold(a)
        half = (a * (gram * a[None]).sum(axis=1)).sum() * 0.5
        error = problem.value_error * float(abs(a).sum()) ** 2
        found.append(float(half + problem.loss.value(Twofold(own * labels), problem.weights).sum()) - error)
    return np.array(found)


def judge_weights(problem, weights, intercepts):
    """What is true of linear machines, of whose dual point nothing is known: weights are (n_outputs, n_features)."""
    primal = []
    for labels, w, b in zip(problem.labels, weights, intercepts, strict=True):
        margins = (products(problem.X, w[None])[:, 0] + b) * labels
        losses = problem.loss.value(margins, problem.weights).sum()
        primal.append(float((Twofold(w) * Twofold(w)).sum() * 0.5 + losses))
    values, nothing = np.array(primal), np.zeros(len(primal))
    return Truth(values, nothing - np.inf, values, nothing)


def judge_ball(problem, x, squared_radius, C):
    """What is true of a ball with centre ``sum_i x_i phi(x_i)`` and a price of C for points outside; maybe infinite.

    ``R^2 + C/4 sum_i s_i (d_i - R^2)_+^2``, and its dual
    ``sum_i x_i K_ii - x'Kx - sum_i x_i^2 / (C s_i)`` for x of sum one.
    """
    gram, indices = problem.gram(), np.arange(len(x))
    diagonal, a = gram[indices, indices], Twofold(x)
    scores = (gram * a[None]).sum(axis=1)
    distances = diagonal - scores * 2.0 + (a * scores).sum()
    excess = (distances - squared_radius).positive_part()
    size = float(abs(a).sum())
    error = problem.value_error * (1 + size) ** 2
    if np.isinf(C):
        primal = Twofold(float(distances.head.max()))
    else:
        primal = Twofold(squared_radius) + (Twofold(C) * Twofold(problem.weights) * excess * excess * 0.25).sum()
        error *= 1 + C / 2 * float((Twofold(problem.weights) * excess).sum())
    unit = a / a.sum()
    dual = (unit * diagonal).sum() - (unit * (gram * unit[None]).sum(axis=1)).sum()
    if np.isfinite(C):
        dual = dual - (unit * unit / (Twofold(C) * Twofold(problem.weights))).sum()
    return Truth(*(np.array([v]) for v in (float(primal) - error, float(dual) + error, float(primal) + error, 0.0)))


def squared_radius(machine, problem, x, C):
    """R^2 of a detector by a ball: below zero where no ball is worth its radius, which is said to be zero."""
    if machine.radius_ > 0:
        return machine.radius_**2
    gram = np.asarray(problem.gram().head)
    return float(x @ np.diag(gram) - x @ gram @ x - 2 * (x**2 / (C * problem.weights)).sum())


def rho_of(machine, problem, x, C):
    """Distance of a detector's plane from the origin, over the length of w."""
    return machine._square + float((x**2 / (C * problem.weights)).sum())


def judge_plane(problem, x, rho, C):
    """What is true of a plane ``sum_i x_i phi(x_i) / rho`` beyond which all points should be.

    ``1/2 |w|^2 + C/2 sum_i s_i (1 - w.phi(x_i))_+^2``, whose dual at the best multiple of x is
    ``1 / (2 x'K~x)``, where K~ has ``1 / (C s_i)`` more on its diagonal.
    """
    gram, a = problem.gram(), Twofold(x)
    scores = (gram * a[None]).sum(axis=1)
    square, weights = (a * scores).sum(), Twofold(C) * Twofold(problem.weights)
    lacking = (1.0 - scores / rho).positive_part()
    primal = square / rho / rho * 0.5 + (weights * lacking * lacking).sum() * 0.5
    total, softened = a.sum(), square + (a * a / weights).sum()
    dual = total * total * 0.5 / softened
    size = float(abs(a).sum())
    error = problem.value_error * (size**2 / rho**2 + float((weights * lacking).sum()) * size / rho)
    error += problem.value_error * size**2 / float(softened) * float(dual)
    return Truth(*(np.array([v]) for v in (float(primal) - error, float(dual) + error, float(primal) + error, 0.0)))


def _stacked(truths):
    return Truth(*(np.concatenate([getattr(t, name) for t in truths]) for name in ("primal", "dual", "upper", "moved")))


def _judge_one(problem, gram, labels, signed, intercept):
    a = Twofold(signed)
    scores = (gram * a[None]).sum(axis=1)
    primal = (a * scores).sum() * 0.5
    primal = primal + problem.loss.value((scores + intercept) * labels, problem.weights).sum()
    dual, moved = _feasible(problem, labels, a * labels)
    b = dual * labels
    quadratic = (b * (gram * b[None]).sum(axis=1)).sum() * 0.5
    objective = -quadratic - problem.loss.conjugate(dual, problem.weights).sum()
    size = float(abs(a).sum())
    error = problem.value_error * size**2
    if error:
        error += _change(problem, (scores + intercept) * labels, problem.value_error * size)
    down, up = float(primal) - error, float(primal) + error
    return Truth(*(np.array([value]) for value in (down, float(objective) + error, up, moved)))


def _change(problem, margins, step):
    """By how much the sum of the losses changes with all margins, in either direction, at most."""
    here = problem.loss.value(margins, problem.weights)
    ends = [problem.loss.value(margins + sign * step, problem.weights) for sign in (-1, 1)]
    return sum(float(abs(end - here).sum()) for end in ends)


def _feasible(problem, labels, dual):
    lower, upper = (Twofold._of(bound) for bound in problem.loss.box(problem.weights))
    cut = Twofold.where((dual - lower).head < 0, lower, dual)
    cut = Twofold.where((upper - cut).head < 0, upper, cut)
    feasible = cut
    if problem.intercept:
        signed = cut * labels
        positive = Twofold.where(signed.head > 0, signed, 0.0).sum()
        negative = Twofold.where(signed.head < 0, -signed, 0.0).sum()
        heavier, lighter = (positive, negative) if (positive - negative).head > 0 else (negative, positive)
        if heavier.head > 0:
            shrunk = cut * (lighter / heavier)
            feasible = Twofold.where((signed.head > 0) == ((positive - negative).head > 0), shrunk, cut)
    size = float(abs(dual).sum())
    return feasible, float(abs(feasible - dual).sum()) / size if size else 0.0


def complaints(claimed, truth, best=None):
    """What is wrong with claims, in words.

    Parameters
    ----------
    claimed : object with ``objective_``, ``dual_objective_`` and ``duality_gap_``
    truth : Truth
        Of the same machine; its ``dual`` is minus infinity where nobody knows a dual point.
    best : ndarray of shape (n_outputs,), optional
        Objectives of other machines for the same problem, or more: the optimum is not above.
    """
    primal, dual = (np.atleast_1d(np.asarray(v, dtype=float)) for v in (claimed.objective_, claimed.dual_objective_))
    gap, found = float(claimed.duality_gap_), []
    if not (np.isfinite(primal).all() and not np.isnan(dual).any() and not np.isnan(gap)):
        return [f"objective {primal}, dual objective {dual}, gap {gap}: not a number, or infinite"]
    if gap < 0 or (claimed.status_ == "converged" and gap > claimed.tol):
        found.append(f"status {claimed.status_} at a gap of {gap}")
    upper = truth.upper if best is None else np.minimum(truth.upper, best)
    size = np.maximum(np.abs(primal), np.finfo(float).tiny)
    for q in range(len(primal)):
        if max(truth.primal[q] - primal[q], primal[q] - truth.upper[q]) > gap * size[q]:
            found.append(f"output {q}: an objective of {primal[q]!r} that is {truth.primal[q]!r}, at a gap of {gap}")
        if dual[q] > upper[q]:
            found.append(f"output {q}: lower bound {dual[q]!r} above an objective that is reached, {upper[q]!r}")
        if dual[q] > truth.dual[q] > -np.inf:
            found.append(f"output {q}: dual objective {dual[q]!r} is {truth.dual[q]!r} at the feasible point")
        if truth.primal[q] - upper[q] > gap * size[q]:
            found.append(f"output {q}: a gap of {gap}, but another machine is better by {truth.primal[q] - upper[q]}")
        if truth.dual[q] > -np.inf and truth.gap[q] > gap * size[q]:
            found.append(f"output {q}: a gap of {gap * size[q]!r}, but its own coefficients show {truth.gap[q]!r}")
    if truth.dual.min() > -np.inf and truth.moved.max() > 1e-9:
        found.append(f"coefficients are not feasible: they have to move by {truth.moved.max()}")
    return found
