"""Params derived from the constructors of the scikit-learn classes: names, defaults and texts.

A new machine needs two classes in `dimargin.spark`; a new parameter of an estimator needs no change
here.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable
from typing import Any, ClassVar, Self

from pyspark.ml.param import Param, Params, TypeConverters, shared
from sklearn.base import BaseEstimator

from dimargin.estimators.docstrings import parameter_texts
from dimargin.kernels.functions import KERNEL_NAMES
from dimargin.spark.columns import Columns
from dimargin.spark.values import as_object, converter


def spark_name(name: str) -> str:
    """Return the name of a parameter in pyspark.ml.

    Examples
    --------
    >>> spark_name("max_iter"), spark_name("random_state"), spark_name("lam")
    ('maxIter', 'seed', 'lam')
    """
    return "seed" if name == "random_state" else re.sub(r"_(\w)", lambda match: match[1].upper(), name)


def parameters(machine: type[BaseEstimator]) -> dict[str, inspect.Parameter]:
    """Return the parameters of the constructor that are Params, by their names in the constructor."""
    own = inspect.signature(machine).parameters
    excluded = {"n_jobs", "verbose", "warm_start", "multi_class", "pair_scores", "n_sites", "topology", "shards"}
    # Spark has its own settings for these, or none.
    return {name: parameter for name, parameter in own.items() if name not in excluded}


class MachineParams(shared.HasWeightCol):
    """Params of an estimator and its models: columns, and the parameters of the machine.

    Subclasses name the machine: ``class ODMClassifier(..., machine=dimargin.ODMClassifier)``.
    """

    machine: ClassVar[type[BaseEstimator]]

    featuresCols: Param[list[str]] = Param(
        Params._dummy(), "featuresCols", "plain numeric columns, one per feature, instead of featuresCol.",
        TypeConverters.toListString,
    )  # fmt: skip
    idCol: Param[str] = Param(
        Params._dummy(),
        "idCol",
        "column of unique row keys, by which rows are sampled and assigned to shards. If this is not set or empty, the "
        "content of the rows is used.",
        TypeConverters.toString,
    )

    def __init_subclass__(cls, machine: type[BaseEstimator] | None = None, **others: Any) -> None:
        """Add the Params and getters of a machine to the class."""
        super().__init_subclass__(**others)
        if machine is None:
            return
        cls.machine, cls.__module__ = machine, "dimargin.spark"  # Saved stages name their classes by this module.
        hints, texts = typing.get_type_hints(machine.__init__), _texts(machine)
        for name in parameters(machine):
            param = spark_name(name)
            text = in_spark_names(machine, texts.get(name, ""))
            setattr(cls, param, Param(Params._dummy(), param, text, converter(name, param, hints[name])))
            _add_method(cls, "get", param, _getter(name, param), f"Value of `{param}` or its default.")

    def __init__(self) -> None:
        super().__init__()
        given = {spark_name(name): parameter.default for name, parameter in parameters(self.machine).items()}
        self._setDefault(**given)

    def getFeaturesCols(self) -> list[str]:
        """Value of `featuresCols`; empty if `featuresCol` is used."""
        return list(self.getOrDefault(self.featuresCols)) if self.isDefined(self.featuresCols) else []

    def getIdCol(self) -> str | None:
        """Value of `idCol`, or None."""
        return self._column("idCol")

    def setFeaturesCols(self, value: list[str]) -> Self:
        """Set `featuresCols`, which then replaces `featuresCol`; returns self."""
        return self._set(featuresCols=value)

    def _set(self, **given: Any) -> Self:
        """Set Params; a list for `featuresCol` sets `featuresCols`, and None clears the name of a column."""
        columns = given.get("featuresCol")
        if isinstance(columns, (list, tuple)):
            del given["featuresCol"]
            given["featuresCols"] = columns
        for name in [name for name, value in given.items() if value is None]:
            if name.endswith(("Col", "Cols", "Dir", "calibration")):
                self.clear(self.getParam(name))
                del given[name]
            else:
                self.getParam(name).typeConverter(None)  # This raises unless None is a valid value.
        for one, other in (("featuresCol", "featuresCols"), ("featuresCols", "featuresCol")):
            if one in given:  # The last one set counts.
                self.clear(self.getParam(other))
        super()._set(**given)
        return self

    def _column(self, name: str) -> str | None:
        return (self.getOrDefault(name) or None) if self.isDefined(name) else None

    def _columns(self, n_features: int | None = None) -> Columns:
        """Return the columns for training or, with the number of features of a model, for prediction."""
        plain = tuple(self.getFeaturesCols())
        features = plain if self.isDefined(self.featuresCols) else self.getOrDefault("featuresCol")
        if n_features is not None:
            return Columns(features, n_features=n_features)
        label = self.getOrDefault("labelCol") if self.hasParam("labelCol") else None
        return Columns(features, label, self._column("weightCol"), self._column("idCol"))

    def _prototype(self) -> Any:
        """Return the unfitted scikit-learn machine of these Params; raises an error for a value out of range."""
        given = {name: as_object(name, self.getOrDefault(spark_name(name))) for name in parameters(self.machine)}
        machine = self.machine(**given)
        try:
            getattr(machine, "fit_plan", machine._check_parameters)()
        except (TypeError, ValueError) as error:
            raise type(error)(in_spark_names(self.machine, str(error))) from error
        return machine

    def _take_parameters_of(self, machine: Any) -> None:
        """Set the Params in which a scikit-learn machine differs from the defaults."""
        for name, parameter in parameters(self.machine).items():
            value = getattr(machine, name)
            if value is not parameter.default and value != parameter.default:
                self._set(**{spark_name(name): value})


class MachineSetters(MachineParams):
    """Params of an estimator, with setters, a checkpoint folder, and a constructor with keywords only."""

    checkpointDir: Param[str] = Param(
        Params._dummy(),
        "checkpointDir",
        "checkpoint folder of one fit, which Spark reads and writes: progress is saved after every level, and a fit "
        "with the same params and data resumes from it. If this is not set or empty, nothing is saved.",
        TypeConverters.toString,
    )

    def __init_subclass__(cls, machine: type[BaseEstimator] | None = None, **others: Any) -> None:
        """Add the setters of a machine's Params to the class."""
        super().__init_subclass__(machine=machine, **others)
        if machine is not None:
            for param in map(spark_name, parameters(machine)):
                _add_method(cls, "set", param, _setter(param), f"Set `{param}`; returns self.")

    def __init__(self, **given: Any) -> None:
        super().__init__()
        self.setParams(**given)

    def setParams(self, **given: Any) -> Self:
        """Set any Params by their names.

        Raises
        ------
        TypeError
            For a name that is not a Param, or a value of the wrong type.
        """
        unknown = [name for name in given if not self.hasParam(name)]
        if unknown:
            known = ", ".join(param.name for param in self.params)
            raise TypeError(f"{type(self).__name__} has no param {unknown[0]!r}; it has {known}")
        return self._set(**given)

    def getCheckpointDir(self) -> str | None:
        """Value of `checkpointDir`, or None."""
        return self._column("checkpointDir")


