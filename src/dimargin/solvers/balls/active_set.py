r"""Exact solver for the smallest ball around few points, of which only products are known.

    maximise  q'x - x'Gx  over the simplex,        squared distance of point i from the centre: q_i - 2 (Gx)_i + x'Gx,

the dual of the minimum enclosing ball where G holds the products of points and q its diagonal (Tsang, Kwok, Cheung,
"Core vector machines", JMLR 2005, equation 2); a constant q makes it the machine whose points have that length (Tsang,
Kwok, Zurada, "Generalized core vector machines", IEEE TNN 2006).

An active set: the farthest point enters, the best weights of the points inside are found on the face that they span,
and a point whose weight would become negative leaves. The optimum rises with every point that enters, so that no set
comes twice and the end is exact. On the simplex G may be raised by a constant, which makes it positive definite for
points of which none lies in the affine hull of the others; a point that does takes the place of one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs

from dimargin.system.arrays import Floats, Indices

Products = Callable[[Indices], Floats]

_DEPENDENT = 1e-12  # squared distance from the affine hull of others, relative, below which a point lies in it
_NEARLY_DEPENDENT = 1e-6  # likewise, for the points at the start
_ROUNDING = 1e-13  # of squared distances, relative to the longest point
_PATIENCE = 8  # steps for each point inside without a closer fit, after which only rounding is left


@dataclass(frozen=True)
class Weights:
    """Weights of the smallest ball's centre, as the solver found them."""

    indices: Indices  # of the points of positive weight, ascending
    weights: Floats  # of these points, of sum one
    value: float  # q'x - x'Gx: the squared radius
    square: float  # x'Gx: squared distance of the centre from the origin
    distances: Floats  # squared, of all points from the centre

    def without(self, index: int) -> Weights:
        """Return the same ball without a point that has no weight."""
        indices = self.indices - (self.indices > index)
        return replace(self, indices=indices, distances=np.delete(self.distances, index))


class _Face:
    """Points of the active set (inside), the Cholesky factor of their raised products, and their products with all.

    The factor has room for more points, as if each were orthogonal to all others, because LAPACK would copy a part of
    it.
    """

    def __init__(self, products: Products, linear: Floats, lift: float) -> None:
        self._products, self._linear, self._lift = products, linear, lift
        self._factor, self._rows = np.empty((0, 0), order="F"), np.empty((0, len(linear)))
        self.indices: list[int] = []

    @property
    def rows(self) -> Floats:
        """Raised products of the points inside with all points."""
        return self._rows[: len(self.indices)]

    def solved(self, right: Floats, transposed: bool = False) -> Floats:
        """Solve a triangular system with the factor, or with its transpose."""
        return np.asarray(dtrtrs(self._factor, self._padded(right), lower=1, trans=int(transposed))[0][: len(right)])

    def _padded(self, right: Floats) -> Floats:
        padded = np.zeros((len(self._factor), *right.shape[1:]), order="F")
        padded[: len(right)] = right
        return padded

    def coordinates(self, index: int) -> tuple[Floats, Floats, float]:
        """Return a point's row of products, its row in the factor, and the square of its entry on the diagonal."""
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
        """Begin with several points if none is nearly in the affine hull of the others; return whether that was so."""
        rows = self._products(np.array(indices)) + self._lift
        squares = rows[:, indices]
        factor, failed = dpotrf(squares.T, lower=1)  # as LAPACK stores it
        if failed or (factor.diagonal() ** 2 <= _NEARLY_DEPENDENT * squares.diagonal()).any():
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
        """Return the weights of sum one, of any sign, at which ``q'z - z'Hz`` is largest; H are raised products."""
        linear = self._linear[self.indices]
        right = self._padded(np.stack([linear, np.ones(len(linear))], axis=1))
        answers = dpotrs(self._factor, right, lower=1)[0][: len(linear)]
        multiplier = (answers[:, 0].sum() - 2) / answers[:, 1].sum()
        return np.asarray(answers @ (0.5, -0.5 * multiplier))


