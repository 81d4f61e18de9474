"""Facts about a model, and the meaning of its certificate, in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from dimargin.display.report.data_frames import is_table
from dimargin.display.report.words import bound, count, plain
from dimargin.display.unwrap import innermost
from dimargin.estimators import KernelMarginClassifier, MarginClassifier
from dimargin.estimators.wide_attributes import kept_of

_STATUS = {
    "converged": "the tolerance was reached",
    "above_tol": "what it had to solve was solved, though the gap of this certificate is above the tolerance",
    "max_time": "the time limit came before the tolerance was reached",
    "max_iter": "the limit of passes over the rows came before the tolerance was reached",
    "precision": "rounding hides what is left, so that no further step could be judged",
    "stopped": "it was stopped before the tolerance was reached",
}
_OF_TRAINING_ROWS = "It speaks of the training rows; how good the model is on other rows, the sections below measure."
_SCOPES = {
    "global": "The lowest objective that any model of this kind can have on the same training rows, with these "
    f"parameters, is at most {{gap}} below that of this model. {_OF_TRAINING_ROWS}",
    "landmark": "Among all functions that the landmarks span, the lowest objective on the training rows is at most "
    "{gap} below that of this model; functions outside of that space may be better. dimargin info --certify, with the "
    "training rows, computes the gap among all.",
    "partitioned": "In the worst of the parts that the training rows were dealt to, the lowest objective is at most "
    "{gap} below that of its model. This says nothing of all rows together; dimargin info --certify, with the training "
    "rows, computes the gap of these.",
    "estimated": "By what the site knew when it wrote the file, the lowest objective on the rows of all sites is "
    "about {gap} below that of this model. No site knows all rows, so this is an estimate; dimargin info --certify, "
    "with the rows of all sites, computes a bound.",
}


@dataclass(frozen=True)
class Certificate:
    """The certificate of a model as its file holds it; None where there is none."""

    gap: float | None
    scope: str | None
    status: str | None
    tol: float | None
    meaning: str
    ending: str | None  # why the fit ended
    advice: str = ""  # what would do better, as a sentence behind others

    @property
    def is_far(self) -> bool:
        """Return whether the gap is ten times the tolerance, or more."""
        return self.gap is not None and self.tol is not None and self.gap >= 10 * self.tol


def uncalibrated(model: Any) -> Any:
    """Return the model inside a `CalibratedClassifierCV` that has fitted it once, or else the model itself."""
    inside = getattr(model, "calibrated_classifiers_", [])
    return inside[0].estimator if len(inside) == 1 else model


def certificate_of(model: Any) -> Certificate:
    """Return the certificate of a model, and what it means."""
    machine = innermost(model)
    gap, scope, status = (getattr(machine, name, None) for name in ("duality_gap_", "certificate_", "status_"))
    tol = getattr(machine, "tol", None)
    ending = None if status is None else f"The fit ended because {_STATUS.get(status, plain(status))}."
    meaning = _SCOPES.get(scope or "")
    if gap is None or meaning is None:
        return Certificate(None, None, status, tol, "The model has no certificate: nothing bounds how far it is from "
                           "the lowest objective.", ending)  # fmt: skip
    gap = float(gap)
    advice = machine._advice() if isinstance(machine, MarginClassifier) else ""
    return Certificate(gap, scope, status, tol, meaning.format(gap=bound(gap)), ending, advice)


def parameters_of(machine: Any) -> list[tuple[str, str, bool]]:
    """Return name and value of each parameter, and whether it is not the default."""
    given, defaults = machine.get_params(deep=False), _defaults(type(machine))
    return [(name, plain(_text(value)), _text(value) != defaults.get(name)) for name, value in given.items()]


def _defaults(kind: Any) -> dict[str, str]:
    from inspect import signature

    return {name: _text(parameter.default) for name, parameter in signature(kind).parameters.items()}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else " ".join(repr(value).split())


def sizes_of(model: Any) -> list[tuple[str, str]]:
    """Return how large a model is: name and number of what it is made of."""
    machine = innermost(model)
    facts = []
    if hasattr(machine, "support_"):
        n_given, n_support = getattr(machine, "_n_given", None), len(machine.support_)
        of = f" of {count(n_given)} training rows ({n_support / n_given:.1%})" if n_given else ""
        facts.append(("Support vectors", f"{count(n_support)}{of}"))
    elif (coefficients := kept_of(machine, "coef_", None)) is not None:
        facts.append(("Coefficients", count(math.prod(coefficients.shape))))
    if isinstance(model, Pipeline) and len(model) > 1:
        facts.append(("Before the machine", ", ".join(type(step).__name__ for _, step in model.steps[:-1])))
    return facts


def relation_to_training(model: Any, X: Any) -> tuple[bool, str]:
    """Return whether these are the rows that the model was trained on, as far as can be known, and that in words.

    A kernel machine holds its support vectors with their places among the training rows.
    """
    machine = innermost(model)
    if not isinstance(machine, KernelMarginClassifier) or machine.kernel == "precomputed":
        return False, (
            "Whether the model was trained on these rows is not known: it holds none of its training rows in their "
            "places. On rows that it was trained on, a model does better than on new ones."
        )
    inside = model[:-1].transform(X) if isinstance(model, Pipeline) and len(model) > 1 else X
    if not is_table(inside) and machine._can_resume_on(inside):
        return True, (
            "The model was trained on these very rows: its support vectors are among them, in their places. What "
            "follows says how well it fits them. On new rows it will do worse."
        )
    return False, (
        "The support vectors of the model are not in their places here, so that this is not the file that it was "
        "trained on, or not as it was then. Whether it was trained on single rows of it is not known. On rows that it "
        "was trained on, a model does better than on new ones."
    )


def history_of(machine: Any) -> tuple[bool, str]:
    """Return whether the history of a machine can be drawn, and otherwise why not."""
    history = getattr(machine, "history_", None)
    if not history:
        return False, "The model keeps no history of its fit."
    needed = ("level", "partitions", "seconds", "kernel_evaluations", "relative_gap")
    can_draw = all(
        all(_is_finite(entry.get(name)) for name in needed) and _is_finite(np.sum(entry.get("objective", np.nan)))
        for entry in history
    )
    if can_draw:
        return True, ""
    last = [f"{plain(name).replace('_', ' ')} {value:.4g}" for name, value in history[-1].items() if _is_finite(value)]
    return False, (
        f"The model keeps a history of {count(len(history))} entries, which are not those of levels and objectives "
        f"that a picture is drawn of. The last one: {', '.join(last)}."
    )


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and math.isfinite(value)
