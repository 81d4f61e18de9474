"""Atomic writes of files: after a write, a file has either its old or its new content."""

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

from dimargin.system.descriptors import open_reserved


def is_transient(error: OSError) -> bool:
    """Return whether a failed write may succeed later: a limit was reached, or the disk failed."""
    return error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EIO)


def replaced_file(path: str | os.PathLike[str]) -> Path | None:
    """Return the file, links resolved, that `write_file` replaces; None if it writes directly."""
    folder = os.path.realpath(os.path.dirname(path) or os.curdir)
    is_stream = os.path.exists(path) and not os.path.isfile(path)
    # These folders hold devices and the open files of processes.
    is_open = re.fullmatch(r"/dev(/fd)?|/proc/\d+/(task/\d+/)?fd", folder)
    return None if is_stream or is_open else Path(os.path.realpath(path))


def write_file(path: str | os.PathLike[str], content: bytes, durable: bool = True, *, private: bool = False) -> None:
    """Write a file atomically, so that a crash or a full disk leaves the old file or the new one.

    The content is written to a part file in the same folder, which is then renamed. Part files of
    this file that killed processes have left are removed. An existing file keeps its mode, its
    owner if this process may set it, and its extended attributes, access control lists included. A
    new file has mode 0600 if it is `private`, otherwise the mode that the umask leaves. If
    `durable`, the file and its directory are synchronised with the disk; otherwise the file may be
    lost when the power fails. A link keeps pointing to its file. A pipe, a device and an open file
    (/dev/stdout) are written to directly.
    """
    target = replaced_file(path)
    if target is None:
        try:
            with open(path, "ab") as stream:  # Output redirected by ">>" must be appended.
                stream.write(content)
        except OSError as error:
            error.filename = os.fspath(path)
            raise
        return
    with _opened_folder(target.parent) as folder:
        with suppress(OSError):  # Listing the folder fails if no descriptor is left.
            _remove_abandoned(target, folder)
        part, descriptor = _new_part(target, 0o600 if private or target.exists() else 0o666)
        try:
            with open(descriptor, "wb") as file:  # The file stays locked until it has been renamed.
                file.write(content)
                _keep_permissions(target, descriptor)
                file.flush()
                if durable:
                    os.fsync(descriptor)
                os.replace(part, target)
        except BaseException as error:
            part.unlink(missing_ok=True)
            if isinstance(error, OSError):
                error.filename = os.fspath(path)  # It is missing, or that of the part file.
            raise
        if durable and folder is not None:
            _synchronise(folder)


@contextmanager
def _opened_folder(path: Path) -> Iterator[int | None]:
    """Open a folder, before anything is written; yield None if this process cannot read it."""
    try:
        folder = open_reserved(os.fspath(path), os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:
        yield None
        return
    try:
        yield folder
    finally:
        os.close(folder)


def _synchronise(folder: int) -> None:
    """Synchronise a folder with the disk, if its file system supports that."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


# ---- part files ------------------------------------------------------------------------------------------------------


def _new_part(target: Path, mode: int) -> tuple[Path, int]:
    """Create a part file, locked so that no other process considers it abandoned."""
    while True:
        part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        descriptor = open_reserved(os.fspath(part), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        if _is_locked_by_us(part, descriptor, unknown=True):
            return part, descriptor
        os.close(descriptor)  # Another process considered it abandoned before it was locked.
        part.unlink(missing_ok=True)


def _remove_abandoned(target: Path, folder: int | None) -> None:
    """Remove part files that no process has locked: their writers were killed."""
    name = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{8}}\.part")
    for part in [] if folder is None else [target.with_name(n) for n in os.listdir(folder) if name.fullmatch(n)]:
        with suppress(OSError):  # The file may belong to another user, or be gone by now.
            descriptor = os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if _is_locked_by_us(part, descriptor, unknown=False):
                    part.unlink()
            finally:
                os.close(descriptor)


def _is_locked_by_us(part: Path, descriptor: int, unknown: bool) -> bool:
    """Lock an open file and return whether it still has its name, or `unknown` without locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # The file system does not support locks.
        return unknown
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), os.stat(part, follow_symlinks=False))
    return False


# ---- permissions -----------------------------------------------------------------------------------------------------


def _keep_permissions(target: Path, descriptor: int) -> None:
    """Copy owner, mode and extended attributes from the file that is replaced, if there is one."""
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
        # The group is another one now, so it gets the rights of all others.
        except PermissionError:
            mode = mode & ~stat.S_IRWXG | (mode & stat.S_IRWXO) << 3
    if stat.S_IMODE(new.st_mode) != mode:
        os.fchmod(descriptor, mode)
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(target):
                os.setxattr(descriptor, name, os.getxattr(target, name))
