"""State file from which a killed site resumes: replaced atomically, checksummed and free of pickles."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from dimargin.gossip.messages import MessageError, unpack
from dimargin.system.memory import out_of_memory
from dimargin.system.printing import PrintableError
from dimargin.system.reading import read_rest
from dimargin.system.writing import write_file

_FILE_MAGIC = b"dimargin site"
_STATE_VERSION = 1
_DIGEST_BYTES = 16


class StateError(PrintableError, ValueError):
    """Error for a file from which this site cannot resume; the text names the file."""


def read_state(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return the last state that a site wrote, or None if the file does not exist.

    It has the site's name as `site`, its `incarnation`, and its program's checkpoint as `program`.
    Raises StateError if the file is damaged or is not the state of a site.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(len(_FILE_MAGIC) + 1 + _DIGEST_BYTES)
            if not head.startswith(_FILE_MAGIC) or len(head) < len(_FILE_MAGIC) + 1 + _DIGEST_BYTES:
                raise StateError(f"{os.fspath(path)} is not the state file of a site")
            if (version := head[len(_FILE_MAGIC)]) != _STATE_VERSION:
                raise StateError(
                    f"{os.fspath(path)} is a state of version {version}, expected version {_STATE_VERSION}"
                )
            body = read_rest(file, times=10)
    except FileNotFoundError:
        return None
    except MemoryError as error:
        raise StateError(f"{os.fspath(path)}: {out_of_memory('the state')}") from error
    if _digest(body) != head[len(_FILE_MAGIC) + 1 :]:
        raise StateError(f"{os.fspath(path)} is damaged: wrong checksum; restore a copy, or remove it")
    try:
        state = unpack(body)
    except MessageError as error:
        raise StateError(f"{os.fspath(path)} is damaged: {str(error)[:300]}") from error
    kinds = {"site": str, "incarnation": int, "program": dict}
    if not (isinstance(state, dict) and all(isinstance(state.get(name), kind) for name, kind in kinds.items())):
        raise StateError(f"{os.fspath(path)} is damaged: expected a site, its incarnation and its program")
    return state


def write_state(path: Path, body: bytes, sync: bool) -> None:
    """Replace the file by a packed state.

    A kill leaves the old file or the new one; with `sync`, so does a loss of power.
    """
    # The file is private, since what a site has learnt may contain its rows.
    write_file(path, _FILE_MAGIC + bytes([_STATE_VERSION]) + _digest(body) + body, durable=sync, private=True)


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()
