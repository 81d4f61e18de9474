"""Conversion of estimators, kernels and routers to files of `dimargin.io.models.model_format`, and back.

Loading creates objects only of the classes in the registry, `dimargin.io.models.storable_classes`,
sets only the attributes listed there, and checks that the values fit together before anything is
computed with them.
"""

from __future__ import annotations

import os
import re
from collections import UserDict
from collections.abc import Mapping
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline

from dimargin.estimators.nested_steps import flat_steps
from dimargin.estimators.wide_attributes import kept_of
from dimargin.io.data.chunks import short
from dimargin.io.models.algorithms import algorithm_class
from dimargin.io.models.declared_values import check_declared
from dimargin.io.models.model_format import ModelFileError, encoded_model, file_content, read_raw
from dimargin.io.models.model_values import decode_transform, encode_transform
from dimargin.io.models.named_values import (
    distribution_named,
    dtype_named,
    encode_named,
    function_named,
    splitter_named,
)
from dimargin.io.models.search_steps import check_pipeline, stored_pipeline
from dimargin.io.models.soundness import check_step
from dimargin.io.models.storable_classes import Storable, entry_named, entry_of, model_of
from dimargin.kernels.column_statistics import SparseColumns
from dimargin.kernels.user import UserKernel
from dimargin.shards.partition import KernelClusters, Split
from dimargin.strategies import OPTION_CLASSES, Committee, Options, Router
from dimargin.system.memory import out_of_memory
from dimargin.system.value_tree import Arrays, Step, decode, encode, encode_parts
from dimargin.system.writing import write_file

_COMMON_ATTRS = ("n_features_in_", "feature_names_in_")
_DECODING_ERRORS = (
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    IndexError,
    OverflowError,
    RecursionError,
    re.error,
)
"""Errors of decoding values that `save` does not write."""


def save(model: Any, path: str | os.PathLike[str], notes: Mapping[str, Any] | None = None) -> None:
    """Save a fitted model.

    The file is written under a temporary name and renamed, so that a crash or a full disk neither
    leaves an incomplete model nor damages an old one.

    Parameters
    ----------
    model : one of the classifiers, searches or outlier detectors, or Pipeline, or CalibratedClassifierCV
        The fitted model. The machine may be in an `ODMClassifierCV`, `SVMClassifierCV`,
        GridSearchCV, RandomizedSearchCV, HalvingGridSearchCV or CalibratedClassifierCV (if its `cv` is
        a splitter, only the number of folds is stored), and after steps of a Pipeline: transformers of
        scikit-learn and of ``dimargin.estimators.preprocessing``, and those that you registered
        (docs/interoperability.md lists all). A kernel that is a function cannot be stored.
    path : path-like
        The file contains the support vectors of a kernel machine or detector, which are training
        rows. So a new file is readable only by its owner (mode 0600); an existing file is replaced
        and keeps its mode.
    notes : mapping, optional
        Values for the header that JSON can represent. Commands use "label", the name of the column of
        labels, and "text", that of texts.

    Raises
    ------
    TypeError
        For a model, step, parameter or label that cannot be stored; no file is touched.
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
    is_pipeline = isinstance(model, Pipeline)
    steps = stored_pipeline(model)["steps"] if is_pipeline else [("machine", model)]
    for name, step in flat_steps(model):
        entry_of(name, step)
    plain = [Step(name, *_parts_of(name, step)) for name, step in steps]
    header, arrays = encoded_model(plain, notes, pipeline=is_pipeline, encode_other=_encode_other)
    try:
        _decode_model(header, arrays)
    except _DECODING_ERRORS as error:
        raise TypeError(f"the model cannot be saved: {short(str(error), 400)}") from error
    write_file(path, file_content(header, arrays), private=True)


def load(path: str | os.PathLike[str]) -> Any:
    """Load a model that `save` wrote: a machine, a detector, a search or a pipeline.

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
        model = _decode_model(header, arrays)
        _check_notes(header)
    except _DECODING_ERRORS as error:
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
        and notes.get("thousands") in (None, ",", ".", "'", " ")
        and isinstance(na := notes.get("na", []), list)
        and all(isinstance(text, str) for text in na)
    )
    if not sound:
        raise ValueError("the header's version or notes are invalid")


# ---- steps and other values ------------------------------------------------------------------------------------------


class _UsedOnce(UserDict[str, NDArray[Any]]):
    """Arrays of a file, each of which is one value: a file cannot take more memory by naming an array often."""

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self.data:
            raise ValueError(f"the array {name!r} is missing, or is the value of two parts")
        return self.data.pop(name)


