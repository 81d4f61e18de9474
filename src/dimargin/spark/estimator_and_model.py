"""Base classes of the pyspark.ml classifiers: an estimator that trains on a DataFrame, and its model."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from pyspark.ml.classification import ClassificationModel, Classifier
from pyspark.ml.linalg import DenseVector, SparseVector, Vector
from pyspark.ml.util import DefaultParamsReadable, MLReadable, MLWritable
from pyspark.sql import DataFrame
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from dimargin.estimators import MarginClassifier
from dimargin.problems.one_vs_rest import codes_of
from dimargin.problems.solution import History
from dimargin.spark.columns import check_frame
from dimargin.spark.params import MachineParams, MachineSetters
from dimargin.spark.persistence import ModelReader, ModelWriter, ParamsWriter
from dimargin.spark.prediction import raw_predictions, with_predictions
from dimargin.spark.shipping import Parcel, ready, ship
from dimargin.system.arrays import Floats


class MarginEstimator(MachineSetters, Classifier, DefaultParamsReadable, MLWritable):
    """Base class of the estimators; a subclass names its machine and its model."""

    model: type[MarginModel]

    def fit(self, dataset: DataFrame, params: Any = None) -> Any:
        """Train on a DataFrame; see `pyspark.ml.Estimator`.

        Raises
        ------
        TypeError
            For data that is not a Spark DataFrame; the message says how to convert it.
        """
        check_frame(dataset)
        return super().fit(dataset, params)

    def _fit(self, dataset: DataFrame) -> MarginModel:
        """Train on a DataFrame; wrong Params or columns raise an error before any work."""
        from dimargin.spark.training import train

        prototype, columns = self._prototype(), self._columns()
        columns.check(dataset.schema)
        model = self.model(train(prototype, dataset, columns, checkpoint_dir=self.getCheckpointDir()))
        model.parent = self
        self._copyValues(model._resetUid(self.uid))
        return model

    def write(self) -> ParamsWriter:
        """Return a writer of the Params."""
        return ParamsWriter(self)


class MarginModel(MachineParams, ClassificationModel, MLReadable, MLWritable):
    """Base class of the models: a fitted scikit-learn machine, and the columns that it predicts from and to.

    Attributes
    ----------
    parent : MarginEstimator or None
        Estimator that trained the model in this process.
    """

    def __init__(self, machine: MarginClassifier) -> None:
        if type(machine) is not self.machine:
            raise TypeError(
                f"{type(self).__name__} wraps a dimargin.{self.machine.__name__}, got a {type(machine).__qualname__}"
            )
        check_is_fitted(machine)
        if machine.classes_.dtype.kind not in "biuf":
            raise ValueError(
                f"{type(self).__name__} predicts numbers, like all of pyspark.ml, but this machine was trained on the "
                f"labels {machine.classes_.tolist()}; train it on labels from sklearn.preprocessing.LabelEncoder"
            )
        super().__init__()
        self.parent: MarginEstimator | None = None
        self._fitted = copy.copy(machine)
        self._parcel: Parcel | None = None

    @classmethod
    def fromSklearn(cls, machine: MarginClassifier) -> Self:
        """Wrap a fitted scikit-learn machine in a model, with its parameters as Params.

        Raises
        ------
        TypeError, ValueError
            For a machine of another class, labels that are not numbers, or a kernel that is a
            function.
        """
        model = cls(machine)
        model._take_parameters_of(machine)
        return model

    def toSklearn(self) -> Any:
        """Return the fitted scikit-learn machine; `dimargin.save` writes it as a model file."""
        return copy.copy(self._fitted)

    # ---- facts -----------------------------------------------------------------------------------------------

    @property
    def numClasses(self) -> int:
        """Number of classes."""
        return len(self._fitted.classes_)

    @property
    def numFeatures(self) -> int:
        """Number of features."""
        return int(self._fitted.n_features_in_)

    @property
    def classes(self) -> list[float]:
        """Labels, in the order of the raw predictions."""
        return [float(label) for label in self._fitted.classes_]

    @property
    def objective(self) -> float | list[float]:
        """Primal objective; for more than two classes one per class."""
        return _plain(self._fitted.objective_)

    @property
    def dualObjective(self) -> float | list[float]:
        """Dual objective, at most the primal one."""
        return _plain(self._fitted.dual_objective_)

    @property
    def dualityGap(self) -> float:
        """Relative duality gap of the worst class."""
        return float(self._fitted.duality_gap_)

    @property
    def certificate(self) -> str:
        """Problem that the gap belongs to: "global", "partitioned" or "landmark"."""
        return str(self._fitted.certificate_)

    @property
    def status(self) -> str:
        """Reason why training ended."""
        return str(self._fitted.status_)

    @property
    def history(self) -> History:
        """History of the training, with one entry per level or step."""
        history: History = copy.deepcopy(self._fitted.history_)
        return history

    # ---- prediction ------------------------------------------------------------------------------------------

    def predict(self, value: Vector) -> float:
        """Return the label of one row."""
        return float(self._fitted.classes_[codes_of(self._decision_values(value))][0])

    def predictRaw(self, value: Vector) -> DenseVector:
        """Return the decision values of one row, in the order of `classes`; those of two classes are opposite."""
        return DenseVector(raw_predictions(self._decision_values(value))[0])

    def _decision_values(self, value: Vector) -> Floats:
        rows: Any = np.asarray(value.toArray(), dtype=np.float64)[None]
        values: Floats = ready(copy.copy(self._fitted)).decision_function(
            csr_array(rows) if isinstance(value, SparseVector) else rows
        )
        return values

    def _transform(self, dataset: DataFrame) -> DataFrame:
        """Add raw predictions and predictions, on the executors."""
        check_frame(dataset)
        columns = self._columns(self.numFeatures)
        columns.check(dataset.schema)
        columns = columns.named_by(self.getIdCol(), dataset.schema)
        self._parcel = ship(self._fitted, dataset.sparkSession, self._parcel)
        raw, prediction = self.getOrDefault("rawPredictionCol"), self.getOrDefault("predictionCol")
        return with_predictions(dataset, columns, self._parcel, np.asarray(self.classes), raw, prediction)

    # ---- persistence -----------------------------------------------------------------------------------------

    def write(self) -> ModelWriter:
        """Return a writer of the model and its Params."""
        return ModelWriter(self)

    @classmethod
    def read(cls) -> ModelReader:
        """Return a reader of saved models."""
        return ModelReader(cls)


def _plain(objective: Any) -> float | list[float]:
    return float(objective) if np.ndim(objective) == 0 else [float(value) for value in objective]
