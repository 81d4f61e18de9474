"""Params of the machines, derived from the constructors of the scikit-learn classes: names, defaults, texts.

A new machine needs its two classes in `dimargin.spark`; a new parameter of an estimator needs nothing.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable
from typing import Any, ClassVar, Self

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasWeightCol

from dimargin.estimators import MarginClassifier
from dimargin.estimators.docstrings import parameter_texts
from dimargin.kernels.functions import KERNEL_NAMES
from dimargin.spark.columns import Columns
from dimargin.spark.values import as_object, converter

_OWN = {"n_jobs", "verbose", "warm_start", "multi_class"}  # what Spark does in its own way, or not at all
_TEXTS = {  # where the docstring says more than holds here, or leaves it to scikit-learn's conventions
    "kernel": f"{{{', '.join(map(repr, KERNEL_NAMES))}}}. The kernel.",
    "class_weight": "'balanced', or a dict from labels to weights. Factors of the rows' weights.",
    "random_state": "Seed of all that is random: a whole number, or None for another one each time.",
}


def spark_name(name: str) -> str:
    """Return the name that a parameter has in pyspark.ml.

    Examples
    --------
    >>> spark_name("max_iter"), spark_name("random_state"), spark_name("lam")
    ('maxIter', 'seed', 'lam')
    """
    return "seed" if name == "random_state" else re.sub(r"_(\w)", lambda match: match[1].upper(), name)


def parameters(machine: type[MarginClassifier]) -> dict[str, inspect.Parameter]:
    """Return the parameters of the constructor that are Params, by their names in the constructor."""
    own = inspect.signature(machine).parameters
    return {name: parameter for name, parameter in own.items() if name not in _OWN}


class MachineParams(HasWeightCol):
    """Params that an estimator and its models have: columns, and those of the machine.

    Subclasses name the machine: ``class ODMClassifier(..., machine=dimargin.ODMClassifier)``.
    """

    machine: ClassVar[type[MarginClassifier]]

    featuresCols: Param[list[str]] = Param(
        Params._dummy(), "featuresCols", "plain numeric columns, one a feature, in place of featuresCol.",
        TypeConverters.toListString,
    )  # fmt: skip
    idCol: Param[str] = Param(
        Params._dummy(), "idCol",
        "column of the rows' own keys, unique: sampling and dealing of rows go by them. If this is not set or empty, "
        "they go by the content of the rows.",
        TypeConverters.toString,
    )  # fmt: skip

    def __init_subclass__(cls, machine: type[MarginClassifier] | None = None, **others: Any) -> None:
        """Give the class the Params and getters of a machine."""
        super().__init_subclass__(**others)
        if machine is None:
            return
        cls.machine = machine
        hints, texts = typing.get_type_hints(machine.__init__), parameter_texts(machine) | _TEXTS
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
        """Value of `featuresCols`; empty where `featuresCol` holds."""
        return list(self.getOrDefault(self.featuresCols)) if self.isDefined(self.featuresCols) else []

    def getIdCol(self) -> str | None:
        """Value of `idCol`, or None."""
        return self._column("idCol")

    def setFeaturesCols(self, value: list[str]) -> Self:
        """Set `featuresCols`, which then holds in place of `featuresCol`; returns self."""
        return self._set(featuresCols=value)

    def _set(self, **given: Any) -> Self:
        """Set Params; a list for `featuresCol` is one of plain columns, and None clears the name of a column."""
        columns = given.get("featuresCol")
        if isinstance(columns, (list, tuple)):
            del given["featuresCol"]
            given["featuresCols"] = columns
        for name in [name for name, value in given.items() if value is None]:
            if name.endswith(("Col", "Cols", "Dir")):
                self.clear(self.getParam(name))
                del given[name]
            else:
                self.getParam(name).typeConverter(None)  # raises unless None is a value of this one
        for one, other in (("featuresCol", "featuresCols"), ("featuresCols", "featuresCol")):
            if one in given:  # the last one set holds
                self.clear(self.getParam(other))
        super()._set(**given)
        return self

    def _column(self, name: str) -> str | None:
        return (self.getOrDefault(name) or None) if self.isDefined(name) else None

    def _columns(self, n_features: int | None = None) -> Columns:
        """Return the columns to train from, or, with the number of features of a model, to predict from."""
        plain = tuple(self.getFeaturesCols())
        features = plain if self.isDefined(self.featuresCols) else self.getOrDefault("featuresCol")
        if n_features is not None:
            return Columns(features, n_features=n_features)
        return Columns(features, self.getOrDefault("labelCol"), self._column("weightCol"), self._column("idCol"))

    def _prototype(self) -> MarginClassifier:
        """Return the unfitted scikit-learn machine of these Params; raises an error for one out of its range."""
        given = {name: as_object(name, self.getOrDefault(spark_name(name))) for name in parameters(self.machine)}
        machine = self.machine(**given)
        try:
            machine._check_parameters()
        except (TypeError, ValueError) as error:
            raise type(error)(in_spark_names(self.machine, str(error))) from error
        return machine

    def _take_parameters_of(self, machine: MarginClassifier) -> None:
        """Set the Params in which a scikit-learn machine differs from the defaults."""
        for name, parameter in parameters(self.machine).items():
            value = getattr(machine, name)
            if value is not parameter.default and value != parameter.default:
                self._set(**{spark_name(name): value})


class MachineSetters(MachineParams):
    """Params of an estimator, with setters, a folder for checkpoints, and a constructor of keywords only."""

    checkpointDir: Param[str] = Param(
        Params._dummy(), "checkpointDir",
        "folder that Spark reads and writes, of one fit. After every level the fit writes down there how far it has "
        "come, and another one of the same params and data goes on from there. If this is not set or empty, none does.",
        TypeConverters.toString,
    )  # fmt: skip

    def __init_subclass__(cls, machine: type[MarginClassifier] | None = None, **others: Any) -> None:
        """Give the class the setters of a machine's Params."""
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
            For a name that is no Param, or a value of the wrong type.
        """
        unknown = [name for name in given if not self.hasParam(name)]
        if unknown:
            known = ", ".join(param.name for param in self.params)
            raise TypeError(f"{type(self).__name__} has no param {unknown[0]!r}; it has {known}")
        return self._set(**given)

    def getCheckpointDir(self) -> str | None:
        """Value of `checkpointDir`, or None."""
        return self._column("checkpointDir")

    def setCheckpointDir(self, value: str) -> Self:
        """Set `checkpointDir`; returns self."""
        return self._set(checkpointDir=value)

    def setWeightCol(self, value: str) -> Self:
        """Set `weightCol`; returns self."""
        return self._set(weightCol=value)

    def setIdCol(self, value: str) -> Self:
        """Set `idCol`; returns self."""
        return self._set(idCol=value)


def in_spark_names(machine: type[MarginClassifier], text: str) -> str:
    """Return a text in which the machine's parameters have the names of the Params."""
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
