"""Values as JSON and separate arrays, for model files and checkpoints; decoding executes no code.

A value of a kind that JSON lacks becomes an object whose single key names the kind. Kinds that only
some files have are encoded and decoded by functions that the caller passes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
EncodeOther = Callable[[Any, str, Arrays], Any]
"""Encoder of values of other kinds, given the value, its name and the arrays to add to."""
DecodeOther = Callable[[Mapping[str, Any], Mapping[str, NDArray[Any]]], Any]
"""Decoder of values of other kinds, given their JSON and the arrays."""


class Step(NamedTuple):
    """A step of a model, as plain values.

    Attributes
    ----------
    name : str
        Name of the step; "machine" for a machine without a pipeline.
    class_name : str
        Name of its class, such as "LinearODMClassifier".
    parameters : mapping of str to value
        All or some of the parameters of its class; the others get their defaults.
    attributes : mapping of str to value
        Fitted attributes, including ``n_features_in_``. To predict, a LinearODMClassifier of d
        features also needs ``classes_`` of shape (n_classes,), ``coef_`` of shape (n_outputs, d),
        ``intercept_`` of shape (n_outputs,) and ``_partial``, a tuple of an array of shape
        (n_outputs, d + 1), from which ``partial_fit`` continues, and the weight of the rows seen.
        There is one output for two classes, and one per class for more. The module
        `dimargin.io.models.soundness` lists what kernel machines and detectors need.
    """

    name: str
    class_name: str
    parameters: Mapping[str, Any]
    attributes: Mapping[str, Any]


def refuse_value(value: Any, where: str, arrays: Arrays) -> Any:
    """Raise TypeError: the default `encode_other`, for files without other kinds of values."""
    raise TypeError(f"{where} cannot be stored in a model file: {value!r}")


def refuse_kind(value: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Raise ValueError: the default `decode_other`, for files without other kinds of values."""
    raise ValueError(f"unknown kind of value: {sorted(value)}")


def encode(
    value: Any, where: str, arrays: Arrays, encode_other: EncodeOther = refuse_value, *, exact: bool = False
) -> Any:
    """Return JSON for a number, a text, None, an array, CSR rows, or a list, tuple or dictionary of these.

    Parameters
    ----------
    value : object
    where : str
        Name of the value in messages, and prefix of the names of its arrays.
    arrays : dict
        Receives the numeric arrays.
    encode_other : callable
        Encodes other values; by default they raise TypeError.
    exact : bool, default=False
        Whether numpy scalars and text arrays are stored as they are in memory, rather than as
        Python numbers and JSON. Subclasses of list, tuple and dict then count as other values.
    """

    def inner(item: Any, where: str) -> Any:
        return encode(item, where, arrays, encode_other, exact=exact)

    if isinstance(value, np.generic):
        if exact:
            return _in_arrays("scalar", np.asarray(value), where, arrays)
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    kind = type(value) if exact else next((kind for kind in (list, tuple, dict) if isinstance(value, kind)), None)
    if kind in (list, tuple):
        return {kind.__name__: [inner(item, f"{where}.{k}") for k, item in enumerate(value)]}
    if kind is dict:
        pairs = enumerate(value.items())
        return {"dict": [[inner(a, f"{where}.key{k}"), inner(b, f"{where}.{k}")] for k, (a, b) in pairs]}
    if isinstance(value, np.ndarray) and hasattr(value, "mask"):  # Only uses of np.ma load it.
        parts = {"data": value.data, "mask": np.ma.getmaskarray(value)}
        return {"masked": encode_parts(parts, where, arrays, encode_other)}
    if isinstance(value, np.ndarray) and not exact:
        # The order of entries in memory is stored, because products of matrices are rounded according to it.
        if axes := [axis for axis, step in enumerate(value.strides) if step < 0 and value.shape[axis] > 1]:
            return {"flipped": inner(np.flip(value, tuple(axes)), where), "axes": axes}
        if value.ndim == 2 and value.strides[0] < value.strides[1] and min(value.shape) > 1:
            return {"transposed": inner(value.T, where)}
    if isinstance(value, np.ndarray) and value.dtype.kind in ("biufU" if exact else "biuf"):
        return _in_arrays("array", value if exact else np.ascontiguousarray(value), where, arrays)
    if isinstance(value, np.ndarray) and value.dtype.kind in "OU" and not exact:
        labels = [inner(item, f"{where}.{k}") for k, item in enumerate(value.tolist())]
        return {"labels": labels, "dtype": value.dtype.str}
    if getattr(value, "format", None) == "csr":
        parts = {"data": value.data, "indices": value.indices, "indptr": value.indptr}
        return {"csr": encode_parts(parts, where, arrays), "shape": list(value.shape)}
    return encode_other(value, where, arrays)


