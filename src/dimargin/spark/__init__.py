"""Classifiers on Spark, as pyspark.ml estimators and models, in classic sessions and over Spark Connect."""

try:
    from pyspark.sql.functions import arrow_udf as _needed  # noqa: F401
except ImportError as error:
    raise ImportError("dimargin.spark needs pyspark 4.1 or newer: pip install 'dimargin[spark]'") from error

from dimargin.spark.classifiers import (
    LinearODMClassificationModel,
    LinearODMClassifier,
    ODMClassificationModel,
    ODMClassifier,
    SVMClassificationModel,
    SVMClassifier,
)
from dimargin.spark.columns import Columns

__all__ = [
    "Columns",
    "LinearODMClassificationModel",
    "LinearODMClassifier",
    "ODMClassificationModel",
    "ODMClassifier",
    "SVMClassificationModel",
    "SVMClassifier",
]
