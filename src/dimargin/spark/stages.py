"""Classifiers, regressors and a detector as pyspark.ml estimators and models."""

from __future__ import annotations

from typing import Any

from pyspark.ml.linalg import DenseMatrix, DenseVector
from pyspark.ml.regression import RegressionModel, Regressor

try:
    from pyspark.sql.functions import arrow_udf as _needed  # noqa: F401
except ImportError as error:
    raise ImportError("dimargin.spark needs pyspark 4.1 or newer: pip install 'dimargin[spark]'") from error

from dimargin import estimators as machines
from dimargin.spark.estimator_and_model import MachineEstimator, MachineModel, MarginEstimator, MarginModel
from dimargin.spark.params import DetectorColumns
from dimargin.spark.prediction import Output


class KernelModel(MachineModel):
    """Base class of the models with a kernel."""

    @property
    def numSupportVectors(self) -> int:
        """Number of support vectors, the training rows that the model contains."""
        return len(self._machine.support_)


class ODMClassificationModel(KernelModel, MarginModel, machine=machines.ODMClassifier):
    """Model of `ODMClassifier`.

    ``ODMClassificationModel.fromSklearn(machine)`` wraps a fitted `dimargin.ODMClassifier`, and
    `toSklearn` returns it. `transform` adds ``rawPrediction`` (for two classes ``[-m, m]``) and
    ``prediction`` (a training label).

    Examples
    --------
    >>> import dimargin
    >>> from dimargin.spark import ODMClassificationModel
    >>> from pyspark.ml.linalg import Vectors
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> model = ODMClassificationModel.fromSklearn(dimargin.ODMClassifier(random_state=0).fit(X, y))
    >>> model.predict(Vectors.dense([0.0, 1.0])), model.numClasses, model.dualityGap <= 1e-3
    (0.0, 2, True)
    """


class ODMClassifier(MarginEstimator, machine=machines.ODMClassifier):
    """Kernel Optimal margin Distribution Machine: `dimargin.ODMClassifier` on a DataFrame.

    Parameters
    ----------
    featuresCol : str or list of str, default="features"
        A column of vectors or of arrays of numbers; or plain numeric columns, one per feature
        (`featuresCols`).
    labelCol, predictionCol, rawPredictionCol : str
        Columns as in all of pyspark.ml; labels are numbers. An output column with an empty name is
        not added.
    weightCol, idCol : str, optional
        Columns of the rows' weights, and of their keys, by which rows are sampled and assigned to
        shards instead of by their content.
    lam, upsilon, theta, fitIntercept, kernel, gamma, degree, coef0, strategy, ... :
        The parameters of `dimargin.ODMClassifier` in pyspark.ml's spelling (``nLevels``,
        ``maxIter``), `random_state` as ``seed``; ``explainParams()`` lists them with their
        defaults. `kernel` must be a name.

    See Also
    --------
    dimargin.ODMClassifier : The same machine on one computer.

    Examples
    --------
    >>> from dimargin import DivideAndConquer
    >>> from dimargin.spark import ODMClassifier
    >>> odm = ODMClassifier(lam=1000.0, nLevels=2, strategy=DivideAndConquer(prediction="naive")).setSeed(1)
    >>> odm.getLam(), odm.getStrategy(), odm.getFeaturesCol()
    (1000.0, DivideAndConquer(prediction='naive'), 'features')
    >>> print(odm.explainParam("stopLevel").partition(". ")[0])
    stopLevel: Level whose model is returned; 0 is the whole problem
    """

    model = ODMClassificationModel


class SVMClassificationModel(KernelModel, MarginModel, machine=machines.SVMClassifier):
    """Model of `SVMClassifier`; see `ODMClassificationModel`."""


class SVMClassifier(MarginEstimator, machine=machines.SVMClassifier):
    """Kernel support vector machine: `dimargin.SVMClassifier` on a DataFrame.

    Parameters
    ----------
    C, loss, fitIntercept, kernel, gamma, degree, coef0, strategy, ... :
        The parameters of `dimargin.SVMClassifier`, and columns, as in `ODMClassifier`.

    Examples
    --------
    >>> from dimargin.spark import SVMClassifier
    >>> SVMClassifier(C=10.0, fitIntercept=True, featuresCol=["width", "height"]).getFeaturesCols()
    ['width', 'height']
    """

    model = SVMClassificationModel


class LinearModel(MachineModel):
    """Base class of the models with a coefficient for every feature."""

    @property
    def coefficientMatrix(self) -> DenseMatrix:
        """Coefficients, in one row for two classes or a regressor, else in one row per class."""
        values: Any = self._machine.coef_
        return DenseMatrix(*values.shape, values.ravel().tolist(), isTransposed=True)

    @property
    def interceptVector(self) -> DenseVector:
        """Intercepts, as many as rows of `coefficientMatrix`."""
        return DenseVector(self._machine.intercept_)

    @property
    def coefficients(self) -> DenseVector:
        """Coefficients of two classes or a regressor; raises ValueError for more."""
        return DenseVector(self._of_two_classes(self._machine.coef_))

    @property
    def intercept(self) -> float:
        """Intercept of two classes or a regressor; raises ValueError for more."""
        return float(self._of_two_classes(self._machine.intercept_))

    def _of_two_classes(self, values: Any) -> Any:
        if len(values) > 1:
            raise ValueError(f"this model has {len(values)} classes: see coefficientMatrix and interceptVector")
        return values[0]


