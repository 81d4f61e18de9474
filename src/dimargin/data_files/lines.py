"""Blocks of whole lines of text for the readers of data files, and the length that a line may have."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from dimargin.data_files.chunks import DataFileError

LONGEST_LINE = 64 * 2**20
"""Bytes that a line may have: a row of three million features has so many. Data without ends of lines (binary data, a
few kilobytes that decompress to gigabytes of zeros) are refused before they fill the memory."""


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
    r"""Yield blocks of whole lines.

    Parameters
    ----------
    stream : binary file
    path : path-like
        For messages.
    size : int
        Bytes of a block, about.
    ends : bytes, default=b"\n"
        A line ends with any of these.
    first_line : int, default=1
        Number of the line that comes next, for messages.
    most : int, optional
        Bytes to read at most.
    whole : bool, default=True
        Whether what is behind the last end of a line is a line, too.

    Raises
    ------
    DataFileError
        For a line of more than `LONGEST_LINE` bytes.
    """
    parts: list[bytes] = []  # of a line that goes on
    length, line = 0, first_line
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
    if length and whole:
        yield b"".join(parts)


def too_long() -> str:
    """Return the message for a line that is too long."""
    return f"longer than {LONGEST_LINE} bytes, the most that a line may have; is it text, with ends of lines?"
