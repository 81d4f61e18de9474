"""Objectives of the nu machines, of public attributes alone: numpy in extended precision, and an interior point method.

They share no code with the package. LIBSVM's coefficients of NuSVC are scaled to a margin of one: their sum gives rho.
"""

import numpy as np
from qpsolvers import solve_qp
from scipy.sparse import csc_matrix

EXACT = np.longdouble


def gram(X, Z, kernel="linear", gamma=1.0, degree=3, coef0=0.0):
    """Kernel values, in extended precision."""
    X, Z = np.asarray(X, dtype=EXACT), np.asarray(Z, dtype=EXACT)
    if kernel == "rbf":
        return np.exp(-EXACT(gamma) * ((X[:, None] - Z[None]) ** 2).sum(axis=2))
    products = X @ Z.T
    return products if kernel == "linear" else (EXACT(gamma) * products + EXACT(coef0)) ** degree


def coefficients(machine, n):
    """Return one machine's signed coefficients of all rows, with LIBSVM's signs."""
    full = np.zeros(n, dtype=EXACT)
    full[machine.support_] = np.asarray(machine.dual_coef_, dtype=EXACT).ravel()
    return full


def of_nu_svc(machine, K, y, weights, nu):
    """Primal and dual objective of a machine of two classes, the second of which is positive."""
    signs, signed = np.where(y == machine.classes_[1], 1, -1), coefficients(machine, len(y))
    mass = EXACT(nu) * weights.sum(dtype=EXACT)
    rho = mass / np.abs(signed).sum()
    values = rho * (K @ signed + EXACT(machine.intercept_[0]))
    square = rho**2 * (signed @ K @ signed)
    return square / 2 - mass * rho + (weights * np.maximum(rho - signs * values, 0)).sum(), -square / 2


def of_nu_svr(machine, K, y, weights, nu, C):
    """Primal and dual objective of a regressor, with the best width of the band for its values."""
    signed, total = coefficients(machine, len(y)), weights.sum(dtype=EXACT)
    distances = np.abs(K @ signed + EXACT(machine.intercept_[0]) - y)

    def loss(epsilon):
        return EXACT(C) * (nu * total * epsilon + (weights * np.maximum(distances - epsilon, 0)).sum())

    square = signed @ K @ signed
    return square / 2 + min(map(loss, [EXACT(0), *distances])), signed @ y - square / 2


def of_one_class(machine, K, weights, nu):
    """Primal and dual objective of a detector of outliers."""
    signed, rho = coefficients(machine, len(weights)), EXACT(machine.offset_[0])
    square, values = signed @ K @ signed, K @ signed
    mass = EXACT(nu) * weights.sum(dtype=EXACT)
    return square / 2 - mass * rho + (weights * np.maximum(rho - values, 0)).sum(), -square / 2


def optimum(P, q, upper, sums):
    """Return the largest ``-1/2 a'Pa - q'a`` over ``0 <= a <= upper`` with some sums, given as (row, value)."""
    rows, values = np.array([row for row, _ in sums], dtype=float), np.array([value for _, value in sums], dtype=float)
    options = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
    P = np.asarray(P, dtype=float)
    a = solve_qp(
        csc_matrix(P), np.asarray(q, dtype=float), A=csc_matrix(rows), b=values, lb=np.zeros(len(q)),
        ub=np.asarray(upper, dtype=float), solver="clarabel", **options,
    )  # fmt: skip
    return float(-(0.5 * a @ P @ a + q @ a))


def best_nu_svc(K, y, weights, nu):
    """Optimum of a machine of two classes, zero and one."""
    signs, half = np.where(y == 0, 1.0, -1.0), nu * weights.sum() / 2
    Q = signs[:, None] * K * signs
    return optimum(Q, np.zeros(len(y)), weights, [(signs > 0, half), (signs < 0, half)])


def best_nu_svr(K, y, weights, nu, C):
    """Optimum of a regressor; smaller sums of coefficients than ``nu C W`` are feasible, by a slack variable."""
    n, total = len(y), weights.sum()
    signs = np.r_[np.ones(n), -np.ones(n), 0.0]
    Q = np.zeros((2 * n + 1, 2 * n + 1))
    Q[:-1, :-1] = signs[:-1, None] * np.tile(K, (2, 2)) * signs[:-1]
    upper = np.r_[C * weights, C * weights, C * nu * total]
    sums = [(signs, 0.0), (np.ones(2 * n + 1), C * nu * total)]
    return optimum(Q, np.r_[-y, y, 0.0], upper, sums)


def best_one_class(K, weights, nu):
    """Optimum of a detector of outliers."""
    return optimum(K, np.zeros(len(weights)), weights, [(np.ones(len(weights)), nu * weights.sum())])
