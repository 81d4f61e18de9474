"""Conversion of estimators, kernels and routers to files of `dimargin.io.models.model_format`, and back.

Loading creates objects only of the few classes in `STORABLE_CLASSES`, sets only the attributes
listed there, and checks that the arrays fit together before anything is computed with them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dimargin.estimators import (
    CoreSetDetector,
    MarginClassifier,
)
from dimargin.estimators.wide_attributes import kept_of
from dimargin.io.data.chunks import short
from dimargin.io.models import calibrated_steps
from dimargin.io.models.algorithms import algorithm_class
from dimargin.io.models.model_format import ModelFileError, read_raw, write_model
from dimargin.io.models.model_values import decode_transform, encode_transform
from dimargin.io.models.soundness import check_step
from dimargin.io.models.storable_classes import STORABLE_CLASSES
from dimargin.io.models.table_steps import TABLE_STEPS, check_widths, restored, stored
from dimargin.kernels.column_statistics import SparseColumns
from dimargin.kernels.user import UserKernel
from dimargin.shards.partition import KernelClusters, Split
from dimargin.strategies import OPTION_CLASSES, Committee, Options, Router
from dimargin.system.memory import out_of_memory
from dimargin.system.value_tree import Arrays, Step, decode, encode, encode_parts

_COMMON_ATTRS = ("n_features_in_", "feature_names_in_")


def save(model: Any, path: str | os.PathLike[str], notes: Mapping[str, Any] | None = None) -> None:
    """Save a fitted model.

    The file is written under a temporary name and renamed, so that a crash or a full disk neither
    leaves an incomplete model nor damages an old one.

    Parameters
    ----------
    model : one of the classifiers or outlier detectors, or Pipeline, or CalibratedClassifierCV
        The fitted model. A CalibratedClassifierCV of a classifier of this package, or of a pipeline
        that ends with one, may also be the last step of a pipeline; if its `cv` is a splitter, only
        the number of folds is stored. The steps of a pipeline before
        the machine may be MinMaxScaler, StandardScaler, MaxAbsScaler, QuantileTransformer,
        `dimargin.estimators.preprocessing.SparseScaler` or
        `dimargin.estimators.preprocessing.FourierFeatures`, and the first step may be a
        ColumnTransformer of scalers, SimpleImputer, OneHotEncoder,
        `dimargin.estimators.preprocessing.CalendarFeatures` and pipelines of these that was fitted
        to a data frame. A kernel that is a function cannot be stored.
    path : path-like
        The file contains the support vectors of a kernel machine or detector, which are training
        rows. So a new file is readable only by its owner (mode 0600); an existing file is replaced
        and keeps its mode.
    notes : mapping, optional
        Values for the header that JSON can represent.

    Raises
    ------
    TypeError
        For a model, parameter or label that cannot be stored.
    sklearn.exceptions.NotFittedError
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import dimargin as dm
    >>> from pathlib import Path
    >>> from sklearn.datasets import make_moons
    >>> from tempfile import mkdtemp
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> machine = dm.ODMClassifier().fit(X, y)
    >>> path = Path(mkdtemp()) / "moons.dimargin"
    >>> dm.save(machine, path)
    >>> bool((dm.load(path).decision_function(X) == machine.decision_function(X)).all())
    True
    """
    steps = model.steps if isinstance(model, Pipeline) else [("machine", model)]
    plain = [_plain_step(name, step) for name, step in steps]
    _check_loadable(steps, isinstance(model, Pipeline))
    write_model(path, plain, notes, pipeline=isinstance(model, Pipeline), encode_other=_encode_other)


def load(path: str | os.PathLike[str]) -> Any:
    """Load a model that `save` wrote: a machine, a detector or a pipeline.

    Nothing in the file is executed.

    Raises
    ------
    ModelFileError
        If the file is not a model, is damaged, or has a format that this version does not support.
    OSError
        If it cannot be opened.
    """
    return load_with_header(path)[0]


def load_with_header(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """Return the model and the header of its file, with versions and notes; errors as in `load`."""
    header, arrays = read_raw(Path(path))
    try:
        steps = [(str(step["name"]), _decode_step(step, arrays)) for step in header["steps"]]
        model = _model_of(steps, bool(header["pipeline"]))
        check_is_fitted(model)
        _check_notes(header)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise ModelFileError(f"{path} is not a valid model: {short(str(error), 400)}") from error
    except MemoryError as error:
        raise ModelFileError(f"{path}: {out_of_memory('the model')}") from error
    return model, header


def _check_notes(header: Mapping[str, Any]) -> None:
    """Raise ValueError unless the header's version and notes have the types that `save` writes."""
    notes = header["notes"]
    sound = (
        isinstance(header["dimargin_version"], str)
        and isinstance(notes, dict)
        and isinstance(notes.get("label"), (str, int, type(None)))
        and notes.get("zero_based") in (None, True, False)
        and notes.get("decimal_comma") in (None, True, False)
        and isinstance(notes.get("missing"), (str, type(None)))
        and isinstance(na := notes.get("na", []), list)
        and all(isinstance(text, str) for text in na)
    )
    if not sound:
        raise ValueError("the header's version or notes are invalid")


