"""Atomic writes of files, which are there whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PRIVATE_MODE = 0o600  # The mode of new files that may hold training rows.
_PUBLIC_MODE = 0o666  # The mode of other new files, of which the umask takes its part.


def write_file(path: str | os.PathLike[str], content: bytes, durable: bool = True, *, private: bool = False) -> None:
    """Write a file atomically, so that neither a crash nor a full disk leaves half of it or harms an old one.

    The content is written to a part file beside the place, which is renamed. Part files that killed processes have left
    of earlier writes of this file are removed. A file that exists keeps its mode, its owner as far as this process may
    give it, and its extended attributes, access control lists among them; a new one has mode 0600 if it is `private`,
    else what the umask leaves. If `durable`, the file and its directory are synchronised with the disk; else a loss of
    power may take the file with it. A link keeps pointing to its file. A path that is no regular file (a pipe, a
    device) is written to directly.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        target.write_bytes(content)
        return
    with _opened_folder(target.parent) as folder:
        _remove_abandoned(target, folder)
        mode = _PRIVATE_MODE if private or target.exists() else _PUBLIC_MODE
        part, descriptor = _new_part(target, mode)
        try:
            with open(descriptor, "wb") as file:  # which keeps its lock until it is renamed
                file.write(content)
                _keep_permissions(target, descriptor)
                file.flush()
                if durable:
                    os.fsync(descriptor)
                os.replace(part, target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        if durable and folder is not None:
            _synchronise(folder)


@contextmanager
def _opened_folder(path: Path) -> Iterator[int | None]:
    """Open a folder, before anything is written; None where it may be written to, but not read."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:
        yield None
        return
    try:
        yield folder
    finally:
        os.close(folder)


def _synchronise(folder: int) -> None:
    """Write the names of a folder to the disk, as far as its file system can."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


# ---- part files ------------------------------------------------------------------------------------------------------


def _new_part(target: Path, mode: int) -> tuple[Path, int]:
    """Create a part file, locked so that no other process takes it for an abandoned one."""
    while True:
        part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        if _is_locked_by_us(part, descriptor, unknown=True):
            return part, descriptor
        os.close(descriptor)  # another process took it for an abandoned one before it was locked
        part.unlink(missing_ok=True)


def _remove_abandoned(target: Path, folder: int | None) -> None:
    """Remove the part files of a file whose writers were killed: those that nobody has locked."""
    name = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{8}}\.part")
    for part in [] if folder is None else [target.with_name(n) for n in os.listdir(folder) if name.fullmatch(n)]:
        with suppress(OSError):  # a file of another user, or gone meanwhile
            descriptor = os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if _is_locked_by_us(part, descriptor, unknown=False):
                    part.unlink()
            finally:
                os.close(descriptor)


def _is_locked_by_us(part: Path, descriptor: int, unknown: bool) -> bool:
    """Lock an open file and return whether that worked while it still had its name; `unknown` without any locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # the file system has no locks
        return unknown
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), os.stat(part, follow_symlinks=False))
    return False


# ---- permissions -----------------------------------------------------------------------------------------------------


def _keep_permissions(target: Path, descriptor: int) -> None:
    """Give a new file the owner, the mode and the extended attributes of the one that it replaces, if there is one."""
    try:
        old = target.stat()
    except FileNotFoundError:
        return
    new, mode = os.fstat(descriptor), stat.S_IMODE(old.st_mode)
    if new.st_uid != old.st_uid:
        with suppress(PermissionError):
            os.fchown(descriptor, old.st_uid, -1)
    if new.st_gid != old.st_gid:
        try:
            os.fchown(descriptor, -1, old.st_gid)
        except PermissionError:  # another group gets what everybody has
            mode = mode & ~stat.S_IRWXG | (mode & stat.S_IRWXO) << 3
    if stat.S_IMODE(new.st_mode) != mode:
        os.fchmod(descriptor, mode)
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(target):
                os.setxattr(descriptor, name, os.getxattr(target, name))
