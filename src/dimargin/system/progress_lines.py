"""Lines of progress on standard output."""

import io
import sys
from contextlib import suppress


def print_progress(text: str, end: str = "\n") -> None:
    """Print progress at once; where that fails (a full disk, a reader that has gone) the work goes on without it.

    No buffer keeps what could not be written, or it would fail again, and loudly, when the interpreter ends.
    """
    stream = sys.stdout
    # what stands in for standard output (a progress bar's, a notebook's) has a way of its own to print
    raw = getattr(stream.buffer, "raw", None) if type(stream) is io.TextIOWrapper else None
    with suppress(OSError, ValueError):  # ValueError: the stream was closed
        if raw is None:
            print(text, end=end, flush=True)
        else:
            stream.flush()
            raw.write(f"{text}{end}".encode(stream.encoding, "backslashreplace"))
