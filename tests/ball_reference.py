"""Points whose smallest ball is known, and a quadratic program for all others; shares no code with the package."""

import numpy as np
import scipy.sparse as sp
from qpsolvers import solve_qp


def unit_sphere(n, d, seed=0):
    points = np.random.default_rng(seed).normal(size=(n, d))
    return points / np.linalg.norm(points, axis=1)[:, None]


def simplex(d):
    """d + 1 points, all at distance one from one another: radius sqrt(d / (2 d + 2))."""
    return np.eye(d + 1) / np.sqrt(2)


KNOWN = {  # points, radius
    "one point": (np.array([[3.0, 4.0]]), 0.0),
    "two points": (np.array([[0.0, 0.0], [6.0, 8.0]]), 5.0),
    "all equal": (np.full((7, 3), 2.5), 0.0),
    "duplicates": (np.repeat([[0.0, 1.0], [0.0, -1.0], [0.5, 0.0]], 4, axis=0), 1.0),
    "a line": (np.outer(np.arange(9.0), [3.0, 4.0]), 20.0),
    "simplex": (simplex(6), np.sqrt(6 / 14)),
    "octahedron": (np.vstack([np.eye(4), -np.eye(4)]) + 7, 1.0),
    "grid": (np.stack(np.meshgrid(*[np.arange(4.0)] * 3), axis=-1).reshape(-1, 3), np.sqrt(27) / 2),
    "far from zero": (1e6 + np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 0.1]]), 1.0),
    "tiny": (1e-12 * np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 0.1]]), 1e-12),
    "huge": (1e100 * np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 0.1]]), 1e100),
}


def quadratic_optimum(products, linear):
    """Largest ``q'x - x'Gx`` on the simplex, by an interior-point solver."""
    size = np.abs(linear).max()
    P, q = sp.csc_matrix(2 * products / size), -np.asarray(linear) / size
    n = len(q)
    x = solve_qp(P, q, A=sp.csc_matrix(np.ones((1, n))), b=np.ones(1), lb=np.zeros(n), solver="clarabel")
    x = np.maximum(x, 0)
    x /= x.sum()
    return float(linear @ x - x @ products @ x)