def _decode_model(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Return the model of a file; raises one of `_DECODING_ERRORS` if it cannot be used."""
    once = _UsedOnce(arrays)
    steps = [_decode_named_step(step, once) for step in header["steps"]]
    return model_of(steps, bool(header["pipeline"]))


def _parts_of(name: str, step: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return the class, parameters and attributes of a fitted step for a file; raises TypeError."""
    if isinstance(step, str):
        return step, {}, {}
    entry, kind = entry_of(name, step), type(step).__name__
    if not entry.is_fitted(step):
        raise NotFittedError(f"the {kind} {name!r} is not fitted; fit the model before saving it")
    try:
        if entry.to_parts is not None:
            parameters, attributes = entry.to_parts(step)
        else:
            absent = object()
            found = {key: kept_of(step, key, absent) for key in entry.attributes}
            parameters = step.get_params(deep=False)
            attributes = {key: value for key, value in found.items() if value is not absent}
    except ValueError as error:
        raise TypeError(f"cannot save the {kind} {name!r}: {error}") from error
    if entry.from_parts is None:
        attributes |= {key: vars(step)[key] for key in _COMMON_ATTRS if key in vars(step)}
    return kind, parameters, attributes


def _encode_estimator(value: BaseEstimator, where: str, arrays: Arrays) -> dict[str, Any]:
    entry = entry_of(where, value)
    if entry.is_fitted(value):
        kind, *parts = _parts_of(where, value)
        parameters, attributes = (_encode_parts(part, where, arrays) for part in parts)
        return {"step": {"class": kind, "parameters": parameters, "attributes": attributes}}
    parameters = stored_pipeline(value) if entry.kind is Pipeline else value.get_params(deep=False)
    return {"unfitted": entry.kind.__name__, "parameters": _encode_parts(parameters, where, arrays)}


def _decode_named_step(step: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> tuple[str, Any]:
    name = str(step["name"])
    try:
        return name, _decode_step(step, arrays)
    except _DECODING_ERRORS as error:
        raise ValueError(f"step {name!r}: {error}") from error


def _decode_step(step: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Any:
    if step["class"] == "passthrough":
        return "passthrough"
    entry = entry_named(step["class"])
    parameters, attributes = (_decode_parts(step[part], arrays) for part in ("parameters", "attributes"))
    if entry.from_parts is not None:
        estimator = entry.from_parts(parameters, attributes)
    else:
        if unknown := set(attributes) - {*entry.attributes, *_COMMON_ATTRS}:
            raise ValueError(f"unknown attributes {sorted(unknown)}")
        estimator = _made(entry, parameters)
        for key, value in attributes.items():
            setattr(estimator, key, value)
        check_declared(estimator, {**(entry.parameters or {}), **entry.attributes})
    check_step(estimator, entry.has_width)
    entry.check(estimator)
    entry.finish(estimator)
    return estimator


def _made(entry: Storable, parameters: dict[str, Any]) -> Any:
    """Return an estimator that is not fitted; raises TypeError or ValueError for other parameters than it has."""
    if entry.parameters is not None and set(parameters) != set(entry.parameters):
        raise ValueError(f"a {entry.kind.__name__} has the parameters {sorted(parameters)}")
    if entry.kind.__module__.startswith("sklearn."):
        parameters = _known_parameters(entry.kind, parameters)
    if (
        "pair_scores" in signature(entry.kind).parameters
    ):  # Machines were saved without this parameter when votes were the only rule.
        parameters.setdefault("pair_scores", "votes")
    return entry.kind(**parameters)


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
        shown = {"is_csr": True} if value.is_csr else {}
        return {"sparse_columns": _encode_parts(own, where, arrays), "width": value.width, **shown}
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
        return _encode_estimator(value, where, arrays)
    if (named := encode_named(value, where)) is not None:
        if "parameters" in named:
            named["parameters"] = _encode_parts(named["parameters"], where, arrays)
        return named
    return encode_transform(value, where, arrays)


def _encode_parts(parts: Mapping[str, Any], where: str, arrays: Arrays) -> dict[str, Any]:
    return encode_parts(parts, where, arrays, _encode_other)


def _decode_parts(parts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    return {key: decode(part, arrays, _decode_other) for key, part in parts.items()}


def _decode_other(value: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Any:
    if "precomputed_kernel" in value:
        return UserKernel(None)
    if "sparse_columns" in value:
        own = _decode_parts(value["sparse_columns"], arrays)
        return _sparse_columns(**own, width=value["width"], is_csr=value.get("is_csr", False))
    if "router" in value:
        parts = _decode_parts(value["router"], arrays)
        rule = KernelClusters(parts.pop("transform"), parts.pop("splits"))
        return (Committee if "slopes" in parts else Router)(rule, **parts)
    if "split" in value:
        return Split(**_decode_parts(value["split"], arrays))
    if "step" in value:
        return _decode_step(value["step"], arrays)
    if "unfitted" in value:
        return _unfitted(value["unfitted"], _decode_parts(value["parameters"], arrays))
    if "splitter" in value:
        return splitter_named(value["splitter"], _decode_parts(value["parameters"], arrays))
    if "distribution" in value:
        return distribution_named(value["distribution"], **_decode_parts(value["parameters"], arrays))
    if "function" in value:
        return function_named(value["function"])
    if "dtype" in value:
        return dtype_named(value["dtype"])
    if "strategy" in value:
        return OPTION_CLASSES[value["strategy"]].from_saved(decode(value["parameters"], arrays, _decode_other))
    if "algorithm" in value:
        return _algorithm(value["algorithm"], decode(value["parameters"], arrays, _decode_other))
    return decode_transform(value, arrays)


def _unfitted(name: str, parameters: dict[str, Any]) -> BaseEstimator:
    entry = entry_named(name)
    made: BaseEstimator = _made(entry, parameters)
    if isinstance(made, Pipeline):
        check_pipeline(made)
    if entry.is_fitted(made):  # Such estimators are stored as steps, whose parameters are checked.
        raise ValueError(f"a {name} is stored as if it were not fitted")
    return made


def _sparse_columns(values: Any, columns: Any, width: Any, is_csr: Any) -> SparseColumns:
    sound = (
        isinstance(width, int)
        and columns.dtype == np.int64
        and columns.ndim == 1
        and bool((np.diff(columns, prepend=-1, append=width) > 0).all())
        and values.shape[-1:] == columns.shape
        and (is_csr is False or (is_csr is True and values.ndim == 2))
    )
    if not sound:
        raise ValueError("the columns of a sparse array are invalid, or do not match its values")
    return SparseColumns(values, columns, width, is_csr)


def _algorithm(name: str, parameters: dict[str, Any]) -> Any:
    """Return a gossip algorithm, or a part of one; raises ValueError for invalid parameters."""
    kind = algorithm_class(name)
    if kind is None:
        raise ValueError(f"unknown algorithm {name!r}")
    made = kind(**parameters)
    made.validate()
    return made