# ---- steps and other values ------------------------------------------------------------------------------------------


def _model_of(steps: list[tuple[str, Any]], pipeline: bool) -> Any:
    kinds = (MarginClassifier, CoreSetDetector, CalibratedClassifierCV)
    machines = [isinstance(step, kinds) for _, step in steps]
    if not any(machines[-1:]):
        raise ValueError("the last step is not a machine")
    if any(machines[:-1]) or (len(steps) > 1 and not pipeline):
        raise ValueError("the steps before the machine are not scalers of a pipeline")
    if any(type(step).__name__ in TABLE_STEPS for _, step in steps[1:]):
        raise ValueError("a step for tables is not the first step")
    check_widths(step for _, step in steps)
    return Pipeline(steps) if pipeline else steps[0][1]


def _check_loadable(steps: list[tuple[str, Any]], pipeline: bool) -> None:
    """Raise TypeError for steps for tables, or calibrated classifiers, that `load` would refuse."""
    try:
        for _, step in steps:
            if type(step).__name__ in (*TABLE_STEPS, CalibratedClassifierCV.__name__):
                arrays: Arrays = {}
                _decode_step(_encode_other(step, "step", arrays)["step"], arrays)
        if len(steps) > 1:
            _model_of(steps, pipeline)
    except (ValueError, KeyError) as error:
        what = "pipeline" if pipeline else "model"
        raise TypeError(f"the {what} cannot be saved: {error}") from error


def _plain_step(name: str, step: Any) -> Step:
    kind = type(step).__name__
    if STORABLE_CLASSES.get(kind, (None,))[0] is not type(step):
        advice = f"supported types are {', '.join(STORABLE_CLASSES)}"
        if hasattr(step, "best_estimator_"):
            advice = "save its best_estimator_, or use skops (docs/interoperability.md)"
        raise TypeError(f"cannot save a model of type {type(step).__qualname__}; {advice}")
    check_is_fitted(step)
    if kind in TABLE_STEPS:
        return Step(name, kind, *stored(step))
    if isinstance(step, CalibratedClassifierCV):
        return Step(name, kind, *calibrated_steps.stored(step))
    absent, names = object(), STORABLE_CLASSES[kind][1] + _COMMON_ATTRS
    own = {name: value for name in names if (value := kept_of(step, name, absent)) is not absent}
    return Step(name, kind, step.get_params(deep=False), own)


