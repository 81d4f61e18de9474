"""Distributed margin machines: large-margin classifiers that carry a certificate."""

from importlib.metadata import version

from dimargin.callbacks import LevelScores
from dimargin.displays import ConvergenceDisplay, MarginDistributionDisplay, TuningDisplay
from dimargin.estimators import LinearODMClassifier, ODMClassifier, SVMClassifier
from dimargin.files import from_libsvm, load, save, to_libsvm
from dimargin.search import ODMClassifierCV
from dimargin.strategies import (
    Cascade,
    DiODM,
    DiP,
    DivideAndConquer,
    Exact,
    Landmark,
    LinearCoreSetSVRG,
    LinearDSVRG,
    LinearNewton,
    LinearSVRG,
)

__all__ = [
    "Cascade",
    "ConvergenceDisplay",
    "DiODM",
    "DiP",
    "DivideAndConquer",
    "Exact",
    "Landmark",
    "LevelScores",
    "LinearCoreSetSVRG",
    "LinearDSVRG",
    "LinearNewton",
    "LinearODMClassifier",
    "LinearSVRG",
    "MarginDistributionDisplay",
    "ODMClassifier",
    "ODMClassifierCV",
    "SVMClassifier",
    "TuningDisplay",
    "__version__",
    "from_libsvm",
    "load",
    "save",
    "to_libsvm",
]

__version__ = version("dimargin")
