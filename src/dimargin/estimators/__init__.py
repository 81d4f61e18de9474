"""scikit-learn classes: validation in, strategy out, nothing else."""

from dimargin.estimators.base import KernelMarginClassifier
from dimargin.estimators.odm import ODMClassifier
from dimargin.estimators.svm import SVMClassifier

MACHINES: dict[str, type[KernelMarginClassifier]] = {
    "odm": ODMClassifier,
    "hinge": SVMClassifier,
    "squared_hinge": SVMClassifier,
}
"""Kernel machines by the name of their loss; the first is the command line's default."""

__all__ = ["MACHINES", "KernelMarginClassifier", "ODMClassifier", "SVMClassifier"]
