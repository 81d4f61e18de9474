"""Parameters that are numpy scalars, as in search grids."""

from __future__ import annotations

from typing import Any

import numpy as np


class PlainNumbers:
    """Mixin that stores parameters given as numpy scalars as Python numbers.

    Arithmetic with an int16 or int32 wraps around: ``max_iter=np.int16(1000)`` allowed less than
    one pass over 700 rows. Arithmetic with a float32 overflows beyond 3e38.

    Examples
    --------
    >>> from dimargin import SVMClassifier
    >>> SVMClassifier(C=np.float64(0.5), max_iter=np.int16(500))
    SVMClassifier(C=0.5, max_iter=500)
    """

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; fitted attributes (`tree_`) are stored unchanged."""
        if isinstance(value, np.number) and not name.startswith("_") and not name.endswith("_"):
            value = int(value) if isinstance(value, np.integer) else float(value) if np.isrealobj(value) else value
        super().__setattr__(name, value)
