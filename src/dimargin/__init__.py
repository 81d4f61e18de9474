"""Distributed margin machines: large-margin classifiers that carry a certificate."""

from importlib.metadata import version

from dimargin.callbacks import LevelScores
from dimargin.displays import ConvergenceDisplay, MarginDistributionDisplay
from dimargin.estimators import ODMClassifier, SVMClassifier
from dimargin.files import load, save
from dimargin.strategies import Cascade, DiODM, DivideAndConquer, Exact

__all__ = [
    "Cascade",
    "ConvergenceDisplay",
    "DiODM",
    "DivideAndConquer",
    "Exact",
    "LevelScores",
    "MarginDistributionDisplay",
    "ODMClassifier",
    "SVMClassifier",
    "__version__",
    "load",
    "save",
]

__version__ = version("dimargin")
