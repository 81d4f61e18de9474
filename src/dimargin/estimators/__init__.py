"""Estimators in scikit-learn's style, which validate data and leave the training to a strategy."""

from dimargin.estimators.base import KernelMarginClassifier
from dimargin.estimators.common import MarginClassifier
from dimargin.estimators.core_set_svdd import CoreSetSVDD
from dimargin.estimators.core_set_svm import CoreSetSVMClassifier
from dimargin.estimators.detectors import CoreSetDetector
from dimargin.estimators.enclosing_ball import EnclosingBall, minimum_enclosing_ball
from dimargin.estimators.gossip import GossipSVMClassifier
from dimargin.estimators.linear import LinearMarginClassifier
from dimargin.estimators.linear_odm import LinearODMClassifier
from dimargin.estimators.odm import ODMClassifier
from dimargin.estimators.one_class import OneClassCoreSetSVM
from dimargin.estimators.svm import SVMClassifier

MACHINES: dict[str, type[MarginClassifier]] = {
    "odm": ODMClassifier,
    "hinge": SVMClassifier,
    "squared_hinge": SVMClassifier,
    "linear_odm": LinearODMClassifier,
}
"""Machines by the name of their loss; the first is the command line's default."""

__all__ = [
    "MACHINES",
    "CoreSetDetector",
    "CoreSetSVDD",
    "CoreSetSVMClassifier",
    "EnclosingBall",
    "GossipSVMClassifier",
    "KernelMarginClassifier",
    "LinearMarginClassifier",
    "LinearODMClassifier",
    "MarginClassifier",
    "ODMClassifier",
    "OneClassCoreSetSVM",
    "SVMClassifier",
    "minimum_enclosing_ball",
]