def _decode_step(step: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> BaseEstimator:
    if step["class"] in (*TABLE_STEPS, CalibratedClassifierCV.__name__):
        parts = (_decode_parts(step[part], arrays) for part in ("parameters", "attributes"))
        estimator = restored(step["class"], *parts) if step["class"] in TABLE_STEPS else _decode_calibrated(*parts)
        check_step(estimator)
        return estimator
    make, attributes, check = STORABLE_CLASSES[step["class"]]
    unknown = set(step["attributes"]) - {*attributes, *_COMMON_ATTRS}
    if unknown:
        raise ValueError(f"unknown attributes {sorted(unknown)}")
    parameters = _decode_parts(step["parameters"], arrays)
    if make.__module__.startswith("sklearn."):
        parameters = _known_parameters(make, parameters)
    if "multi_class" in parameters:  # Machines were saved without this parameter when votes were the only rule.
        parameters.setdefault("pair_scores", "votes")
    estimator = make(**parameters)
    for key, value in _decode_parts(step["attributes"], arrays).items():
        setattr(estimator, key, value)
    check_step(estimator)
    check(estimator)
    return estimator


def _decode_calibrated(parameters: dict[str, Any], attributes: dict[str, Any]) -> CalibratedClassifierCV:
    members = [_model_of(member["steps"], bool(member["pipeline"])) for member in attributes["members"]]
    return calibrated_steps.restored(parameters, attributes, members)


def _known_parameters(make: type[BaseEstimator], parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a scaler that the installed scikit-learn has; others must be off."""
    known = {name: value for name, value in parameters.items() if name in signature(make).parameters}
    for name in parameters.keys() - known.keys():
        if parameters[name] not in (None, False):
            raise ValueError(
                f"{make.__name__} has {name}={parameters[name]!r}, which scikit-learn {sklearn.__version__} does not "
                "know: load it with the version that the model was trained with, or a later one"
            )
    return known


def _encode_other(value: Any, where: str, arrays: Arrays) -> Any:
    if isinstance(value, UserKernel) and value.function is None:
        return {"precomputed_kernel": True}
    if isinstance(value, SparseColumns):
        own = {"values": value.values, "columns": value.columns}
        return {"sparse_columns": _encode_parts(own, where, arrays), "width": value.width}
    if isinstance(value, Router):
        parts = {"transform": value.rule.transform, "splits": value.rule.splits, **vars(value)}
        del parts["rule"]
        return {"router": _encode_parts(parts, where, arrays)}
    if isinstance(value, Split):
        return {"split": _encode_parts(vars(value), where, arrays)}
    if isinstance(value, Options) and OPTION_CLASSES.get(type(value).__name__) is type(value):
        parameters = value.get_params(deep=False)
        return {"strategy": type(value).__name__, "parameters": encode(parameters, where, arrays, _encode_other)}
    if type(value) is algorithm_class(type(value).__name__):
        known = {field.name: getattr(value, field.name) for field in fields(value)}
        return {"algorithm": type(value).__name__, "parameters": encode(known, where, arrays, _encode_other)}
    if isinstance(value, BaseEstimator):
        inner = _plain_step(where, value)
        parts = {"parameters": inner.parameters, "attributes": inner.attributes}
        return {"step": {"class": inner.class_name, **{k: _encode_parts(v, where, arrays) for k, v in parts.items()}}}
    return encode_transform(value, where, arrays)


def _encode_parts(parts: Mapping[str, Any], where: str, arrays: Arrays) -> dict[str, Any]:
    return encode_parts(parts, where, arrays, _encode_other)


def _decode_parts(parts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    return {key: decode(part, arrays, _decode_other) for key, part in parts.items()}


def _decode_other(value: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Any:
    if "precomputed_kernel" in value:
        return UserKernel(None)
    if "sparse_columns" in value:
        return _sparse_columns(**_decode_parts(value["sparse_columns"], arrays), width=value["width"])
    if "router" in value:
        parts = _decode_parts(value["router"], arrays)
        rule = KernelClusters(parts.pop("transform"), parts.pop("splits"))
        return (Committee if "slopes" in parts else Router)(rule, **parts)
    if "split" in value:
        return Split(**_decode_parts(value["split"], arrays))
    if "step" in value:
        return _decode_step(value["step"], arrays)
    if "strategy" in value:
        return OPTION_CLASSES[value["strategy"]].from_saved(decode(value["parameters"], arrays, _decode_other))
    if "algorithm" in value:
        return _algorithm(value["algorithm"], decode(value["parameters"], arrays, _decode_other))
    return decode_transform(value, arrays)


def _sparse_columns(values: Any, columns: Any, width: Any) -> SparseColumns:
    sound = (
        isinstance(width, int)
        and columns.dtype == np.int64
        and columns.ndim == 1
        and bool((np.diff(columns, prepend=-1, append=width) > 0).all())
        and values.shape[-1:] == columns.shape
    )
    if not sound:
        raise ValueError("the columns of a sparse array are invalid, or do not match its values")
    return SparseColumns(values, columns, width)


def _algorithm(name: str, parameters: dict[str, Any]) -> Any:
    """Return a gossip algorithm, or a part of one; raises ValueError for invalid parameters."""
    kind = algorithm_class(name)
    if kind is None:
        raise ValueError(f"unknown algorithm {name!r}")
    made = kind(**parameters)
    made.validate()
    return made
