"""Names of the machines on the command line, in model files and on Spark."""

from __future__ import annotations

from dimargin.estimators.linear_odm import LinearODMClassifier
from dimargin.estimators.margin_classifier import MarginClassifier
from dimargin.estimators.odm import ODMClassifier
from dimargin.estimators.svm import SVMClassifier

MACHINES: dict[str, type[MarginClassifier]] = {
    "squared_hinge": SVMClassifier,
    "hinge": SVMClassifier,
    "odm": ODMClassifier,
    "linear_odm": LinearODMClassifier,
}
"""Machines by the name of their loss; the first is the default of the command line."""
