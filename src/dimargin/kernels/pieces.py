"""Pieces of an index of rows, for what is done with many small parts of a kernel matrix in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimargin.system.arrays import Indices


@dataclass(frozen=True)
class Pieces:
    """Pieces of an index of rows, one after the other."""

    index: Indices
    bounds: Indices  # where every piece begins, and the last one ends

    @classmethod
    def of(cls, pieces: Sequence[Indices]) -> Pieces:
        """Return these pieces."""
        return cls(np.concatenate(pieces), np.cumsum([0, *map(len, pieces)]))

    @property
    def sizes(self) -> Indices:
        """Sizes of the pieces."""
        return np.asarray(np.diff(self.bounds))

    def split(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the values, one for each index, of every piece."""
        return np.split(values, self.bounds[1:-1])