def enclose(products: Products, linear: Floats, start: Indices, tol: float = 0.0, rounding: float = 0.0) -> Weights:
    """Find the smallest ball around all points, up to rounding or until no point is farther than `tol` allows.

    `products` gives rows of G, of shape (k, n), for k indices; `linear` is q, of shape (n,). `start` has indices that
    probably have a weight, at least one. Squared distances may be larger than the squared radius by `tol`, relatively.
    `rounding` bounds the rounding error of the products, where that is more than the error of `linear`: points that are
    nearer to each other than that count as one.
    """
    size, uncertain = float(np.abs(linear).max()), 4 * rounding  # a distance is a sum of four products
    slack = _ROUNDING * size + uncertain
    face = _Face(products, linear, max(size + uncertain, np.finfo(float).tiny))
    _enter_first(face, start)
    x = _best_on_face(face, np.full(len(face.indices), 1 / len(face.indices)))
    best, highest, patience = None, -np.inf, 0
    while True:
        inner = x @ face.rows - face._lift
        square = float(x @ inner[face.indices])
        distances = linear - 2 * inner + square
        value = float(x @ linear[face.indices]) - square
        farthest = int(distances.argmax())
        if best is None or distances[farthest] - value < best.distances.max() - best.value:
            best, patience = Weights(np.array(face.indices, dtype=np.int64), x, value, square, distances), 0
        patience, highest = (0 if value > highest else patience + 1), max(highest, value)
        met = distances[farthest] <= value * (1 + tol) + slack
        if met or farthest in face.indices or patience > _PATIENCE * (len(x) + 1):
            order = np.argsort(best.indices)
            return replace(best, indices=best.indices[order], weights=best.weights[order])
        x = _best_on_face(face, _entered(face, x, farthest))


def _enter_first(face: _Face, start: Indices) -> None:
    """Let in those of the first points that do not lie in the affine hull of others."""
    indices = list(dict.fromkeys(start.tolist()))
    if face.add_all(indices):
        return
    for index in indices:
        row, own, pivot = face.coordinates(index)
        if pivot > _NEARLY_DEPENDENT * row[index]:
            face.add(index, row, own, pivot)


def _entered(face: _Face, x: Floats, index: int) -> Floats:
    """Let a point in and return the weights; if it lies in the hull of those inside, one of these leaves for it."""
    row, own, pivot = face.coordinates(index)
    if pivot > _DEPENDENT * row[index]:
        face.add(index, row, own, pivot)
        return np.append(x, 0.0)
    direction = -face.solved(own, transposed=True)
    out, weight = _first_at_zero(x, direction < 0, -direction)
    x = x + weight * direction
    face.drop(out)
    row, own, pivot = face.coordinates(index)
    face.add(index, row, own, max(pivot, _DEPENDENT * row[index]))
    x = np.maximum(np.append(np.delete(x, out), weight), 0.0)
    return np.asarray(x / x.sum())


def _first_at_zero(x: Floats, falling: NDArray[np.bool_], speed: Floats) -> tuple[int, float]:
    """Return which of the falling weights is the first to become zero, and the multiple of its speed after which."""
    ratios = np.where(falling, x / np.where(falling, speed, 1.0), np.inf)
    out = int(ratios.argmin())
    return out, ratios[out]


def _best_on_face(face: _Face, x: Floats) -> Floats:
    """Return optimal weights of the points inside, after those whose weights would turn negative have left."""
    while True:
        best = face.best()
        if (best > 0).all() or len(best) == 1:
            return np.asarray(np.maximum(best, 0.0) / np.maximum(best, 0.0).sum())
        out, share = _first_at_zero(x, best <= 0, np.maximum(x - best, np.finfo(float).tiny))
        x = np.maximum(x + share * (best - x), 0.0)
        face.drop(out)
        x = np.delete(x, out)
        x = x / x.sum() if x.sum() > 0 else np.full(len(x), 1 / len(x))
