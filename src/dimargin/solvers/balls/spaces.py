"""Points to be enclosed by a ball, in the space of their features or in that of a kernel.

Solvers need products of a few points (`Points.enclose`) and the distances of all points from a
centre, which take a pass. With `softness` a point may lie outside at a cost: ``softness_i`` is
added to the diagonal of the products, as if every point had a coordinate of its own (core-set
paper, section III-A; Tsang, Kwok, Cheung 2005).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp

from dimargin.kernels.column_statistics import power_sums
from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.dual import DualProblem
from dimargin.problems.losses import SquaredHingeLoss
from dimargin.problems.objectives import ROUNDINGS
from dimargin.solvers import ExactSolver, Limits, solve
from dimargin.solvers.balls.active_set import Products, Weights, enclose
from dimargin.system.arrays import UNIT, Floats, Indices
from dimargin.system.memory import check_memory


class Points(ABC):
    """Points, with counts of the passes over all points and of the kernel values computed.

    The softness, of shape (n,), is nonnegative; by default it is zero, so that no point may be
    outside.
    """

    def __init__(self, n: int, softness: Floats | None = None) -> None:
        self.n, self.passes, self._spent = n, 0, 0
        self.softness = np.zeros(n) if softness is None else softness
        self._max_softness = float(self.softness.max())  # It keeps squared lengths nonnegative.

    @property
    def evaluations(self) -> int:
        """Number of kernel values computed so far."""
        return self._spent

    @abstractmethod
    def first_distances(self, rng: np.random.Generator) -> Floats:
        """Return squared distances of all points from a centre among them."""

    @abstractmethod
    def _products(self, pool: Indices) -> tuple[Products, Floats, float]:
        """Return a function for rows of products of points, their squared lengths, and a bound.

        The bound is that of the rounding of products, if these are differences of larger numbers,
        else zero.
        """

    @abstractmethod
    def _hard_distances(self, core: Indices, weights: Floats) -> Floats:
        """Return squared distances of all points from the weighted centre, without softness."""

    def reach(self, distances: Floats) -> float:
        """Bound the squared distances of pairs of points, given those from one centre."""
        return 4 * float(distances.max()) + 2 * self._max_softness

    @property
    def constant(self) -> float:
        """Constant in squared radii; the rest is the optimum of ``q'x - x'(G + softness)x``."""
        return self._max_softness

    def softness_in(self, core: Indices, weights: Floats) -> float:
        """Return the part of the squared radius that is due to softness."""
        return self._max_softness + float(weights**2 @ self.softness[core])

    def allowance(self, epsilon: float, squared_radius: float, softness: float) -> float:
        """Return by how much squared distances may exceed the squared radius.

        Points are then within ``1 + epsilon`` times the radius without softness.
        """
        return ((1 + epsilon) ** 2 - 1) * abs(squared_radius - softness)

    @abstractmethod
    def bounds(self, core: Indices, weights: Floats, farthest: float) -> tuple[float, float]:
        """Return bounds that hold in spite of rounding, for a ball without softness.

        The first is a lower bound of the squared radius of any ball around all points, the second
        an upper bound of the squared distances from the centre. `farthest` is the largest result of
        `distances`.
        """

    def enclose(self, pool: Indices, start: Indices, tol: float) -> Weights:
        """Return the smallest ball around some points, see `active_set.enclose`.

        `start` are indices into the pool. `value` and `distances` of the result include softness.
        """
        hard, squares, rounding = self._products(pool)
        soft = self.softness[pool]

        def softened(indices: Indices) -> Floats:
            rows = np.array(hard(indices))
            rows[np.arange(len(indices)), indices] += soft[indices]
            return rows

        assert len(start) and len(pool)
        return enclose(softened if soft.any() else hard, squares + self._max_softness, start, tol, rounding)

    def distances(self, core: Indices, weights: Floats) -> Floats:
        """Make a pass: return squared distances of all points from the centre, with softness."""
        self.passes += 1
        hard = self._hard_distances(core, weights)
        if not self._max_softness:
            return hard
        hard += self.softness_in(core, weights)
        hard[core] -= 2 * weights * self.softness[core]
        return hard


class FeatureSpace(Points):
    """Points in the space of features, dense or CSR; their distances are sums of squares."""

    extra_roundings = 16  # Roundings of a distance in addition to those of its sum.

    def __init__(self, X: Any, softness: Floats | None = None) -> None:
        super().__init__(X.shape[0], softness)
        check_memory(8 * 2 * X.shape[1], None, "the ball around rows")  # There are two such arrays.
        self.X = X
        self._origin = np.zeros(X.shape[1])

    def first_distances(self, rng: np.random.Generator) -> Floats:
        """Return squared distances from the mean of all points, which takes two passes."""
        self.passes += 2
        self._origin = np.asarray(self.X.mean(axis=0), dtype=np.float64).ravel()
        return self.from_point(self._origin)

    def centre(self, core: Indices, weights: Floats) -> Floats:
        """Return the weighted centre, of shape (n_features,); it is exact if it is a point."""
        if len(core) == 1:
            row = self.X[core]
            return np.asarray(row.toarray() if sp.issparse(row) else row, dtype=np.float64).ravel()
        if sp.issparse(self.X):
            return np.asarray(weights @ self.X[core])
        return np.asarray(self._origin + weights @ (self.X[core] - self._origin))

    def _hard_distances(self, core: Indices, weights: Floats) -> Floats:
        self._origin = self.centre(core, weights)  # Products near the origin keep their digits.
        return self.from_point(self._origin)

    def from_point(self, point: Floats) -> Floats:
        """Return squared distances, of shape (n,), of all points from a given one."""
        out = np.empty(self.n)
        step = max(1, 2**19 // self.X.shape[1])  # The differences of a chunk stay in the cache.
        for first in range(0, self.n, step):
            out[first : first + step] = _squares(self.X[first : first + step], point)
        return out

    def bounds(self, core: Indices, weights: Floats, farthest: float) -> tuple[float, float]:
        r"""Return the bounds of `Points.bounds`, from distances to the computed centre.

        For weights w of sum one with centre c the dual objective is
        ``sum_i w_i |x_i - p|^2 - |p - c|^2`` at any point p. If p is the computed centre, the last
        term is rounding, and nothing cancels.
        """
        point, rows = self.centre(core, weights), self.X[core]
        own, size = _squares(rows, point), float(np.linalg.norm(point))
        roundings = (len(core) + self.X.shape[1] + self.extra_roundings) * UNIT
        if sp.issparse(self.X):  # Distances are differences of products.
            longest = float(power_sums(self.X, 2).max()) ** 0.5
            moved, lost = roundings * longest, roundings * (longest + size) ** 2
        else:
            reach = max(float(_squares(rows, self._origin).max()), 4 * farthest) ** 0.5
            moved, lost = roundings * reach + 2 * UNIT * size, 0.0
        moved *= len(core) > 1
        mean = float(weights @ own) / float(weights.sum())
        lower = mean * (1 - roundings) - lost - moved**2
        # In the pass over all points the centre was computed from another origin.
        upper = ((farthest * (1 + roundings) + lost) ** 0.5 + 2 * moved) ** 2
        return max(lower, 0.0), upper

    def _products(self, pool: Indices) -> tuple[Products, Floats, float]:
        if sp.issparse(self.X):
            rows = sp.csr_array(self.X[pool], dtype=np.float64)
            shift = np.asarray(rows @ self._origin)
            square = float(self._origin @ self._origin)
            longest = float(power_sums(rows, 2).max()) ** 0.5
            # An error of `square` is the same in all products, and has no effect.
            additions = int(np.diff(rows.indptr).max())
            return (
                lambda i: np.asarray((rows[i] @ rows.T).toarray()) - shift - shift[i][:, None] + square,
                _squares(rows, self._origin),
                (additions + self.extra_roundings) * UNIT * (longest + square**0.5) ** 2,
            )
        rows = self.X[pool] - self._origin
        return lambda i: rows[i] @ rows.T, np.einsum("ij,ij->i", rows, rows), 0.0


def _squares(rows: Any, point: Floats) -> Floats:
    """Return squared distances of rows from a point."""
    if sp.issparse(rows):
        rows = rows.astype(np.float64)
        own = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
        return np.asarray(np.maximum(own - 2 * (rows @ point) + point @ point, 0.0))
    difference = rows - point
    return np.asarray(np.einsum("ij,ij->i", difference, difference))


class KernelSpace(Points):
    """Points in the space of a kernel.

    They are multiplied by `signs`, the labels of a margin machine, which are one by default.
    """

    def __init__(self, kernel: KernelMatrix, softness: Floats | None = None, signs: Floats | None = None) -> None:
        super().__init__(kernel.shape[0], softness)
        self.kernel = kernel
        self._signs = np.ones(self.n) if signs is None else signs
        self._diagonal = kernel.diagonal()

    def enclose(self, pool: Indices, start: Indices, tol: float) -> Weights:
        """See `Points`; for many points of equal length block coordinate descent finds a start.

        The active-set method adds and removes one point at a time, at a cost that is quadratic in
        their number. Block coordinate descent on the same problem finds nearly all of them before.
        """
        equal = self.softness[pool].all() and np.ptp(self._diagonal) == 0
        if tol > 0 and equal and len(pool) > ExactSolver.small:
            found = self._descended(pool)
            start = found if len(found) else start  # It may stay at zero for huge kernel values.
        return super().enclose(pool, start, tol)

    def _descended(self, pool: Indices) -> Indices:
        """Return indices into the pool of the support vectors of its squared hinge problem."""
        weights = 1 / self.softness[pool]
        total = float(weights.sum())
        problem = DualProblem(
            self._signs[pool][None], weights, SquaredHingeLoss(0.5), total, total, kernel=self.kernel.take(pool)
        )
        # At this gap hardly any point has a coefficient that should be zero.
        solution = solve(problem, ExactSolver(), None, Limits(tol=1e-5, max_iter=1000))
        self._spent += sum(entry["kernel_evaluations"] for entry in solution.history)
        return np.flatnonzero(solution.dual[0])

    @property
    def evaluations(self) -> int:
        """Number of kernel values computed so far."""
        return self._spent + self.kernel.evaluations

    def first_distances(self, rng: np.random.Generator) -> Floats:
        """Return squared distances from the mean of a sample."""
        core = np.sort(rng.choice(self.n, min(256, self.n), replace=False))
        return self.distances(core, np.full(len(core), 1 / len(core)))

    def squared_length(self, core: Indices, weights: Floats) -> float:
        """Return the squared length of the centre, in float64."""
        view = self.kernel.take(core).in_float64()
        every = np.arange(len(core))
        signed = self._signs[core] * weights
        square = float(signed @ view.multiply(every, signed[None])[0])
        self._spent += view.evaluations
        return square

    def _hard_distances(self, core: Indices, weights: Floats) -> Floats:
        products = self._signs * self.kernel.multiply(core, (self._signs[core] * weights)[None])[0]
        return np.asarray(np.maximum(self._diagonal - 2 * products + self.squared_length(core, weights), 0.0))

    def bounds(self, core: Indices, weights: Floats, farthest: float) -> tuple[float, float]:
        """See `Points`; the bounds are those of `KernelMatrix.product_errors`."""
        square, lengths = self.squared_length(core, weights), self._diagonal[core]
        sizes, every = self.kernel.row_sizes, self.kernel.rounding(len(core))
        reach = float(weights @ sizes[core])  # Bound of the length of the centre.
        of_lengths = self.kernel.rounding(1) + ROUNDINGS
        lost = of_lengths * float(weights @ sizes[core] ** 2) + (every + ROUNDINGS) * reach**2
        # The weights sum to one only up to rounding.
        lost += 2 * len(core) * UNIT * (float(weights @ np.abs(lengths)) + 2 * abs(square))
        lower = float(weights @ lengths) - square - lost
        longest = float(sizes.max())
        upper = farthest + of_lengths * longest**2 + (every + ROUNDINGS) * (2 * longest + reach) * reach
        return max(lower, 0.0), upper

    def _products(self, pool: Indices) -> tuple[Products, Floats, float]:
        view = self.kernel.take(pool).in_float64()
        every, signs = np.arange(len(pool)), self._signs[pool]

        def rows(indices: Indices) -> Floats:
            before = view.evaluations
            values = view.block(indices, every) * (signs * signs[indices][:, None])
            self._spent += view.evaluations - before
            return np.asarray(values)

        return rows, self._diagonal[pool], 0.0


class MarginSpace(KernelSpace):
    """Signed points of equal length in the space of a kernel, whose ball is a margin machine.

    If all ``k(x, x)`` are replaced by a constant, the dual is ``minimise x'K~x`` over the simplex
    for any kernel. Parameters are those of `KernelSpace`. Without softness this is the hard-margin
    machine, and rho the square of its margin.
    """

    def __init__(self, kernel: KernelMatrix, softness: Floats | None = None, signs: Floats | None = None) -> None:
        super().__init__(kernel, softness, signs)
        self._diagonal = np.full(self.n, self._diagonal.max())

    @property
    def constant(self) -> float:
        """Constant in squared radii, with the squared length of points; the rest is minus rho."""
        return float(self._diagonal[0] + self._max_softness)

    def rho(self, squared_radius: float) -> float:
        """Return ``x'K~x`` of a ball, by which margins are divided."""
        return self.constant - squared_radius

    def allowance(self, epsilon: float, squared_radius: float, softness: float) -> float:
        """Return the allowance for a relative error `epsilon` of the machine's objective."""
        return epsilon * self.rho(squared_radius)
