"""Lines of progress on standard output."""

import sys
from contextlib import suppress


def print_progress(text: str, end: str = "\n") -> None:
    """Print progress at once; where that fails (a full disk, a reader that has gone) the work goes on without it.

    No buffer keeps what could not be written, or it would fail again, and loudly, when the interpreter ends.
    """
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    with suppress(OSError, ValueError):  # ValueError: the stream was closed
        if raw is None:
            print(text, end=end, flush=True)
        else:
            sys.stdout.flush()
            raw.write(f"{text}{end}".encode(sys.stdout.encoding, "backslashreplace"))
