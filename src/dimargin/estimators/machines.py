"""Names of the machines on the command line, in model files and on Spark."""

from __future__ import annotations

from typing import Any

from dimargin.estimators.linear_odm import LinearODMClassifier
from dimargin.estimators.linear_svm import LinearSVMClassifier
from dimargin.estimators.linear_svr import LinearSVMRegressor
from dimargin.estimators.margin_classifier import MarginClassifier
from dimargin.estimators.margin_regressor import MarginRegressor
from dimargin.estimators.odm import ODMClassifier
from dimargin.estimators.svm import SVMClassifier
from dimargin.estimators.svr import SVMRegressor

MACHINES: dict[str, type[MarginClassifier] | type[MarginRegressor]] = {
    "squared_hinge": SVMClassifier,
    "hinge": SVMClassifier,
    "odm": ODMClassifier,
    "linear_odm": LinearODMClassifier,
    "linear_hinge": LinearSVMClassifier,
    "linear_squared_hinge": LinearSVMClassifier,
    "epsilon_insensitive": SVMRegressor,
    "squared_epsilon_insensitive": SVMRegressor,
    "linear_epsilon_insensitive": LinearSVMRegressor,
    "linear_squared_epsilon_insensitive": LinearSVMRegressor,
}
"""Machines by the name of their loss; the first of each task is its default on the command line."""


def machines_for(task: str | None) -> dict[str, type[Any]]:
    """Return the machines of a task, "classification" or "regression"; all of them for None."""
    others = {"classification": MarginRegressor, "regression": MarginClassifier}
    return {name: kind for name, kind in MACHINES.items() if task is None or not issubclass(kind, others[task])}


def machine_of(name: str, **parameters: Any) -> Any:
    """Return an unfitted machine for a name in `MACHINES`, with the loss of that name if it has several."""
    kind: Any = MACHINES[name]
    losses = {"loss": name.removeprefix("linear_")} if hasattr(kind, "loss") else {}
    return kind(**losses, **parameters)


def name_of(machine: Any) -> str | None:
    """Return the name in `MACHINES` of a machine with its loss; None for another class."""
    names = [name for name, kind in MACHINES.items() if type(machine) is kind]
    return next((n for n in names if n.removeprefix("linear_") == getattr(machine, "loss", n)), None) or (
        names[0] if names else None
    )
