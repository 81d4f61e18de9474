"""Blocks of whole lines of text for the readers of data files, and the maximum length of a line."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from dimargin.io.data.chunks import DataFileError

LONGEST_LINE = 64 * 2**20
"""Maximum number of bytes of a line, about that of a row with three million features.

The limit refuses data without line breaks, such as binary data or kilobytes that decompress to
gigabytes of zeros, before they fill the memory.
"""


def blocks_of_lines(
    stream: BinaryIO,
    path: Path | str,
    size: int,
    ends: bytes = b"\n",
    *,
    first_line: int = 1,
    most: int = sys.maxsize,
    whole: bool = True,
) -> Iterator[bytes]:
    """Yield blocks of whole lines, of about `size` bytes each.

    A line ends with any of the bytes `ends`; if `whole`, the text after the last of them is a line,
    too. At most `most` bytes are read. Raises DataFileError for a line of more than `LONGEST_LINE`
    bytes, with `path` and the number of the line, counted from `first_line`, and for a file that
    became shorter while it was read.
    """
    parts: list[bytes] = []  # The pieces of an unfinished line.
    length, line, size_at_first = 0, first_line, _size(stream)
    while block := stream.read(min(size, most)):
        most -= len(block)
        end = 1 + max(block.rfind(letter) for letter in ends)
        if end:
            lines = b"".join([*parts, block[:end]])
            yield lines
            line += lines.count(b"\n")
            parts, length = [], 0
        parts.append(block[end:])
        length += len(block) - end
        if length > LONGEST_LINE:
            raise DataFileError(f"{path}, line {line}: {too_long()}")
    if size_at_first and most and stream.tell() < size_at_first:
        raise DataFileError(f"{path} was truncated while it was read, from {size_at_first} to {stream.tell()} bytes")
    if length and whole:
        yield b"".join(parts)


def _size(stream: BinaryIO) -> int:
    """Return the size of a plain file; 0 for pipes, text in another encoding, and compressed files.

    Truncated compressed files raise errors of their own.
    """
    return os.fstat(stream.fileno()).st_size if isinstance(getattr(stream, "raw", None), io.FileIO) else 0


def too_long() -> str:
    """Return the message for a line that is too long."""
    return f"longer than {LONGEST_LINE} bytes, the limit for a line; is this a text file with line breaks?"
