"""Lines of progress on standard output."""

import io
import sys
from contextlib import suppress


def print_progress(text: str, end: str = "\n") -> None:
    """Print progress without buffering, and ignore failures (a full disk, a closed pipe).

    Text that could not be written must not stay in a buffer, or the interpreter fails as it exits.
    """
    stream = sys.stdout
    # A replacement of standard output (by a progress bar or a notebook) prints in its own way.
    raw = getattr(stream.buffer, "raw", None) if type(stream) is io.TextIOWrapper else None
    with suppress(OSError, ValueError):  # ValueError: the stream was closed
        if raw is None:
            print(text, end=end, flush=True)
        else:
            stream.flush()
            raw.write(f"{text}{end}".encode(stream.encoding, "backslashreplace"))
