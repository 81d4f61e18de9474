"""Model files: arrays and a JSON header in one safetensors file, in which nothing can be executed.

The header names the format version, the package version, the steps of the model (a scaler, then a machine) with their
parameters and fitted attributes, and a checksum over all of it. Loading makes objects of the few classes in `_CLASSES`
only, sets the attributes listed there only, and checks that the arrays fit together before anything is computed with
them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from dimargin.estimators import MACHINES, KernelMarginClassifier, MarginClassifier
from dimargin.files.soundness import check_linear_machine, check_machine, check_scaler
from dimargin.files.writing import write_file
from dimargin.kernels import KERNEL_NAMES, Kernel, RowTransform
from dimargin.partition import KernelClusters, Split
from dimargin.strategies import LINEAR_SOLVERS, STRATEGIES, Committee, Options, Router
from dimargin.user_kernels import UserKernel

FORMAT_VERSION = 1
_KEY = "dimargin"  # of the header among the metadata of the safetensors file
_MACHINE = (
    "classes_", "support_", "support_vectors_", "dual_coef_", "intercept_", "n_support_", "objective_",
    "dual_objective_", "duality_gap_", "certificate_", "status_", "n_iter_", "history_", "_transform", "_router",
    "_n_given",
)  # fmt: skip
_LINEAR = (
    "classes_", "coef_", "intercept_", "objective_", "dual_objective_", "duality_gap_", "certificate_", "status_",
    "n_iter_", "history_", "_partial",
)  # fmt: skip
_ANY = ("n_features_in_", "feature_names_in_")
# what may be stored: class and fitted attributes
_CLASSES: dict[str, tuple[type[BaseEstimator], tuple[str, ...]]] = {
    **{
        machine.__name__: (machine, _MACHINE if issubclass(machine, KernelMarginClassifier) else _LINEAR)
        for machine in MACHINES.values()
    },
    "MinMaxScaler": (MinMaxScaler, ("scale_", "min_", "data_min_", "data_max_", "data_range_", "n_samples_seen_")),
    "StandardScaler": (StandardScaler, ("scale_", "mean_", "var_", "n_samples_seen_")),
    "MaxAbsScaler": (MaxAbsScaler, ("scale_", "max_abs_", "n_samples_seen_")),
}
_OPTIONS: dict[str, type[Options]] = {
    options.__name__: options for options in (*STRATEGIES.values(), *LINEAR_SOLVERS.values())
}


class ModelFileError(ValueError):
    """A model file cannot be used; the message names the file and the reason."""


def save(model: Any, path: str | os.PathLike[str], notes: Mapping[str, Any] | None = None) -> None:
    """Save a fitted model.

    The file is written beside its place and renamed, so that a crash or a full disk leaves neither half a model nor
    harms an old one.

    Parameters
    ----------
    model : ODMClassifier, SVMClassifier, LinearODMClassifier or Pipeline
        Fitted; a pipeline's steps before the machine may be MinMaxScaler, StandardScaler or MaxAbsScaler.
    path : path-like
        An existing file is replaced. The support vectors of a kernel machine, which are training rows, are in it.
    notes : mapping, optional
        Anything that JSON holds, kept in the header.

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
    arrays: dict[str, NDArray[Any]] = {}
    header = {
        "format_version": FORMAT_VERSION,
        "dimargin_version": version("dimargin"),
        "pipeline": isinstance(model, Pipeline),
        "steps": [_encode_step(name, step, arrays) for name, step in steps],
        "notes": dict(notes or {}),
    }
    write_file(path, _file_content(header, arrays))


def load(path: str | os.PathLike[str]) -> Any:
    """Load a model that `save` wrote: its machine, or its pipeline. Nothing in the file is executed.

    Raises
    ------
    ModelFileError
        If the file is no model, is damaged, or was written in a format that this version does not know.
    OSError
        If it cannot be opened.
    """
    return load_with_header(path)[0]


