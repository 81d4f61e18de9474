"""Estimators in scikit-learn's style, which validate data and delegate training to a strategy."""

from typing import TYPE_CHECKING

from dimargin.system.lazy import lazily

if TYPE_CHECKING:
    from dimargin.estimators.core_set_svdd import CoreSetSVDD as CoreSetSVDD
    from dimargin.estimators.core_set_svm import CoreSetSVMClassifier as CoreSetSVMClassifier
    from dimargin.estimators.detectors import CoreSetDetector as CoreSetDetector
    from dimargin.estimators.enclosing_ball import EnclosingBall as EnclosingBall
    from dimargin.estimators.enclosing_ball import minimum_enclosing_ball as minimum_enclosing_ball
    from dimargin.estimators.fit_plan import FitPlan as FitPlan
    from dimargin.estimators.gossip_svm import GossipSVMClassifier as GossipSVMClassifier
    from dimargin.estimators.kernel_margin_classifier import KernelMarginClassifier as KernelMarginClassifier
    from dimargin.estimators.linear_loss_machine import LinearLossClassifier as LinearLossClassifier
    from dimargin.estimators.linear_machine import LinearMarginClassifier as LinearMarginClassifier
    from dimargin.estimators.linear_odm import LinearODMClassifier as LinearODMClassifier
    from dimargin.estimators.linear_svm import LinearSVMClassifier as LinearSVMClassifier
    from dimargin.estimators.linear_svr import LinearSVMRegressor as LinearSVMRegressor
    from dimargin.estimators.machines import MACHINES as MACHINES
    from dimargin.estimators.margin_classifier import MarginClassifier as MarginClassifier
    from dimargin.estimators.margin_machine import MarginMachine as MarginMachine
    from dimargin.estimators.margin_regressor import MarginRegressor as MarginRegressor
    from dimargin.estimators.multiclass import MulticlassKernelClassifier as MulticlassKernelClassifier
    from dimargin.estimators.odm import ODMClassifier as ODMClassifier
    from dimargin.estimators.one_class import OneClassCoreSetSVM as OneClassCoreSetSVM
    from dimargin.estimators.svm import SVMClassifier as SVMClassifier
    from dimargin.estimators.svr import SVMRegressor as SVMRegressor
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
