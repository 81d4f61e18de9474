"""Model files whose checksum is right, but whose content lies."""

import json

import numpy as np
import pytest
from safetensors import safe_open

import dimargin as dm
from dimargin.io.models import ModelFileError, model_format


def tampered(path, change):
    """A file whose checksum is right but whose content is not what `save` writes."""
    with safe_open(str(path), framework="numpy") as file:
        header = json.loads(file.metadata()["dimargin"].partition("\n")[2])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    change(header, arrays)
    path.write_bytes(model_format.file_content(header, arrays))


def refuse(path, lie):
    """Check that a file is refused once its content lies, although its checksum is right."""
    tampered(path, lie)
    with pytest.raises(ModelFileError, match="not a valid model"):
        dm.load(path)


def array_of(name, make):
    """Another array for one of the first step."""

    def lie(header, arrays):
        own = f"{header['steps'][0]['name']}.{name}"
        arrays[own] = np.ascontiguousarray(make(arrays[own]))

    return lie


def entry_of(name, value, index=-1):
    """Another entry of an array of the first step."""

    def lie(header, arrays):
        arrays[f"{header['steps'][0]['name']}.{name}"].flat[index] = value

    return lie


def told(**values):
    """Other attributes than those of the first step; None takes one away."""

    def lie(header, arrays):
        attributes = header["steps"][0]["attributes"]
        for name, value in values.items():
            attributes.pop(name, None)
            if value is not None:
                attributes[name] = value

    return lie
