"""Facts about a fitted machine, for front ends."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

from dimargin.estimators.wide_attributes import kept_of


def problem_names(machine: Any) -> list[str]:
    """Return names of the problems of a classifier for more than two classes, in the order of ``objective_``."""
    names = [str(label) for label in machine.classes_.tolist()]
    if getattr(machine, "_is_one_vs_one", False):
        return [f"{first} | {second}" for first, second in combinations(names, 2)]
    return [f"{name} | others" for name in names]


def facts_of(machine: Any) -> dict[str, Any]:
    """Return sizes of a fitted classifier or detector, and as ``privacy`` a sentence on the training rows in it."""
    if not hasattr(machine, "support_"):
        size = math.prod(kept_of(machine, "coef_").shape)
        privacy = "coefficients only: no training row is in the model"
        if hasattr(machine, "epsilon_"):
            privacy = "the machine is computed from messages that are differentially private for every site"
            budget = getattr(machine.algorithm, "privacy", None)
            if budget is not None and not budget.secret:
                privacy = "simulated: the noise follows from random_state, so that the machine is not private"
        return {"coefficients": size, "privacy": privacy}
    numbers = {name: getattr(machine, f"{name}_") for name in ("offset", "radius") if hasattr(machine, f"{name}_")}
    privacy = "support vectors are training rows: whoever has the model has them"
    return {"support_vectors": len(machine.support_), **numbers, "privacy": privacy}
