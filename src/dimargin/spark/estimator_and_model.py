"""Base classes of the pyspark.ml estimators that train on a DataFrame, and of their models."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from pyspark.ml import Estimator, Model
from pyspark.ml.classification import ClassificationModel, Classifier
from pyspark.ml.linalg import DenseVector, SparseVector, Vector
from pyspark.ml.util import DefaultParamsReadable, MLReadable, MLWritable
from pyspark.sql import DataFrame
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from dimargin.estimators.calibration import check_method
from dimargin.problems.solution import History
from dimargin.spark.calibration import with_probabilities
from dimargin.spark.columns import Columns, check_frame
from dimargin.spark.params import HasCalibration, MachineParams, MachineSetters
from dimargin.spark.persistence import ModelReader, ModelWriter, ParamsWriter
from dimargin.spark.prediction import Output, answers_of, with_predictions
from dimargin.spark.shipping import Parcel, machine_in, ready, ship


class MachineEstimator(MachineSetters, Estimator[Any], DefaultParamsReadable, MLWritable):
    """Base class of the estimators; a subclass names its machine and its model."""

    model: type[MachineModel]

    def fit(self, dataset: DataFrame, params: Any = None) -> Any:
        """Train on a DataFrame; see `pyspark.ml.Estimator`.

        Raises
        ------
        TypeError
            For data that is not a Spark DataFrame; the message says how to convert it.
        """
        check_frame(dataset)
        return super().fit(dataset, params)

    def _fit(self, dataset: DataFrame) -> MachineModel:
        """Train on a DataFrame; wrong Params or columns raise an error before any work."""
        prototype, columns = self._prototype(), self._columns()
        columns.check(dataset.schema)
        model = self.model(self._trained(prototype, dataset, columns))
        model.parent = self
        self._copyValues(model._resetUid(self.uid))
        return model

    def _trained(self, prototype: Any, dataset: DataFrame, columns: Columns) -> Any:
        from dimargin.spark.training import train

        return train(prototype, dataset, columns, checkpoint_dir=self.getCheckpointDir())

    def write(self) -> ParamsWriter:
        """Return a writer of the Params."""
        return ParamsWriter(self)


class MachineModel(MachineParams, Model, MLReadable, MLWritable):
    """Base class of the models: a fitted scikit-learn machine, and the columns that it predicts from and to.

    Attributes
    ----------
    parent : MachineEstimator or None
        Estimator that trained the model in this process.
    """

    def __init__(self, machine: Any) -> None:
        check_is_fitted(machine)
        own = machine_in(machine)
        if type(own) is not self.machine:
            raise TypeError(
                f"{type(self).__name__} wraps a dimargin.{self.machine.__name__}, got a {type(own).__qualname__}"
            )
        classes = getattr(machine, "classes_", np.empty(0))
        if classes.dtype.kind not in "biuf":
            raise ValueError(
                f"{type(self).__name__} predicts numbers, like all of pyspark.ml, but this machine was trained on the "
                f"labels {classes.tolist()}; train it on labels from sklearn.preprocessing.LabelEncoder"
            )
        if own is not machine and len(machine.calibrated_classifiers_) > 1:
            raise ValueError(
                f"{type(self).__name__} wraps one machine, and this CalibratedClassifierCV averages "
                f"{len(machine.calibrated_classifiers_)}; fit it with ensemble=False"
            )
        super().__init__()
        self.parent: MachineEstimator | None = None
        self._fitted = copy.copy(machine)
        self._machine = machine_in(self._fitted)  # This is `_fitted` itself unless that is calibrated.
        self._parcel: Parcel | None = None

    @classmethod
    def fromSklearn(cls, machine: Any) -> Self:
        """Wrap a fitted scikit-learn machine in a model, with its parameters as Params.

        A classifier may be in a CalibratedClassifierCV with ``ensemble=False``.

        Raises
        ------
        TypeError, ValueError
            For a machine of another class, labels that are not numbers, or a kernel that is a
            function.
        """
        model = cls(machine)
        model._take_parameters_of(model._machine)
        return model if model._machine is model._fitted else model._set(calibration=machine.method)

    def toSklearn(self) -> Any:
        """Return the fitted scikit-learn machine; `dimargin.save` writes it as a model file."""
        return copy.copy(self._fitted)

    # ---- facts -----------------------------------------------------------------------------------------------

    @property
    def numFeatures(self) -> int:
        """Number of features."""
        return int(self._machine.n_features_in_)

    @property
    def objective(self) -> float | list[float]:
        """Primal objective; for more than two classes one per class."""
        return _plain(self._machine.objective_)

    @property
    def dualObjective(self) -> float | list[float]:
        """Dual objective, at most the primal one."""
        return _plain(self._machine.dual_objective_)

    @property
    def dualityGap(self) -> float:
        """Relative duality gap of the worst class."""
        return float(self._machine.duality_gap_)

    @property
    def certificate(self) -> str:
        """Problem that the gap belongs to: "global", "partitioned" or "landmark"."""
        return str(self._machine.certificate_)

    @property
    def status(self) -> str:
        """Reason why training ended."""
        return str(self._machine.status_)

    @property
    def history(self) -> History:
        """History of the training, with one entry per level or step."""
        history: History = copy.deepcopy(self._machine.history_)
        return history

    # ---- prediction ------------------------------------------------------------------------------------------

    def predict(self, value: Vector) -> float:
        """Return the prediction of one row."""
        return float(self._answer("prediction", value))

    def _answer(self, name: str, value: Vector) -> Any:
        rows: Any = np.asarray(value.toArray(), dtype=np.float64)[None]
        return answers_of(ready(self._fitted), csr_array(rows) if isinstance(value, SparseVector) else rows)[name][0]

    def _outputs(self) -> list[Output]:
        """Return the columns that `transform` adds."""
        return [self._output("predictionCol", "prediction")]

    def _output(self, param: str, answer: str, **metadata: Any) -> Output:
        return Output(param, self.getOrDefault(param), answer, {"ml_attr": metadata} if metadata else {})

    def _transform(self, dataset: DataFrame) -> DataFrame:
        """Add predictions, on the executors."""
        check_frame(dataset)
        columns = self._columns(self.numFeatures)
        columns.check(dataset.schema)
        columns = columns.named_by(self.getIdCol(), dataset.schema)
        self._parcel = ship(self._fitted, dataset.sparkSession, self._parcel)
        return with_predictions(dataset, columns, self._parcel, self._outputs())

    # ---- persistence -----------------------------------------------------------------------------------------

    def write(self) -> ModelWriter:
        """Return a writer of the model and its Params."""
        return ModelWriter(self)

    @classmethod
    def read(cls) -> ModelReader:
        """Return a reader of saved models."""
        return ModelReader(cls)


class MarginModel(MachineModel, HasCalibration, ClassificationModel):
    """Base class of the models of classifiers."""

    @property
    def numClasses(self) -> int:
        """Number of classes."""
        return len(self._machine.classes_)

    @property
    def classes(self) -> list[float]:
        """Labels, in the order of the raw predictions."""
        return [float(label) for label in self._machine.classes_]

    def predictRaw(self, value: Vector) -> DenseVector:
        """Return the decision values of one row, in the order of `classes`; those of two classes are opposite."""
        return DenseVector(self._answer("raw", value))

    def predictProbability(self, value: Vector) -> DenseVector:
        """Return the probabilities of `classes` for one row; raises ValueError if the model has none."""
        if self._machine is self._fitted:
            raise ValueError("this model has no probabilities: set calibration='sigmoid' before fit")
        return DenseVector(self._answer("probability", value))

    def _outputs(self) -> list[Output]:
        n_classes = self.numClasses
        outputs = [self._output("rawPredictionCol", "raw", num_attrs=n_classes)]
        if self._machine is not self._fitted:
            outputs.append(self._output("probabilityCol", "probability", num_attrs=n_classes))
        nominal = {"type": "nominal", "num_vals": n_classes} if self.classes == [*range(n_classes)] else {}
        return [*outputs, self._output("predictionCol", "prediction", **nominal)]


class MarginEstimator(MachineEstimator, HasCalibration, Classifier[Any]):
    """Base class of the classifiers."""

    def _trained(self, prototype: Any, dataset: DataFrame, columns: Columns) -> Any:
        method = self.getCalibration()
        if method is None:
            return super()._trained(prototype, dataset, columns)
        check_method(method)
        return with_probabilities(super()._trained, prototype, dataset, columns, method)


def _plain(objective: Any) -> float | list[float]:
    return float(objective) if np.ndim(objective) == 0 else [float(value) for value in objective]
