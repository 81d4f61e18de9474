"""Machines on Spark, as pyspark.ml estimators and models, in classic sessions and over Spark Connect."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from dimargin.system.lazy import lazily

if find_spec("pyspark") is None:
    raise ImportError("dimargin.spark needs pyspark 4.1 or newer: pip install 'dimargin[spark]'")

if TYPE_CHECKING:
    from dimargin.spark.columns import Columns as Columns
    from dimargin.spark.stages import LinearODMClassificationModel as LinearODMClassificationModel
    from dimargin.spark.stages import LinearODMClassifier as LinearODMClassifier
    from dimargin.spark.stages import LinearSVMClassificationModel as LinearSVMClassificationModel
    from dimargin.spark.stages import LinearSVMClassifier as LinearSVMClassifier
    from dimargin.spark.stages import LinearSVMRegressionModel as LinearSVMRegressionModel
    from dimargin.spark.stages import LinearSVMRegressor as LinearSVMRegressor
    from dimargin.spark.stages import ODMClassificationModel as ODMClassificationModel
    from dimargin.spark.stages import ODMClassifier as ODMClassifier
    from dimargin.spark.stages import OneClassCoreSetSVM as OneClassCoreSetSVM
    from dimargin.spark.stages import OneClassCoreSetSVMModel as OneClassCoreSetSVMModel
    from dimargin.spark.stages import SVMClassificationModel as SVMClassificationModel
    from dimargin.spark.stages import SVMClassifier as SVMClassifier
    from dimargin.spark.stages import SVMRegressionModel as SVMRegressionModel
    from dimargin.spark.stages import SVMRegressor as SVMRegressor
else:
    # Executors import modules of the engine, and must not wait for pyspark.ml and scikit-learn.
    __all__, __getattr__, __dir__ = lazily(__name__)
