"""Format of model files: a JSON header and arrays in a safetensors file that executes nothing.

The header has the format version, the package version, and the steps of the model (a scaler, then a
machine) with their parameters and fitted attributes; a checksum covers all of it. This module does
not import estimators, so that a process can write a model without loading scikit-learn;
`dimargin.io.models.conversion` creates estimators.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as from_safetensors
from safetensors.numpy import save as to_safetensors

from dimargin.system.memory import out_of_memory
from dimargin.system.printing import PrintableError
from dimargin.system.reading import read_rest
from dimargin.system.value_tree import Arrays, EncodeOther, encode_parts, refuse_value
from dimargin.system.value_tree import Step as Step
from dimargin.system.writing import write_file
from dimargin.version import __version__

FORMAT_VERSION = 1
_METADATA_KEY = "dimargin"  # The metadata of the safetensors file have the header under this key.
_KEY_BYTES, _START_BYTES = f'"{_METADATA_KEY}":'.encode(), 64  # The key is among the first 64 bytes of a file.
_MAX_HEADER_LENGTH = 32 * 2**20  # Objects need up to twenty times as many bytes as characters of JSON.


class ModelFileError(PrintableError, ValueError):
    """Error for a model file that cannot be used; the message names the file and the reason."""


# ---- files -----------------------------------------------------------------------------------------------------------


def write_model(
    path: str | os.PathLike[str],
    steps: Sequence[Step],
    notes: Mapping[str, Any] | None = None,
    *,
    pipeline: bool | None = None,
    encode_other: EncodeOther = refuse_value,
    durable: bool = True,
) -> None:
    """Write a model file for `dimargin.load`, either completely or not at all.

    The last of the `steps` is the machine. Their values are numbers, texts, None, arrays of numbers
    or labels, CSR rows, and lists, tuples and dictionaries of these; `encode_other` encodes other
    values. They are checked when the file is loaded, not here. `notes` are values for the header
    that JSON can represent. `dimargin.load` returns a pipeline if `pipeline` is true, by default if
    there is more than one step; `durable` is as in `dimargin.system.writing.write_file`.

    Raises
    ------
    TypeError
        For a value that cannot be stored.
    OSError
        If the file cannot be written; an old one is then unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> fitted = {
    ...     "classes_": np.array(["ham", "spam"]), "coef_": np.array([[1.0, -2.0]]), "intercept_": np.array([0.5]),
    ...     "_partial": (np.zeros((1, 3)), 0), "n_features_in_": 2,
    ... }
    >>> path = Path(mkdtemp()) / "spam.dimargin"
    >>> write_model(path, [Step("machine", "LinearODMClassifier", {"lam": 100.0}, fitted)])
    >>> import dimargin
    >>> dimargin.load(path).predict([[3.0, 1.0], [0.0, 1.0]]).tolist()
    ['spam', 'ham']
    """
    content = model_content(steps, notes, pipeline=pipeline, encode_other=encode_other)
    write_file(path, content, durable, private=True)


def model_content(
    steps: Sequence[Step],
    notes: Mapping[str, Any] | None = None,
    *,
    pipeline: bool | None = None,
    encode_other: EncodeOther = refuse_value,
) -> bytes:
    """Return the bytes that `write_model` would write, the same for the same model."""
    return file_content(*encoded_model(steps, notes, pipeline=pipeline, encode_other=encode_other))


def encoded_model(
    steps: Sequence[Step],
    notes: Mapping[str, Any] | None = None,
    *,
    pipeline: bool | None = None,
    encode_other: EncodeOther = refuse_value,
) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a model file."""
    arrays: Arrays = {}
    header = {
        "format_version": FORMAT_VERSION,
        "dimargin_version": __version__,
        "pipeline": len(steps) > 1 if pipeline is None else pipeline,
        "steps": [_encoded_step(step, arrays, encode_other) for step in steps],
        "notes": dict(notes or {}),
    }
    return header, arrays


def _encoded_step(step: Step, arrays: Arrays, encode_other: EncodeOther) -> dict[str, Any]:
    return {
        "name": step.name,
        "class": step.class_name,
        "parameters": encode_parts(step.parameters, step.name, arrays, encode_other),
        "attributes": encode_parts(step.attributes, step.name, arrays, encode_other),
    }


def read_raw(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a model file, without a check of its steps."""
    try:
        content = _content(path)
        arrays = from_safetensors(content)
        checksum, _, text = _metadata(content).partition("\n")
        if len(text) > _MAX_HEADER_LENGTH:
            raise ModelFileError(f"{path} has a header of {len(text)} characters; the limit is {_MAX_HEADER_LENGTH}")
        header = json.loads(text)
        if not isinstance(header, dict) or not isinstance(header.get("format_version"), int):
            raise ModelFileError(f"{path} is damaged: its header has no format version")
        if header["format_version"] != FORMAT_VERSION:
            raise ModelFileError(
                f"{path} has format version {str(header['format_version'])[:20]}, written by dimargin "
                f"{str(header.get('dimargin_version'))[:20]}; dimargin {__version__} reads version "
                f"{FORMAT_VERSION}"
            )
    except ModelFileError:
        raise
    except (SafetensorError, ValueError, KeyError, RecursionError) as error:
        raise ModelFileError(f"{path} is not a dimargin model file, or is damaged: {str(error)[:300]}") from error
    except MemoryError as error:
        raise ModelFileError(f"{path}: {out_of_memory('the model')}") from error
    if checksum != _checksum(text, arrays):
        raise ModelFileError(f"{path} is damaged: its checksum does not match")
    return header, arrays


def _content(path: Path) -> bytes:
    """Return the bytes of a file that begins like a model file.

    The file is read, not mapped: if a mapped file were truncated meanwhile, the system would end
    the process.
    """
    with open(path, "rb") as file:
        if not is_model_file(file.read(_START_BYTES)):
            raise ModelFileError(f"{path} is not a dimargin model file, or its beginning is damaged")
        file.seek(0)
        content = read_rest(file, times=2)  # Memory must hold the file and its arrays.
        np.empty(len(content), dtype=np.uint8)  # This raises a MemoryError where safetensors would panic.
        return content


def _metadata(content: bytes) -> str:
    """Return the text that `file_content` wrote into the metadata, whose JSON is valid."""
    end = 8 + int.from_bytes(content[:8], "little")
    value, _ = json.JSONDecoder().raw_decode(content[content.index(_KEY_BYTES) + len(_KEY_BYTES) : end].decode())
    if not isinstance(value, str):
        raise ValueError("its metadata are not a text")
    return value


def is_model_file(start: bytes) -> bool:
    """Return whether a file with this beginning is a model file, which may be damaged."""
    # The first eight bytes are the length of the safetensors header, which is JSON.
    return _KEY_BYTES in start[8:_START_BYTES]


def file_content(header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """Return the bytes of a model file."""
    text = json.dumps(header)
    if len(text) > _MAX_HEADER_LENGTH:
        raise TypeError(f"the header of this model has {len(text)} characters; the limit is {_MAX_HEADER_LENGTH}")
    # There is one entry of metadata, because safetensors writes several in arbitrary order.
    return to_safetensors(arrays, {_METADATA_KEY: f"{_checksum(text, arrays)}\n{text}"})


def _checksum(header: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()
