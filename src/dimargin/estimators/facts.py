"""Facts about a fitted machine, for front ends."""

from __future__ import annotations

import math
from typing import Any

from dimargin.estimators.wide_attributes import kept_of


def facts_of(machine: Any) -> dict[str, Any]:
    """Return sizes of a fitted classifier or detector, and as ``privacy`` a sentence on the training rows in it."""
    if not hasattr(machine, "support_"):
        size = math.prod(kept_of(machine, "coef_").shape)
        return {"coefficients": size, "privacy": "coefficients only: no training row is in the model"}
    numbers = {name: getattr(machine, f"{name}_") for name in ("offset", "radius") if hasattr(machine, f"{name}_")}
    privacy = "support vectors are training rows: whoever has the model has them"
    return {"support_vectors": len(machine.support_), **numbers, "privacy": privacy}
