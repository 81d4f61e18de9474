"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_file(path: str | os.PathLike[str], content: bytes, durable: bool = True) -> None:
    """Write beside the place and rename: neither a crash nor a full disk leaves half a file or harms an old one.

    Unless `durable`, a loss of power may take the file with it, and nothing waits for the disk. A link keeps pointing
    to its file. What is no regular file (a pipe, a device) is written to as it is.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        target.write_bytes(content)
        return
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
