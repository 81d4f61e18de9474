"""Download of one file as one of pooch's downloaders, which resumes an interrupted download.

pooch itself starts a broken download again from its first byte. Here the bytes that have come are
kept in ``NAME.part``, with notes of the version that they belong to, and pooch gets the file when
it is complete.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from dimargin.system.printing import PrintableError
from dimargin.system.reading import read_json
from dimargin.system.writing import write_file

Progress = Callable[[str, int, int], None]
"""Function that is called during a download: with the name of the file, the bytes that have come, and all bytes."""

CHUNK = 2**16  # Bytes of a chunk; a part of one is lost when the connection breaks.
TIMEOUT = 30.0  # Seconds without any byte after which a download fails.


class FetchError(PrintableError, OSError):
    """Error for a file that could not be fetched."""


class Transfer:
    """A file that is appended to what an earlier transfer left of it.

    Parameters
    ----------
    part : Path
        Where it is written. Notes in a file next to it have its address, its size and its version.
    file : binary file
        The same, open for appending.
    address : str
    progress : callable
    """

    def __init__(self, part: Path, file: BinaryIO, address: str, progress: Progress) -> None:
        self._part, self._file, self._address, self._progress = part, file, address, progress
        self._name = part.name.removesuffix(".part")
        self._response: Any = None
        notes = _read_notes(part)
        self.total: int | None = notes.get("total")
        self._version: str | None = notes.get("version")
        if notes.get("address") != address:
            file.truncate(0)
        self.done = file.seek(0, os.SEEK_END)

    def run(self) -> None:
        """Fetch the missing bytes by pooch; raise OSError, as requests does, if the file is still incomplete."""
        import pooch

        if not self.done or self.done != self.total:
            hooks = {"response": self.begin}
            get = pooch.HTTPDownloader(chunk_size=CHUNK, headers=self.headers(), hooks=hooks, timeout=TIMEOUT)
            get(self._address, self, None)
        if self.done != self.total:
            raise FetchError(f"{self.done} bytes came of {self.total}")

    def headers(self) -> dict[str, str]:
        """Return headers that ask for the missing bytes, if the server still has this version, or for all."""
        as_it_is = {"Accept-Encoding": "identity"}
        if not self.done or self._version is None:
            return as_it_is
        return {**as_it_is, "Range": f"bytes={self.done}-", "If-Range": self._version}

    def begin(self, response: Any, *_: Any, **__: Any) -> None:
        """Read the headers of a response, as a hook of requests."""
        self._response = response
        length = response.headers.get("Content-Length")
        if response.status_code == 206:
            rest = f"bytes {self.done}-{(self.total or 0) - 1}/{self.total}"
            if response.headers.get("Content-Range") != rest or _version(response) not in (self._version, None):
                self._version = None
                raise FetchError("the server answers with another part than was asked for; fetch it once more")
        elif response.status_code == 200:
            self._file.truncate(0)
            if length is None or not length.isdecimal():
                raise FetchError("the server does not say how long it is, so that nobody knows if it is whole")
            self.done, self.total, self._version = 0, int(length), _version(response)
            notes = {"address": self._address, "total": self.total, "version": self._version}
            write_file(_notes(self._part), json.dumps(notes).encode())
        elif response.status_code == 416:  # there is less than what is here
            self._file.truncate(0)

    def write(self, chunk: bytes) -> int:
        """Append a chunk; raise FetchError if that would exceed the size that the server stated."""
        if self.total is None or self.done + len(chunk) > self.total:
            self._version = None  # nothing of such a server is kept
            raise FetchError(f"more came than the {self.total} bytes that the server had said")
        self.done += self._file.write(chunk)
        self._progress(self._name, self.done, self.total)
        return len(chunk)

    def flush(self) -> None:
        """Write the buffer to the file; pooch calls this after every chunk."""
        self._file.flush()

    def close(self) -> None:
        """Close the connection, which pooch leaves open when a download breaks."""
        if self._response is not None:
            self._response.close()

    def keep(self) -> int:
        """Return how many bytes a later download can resume from; drop bytes that it cannot use."""
        self._file.flush()
        if self._version is None or self.total is None or self.done >= self.total:
            self._file.truncate(0)
        return os.fstat(self._file.fileno()).st_size


def download(address: str, part: Path, output: Path, progress: Progress) -> None:
    """Fetch a file, resuming from the bytes in `part`, and move it to `output` when it is complete.

    Raises
    ------
    FetchError
        If it is incomplete; `part` keeps the bytes that have come.
    """
    handled = sys.exception()  # The caller handles this one; it is not a cause of errors below.
    with open(part, "ab") as file:
        _lock(file, part)
        transfer = Transfer(part, file, address, progress)
        try:
            transfer.run()
            file.flush()
            os.replace(part, output)
            _notes(part).unlink(missing_ok=True)
        except OSError as error:  # which those of requests are
            kept = transfer.keep()
            what = f"; the {kept} bytes that came are kept, and the next fetch resumes from there" if kept else ""
            raise FetchError(f"{address}: {_cause(error, handled)}{what}") from error
        finally:
            transfer.close()
            if not os.fstat(file.fileno()).st_size:
                part.unlink(missing_ok=True)
                _notes(part).unlink(missing_ok=True)


def _notes(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _read_notes(part: Path) -> dict[str, Any]:
    """Return the notes of a partial file, or an empty dict if they are damaged, so that the download restarts."""
    try:
        notes = read_json(_notes(part))
    except (FileNotFoundError, ValueError):
        return {}
    kinds = {"address": str, "total": int, "version": str | None}
    return notes if isinstance(notes, dict) and all(isinstance(notes.get(k), kinds[k]) for k in kinds) else {}


def _version(response: Any) -> str | None:
    """Return the version of a file: a strong ETag, or else the time of the last change."""
    tag: str = response.headers.get("ETag", "")
    changed: str | None = response.headers.get("Last-Modified")
    return tag if tag.startswith('"') else changed


def _lock(file: BinaryIO, part: Path) -> None:
    """Raise FetchError if another process fetches the same file."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another process may have moved the file before this one had the lock.
        alone = os.path.samestat(os.fstat(file.fileno()), part.stat())
    except (BlockingIOError, FileNotFoundError):
        alone = False
    if not alone:
        raise FetchError(f"{part} is being written by another process")


def _cause(error: BaseException, handled: BaseException | None) -> str:
    """Return the message of the first cause, such as 'Connection refused', which libraries wrap more than once."""
    while (before := error.__context__) is not None and before is not handled:
        error = before
    return str(error)