class HasCalibration(shared.HasProbabilityCol):
    """Params of classifiers with probabilities."""

    calibration: Param[str] = Param(
        Params._dummy(),
        "calibration",
        "'sigmoid', 'isotonic' or 'temperature': how decision values become probabilities, which takes five more fits. "
        "If this is not set or empty, probabilityCol is not added.",
        TypeConverters.toString,
    )

    def getCalibration(self) -> str | None:
        """Value of `calibration`, or None."""
        return (self.getOrDefault("calibration") or None) if self.isDefined("calibration") else None


class DetectorColumns(shared.HasFeaturesCol, shared.HasPredictionCol, shared.HasRawPredictionCol):
    """Columns of detectors, whose raw predictions are scores."""


def _texts(machine: type[BaseEstimator]) -> dict[str, str]:
    """Return the texts of the parameters of a machine."""
    return parameter_texts(machine) | {
        # The docstrings of these do not apply on Spark, or rely on scikit-learn's conventions.
        "kernel": f"{{{', '.join(map(repr, KERNEL_NAMES))}}}. The kernel.",
        "class_weight": "'balanced', or a dict from labels to weights. Factors of the rows' weights.",
        "random_state": "Seed of all random choices: a whole number, or None for a different one each time.",
    }


def in_spark_names(machine: type[BaseEstimator], text: str) -> str:
    """Return a text with the names of the machine's parameters replaced by those of the Params."""
    names = [name for name in parameters(machine) if spark_name(name) != name]
    return re.sub(rf"\b({'|'.join(names)})\b", lambda match: spark_name(match[1]), text)


def _getter(name: str, param: str) -> Callable[..., Any]:
    def get(self: MachineParams) -> Any:
        return as_object(name, self.getOrDefault(param))

    return get


def _setter(param: str) -> Callable[..., Any]:
    def set_(self: MachineParams, value: Any) -> MachineParams:
        return self._set(**{param: value})

    return set_


def _add_method(cls: type, operation: str, param: str, method: Callable[..., Any], text: str) -> None:
    method.__name__ = operation + param[0].upper() + param[1:]
    method.__qualname__, method.__doc__ = f"{cls.__qualname__}.{method.__name__}", text
    setattr(cls, method.__name__, method)


for _class, _params in (
    (MachineSetters, ("checkpointDir", "weightCol", "idCol")),
    (HasCalibration, ("calibration", "probabilityCol")),
    (DetectorColumns, ("featuresCol", "predictionCol", "rawPredictionCol")),
):
    for _param in _params:
        _add_method(_class, "set", _param, _setter(_param), f"Set `{_param}`; returns self.")
