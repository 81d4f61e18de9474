"""The rows and the columns of a kernel matrix, prepared for the compiled core when they are needed."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from dimargin.kernels.pieces import Pieces
from dimargin.kernels.row_transform import Rows, RowTransform
from dimargin.system.arrays import Indices


class _Prepared:
    """Rows and their form for the compiled core, computed at first use and shared by views."""

    def __init__(self, transform: RowTransform, X: Any) -> None:
        self.X = X
        self._transform, self._lock = transform, Lock()
        self._core: Rows | None = None

    @property
    def core(self) -> Rows:
        with self._lock:
            if self._core is None:
                self._core = self._transform.apply(self.X)
        return self._core


@dataclass(frozen=True)
class Side:
    """Rows, or columns, of a kernel matrix: some of the rows of an array."""

    prepared: _Prepared
    index: Indices

    @classmethod
    def of(cls, transform: RowTransform, X: Any) -> Side:
        """Return all rows of an array."""
        return cls(_Prepared(transform, X), np.arange(X.shape[0]))

    def take(self, index: Indices) -> Side:
        """Return some of these rows."""
        return Side(self.prepared, np.ascontiguousarray(self.index[index]))

    @property
    def X(self) -> Any:
        """The rows, not prepared for the core."""
        return self.prepared.X[self.index]

    def in_core(self, pieces: Pieces) -> tuple[Rows, Indices, Indices]:
        """Return the core's rows, and the indices and bounds of pieces of these rows."""
        return self.prepared.core, self.index[pieces.index], pieces.bounds
