"""Types of arrays that most modules use, and the precision of their numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

UNIT = float(np.finfo(float).eps) / 2
"""Rounding of a number or an operation in float64, relative."""
FEW_ROUNDINGS = 8
"""Roundings of a term beside those of the sum that it is in: of its coefficient, an offset, powers of two."""
TINY = float(np.finfo(float).tiny)
"""Least positive number of full precision."""
