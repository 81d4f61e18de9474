"""Distributed margin machines: large-margin classifiers and regressors that carry a certificate."""

from typing import TYPE_CHECKING

from dimargin.system.lazy import lazily
from dimargin.system.moved import find_moved_modules

if TYPE_CHECKING:
    from dimargin.display import ConvergenceDisplay as ConvergenceDisplay
    from dimargin.display import CoreSetConsensusDisplay as CoreSetConsensusDisplay
    from dimargin.display import MarginDistributionDisplay as MarginDistributionDisplay
    from dimargin.display import PerformanceProfileDisplay as PerformanceProfileDisplay
    from dimargin.display import TuningDisplay as TuningDisplay
    from dimargin.estimators import CoreSetSVDD as CoreSetSVDD
    from dimargin.estimators import CoreSetSVMClassifier as CoreSetSVMClassifier
    from dimargin.estimators import FitPlan as FitPlan
    from dimargin.estimators import GossipSVMClassifier as GossipSVMClassifier
    from dimargin.estimators import LinearODMClassifier as LinearODMClassifier
    from dimargin.estimators import LinearSVMClassifier as LinearSVMClassifier
    from dimargin.estimators import LinearSVMRegressor as LinearSVMRegressor
    from dimargin.estimators import ODMClassifier as ODMClassifier
    from dimargin.estimators import OneClassCoreSetSVM as OneClassCoreSetSVM
    from dimargin.estimators import SVMClassifier as SVMClassifier
    from dimargin.estimators import SVMRegressor as SVMRegressor
    from dimargin.estimators import minimum_enclosing_ball as minimum_enclosing_ball
    from dimargin.estimators.callbacks import LevelScores as LevelScores
    from dimargin.estimators.search import LinearODMClassifierCV as LinearODMClassifierCV
    from dimargin.estimators.search import LinearSVMClassifierCV as LinearSVMClassifierCV
    from dimargin.estimators.search import ODMClassifierCV as ODMClassifierCV
    from dimargin.estimators.search import SVMClassifierCV as SVMClassifierCV
    from dimargin.export.c_source import to_c as to_c
    from dimargin.export.compression import compress as compress
    from dimargin.export.onnx_model import to_onnx as to_onnx
    from dimargin.io.libsvm import from_liblinear as from_liblinear
    from dimargin.io.libsvm import from_libsvm as from_libsvm
    from dimargin.io.libsvm import to_liblinear as to_liblinear
    from dimargin.io.libsvm import to_libsvm as to_libsvm
    from dimargin.io.models import load as load
    from dimargin.io.models import save as save
    from dimargin.io.skops_types import TRUSTED_TYPES as TRUSTED_TYPES
    from dimargin.strategies import Cascade as Cascade
    from dimargin.strategies import DiODM as DiODM
    from dimargin.strategies import DiP as DiP
    from dimargin.strategies import DivideAndConquer as DivideAndConquer
    from dimargin.strategies import Exact as Exact
    from dimargin.strategies import Landmark as Landmark
    from dimargin.strategies import LinearCoCoA as LinearCoCoA
    from dimargin.strategies import LinearCoordinateDescent as LinearCoordinateDescent
    from dimargin.strategies import LinearCoreSetSVRG as LinearCoreSetSVRG
    from dimargin.strategies import LinearDSVRG as LinearDSVRG
    from dimargin.strategies import LinearNewton as LinearNewton
    from dimargin.strategies import LinearSVRG as LinearSVRG
    from dimargin.svm.patching import patch_sklearn as patch_sklearn
    from dimargin.svm.patching import unpatch_sklearn as unpatch_sklearn
    from dimargin.version import __version__ as __version__
else:
    _MODULES = ("_core", "gossip", "io", "kernels", "problems", "shards", "solvers", "svm", "system")
    find_moved_modules()
    __all__, __getattr__, __dir__ = lazily(__name__, _MODULES)