class LinearODMClassificationModel(LinearModel, MarginModel, machine=machines.LinearODMClassifier):
    """Model of `LinearODMClassifier`; see `ODMClassificationModel`."""


class LinearODMClassifier(MarginEstimator, machine=machines.LinearODMClassifier):
    """Linear Optimal margin Distribution Machine: `dimargin.LinearODMClassifier` on a DataFrame.

    Parameters
    ----------
    lam, upsilon, theta, solver, fitIntercept, ... :
        The parameters of `dimargin.LinearODMClassifier`, and columns, as in `ODMClassifier`.

    Examples
    --------
    >>> from dimargin.spark import LinearODMClassifier
    >>> LinearODMClassifier(solver="dsvrg", maxIter=50).getMaxIter()
    50
    """

    model = LinearODMClassificationModel


class LinearSVMClassificationModel(LinearModel, MarginModel, machine=machines.LinearSVMClassifier):
    """Model of `LinearSVMClassifier`; see `ODMClassificationModel`."""


class LinearSVMClassifier(MarginEstimator, machine=machines.LinearSVMClassifier):
    """Linear support vector machine: `dimargin.LinearSVMClassifier` on a DataFrame.

    Parameters
    ----------
    C, loss, solver, fitIntercept, ... :
        The parameters of `dimargin.LinearSVMClassifier`, and columns, as in `ODMClassifier`.

    Examples
    --------
    >>> from dimargin.spark import LinearSVMClassifier
    >>> LinearSVMClassifier(C=10.0, loss="squared_hinge").getLoss()
    'squared_hinge'
    """

    model = LinearSVMClassificationModel


class SVMRegressionModel(KernelModel, RegressionModel, machine=machines.SVMRegressor):
    """Model of `SVMRegressor`, with ``fromSklearn`` and ``toSklearn`` as in `ODMClassificationModel`."""


class SVMRegressor(MachineEstimator, Regressor, machine=machines.SVMRegressor):
    """Support vector regression with kernels: `dimargin.SVMRegressor` on a DataFrame.

    Parameters
    ----------
    featuresCol, labelCol, weightCol, idCol, predictionCol : str
        Columns as in `ODMClassifier`; labels are the targets.
    C, epsilon, loss, fitIntercept, kernel, gamma, degree, coef0, strategy, ... :
        The parameters of `dimargin.SVMRegressor` in pyspark.ml's spelling.

    Examples
    --------
    >>> from dimargin.spark import SVMRegressor
    >>> SVMRegressor(C=10.0, epsilon=0.5, strategy="dc").getEpsilon()
    0.5
    """

    model = SVMRegressionModel


class LinearSVMRegressionModel(LinearModel, RegressionModel, machine=machines.LinearSVMRegressor):
    """Model of `LinearSVMRegressor`; see `SVMRegressionModel`."""


class LinearSVMRegressor(MachineEstimator, Regressor, machine=machines.LinearSVMRegressor):
    """Linear support vector regression: `dimargin.LinearSVMRegressor` on a DataFrame.

    Parameters
    ----------
    C, epsilon, loss, solver, fitIntercept, ... :
        The parameters of `dimargin.LinearSVMRegressor`, and columns, as in `SVMRegressor`.

    Examples
    --------
    >>> from dimargin.spark import LinearSVMRegressor
    >>> LinearSVMRegressor(loss="squared_epsilon_insensitive", labelCol="price").getLabelCol()
    'price'
    """

    model = LinearSVMRegressionModel


class OneClassCoreSetSVMModel(KernelModel, DetectorColumns, machine=machines.OneClassCoreSetSVM):
    """Model of `OneClassCoreSetSVM`, with ``fromSklearn`` and ``toSklearn`` as in `ODMClassificationModel`."""

    def _outputs(self) -> list[Output]:
        return [self._output("rawPredictionCol", "score"), *super()._outputs()]


class OneClassCoreSetSVM(MachineEstimator, DetectorColumns, machine=machines.OneClassCoreSetSVM):
    """Detector of outliers: `dimargin.OneClassCoreSetSVM` on a DataFrame, trained on the driver.

    Parameters
    ----------
    featuresCol, weightCol, idCol : str
        Columns as in `ODMClassifier`. There may be at most 2^24 values (rows times features, or stored values
        of sparse vectors).
    predictionCol, rawPredictionCol : str
        New columns: 1 for inliers and -1 for outliers, and scores, which are negative for outliers.
    C, epsilon, kernel, gamma, contamination, ... :
        The parameters of `dimargin.OneClassCoreSetSVM` in pyspark.ml's spelling.

    Examples
    --------
    >>> from dimargin.spark import OneClassCoreSetSVM
    >>> OneClassCoreSetSVM(contamination=0.01, rawPredictionCol="score").getContamination()
    0.01
    """

    model = OneClassCoreSetSVMModel