def _in_arrays(kind: str, value: NDArray[Any], where: str, arrays: Arrays) -> dict[str, str]:
    arrays[where] = value
    return {kind: where}


def encode_parts(
    parts: Mapping[str, Any], where: str, arrays: Arrays, encode_other: EncodeOther = refuse_value
) -> dict[str, Any]:
    """Return JSON for each part of a value; a part is named `where`, a dot and its key."""
    return {key: encode(part, f"{where}.{key}", arrays, encode_other) for key, part in parts.items()}


def decode(value: Any, arrays: Mapping[str, NDArray[Any]], decode_other: DecodeOther = refuse_kind) -> Any:
    """Return the value that `encode` encoded; `decode_other` decodes other kinds.

    Raises ValueError, KeyError or TypeError for input that `encode` cannot have made.
    """
    if not isinstance(value, dict):
        return value

    def inner(item: Any) -> Any:
        return decode(item, arrays, decode_other)

    if "list" in value:
        return [inner(item) for item in value["list"]]
    if "tuple" in value:
        return tuple(inner(item) for item in value["tuple"])
    if "dict" in value:
        return {inner(a): inner(b) for a, b in value["dict"]}
    if "array" in value:
        return arrays[str(value["array"])]  # The first checkpoints named arrays by numbers.
    if "flipped" in value:
        return np.flip(inner(value["flipped"]), tuple(value["axes"]))
    if "transposed" in value:
        return inner(value["transposed"]).T
    if "scalar" in value:
        return arrays[str(value["scalar"])][()]
    if "labels" in value:
        return _decode_labels([inner(item) for item in value["labels"]], value["dtype"])
    if "masked" in value:
        return _decode_masked(**{key: inner(part) for key, part in value["masked"].items()})
    if "csr" in value:
        parts = value["csr"]
        if "tuple" in parts:  # The first checkpoints stored rows this way.
            return _decode_rows(inner(parts))
        return _decode_rows((*(inner(parts[key]) for key in ("data", "indices", "indptr")), value["shape"]))
    return decode_other(value, arrays)


def _decode_labels(values: list[Any], kind: str) -> NDArray[Any]:
    labels = np.empty(len(values), dtype=object)
    for k, label in enumerate(values):  # An assignment to all of them would take lists for arrays.
        labels[k] = label
    # The function np.dtype parses much more than these types, and fails in many ways.
    if not re.fullmatch(r"\|?O|[<>|=]?U[0-9]{1,9}", kind):
        raise ValueError(f"labels of type {kind!r} are not supported")
    dtype, max_bytes = np.dtype(kind), 64 * 2**20
    if dtype.kind == "U" and dtype.itemsize * len(labels) > max_bytes:
        raise ValueError(f"{len(labels)} labels of type {dtype} take more than {max_bytes} bytes")
    return labels.astype(dtype)


def _decode_masked(data: NDArray[Any], mask: NDArray[Any]) -> NDArray[Any]:
    if mask.dtype != bool or mask.shape != data.shape:
        raise ValueError("the mask of an array is not a truth value for each of its entries")
    return np.ma.MaskedArray(data, mask)


def _decode_rows(parts: tuple[Any, ...]) -> Any:
    """Return the CSR array of data, indices, offsets and shape."""
    # Processes that write only linear machines take less memory without SciPy.
    import scipy.sparse as sp

    data, indices, indptr, shape = parts
    # SciPy does not check the offsets if the last one is zero, and then writes out of bounds.
    if indptr.dtype.kind != "i" or indptr.ndim != 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
        raise ValueError("the offsets of sparse rows must start at zero and never decrease")
    rows = sp.csr_array((data, indices, indptr), shape=tuple(shape))
    rows.check_format(full_check=True)
    return rows
