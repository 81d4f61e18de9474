"""Features of linear machines: rows that are their own features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from dimargin import _core
from dimargin.kernels.column_statistics import power_sums, row_chunks
from dimargin.kernels.row_transform import StoredRows
from dimargin.problems.margin_losses import MarginLosses
from dimargin.system.arrays import Floats, Indices

_VALUES_AT_ONCE = 2**17  # that are copied, where they have to be


@dataclass(frozen=True)
class LinearFeatures:
    """Rows as their own features: see `dimargin.solvers.primal.Features`."""

    stored: StoredRows
    index: Indices | None = None  # of these rows among the stored ones; all by default

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.stored.X.shape[0]) if self.index is None else len(self.index)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state that another process needs: these rows alone."""
        return {"stored": self.stored if self.index is None else StoredRows(self.matrix), "index": None}

    def take(self, index: Indices) -> LinearFeatures:
        """Return the features of some of the rows, without a copy."""
        return LinearFeatures(self.stored, index if self.index is None else self.index[index])

    @staticmethod
    def joined(parts: Sequence[LinearFeatures]) -> LinearFeatures:
        """Join the rows of several, one after the other; they are copied only if they are not stored together."""
        first = parts[0]
        if first.index is not None and all(p.index is not None and p.stored is first.stored for p in parts):
            return LinearFeatures(first.stored, np.concatenate([p.index for p in parts if p.index is not None]))
        return LinearFeatures(StoredRows.joined([p.stored if p.index is None else StoredRows(p.matrix) for p in parts]))

    @property
    def matrix(self) -> Any:
        """The rows as they are stored, or a copy if they are some of the stored ones."""
        return self.stored.X if self.index is None else self.stored.X[self.index]

    def _parts(self) -> Iterator[tuple[slice, Any]]:
        """Yield slices of the rows, and these rows in float64, in chunks if that takes a copy."""
        X, n = self.stored.X, self.n_rows
        copied = self.index is not None or X.dtype != np.float64
        step = max(256, _VALUES_AT_ONCE * X.shape[0] // max(X.size, 1)) if copied else max(n, 1)
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
            total += coefficients[:, part] @ rows
        return total

    def combine_squares(self, coefficients: Floats) -> Floats:
        """Return ``sum_i coefficients[q, i] phi_i^2``, of shape (n_outputs, m)."""
        total = np.zeros((len(coefficients), self.stored.X.shape[1]))
        for part, rows in self._parts():
            total += coefficients[:, part] @ (rows.multiply(rows) if sp.issparse(rows) else rows * rows)
        return total

    def rows(self, index: Indices | slice) -> Floats:
        """See `Features`."""
        rows = self.stored.X[index if self.index is None else self.index[index]]
        return np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)

    def evaluations(self) -> int:
        """Return zero: there is no kernel."""
        return 0

    def total_square(self) -> float:
        """See `Features`; a sum in float32 is raised by half, for its rounding."""
        values = self.matrix.data if sp.issparse(self.matrix) else self.matrix
        with np.errstate(over="ignore"):
            return float(np.vdot(values, values)) * (1.0 if values.dtype == np.float64 else 1.5)

    def rounding(self) -> float:
        """Return zero: the rows themselves are the features, without rounding."""
        return 0.0

    def steepest(self, losses: MarginLosses) -> float:
        """Return the largest second derivative of the loss of a row along its own features and the intercept."""
        return float(
            ((power_sums(self.matrix, 2) + losses.intercept) * losses.conjugate.largest_curvature).max(initial=0.0)
        )

    def descend(
        self, losses: MarginLosses, order: Indices, scale: float, steps: Floats, anchor: Floats, gradient: Floats,
        change: Floats,
    ) -> Floats:  # fmt: skip
        """Take inner steps of stochastic variance reduced gradient, one for each row of `order`, in turn.

        See `dimargin.solvers.svrg`. The losses are those of these rows, `scale` is the number of rows of the whole
        problem, and `steps`, of shape (n_outputs,), are step sizes. Returned is the new `change`, which like the anchor
        and the gradient there has shape (n_outputs, m + 1).
        """
        change = change.copy()
        rows = order if self.index is None else self.index[order]
        _core.svrg_pass(
            self.stored.core, rows, order, losses.labels, losses.conjugate.rows, scale, steps, anchor, gradient, change,
            losses.intercept,
        )  # fmt: skip
        return change
