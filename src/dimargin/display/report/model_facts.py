"""Facts about a model, and explanations of its certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dimargin.display.report.data_frames import is_table
from dimargin.display.report.words import bound, count, plain
from dimargin.display.unwrap import innermost
from dimargin.estimators import MarginMachine
from dimargin.estimators.kernel_machine import KernelMachine
from dimargin.estimators.nested_steps import flat_steps, rows_for_machine
from dimargin.estimators.wide_attributes import kept_of
from dimargin.strategies import TreeShape

_STATUS_MEANINGS = {
    "converged": "the tolerance was reached",
    "above_tol": "its own stopping rule was met, although the gap of this certificate is above the tolerance",
    "max_time": "the time limit was reached before the tolerance",
    "budget_spent": "the sites had spent their privacy budgets",
    "max_iter": "the limit on passes over the rows was reached before the tolerance",
    "precision": "the remaining gap is within rounding error, so further progress cannot be measured",
    "stopped": "it was stopped before it reached the tolerance",
    "interrupted": "it was interrupted before it reached the tolerance",
}
_SCOPE_MEANINGS = {
    "global": "The optimal objective on the same training rows, with these parameters, is at most {gap} below the "
    "objective of this model. This is a statement about the training rows; the sections below measure how good the "
    "model is on other rows.",
    "landmark": "The optimal objective on the training rows, among all functions that the landmarks span, is at most "
    "{gap} below the objective of this model. Functions outside that space may be better; dimargin info --certify, "
    "given the training rows, computes the gap among all functions.",
    "partitioned": "The training rows were split into parts with a model each. In the worst part, the optimal "
    "objective is at most {gap} below the objective of its model. This does not bound the gap on all rows together; "
    "dimargin info --certify, given the training rows, computes it.",
    "before_rounding": "Before the coefficients were rounded to float32, the optimal objective was at most {gap} below "
    "the objective of the model. This does not bound the gap of the rounded model; dimargin info --certify, given the "
    "training rows, computes it.",
    "network": "The sites have computed together that the optimal objective on the rows of all of them is at most "
    "{gap} below the objective of this model. This is a bound if all sites told the truth; dimargin info --certify, "
    "given the rows of all sites, computes it independently.",
    "estimated": "When the site wrote the file, it estimated that the optimal objective on the rows of all sites is "
    "about {gap} below the objective of this model. It is only an estimate because no site knows all rows; dimargin "
    "info --certify, given the rows of all sites, computes a bound.",
}


@dataclass(frozen=True)
class Certificate:
    """The certificate stored in a model, with an explanation; missing values are None."""

    gap: float | None
    scope: str | None
    status: str | None
    tol: float | None
    meaning: str
    ending: str | None  # A sentence about why the fit ended.
    advice: str = ""  # A sentence about better settings, with a space before it, or an empty string.

    @property
    def is_far(self) -> bool:
        """Return whether the gap is at least ten times the tolerance."""
        return self.gap is not None and self.tol is not None and self.gap >= 10 * self.tol


def certificate_of(model: Any) -> Certificate:
    """Return the certificate of a model with its explanation."""
    machine = innermost(model)
    gap, scope, status = (getattr(machine, name, None) for name in ("duality_gap_", "certificate_", "status_"))
    tol = getattr(machine, "tol", None)
    ending = None if status is None else f"The fit ended because {_STATUS_MEANINGS.get(status, plain(status))}."
    meaning = _SCOPE_MEANINGS.get(scope or "")
    if gap is None or meaning is None:
        meaning = "The model has no certificate: there is no bound on its distance from the optimal objective."
        if hasattr(machine, "calibrated_classifiers_"):
            meaning = (
                f"The model averages the probabilities of {len(machine.calibrated_classifiers_)} machines, each of "
                "which was trained without one fold of the rows. Each has a certificate for its own rows; their "
                "average has none."
            )
        return Certificate(None, None, status, tol, meaning, ending)
    gap = float(gap)
    advice = machine.advice() if isinstance(machine, MarginMachine) else ""
    return Certificate(gap, scope, status, tol, meaning.format(gap=bound(gap)), ending, advice)


def parameters_of(machine: Any) -> list[tuple[str, str, bool]]:
    """Return the name and value of each parameter that matters, and whether it differs from the default.

    Those of logs and warm starts say nothing about a model, nor do defaults for trees if none was trained.
    """
    given, defaults = machine.get_params(deep=False), _defaults(type(machine))
    is_tree = any(entry.get("level") for entry in getattr(machine, "history_", ()))
    unused = {"verbose", "warm_start", *(() if is_tree else TreeShape().__dict__)}
    found = [(name, plain(_text(value)), _text(value) != defaults.get(name)) for name, value in given.items()]
    return [one for one in found if one[2] or one[0] not in unused]


def _defaults(kind: Any) -> dict[str, str]:
    from inspect import signature

    return {name: _text(parameter.default) for name, parameter in signature(kind).parameters.items()}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else " ".join(repr(value).split())


def sizes_of(model: Any) -> list[tuple[str, str]]:
    """Return named sizes of a model, such as its number of support vectors."""
    machine = innermost(model)
    facts = []
    if hasattr(machine, "support_"):
        n_given, n_support = getattr(machine, "_n_given", None), len(machine.support_)
        of = f" of {count(n_given)} training rows ({n_support / n_given:.1%})" if n_given else ""
        facts.append(("Support vectors", f"{count(n_support)}{of}"))
    elif (coefficients := kept_of(machine, "coef_", None)) is not None:
        facts.append(("Coefficients", count(math.prod(coefficients.shape))))
    if steps := flat_steps(model)[:-1]:
        facts.append(("Preprocessing", ", ".join(type(step).__name__ for _, step in steps)))
    return facts


def relation_to_training(model: Any, X: Any) -> tuple[bool, str]:
    """Return whether these are known to be the training rows of the model, and a sentence about it.

    A kernel machine keeps its support vectors and their indices among the training rows.
    """
    machine = innermost(model)
    if not isinstance(machine, KernelMachine) or machine.kernel == "precomputed":
        return False, (
            "It is unknown whether the model was trained on these rows, because it keeps no training rows. Scores "
            "on training rows are better than on new rows."
        )
    inside = rows_for_machine(model, X)
    if not is_table(inside) and machine.can_resume_on(inside):
        return True, (
            "The model was trained on these rows: they hold its support vectors at the same positions. The scores "
            "below describe the fit to the training rows; expect worse scores on new rows."
        )
    return False, (
        "These are not the training rows of the model, at least not in their original order: its support vectors are "
        "not at their positions here. Some of the rows may still be training rows; scores on these are better than "
        "on new rows."
    )


def history_of(machine: Any) -> tuple[bool, str]:
    """Return whether the history of a machine can be drawn, and a sentence about it if not."""
    history = getattr(machine, "history_", None)
    if not history:
        return False, "The model keeps no history of its fit."
    needed = ("level", "partitions", "seconds", "kernel_evaluations", "relative_gap")
    can_draw = all(
        all(_is_finite(entry.get(name)) for name in needed) and _is_finite(np.sum(entry.get("objective", np.nan)))
        for entry in history
    )
    if can_draw and len(history) > 1:
        return True, ""
    last = [f"{plain(name).replace('_', ' ')} {value:.4g}" for name, value in history[-1].items() if _is_finite(value)]
    entries = (
        f"{count(len(history))} entries without the levels and objectives that a plot needs. The last entry"
        if not can_draw
        else "a single entry, too few for a plot"
    )
    return False, f"The history of the fit has {entries}: {', '.join(last)}."


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and math.isfinite(value)
