"""Standard streams of the command line, whatever is behind them: a full disk, a closed pipe, ASCII, or nothing."""

from __future__ import annotations

import fcntl
import io
import os
import sys
from select import select
from typing import Any, TextIO

_FRAGILE = ("strict", "surrogateescape")  # error handlers that raise UnicodeEncodeError
# The null device takes the place of a stream that the caller has closed, since a file that is opened later must not get
# its number: what is printed would go into that file. Opened in the wrong mode, it fails as soon as input is read or
# output written; messages are lost.
_MODES_IF_CLOSED = {0: os.O_WRONLY, 1: os.O_RDONLY, 2: os.O_WRONLY}


class ResultStream(io.FileIO):
    """Descriptor of standard output, which raises the first error of writing, and discards everything after it.

    Attributes
    ----------
    error : OSError or None
        That error.
    """

    error: OSError | None = None

    def write(self, data: Any, /) -> int:
        """Write all the bytes, where a descriptor may take some of them: a disk before it is full, a busy terminal."""
        rest = memoryview(data)
        try:
            while rest and self.error is None:
                taken = super().write(rest)
                if taken is None:
                    select((), (self,), ())
                rest = rest[taken or 0 :]
        except OSError as error:
            self.error = OSError(error.errno, f"cannot write to standard output: {error.strerror}")
            raise self.error from None
        return len(data)

    def finish(self) -> None:
        """Write what was printed last; raise the error if there was one, which may not have ended the work."""
        sys.stdout.flush()
        if self.error is not None:
            raise self.error


class MessageStream(io.FileIO):
    """Descriptor of standard error, which discards what cannot be written: no message may end the work it is about."""

    def write(self, data: Any, /) -> int:
        """Write bytes."""
        try:
            return super().write(data) or len(data)
        except OSError:
            return len(data)


def open_streams() -> ResultStream:
    """Replace the standard streams of this process, unless the caller has replaced them; return standard output.

    Characters that the encoding of a stream lacks are printed as escapes, unless PYTHONIOENCODING names another way.
    """
    for descriptor, mode in _MODES_IF_CLOSED.items():
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)  # which gets the lowest number that is free
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8")
    output = ResultStream(1, "w", closefd=False)
    sys.stdout = _renewed(sys.stdout, sys.__stdout__, output)
    sys.stderr = _renewed(sys.stderr, sys.__stderr__, MessageStream(2, "w", closefd=False))
    return output


def names_closed_output(path: str | os.PathLike[str]) -> bool:
    """Return whether the name of an open file, such as /dev/stdout, is that of a standard output that was closed.

    The null device in its place would take what is written by this name, and lose it.
    """
    is_readable_only = fcntl.fcntl(1, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    return os.fspath(path).endswith(("/stdout", "fd/1")) and is_readable_only


def _renewed(stream: Any, own: Any, raw: io.FileIO) -> TextIO:
    """Return a stream like the one that this process was started with, on another descriptor."""
    if stream is not own:
        return stream  # type: ignore[no-any-return]
    if stream is None:  # it was closed
        return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=True)
    errors = "backslashreplace" if stream.errors in _FRAGILE else stream.errors
    buffer: Any = raw if stream.write_through else io.BufferedWriter(raw)
    return io.TextIOWrapper(
        buffer, stream.encoding, errors, line_buffering=stream.line_buffering, write_through=stream.write_through
    )
