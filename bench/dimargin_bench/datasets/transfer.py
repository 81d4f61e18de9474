"""The transfer of one file, in the form that pooch asks of downloaders; a broken one is gone on with later.

What has come lies beside the place of the file as ``NAME.part``, with notes of which version it is a part of, and pooch
gets it when it is whole. So a file that has its name is whole.
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
"""Function that is called as a transfer goes on: with the name of the file, the bytes that are here, and all bytes."""

CHUNK = 2**16  # bytes; what has come of the last one is lost when the connection breaks
TIMEOUT = 30.0  # seconds without any byte


class FetchError(PrintableError, OSError):
    """Error for a file that could not be fetched."""


class Transfer:
    """A file that is written as it comes, after what an earlier transfer left of it.

    Parameters
    ----------
    part : Path
        Where it is written. Notes beside it hold its address, its size, and what its server calls this version of it.
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
        """Let pooch fetch what is not here yet; raises OSError, as errors of requests are, if that is not all then."""
        import pooch

        if not self.done or self.done != self.total:
            hooks = {"response": self.begin}
            get = pooch.HTTPDownloader(chunk_size=CHUNK, headers=self.headers(), hooks=hooks, timeout=TIMEOUT)
            get(self._address, self, None)
        if self.done != self.total:
            raise FetchError(f"{self.done} bytes came of {self.total}")

    def headers(self) -> dict[str, str]:
        """Return what is asked for: the rest, if the server still has the version of what is here, else the whole."""
        as_it_is = {"Accept-Encoding": "identity"}
        if not self.done or self._version is None:
            return as_it_is
        return {**as_it_is, "Range": f"bytes={self.done}-", "If-Range": self._version}

    def begin(self, response: Any, *_: Any, **__: Any) -> None:
        """Take note of an answer before its content comes; the signature is that of hooks of requests."""
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
        """Append what has come; raises FetchError before more is written than the server has said."""
        if self.total is None or self.done + len(chunk) > self.total:
            self._version = None  # nothing of such a server is kept
            raise FetchError(f"more came than the {self.total} bytes that the server had said")
        self.done += self._file.write(chunk)
        self._progress(self._name, self.done, self.total)
        return len(chunk)

    def flush(self) -> None:
        """Write what is buffered, as pooch asks after every chunk."""
        self._file.flush()

    def close(self) -> None:
        """Close the connection, which pooch leaves open where a transfer breaks."""
        if self._response is not None:
            self._response.close()

    def keep(self) -> int:
        """Return how many bytes a later transfer can go on from, and forget what it cannot."""
        self._file.flush()
        if self._version is None or self.total is None or self.done >= self.total:
            self._file.truncate(0)
        return os.fstat(self._file.fileno()).st_size


def download(address: str, part: Path, output: Path, progress: Progress) -> None:
    """Fetch a file, going on from what is in `part`, and move it to `output` when it is whole.

    Raises
    ------
    FetchError
        If it did not come whole; `part` keeps what has come, if anything.
    """
    handled = sys.exception()  # by the caller, so that it is no cause of what happens here
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
            what = f"; the {kept} bytes that came are kept, and the next fetch goes on from there" if kept else ""
            raise FetchError(f"{address}: {_cause(error, handled)}{what}") from error
        finally:
            transfer.close()
            if not os.fstat(file.fileno()).st_size:
                part.unlink(missing_ok=True)
                _notes(part).unlink(missing_ok=True)


def _notes(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _read_notes(part: Path) -> dict[str, Any]:
    """Return the notes beside what has come; none where they are damaged, so that the transfer begins again."""
    try:
        notes = read_json(_notes(part))
    except (FileNotFoundError, ValueError):
        return {}
    kinds = {"address": str, "total": int, "version": str | None}
    return notes if isinstance(notes, dict) and all(isinstance(notes.get(k), kinds[k]) for k in kinds) else {}


def _version(response: Any) -> str | None:
    """Return what tells a version of a file from others, byte for byte: a strong ETag, or else when it was changed."""
    tag: str = response.headers.get("ETag", "")
    changed: str | None = response.headers.get("Last-Modified")
    return tag if tag.startswith('"') else changed


def _lock(file: BinaryIO, part: Path) -> None:
    """Raise FetchError if another process fetches the same file."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        alone = os.path.samestat(os.fstat(file.fileno()), part.stat())  # else the other one has moved it by now
    except (BlockingIOError, FileNotFoundError):
        alone = False
    if not alone:
        raise FetchError(f"{part} is being written by another process")


def _cause(error: BaseException, handled: BaseException | None) -> str:
    """Return the message of the first cause, such as 'Connection refused', which libraries wrap more than once."""
    while (before := error.__context__) is not None and before is not handled:
        error = before
    return str(error)
