"""Names of the machines on the command line, in model files and on Spark."""

from __future__ import annotations

from typing import Any

from dimargin.estimators.linear_odm import LinearODMClassifier
from dimargin.estimators.linear_svm import LinearSVMClassifier
from dimargin.estimators.margin_classifier import MarginClassifier
from dimargin.estimators.odm import ODMClassifier
from dimargin.estimators.svm import SVMClassifier

MACHINES: dict[str, type[MarginClassifier]] = {
    "squared_hinge": SVMClassifier,
    "hinge": SVMClassifier,
    "odm": ODMClassifier,
    "linear_odm": LinearODMClassifier,
    "linear_hinge": LinearSVMClassifier,
    "linear_squared_hinge": LinearSVMClassifier,
}
"""Machines by the name of their loss; the first is the default of the command line."""


def machine_of(name: str, **parameters: Any) -> MarginClassifier:
    """Return an unfitted machine for a name in `MACHINES`, with the loss of that name if it has several."""
    kind: Any = MACHINES[name]
    losses = {"loss": name.removeprefix("linear_")} if hasattr(kind, "loss") else {}
    machine: MarginClassifier = kind(**losses, **parameters)
    return machine


def name_of(machine: Any) -> str | None:
    """Return the name in `MACHINES` of a machine with its loss; None for another class."""
    names = [name for name, kind in MACHINES.items() if type(machine) is kind]
    return next((n for n in names if n.removeprefix("linear_") == getattr(machine, "loss", n)), None) or (
        names[0] if names else None
    )
