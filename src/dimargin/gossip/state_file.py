"""State file from which a killed site resumes: replaced atomically, checksummed and free of pickles."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from dimargin.gossip.messages import MessageError, pack, unpack
from dimargin.gossip.program import SiteProgram
from dimargin.system.memory import out_of_memory
from dimargin.system.printing import PrintableError
from dimargin.system.reading import read_rest
from dimargin.system.writing import is_transient, write_file

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


class SavedState:
    """State of a program and the file, if any, that has it.

    A state that is unchanged is not written again, which would wear out the disk of a waiting site.
    After a failure it is written again a second later.

    Raises StateError if the folder of the file is missing.

    Attributes
    ----------
    incarnation : int
        How often the site has resumed from the file.
    trouble : str
        Why the last state could not be written, or an empty text.
    """

    sync_every: ClassVar[float] = 5.0  # Seconds between syncs to the disk: a loss of power loses no more.
    retry_after: ClassVar[float] = 1.0  # Seconds until a state that could not be written is written again.

    def __init__(
        self, path: str | os.PathLike[str] | None, site: str, program: SiteProgram, clock: Callable[[], float]
    ) -> None:
        self._path = None if path is None else Path(os.path.realpath(path))
        if self._path is not None and not self._path.parent.is_dir():
            raise StateError(f"{self._path}: the folder {self._path.parent} for the state of {site} is missing")
        self._site, self._program, self._clock = site, program, clock
        self.incarnation, self.trouble = 0, ""
        self._written, self._is_durable = b"", False  # The state in the file, and whether it is synced to the disk.
        self._synced = clock()
        self._next_try = -math.inf

    def restore(self) -> None:
        """Let the program resume from the file, if there is one; raise StateError if it cannot."""
        stored = None if self._path is None else read_state(self._path)
        if stored is None:
            return
        if stored["site"] != self._site:
            raise StateError(f"{self._path} is the state of site {stored['site']!r}, expected {self._site!r}")
        try:
            self.incarnation = stored["incarnation"] + 1
            self._program.restore(stored["program"])
        except (KeyError, IndexError, TypeError, ValueError, RecursionError) as error:
            kind = type(self._program).__name__
            raise StateError(f"{self._path} is not a state from which {kind} can resume: {error!r}") from error

    def save(self, sync: bool = False) -> bool:
        """Write the state and return whether that succeeded; after a failure the next try must wait.

        Raises OSError if a site that has just started may not write here: its owner is there to
        read this.
        """
        if self._clock() < self._next_try:
            return False
        try:
            self.write(sync)
        except OSError as error:
            if not (self._written or is_transient(error)):
                raise
            self._next_try = self._clock() + self.retry_after
            self.trouble = f"{self._path} cannot be written: {error.strerror or error}"
            return False
        self.trouble = ""
        return True

    def write(self, sync: bool) -> None:
        """Write the state if it has changed, and sync it to the disk if that is asked for or due."""
        if self._path is None:
            return
        now = self._clock()
        sync = sync or now - self._synced >= self.sync_every
        body = pack({"site": self._site, "incarnation": self.incarnation, "program": self._program.checkpoint()})
        is_kept = body == self._written and (not sync or (self._is_durable and self._path.exists()))
        if not is_kept:
            write_state(self._path, body, sync)
            self._written, self._is_durable = body, sync
        if sync:
            self._synced = now