def load_with_header(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """The model and the header of its file, where `save` keeps versions and notes; raises as `load`."""
    header, arrays = _read(Path(path))
    try:
        steps = [(str(step["name"]), _decode_step(step, arrays)) for step in header["steps"]]
        if not steps or not isinstance(steps[-1][1], MarginClassifier):
            raise ValueError("the last step is no machine")
        model = Pipeline(steps) if header["pipeline"] else steps[0][1]
        check_is_fitted(model)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ModelFileError(f"{path} is no sound model: {error}") from error
    return model, header


def _read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    with open(path, "rb"):  # a missing or forbidden file is the system's own error
        pass
    try:
        with safe_open(str(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            if _KEY not in metadata:
                raise ModelFileError(f"{path} is a safetensors file, but no dimargin model")
            checksum, _, text = metadata[_KEY].partition("\n")
            header = json.loads(text)
            if not isinstance(header, dict) or not isinstance(header.get("format_version"), int):
                raise ModelFileError(f"{path} is damaged: its header names no format version")
            if header["format_version"] != FORMAT_VERSION:
                raise ModelFileError(
                    f"{path} has format version {header['format_version']}, written by dimargin "
                    f"{header.get('dimargin_version')}; dimargin {version('dimargin')} reads version {FORMAT_VERSION}"
                )
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, json.JSONDecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ModelFileError(f"{path} is no model file, or damaged: {error}") from error
    if checksum != _checksum(text, arrays):
        raise ModelFileError(f"{path} is damaged: its checksum does not match")
    return header, arrays


def _file_content(header: Mapping[str, Any], arrays: dict[str, NDArray[Any]]) -> bytes:
    text = json.dumps(header)
    # one entry of metadata, because safetensors writes several in any order
    return to_safetensors(arrays, {_KEY: f"{_checksum(text, arrays)}\n{text}"})


def _checksum(header: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()


# ---- steps to JSON and arrays, and back ------------------------------------------------------------------------------


def _encode_step(name: str, step: Any, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    kind = type(step).__name__
    if _CLASSES.get(kind, (None,))[0] is not type(step):
        raise TypeError(f"cannot save a {type(step).__qualname__}; what can be saved: {', '.join(_CLASSES)}")
    check_is_fitted(step)
    names = [a for a in _CLASSES[kind][1] + _ANY if hasattr(step, a)]
    return {
        "name": name,
        "class": kind,
        "parameters": {
            key: _encode(value, f"{name}.{key}", arrays) for key, value in step.get_params(deep=False).items()
        },
        "attributes": {key: _encode(getattr(step, key), f"{name}.{key}", arrays) for key in names},
    }


def _decode_step(step: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> BaseEstimator:
    make, attributes = _CLASSES[step["class"]]
    unknown = set(step["attributes"]) - {*attributes, *_ANY}
    if unknown:
        raise ValueError(f"unknown attributes {sorted(unknown)}")
    estimator = make(**{key: _decode(value, arrays) for key, value in step["parameters"].items()})
    for key, value in step["attributes"].items():
        setattr(estimator, key, _decode(value, arrays))
    if isinstance(estimator, KernelMarginClassifier):
        check_machine(estimator)
    elif isinstance(estimator, MarginClassifier):
        check_linear_machine(estimator)
    else:
        check_scaler(estimator, attributes)
    return estimator


def _encode(value: Any, place: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """JSON for a value; what JSON does not know is an object with the single key of its kind."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_encode(item, f"{place}.{k}", arrays) for k, item in enumerate(value)]}
    if isinstance(value, dict):
        pairs = enumerate(value.items())
        return {"dict": [[_encode(a, place, arrays), _encode(b, f"{place}.{k}", arrays)] for k, (a, b) in pairs]}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        arrays[place] = np.ascontiguousarray(value)
        return {"array": place}
    if isinstance(value, np.ndarray) and value.dtype.kind in "OU":
        return {"labels": [_encode(item, place, arrays) for item in value.tolist()], "dtype": value.dtype.str}
    if sp.issparse(value):
        parts = {"data": value.data, "indices": value.indices, "indptr": value.indptr}
        encoded = {key: _encode(part, f"{place}.{key}", arrays) for key, part in parts.items()}
        return {"csr": encoded, "shape": list(value.shape)}
    if isinstance(value, RowTransform):
        return {
            "row_transform": {
                "kernel": asdict(value.kernel),
                "center": _encode(value.center, f"{place}.center", arrays),
                "dtype": np.dtype(value.dtype).name,
                "difference": value.difference,
                "size": value.size,
            }
        }
    if isinstance(value, UserKernel) and value.function is None:
        return {"precomputed_kernel": True}
    if isinstance(value, Router):
        parts = {"transform": value.rule.transform, "splits": value.rule.splits, **vars(value)}
        del parts["rule"]
        return {"router": {key: _encode(part, f"{place}.{key}", arrays) for key, part in parts.items()}}
    if isinstance(value, Split):
        return {"split": {key: _encode(part, f"{place}.{key}", arrays) for key, part in vars(value).items()}}
    if isinstance(value, Options) and _OPTIONS.get(type(value).__name__) is type(value):
        parameters = value.get_params(deep=False)
        return {"strategy": type(value).__name__, "parameters": _encode(parameters, place, arrays)}
    raise TypeError(f"{place} cannot be stored in a model file: {value!r}")


def _decode(value: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    if not isinstance(value, dict):
        return value
    if "list" in value:
        return [_decode(item, arrays) for item in value["list"]]
    if "tuple" in value:
        return tuple(_decode(item, arrays) for item in value["tuple"])
    if "dict" in value:
        return {_decode(a, arrays): _decode(b, arrays) for a, b in value["dict"]}
    if "array" in value:
        return arrays[value["array"]]
    if "labels" in value:
        labels = np.empty(len(value["labels"]), dtype=object)
        labels[:] = [_decode(item, arrays) for item in value["labels"]]
        dtype = np.dtype(value["dtype"])
        if dtype.kind not in "OU":
            raise ValueError(f"labels of type {dtype}")
        return labels.astype(dtype)
    if "csr" in value:
        data, indices, indptr = (_decode(value["csr"][key], arrays) for key in ("data", "indices", "indptr"))
        matrix = sp.csr_array((data, indices, indptr), shape=tuple(value["shape"]))
        matrix.check_format(full_check=True)
        return matrix
    if "row_transform" in value:
        given = value["row_transform"]
        kernel = Kernel(**given["kernel"])
        if kernel.name not in KERNEL_NAMES:
            raise ValueError(f"unknown kernel {kernel.name!r}")
        precision = {"float32": np.float32, "float64": np.float64}[given["dtype"]]
        center = _decode(given["center"], arrays)
        return RowTransform(kernel, center, precision, bool(given["difference"]), float(given["size"]))  # type: ignore[arg-type]
    if "precomputed_kernel" in value:
        return UserKernel(None)
    if "router" in value:
        parts = {key: _decode(part, arrays) for key, part in value["router"].items()}
        rule = KernelClusters(parts.pop("transform"), parts.pop("splits"))
        return (Committee if "slopes" in parts else Router)(rule, **parts)
    if "split" in value:
        return Split(**{key: _decode(part, arrays) for key, part in value["split"].items()})
    if "strategy" in value:
        return _OPTIONS[value["strategy"]](**_decode(value["parameters"], arrays))
    raise ValueError(f"unknown kind of value: {sorted(value)}")
