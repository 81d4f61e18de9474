"""Features of linear machines: rows that are their own features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from dimargin import _core
from dimargin.kernels.column_statistics import power_sums, row_chunks
from dimargin.kernels.row_transform import StoredRows, transposed
from dimargin.problems.margin_losses import MarginLosses
from dimargin.system.arrays import Floats, Indices


@dataclass(frozen=True)
class LinearFeatures:
    """Rows as their own features: see `dimargin.solvers.primal.Features`."""

    chunk_values: ClassVar[int] = 2**17  # Values copied at a time, where rows must be copied.
    largest_density: ClassVar[float] = 0.6  # Below this density squares of sparse rows are summed value by value.
    stored: StoredRows
    index: Indices | None = None  # Indices of the rows among the stored ones; all by default.

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.stored.X.shape[0]) if self.index is None else len(self.index)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state that another process needs, with only these rows."""
        return {"stored": self.stored if self.index is None else StoredRows(self.matrix), "index": None}

    def take(self, index: Indices) -> LinearFeatures:
        """Return the features of some of the rows, without a copy."""
        return LinearFeatures(self.stored, index if self.index is None else self.index[index])

    @staticmethod
    def joined(parts: Sequence[LinearFeatures]) -> LinearFeatures:
        """Concatenate the rows of several features, without a copy if they are stored together."""
        first = parts[0]
        if first.index is not None and all(p.index is not None and p.stored is first.stored for p in parts):
            return LinearFeatures(first.stored, np.concatenate([p.index for p in parts if p.index is not None]))
        return LinearFeatures(StoredRows.joined([p.stored if p.index is None else StoredRows(p.matrix) for p in parts]))

    @property
    def matrix(self) -> Any:
        """The stored matrix, or a copy of its rows in the index."""
        return self.stored.X if self.index is None else self.stored.X[self.index]

    def _parts(self) -> Iterator[tuple[slice, Any]]:
        """Yield slices and their rows in float64, in chunks if these must be copied."""
        X, n = self.stored.X, self.n_rows
        copied = self.index is not None or X.dtype != np.float64
        step = max(256, self.chunk_values * X.shape[0] // max(X.size, 1)) if copied else max(n, 1)
        for part in row_chunks(n, step):
            rows = X if not copied else X[part if self.index is None else self.index[part]]
            yield part, rows.astype(np.float64, copy=False)

    def scores(self, weights: Floats) -> Floats:
        """See `Features`."""
        scores = np.empty((len(weights), self.n_rows))
        for part, rows in self._parts():
            scores[:, part] = (rows @ weights.T).T
        return scores

    def combine(self, coefficients: Floats) -> Floats:
        """See `Features`."""
        total = np.zeros((len(coefficients), self.stored.X.shape[1]))
        for part, rows in self._parts():
            total += _combined(coefficients[:, part], rows)
        return total

    def combine_squares(self, coefficients: Floats) -> Floats:
        """Return ``sum_i coefficients[q, i] phi_i^2``, of shape (n_outputs, m)."""
        total = np.zeros((len(coefficients), self.stored.X.shape[1]))
        for part, rows in self._parts():
            total += _combined(coefficients[:, part], rows, power=2)
        return total

    @property
    def adds_squares(self) -> bool:
        """Return whether `sum_of_squares` is faster than a product of the dense rows."""
        X = self.stored.X
        return self.index is None and sp.issparse(X) and X.size < self.largest_density * X.shape[0] * X.shape[1]

    def sum_of_squares(self, coefficients: Floats, intercept: bool) -> Floats:
        """Return the lower triangle of ``sum_i coefficients[i] phi_i phi_i'``, of shape (m, m).

        With an intercept, one is appended to phi_i.
        """
        width = self.stored.X.shape[1] + intercept
        sums = np.zeros((width, width))
        _core.add_squares(self.stored.core, coefficients, sums)
        return sums

    def rows(self, index: Indices | slice) -> Floats:
        """See `Features`."""
        rows = self.stored.X[index if self.index is None else self.index[index]]
        return np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)

    def evaluations(self) -> int:
        """Return zero, since no kernel values are computed."""
        return 0

    def total_square(self) -> float:
        """See `Features`; a sum in float32 is multiplied by 1.5 to bound its rounding."""
        values = self.matrix.data if sp.issparse(self.matrix) else self.matrix
        with np.errstate(over="ignore"):
            return float(np.vdot(values, values)) * (1.0 if values.dtype == np.float64 else 1.5)

    def squares(self) -> Floats:
        """Return ``|phi_i|^2``, of shape (n,)."""
        return power_sums(self.matrix, 2)

    def rounding(self) -> float:
        """Return zero, since the rows themselves are the features."""
        return 0.0

    def steepest(self, losses: MarginLosses) -> float:
        """Return the largest second derivative of a row's loss in the parameters."""
        return float(((self.squares() + losses.intercept) * losses.conjugate.largest_curvature).max(initial=0.0))

    def descend(
        self,
        losses: MarginLosses,
        order: Indices,
        scale: float,
        steps: Floats,
        anchor: Floats,
        gradient: Floats,
        change: Floats,
    ) -> Floats:
        """Take one inner step of SVRG (`dimargin.solvers.svrg`) for each row of `order`.

        The losses are those of these rows, `scale` is the number of rows of the whole problem, and
        `steps`, of shape (n_outputs,), are step sizes. Returns the new `change`, which like the
        anchor and the gradient there has shape (n_outputs, m + 1).
        """
        change = change.copy()
        rows = order if self.index is None else self.index[order]
        task = losses.labels, losses.conjugate.rows, scale, steps, anchor, gradient, change, losses.intercept
        _core.svrg_pass(self.stored.core, rows, order, *task)
        return change


def _combined(coefficients: Floats, rows: Any, power: int = 1) -> Floats:
    """Return ``sum_i coefficients[q, i] rows[i]^power``, of shape (n_outputs, m)."""
    if not sp.issparse(rows):
        return np.asarray(coefficients @ (rows if power == 1 else rows**power))
    columns = transposed(rows)
    if power > 1:
        columns.data = columns.data**power
    return np.asarray((columns @ coefficients.T).T)
