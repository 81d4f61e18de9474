"""scikit-learn classes: validation in, strategy out, nothing else."""

from dimargin.estimators.odm import ODMClassifier

__all__ = ["ODMClassifier"]
