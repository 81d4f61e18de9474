"""Pieces of an index of rows, for work on many small parts of a kernel matrix in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimargin.system.arrays import Indices


@dataclass(frozen=True)
class Pieces:
    """Consecutive pieces of an index of rows."""

    index: Indices
    bounds: Indices  # first position of every piece, and the end of the last one

    @classmethod
    def of(cls, pieces: Sequence[Indices]) -> Pieces:
        """Join the indices of several pieces."""
        return cls(np.concatenate(pieces), np.cumsum([0, *map(len, pieces)]))

    @property
    def sizes(self) -> Indices:
        """Sizes of the pieces."""
        return np.asarray(np.diff(self.bounds))

    def split(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Split an array with one value per index into the pieces' values."""
        return np.split(values, self.bounds[1:-1])
