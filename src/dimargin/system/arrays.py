"""Types of arrays that most modules use, and the precision of their numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

UNIT = float(np.finfo(float).eps) / 2
"""Unit roundoff of float64: the relative rounding of a number or an operation."""
FEW_ROUNDINGS = 8
"""Bound of the roundings of one term of a sum: of its coefficient, an offset, powers of two."""
TINY = float(np.finfo(float).tiny)
"""Smallest positive float64 of full precision."""
