"""Atomic writes of files, which are there whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path

from dimargin.system.descriptors import open_reserved

_TRANSIENT_ERRORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EIO})


def is_transient(error: OSError) -> bool:
    """Return whether a failed write may succeed later: a limit was reached, or the disk failed."""
    return error.errno in _TRANSIENT_ERRORS


def write_file(path: str | os.PathLike[str], content: bytes, durable: bool = True) -> None:
    """Write a file atomically, so that neither a crash nor a full disk leaves half of it or harms an old one.

    The content is written beside the place, and renamed. Unless `durable`, a loss of power may take the file with it,
    and nothing waits for the disk. A link keeps pointing to its file. A path that is no regular file (a pipe, a device)
    is written to directly.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        target.write_bytes(content)
        return
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb", opener=open_reserved) as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
