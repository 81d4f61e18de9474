"""Standard streams that cope with a full disk, a closed pipe, ASCII and closed descriptors."""

from __future__ import annotations

import fcntl
import io
import os
import sys
from select import select
from typing import Any, TextIO


class ResultStream(io.FileIO):
    """Descriptor of standard output that raises the first error and discards all later output."""

    error: OSError | None = None  # The first error.

    def write(self, data: Any, /) -> int:
        """Write all bytes, even if a full disk or a busy terminal takes only some at a time."""
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
        """Flush the output; raise the first error, which the caller may have ignored."""
        sys.stdout.flush()
        if self.error is not None:
            raise self.error


class MessageStream(io.FileIO):
    """Descriptor of standard error that discards messages it cannot write, without an error."""

    def write(self, data: Any, /) -> int:
        """Write bytes."""
        try:
            return super().write(data) or len(data)
        except OSError:
            return len(data)


def open_streams() -> ResultStream:
    """Replace the standard streams of this process, unless the caller did; return standard output.

    Characters that a stream cannot encode are printed as escapes, unless PYTHONIOENCODING names
    another error handler.
    """
    # The null device replaces a stream that the caller has closed. Otherwise a file that is opened
    # later would get the stream's number, and what is printed would go into that file. The null
    # device is opened in the wrong mode, so that reading input or writing output fails; messages
    # are lost.
    for descriptor, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)  # The new descriptor gets the lowest free number.
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8")
    output = ResultStream(1, "w", closefd=False)
    sys.stdout = _renewed(sys.stdout, sys.__stdout__, output)
    sys.stderr = _renewed(sys.stderr, sys.__stderr__, MessageStream(2, "w", closefd=False))
    return output


def names_closed_output(path: str | os.PathLike[str]) -> bool:
    """Return whether a path such as /dev/stdout names a standard output that was closed.

    The null device that replaced it would swallow what is written there.
    """
    is_readable_only = fcntl.fcntl(1, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    return os.fspath(path).endswith(("/stdout", "fd/1")) and is_readable_only


def _renewed(stream: Any, own: Any, raw: io.FileIO) -> TextIO:
    """Return a stream with the settings of `stream`, on another descriptor."""
    if stream is not own:
        return stream  # type: ignore[no-any-return]
    if stream is None:  # The caller has closed it.
        return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=True)
    # The two handlers that raise UnicodeEncodeError are replaced.
    errors = "backslashreplace" if stream.errors in ("strict", "surrogateescape") else stream.errors
    buffer: Any = raw if stream.write_through else io.BufferedWriter(raw)
    return io.TextIOWrapper(
        buffer, stream.encoding, errors, line_buffering=stream.line_buffering, write_through=stream.write_through
    )
