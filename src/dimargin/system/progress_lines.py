"""Lines of progress, by logging or on standard output."""

import io
import logging
import sys
from contextlib import suppress

LOGGER = logging.getLogger("dimargin")
if LOGGER.level == logging.NOTSET:
    # Only verbose estimators write lines, so the level of the root logger, WARNING by default, must not hide them.
    LOGGER.setLevel(logging.INFO)


def log_progress(text: str) -> None:
    """Log a line of a verbose estimator; where no handler would show it, print it.

    A program that has set up logging gets the line by its handlers, and can silence the logger
    "dimargin" by its level. In a notebook or a script without handlers, ``verbose=1`` would
    otherwise show nothing, while every other estimator of scikit-learn prints.
    """
    if not LOGGER.isEnabledFor(logging.INFO):
        return
    if _has_handler():
        LOGGER.info("%s", text)
    else:
        print_progress(f"[dimargin] {text}")


def _has_handler() -> bool:
    """Return whether a handler of the logger or of those above it takes lines of this level."""
    logger: logging.Logger | None = LOGGER
    while logger is not None:
        if any(not isinstance(one, logging.NullHandler) and one.level <= logging.INFO for one in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


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
