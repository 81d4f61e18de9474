r"""Exact solver for the smallest ball around few points, given their inner products.

    maximise  q'x - x'Gx  over the simplex

is the dual of the minimum enclosing ball, where G holds the products of points and q its diagonal
(Tsang, Kwok, Cheung, "Core vector machines", JMLR 2005). The squared distance of point
i from the centre is ``q_i - 2 (Gx)_i + x'Gx``. A constant q makes it the machine whose points have
that length.

The solver is an active-set method: the farthest point enters, the optimal weights of the active
points are found on the face that they span, and a point whose weight would become negative leaves.
The optimum rises with every point that enters, so that no set repeats and the result is exact. On
the simplex a constant may be added to G, which makes it positive definite for affinely independent
points; a point in the affine hull of the active ones replaces one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs

from dimargin.system.arrays import Floats, Indices

Products = Callable[[Indices], Floats]


@dataclass(frozen=True)
class Weights:
    """Smallest ball, by the weights of its centre."""

    indices: Indices  # Points of positive weight, ascending.
    weights: Floats  # Weights of these points, with sum one.
    value: float  # Squared radius, q'x - x'Gx.
    square: float  # Squared distance of the centre from the origin, x'Gx.
    distances: Floats  # Squared distances of all points from the centre.

    def without(self, index: int) -> Weights:
        """Return the same ball after removing a point of weight zero."""
        indices = self.indices - (self.indices > index)
        return replace(self, indices=indices, distances=np.delete(self.distances, index))


class _Face:
    """Active points, the Cholesky factor of their raised products, and their products with all.

    The factor is padded by the identity, because LAPACK would copy a part of a matrix.
    """

    # A point counts as in the affine hull of the active ones if its squared distance from the hull
    # is below this fraction of its squared length: at the start, or later.
    start_hull_tol = 1e-6
    hull_tol = 1e-12

    def __init__(self, products: Products, linear: Floats, lift: float) -> None:
        self._products, self._linear, self._lift = products, linear, lift
        self._factor, self._rows = np.empty((0, 0), order="F"), np.empty((0, len(linear)))
        self.indices: list[int] = []

    @property
    def rows(self) -> Floats:
        """Raised products of the active points with all points."""
        return self._rows[: len(self.indices)]

    def solved(self, right: Floats, transposed: bool = False) -> Floats:
        """Solve a triangular system with the factor, or with its transpose."""
        return np.asarray(dtrtrs(self._factor, self._padded(right), lower=1, trans=int(transposed))[0][: len(right)])

    def _padded(self, right: Floats) -> Floats:
        padded = np.zeros((len(self._factor), *right.shape[1:]), order="F")
        padded[: len(right)] = right
        return padded

    def coordinates(self, index: int) -> tuple[Floats, Floats, float]:
        """Return a point's row of products, its row in the factor, and its squared pivot."""
        row = self._products(np.array([index]))[0] + self._lift
        own = self.solved(row[self.indices]) if self.indices else np.empty(0)
        return row, own, float(row[index] - own @ own)

    def add(self, index: int, row: Floats, own: Floats, pivot: float) -> None:
        size = len(self.indices)
        if size == len(self._factor):
            self._make_room(max(16, size + size // 8))
        self._factor[size, :size], self._factor[size, size], self._rows[size] = own, pivot**0.5, row
        self.indices.append(index)

    def _make_room(self, capacity: int) -> None:
        size = len(self.indices)
        factor, rows = np.zeros((capacity, capacity), order="F"), np.empty((capacity, len(self._linear)))
        np.fill_diagonal(factor, 1.0)
        factor[:size, :size], rows[:size] = self._factor, self.rows
        self._factor, self._rows = factor, rows

    def add_all(self, indices: list[int]) -> bool:
        """Start with several points, if they are affinely independent; return whether they are."""
        rows = self._products(np.array(indices)) + self._lift
        squares = rows[:, indices]
        factor, failed = dpotrf(squares.T, lower=1)  # LAPACK stores columns.
        if failed or (factor.diagonal() ** 2 <= self.start_hull_tol * squares.diagonal()).any():
            return False
        self._factor, self._rows, self.indices = factor, rows, indices
        return True

    def drop(self, at: int) -> None:
        size = len(self.indices) - 1
        self._rows[at:size] = self._rows[at + 1 : size + 1]
        del self.indices[at]
        self._factor[:size, :size] = dpotrf(self.rows[:, self.indices].T, lower=1)[0]
        self._factor[size], self._factor[size, size] = 0.0, 1.0

    def best(self) -> Floats:
        """Return the weights z of sum one that maximise ``q'z - z'Hz``, with raised products H."""
        linear = self._linear[self.indices]
        right = self._padded(np.stack([linear, np.ones(len(linear))], axis=1))
        answers = dpotrs(self._factor, right, lower=1)[0][: len(linear)]
        multiplier = (answers[:, 0].sum() - 2) / answers[:, 1].sum()
        return np.asarray(answers @ (0.5, -0.5 * multiplier))


def enclose(products: Products, linear: Floats, start: Indices, tol: float = 0.0, rounding: float = 0.0) -> Weights:
    """Find the smallest ball around all points, up to rounding or a tolerance.

    `products` returns rows of G, of shape (k, n), for k indices; `linear` is q, of shape (n,).
    `start` are indices, at least one, of points that probably have a weight. Squared distances may
    exceed the squared radius by the fraction `tol`. `rounding` bounds the error of the products
    where it exceeds that of `linear`; points that are closer to each other count as one.
    """
    size, uncertain = float(np.abs(linear).max()), 4 * rounding  # Distances sum four products.
    slack = 1e-13 * size + uncertain
    face = _Face(products, linear, max(size + uncertain, np.finfo(float).tiny))
    _add_first(face, start)
    x = _best_on_face(face, np.full(len(face.indices), 1 / len(face.indices)))
    best, highest, stale = None, -np.inf, 0
    while True:
        inner = x @ face.rows - face._lift
        square = float(x @ inner[face.indices])
        distances = linear - 2 * inner + square
        value = float(x @ linear[face.indices]) - square
        farthest = int(distances.argmax())
        if best is None or distances[farthest] - value < best.distances.max() - best.value:
            best, stale = Weights(np.array(face.indices, dtype=np.int64), x, value, square, distances), 0
        stale, highest = (0 if value > highest else stale + 1), max(highest, value)
        met = distances[farthest] <= value * (1 + tol) + slack
        # After eight steps per point without a better value only rounding is left.
        if met or farthest in face.indices or stale > 8 * (len(x) + 1):
            order = np.argsort(best.indices)
            return replace(best, indices=best.indices[order], weights=best.weights[order])
        x = _best_on_face(face, _add_point(face, x, farthest))


def _add_first(face: _Face, start: Indices) -> None:
    """Start with those of the first points that are affinely independent."""
    indices = list(dict.fromkeys(start.tolist()))
    if face.add_all(indices):
        return
    for index in indices:
        row, own, pivot = face.coordinates(index)
        if pivot > face.start_hull_tol * row[index]:
            face.add(index, row, own, pivot)


def _add_point(face: _Face, x: Floats, index: int) -> Floats:
    """Add a point and return the weights; a point in the affine hull replaces an active one."""
    row, own, pivot = face.coordinates(index)
    if pivot > face.hull_tol * row[index]:
        face.add(index, row, own, pivot)
        return np.append(x, 0.0)
    direction = -face.solved(own, transposed=True)
    out, weight = _first_at_zero(x, direction < 0, -direction)
    x = x + weight * direction
    face.drop(out)
    row, own, pivot = face.coordinates(index)
    face.add(index, row, own, max(pivot, face.hull_tol * row[index]))
    x = np.maximum(np.append(np.delete(x, out), weight), 0.0)
    return np.asarray(x / x.sum())


def _first_at_zero(x: Floats, falling: NDArray[np.bool_], speed: Floats) -> tuple[int, float]:
    """Return the first falling weight to reach zero, and the step at which it does."""
    ratios = np.where(falling, x / np.where(falling, speed, 1.0), np.inf)
    out = int(ratios.argmin())
    return out, ratios[out]


def _best_on_face(face: _Face, x: Floats) -> Floats:
    """Return optimal weights of the active points, after removing those of negative weight."""
    while True:
        best = face.best()
        if (best > 0).all() or len(best) == 1:
            return np.asarray(np.maximum(best, 0.0) / np.maximum(best, 0.0).sum())
        out, share = _first_at_zero(x, best <= 0, np.maximum(x - best, np.finfo(float).tiny))
        x = np.maximum(x + share * (best - x), 0.0)
        face.drop(out)
        x = np.delete(x, out)
        x = x / x.sum() if x.sum() > 0 else np.full(len(x), 1 / len(x))
