"""Whole contents of files that others may have made: no more is read than fits, and nothing without an end."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, BinaryIO

from dimargin.system.memory import memory_of_process

_MAX_JSON_BYTES = 32 * 2**20  # Its objects take up to twenty times as many bytes.


def read_file(path: str | os.PathLike[str], max_bytes: int) -> bytes:
    """Return the content of a file; raises ValueError if it has more than `max_bytes` bytes, and OSError."""
    with open(path, "rb") as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise ValueError(f"it has more than {max_bytes} bytes")
    return content


def read_rest(file: BinaryIO, times: int) -> bytes:
    """Return the content of an open file from where it is; raises MemoryError if so many times its size cannot fit."""
    size = max(0, os.fstat(file.fileno()).st_size - file.tell())
    if times * size > memory_of_process():
        raise MemoryError
    return file.read(size)


def read_json(path: Path) -> Any:
    """Return what a file of JSON says; raises ValueError if that is too long, too deep or not JSON, and OSError."""
    try:
        return json.loads(read_file(path, _MAX_JSON_BYTES))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
