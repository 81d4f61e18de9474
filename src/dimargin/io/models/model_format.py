"""Format of model files: a JSON header and arrays in one safetensors file, in which nothing can be executed.

The header names the format version, the package version, the steps of the model (a scaler, then a machine) with their
parameters and fitted attributes, and a checksum over all of it. Nothing here knows estimators, so that a process can
write a model without loading scikit-learn; `dimargin.io.models.conversion` makes estimators of what is read.
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
_KEY = "dimargin"  # of the header among the metadata of the safetensors file
_NAME, _START = f'"{_KEY}":'.encode(), 64  # safetensors writes the name among so many first bytes.
_LONGEST_HEADER = 32 * 2**20  # letters of JSON, which become up to twenty times as many bytes of objects


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
    """Write a model file that `dimargin.load` reads; it is there whole or not at all.

    The last of the `steps` is the machine. Their values are numbers, text, None, arrays of numbers or labels, CSR rows,
    and lists, tuples and dictionaries of these; `encode_other` takes others. What they mean is checked when the file is
    loaded, not here. `notes`, kept in the header, are anything that JSON holds. `dimargin.load` gives a pipeline if
    `pipeline` is true, by default if there is more than one step; `durable` is as in
    `dimargin.system.writing.write_file`.

    Raises
    ------
    TypeError
        For a value that cannot be stored.
    OSError
        If the file cannot be written; an old one is then left as it was.

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
    """Return the bytes that `write_model` would write, the same for the same model; parameters and errors as there."""
    arrays: Arrays = {}
    header = {
        "format_version": FORMAT_VERSION,
        "dimargin_version": __version__,
        "pipeline": len(steps) > 1 if pipeline is None else pipeline,
        "steps": [_encoded_step(step, arrays, encode_other) for step in steps],
        "notes": dict(notes or {}),
    }
    return file_content(header, arrays)


def _encoded_step(step: Step, arrays: Arrays, encode_other: EncodeOther) -> dict[str, Any]:
    return {
        "name": step.name,
        "class": step.class_name,
        "parameters": encode_parts(step.parameters, step.name, arrays, encode_other),
        "attributes": encode_parts(step.attributes, step.name, arrays, encode_other),
    }


def read_raw(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a model file; raises as `dimargin.load`, but does not check the steps."""
    try:
        content = _content(path)
        arrays = from_safetensors(content)
        checksum, _, text = _metadata(content).partition("\n")
        if len(text) > _LONGEST_HEADER:
            raise ModelFileError(f"{path} has a header of {len(text)} letters, at most {_LONGEST_HEADER} expected")
        header = json.loads(text)
        if not isinstance(header, dict) or not isinstance(header.get("format_version"), int):
            raise ModelFileError(f"{path} is damaged: its header names no format version")
        if header["format_version"] != FORMAT_VERSION:
            raise ModelFileError(
                f"{path} has format version {str(header['format_version'])[:20]}, written by dimargin "
                f"{str(header.get('dimargin_version'))[:20]}; dimargin {__version__} reads version "
                f"{FORMAT_VERSION}"
            )
    except ModelFileError:
        raise
    except (SafetensorError, ValueError, KeyError, RecursionError) as error:
        raise ModelFileError(f"{path} is no model file, or damaged: {str(error)[:300]}") from error
    except MemoryError as error:
        raise ModelFileError(f"{path}: {out_of_memory('the model')}") from error
    if checksum != _checksum(text, arrays):
        raise ModelFileError(f"{path} is damaged: its checksum does not match")
    return header, arrays


def _content(path: Path) -> bytes:
    """Return the bytes of a file that begins as a model file does.

    They are read, not mapped: where a mapped file is cut meanwhile, the system ends the process.
    """
    with open(path, "rb") as file:  # a missing or forbidden file is the system's own error
        if not is_model_file(file.read(_START)):
            raise ModelFileError(f"{path} is no model file, or damaged: no dimargin model begins like this")
        file.seek(0)
        content = read_rest(file, times=2)  # the file and its arrays
        np.empty(len(content), dtype=np.uint8)  # a MemoryError, where safetensors would panic
        return content


def _metadata(content: bytes) -> str:
    """Return what `file_content` has put into the metadata of a safetensors file, whose header is sound JSON."""
    end = 8 + int.from_bytes(content[:8], "little")
    value, _ = json.JSONDecoder().raw_decode(content[content.index(_NAME) + len(_NAME) : end].decode())
    if not isinstance(value, str):
        raise ValueError("its metadata are no text")
    return value


def is_model_file(start: bytes) -> bool:
    """Return whether a file that begins so is a model file, sound or not."""
    return _NAME in start[8:_START]  # behind the length of the safetensors header, which is JSON


def file_content(header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """Return the bytes of a model file."""
    text = json.dumps(header)
    if len(text) > _LONGEST_HEADER:
        raise TypeError(f"a model file holds {_LONGEST_HEADER} letters beside its arrays; this model has {len(text)}")
    # one entry of metadata, because safetensors writes several in any order
    return to_safetensors(arrays, {_KEY: f"{_checksum(text, arrays)}\n{text}"})


def _checksum(header: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()
