"""Bounded reading of whole files that may come from others."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, BinaryIO

from dimargin.system.memory import memory_of_process


def read_file(path: str | os.PathLike[str], max_bytes: int) -> bytes:
    """Return the content of a file; raise ValueError if it exceeds `max_bytes`, or OSError."""
    with open(path, "rb") as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise ValueError(f"it has more than {max_bytes} bytes")
    return content


def read_rest(file: BinaryIO, times: int) -> bytes:
    """Return the rest of an open file; raise MemoryError if `times` its size exceeds the memory."""
    size = max(0, os.fstat(file.fileno()).st_size - file.tell())
    if times * size > memory_of_process():
        raise MemoryError
    return file.read(size)


def read_json(path: Path, max_bytes: int = 32 * 2**20) -> Any:
    """Decode a JSON file; raise OSError, or ValueError if it is invalid, too long or too deep.

    The decoded objects take up to twenty times as many bytes as the file.
    """
    try:
        return json.loads(read_file(path, max_bytes))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
