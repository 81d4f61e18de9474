"""Linear support vector machine of the rows that a site holds, each with the weight that it has among all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.kernels.row_transform import RowTransform
from dimargin.problems.dual import DualProblem
from dimargin.problems.hinge import HingeRows
from dimargin.problems.losses import HingeLoss
from dimargin.problems.margin_losses import MarginLosses
from dimargin.solvers.block_coordinate_descent import BlockCoordinateDescent
from dimargin.solvers.loop import Limits, solve
from dimargin.system.arrays import Floats

_PASSES = 10_000


@dataclass(frozen=True)
class HingeMachine:
    """Minimiser of ``1/2 |w|^2 + C sum_i max(0, 1 - y_i w.x_i)``, for every output.

    Examples
    --------
    Two rows at a distance of one from the origin, of which each counts twice:

    >>> rows = HingeRows(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, -1.0]]))
    >>> HingeMachine.of(rows, C=2.0).weights.round(6).tolist()
    [[1.0, -1.0]]
    """

    weights: Floats  # of shape (n_outputs, n_features)
    dual: Floats  # coefficients in [0, C], of shape (n_outputs, n)

    @classmethod
    def untrained(cls, rows: HingeRows) -> Self:
        """Return the machine whose weights are all zero."""
        return cls(np.zeros((len(rows.signs), rows.X.shape[1])), np.zeros(rows.signs.shape))

    @classmethod
    def of(cls, rows: HingeRows, C: float, start: Floats | None = None, tol: float = 1e-4) -> Self:
        """Train a machine to a relative duality gap of `tol`, from a start of shape (n_outputs, n)."""
        n = rows.n_rows
        if not n:
            return cls.untrained(rows)
        signs = np.ascontiguousarray(rows.signs, dtype=np.float64)
        kernel = KernelMatrix(RowTransform.fit(rows.X, Kernel("linear")).in_float64(), rows.X)
        problem = DualProblem.of(MarginLosses(signs, np.ones(n), HingeLoss(C), float(n), float(n)), kernel)
        dual = solve(problem, BlockCoordinateDescent(), start, Limits(tol, _PASSES)).dual
        return cls(np.ascontiguousarray((rows.X.T @ (signs * dual).T).T), dual)

    def extended(self, n_rows: int) -> HingeMachine:
        """Return the same machine among more rows, of which those that are new at the end have no coefficient."""
        more = n_rows - self.dual.shape[1]
        return HingeMachine(self.weights, np.pad(self.dual, ((0, 0), (0, more))))
