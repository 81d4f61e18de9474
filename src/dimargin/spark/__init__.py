"""Classifiers on Spark, as pyspark.ml estimators and models, in classic sessions and over Spark Connect."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from dimargin.system.lazy import lazily

if find_spec("pyspark") is None:
    raise ImportError("dimargin.spark needs pyspark 4.1 or newer: pip install 'dimargin[spark]'")

if TYPE_CHECKING:
    from dimargin.spark.classifiers import LinearODMClassificationModel as LinearODMClassificationModel
    from dimargin.spark.classifiers import LinearODMClassifier as LinearODMClassifier
    from dimargin.spark.classifiers import LinearSVMClassificationModel as LinearSVMClassificationModel
    from dimargin.spark.classifiers import LinearSVMClassifier as LinearSVMClassifier
    from dimargin.spark.classifiers import ODMClassificationModel as ODMClassificationModel
    from dimargin.spark.classifiers import ODMClassifier as ODMClassifier
    from dimargin.spark.classifiers import SVMClassificationModel as SVMClassificationModel
    from dimargin.spark.classifiers import SVMClassifier as SVMClassifier
    from dimargin.spark.columns import Columns as Columns
else:
    # Executors import modules of the engine, and must not wait for pyspark.ml and scikit-learn.
    __all__, __getattr__, __dir__ = lazily(__name__)
