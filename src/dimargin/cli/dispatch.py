"""Dispatch of the command line, which loads one command and reports its errors."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import NoReturn

import typer

from dimargin.cli.root import COMMANDS, all_commands, new_app, overview, register
from dimargin.cli.streams import open_streams
from dimargin.system.extras import MissingExtra
from dimargin.system.printing import printable

_plain_warning = warnings.formatwarning


def _app() -> typer.Typer:
    """Return the command line with the command that was called, or with a list of all."""
    if "_DIMARGIN_COMPLETE" in os.environ:  # A shell sets this variable to complete a line.
        from dimargin.cli.app import app  # This import loads all commands.

        return app
    name = sys.argv[1].replace("_", "-") if len(sys.argv) > 1 else ""
    command = COMMANDS.get(name) or all_commands().get(name)
    if command is None:
        return overview()
    alone = new_app()
    register(alone, command.module)
    return alone


def main() -> NoReturn:
    """Run the command line; print a mistake as one line on standard error and exit with 1 or 2."""
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    warnings.filterwarnings("ignore", message=r"in \d+ of \d+ rows, column")  # Commands count unseen categories.
    warnings.formatwarning = _printable_warning
    output = open_streams()
    status = _status_of(lambda: _app()())
    if not (status and output.error):  # Otherwise the error was already printed.
        status = _status_of(output.finish) or status
    sys.exit(status)


def _status_of(work: Callable[[], object]) -> str | int | None:
    """Do work, print its error if there is one, and return the exit status."""
    try:
        work()
    except SystemExit as end:
        return 1 if end.code == 130 else end.code  # Typer exits with 130 after Ctrl-C.
    except KeyboardInterrupt:
        _say("interrupted, nothing was saved")
    except BrokenPipeError:
        pass  # The reader has closed the pipe and needs no message.
    except MissingExtra as error:
        _say(printable(error))
        return 2  # This is typer's status for wrong usage.
    except (ValueError, TypeError, OSError, MemoryError, ImportError) as error:
        _say(printable(error, keep="\n") or "there is not enough memory")  # Only a MemoryError may have no text.
    else:
        return 0
    return 1


def _say(what: str) -> None:
    print(f"dimargin: {what}", file=sys.stderr)


def _printable_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    return printable(_plain_warning(message, category, filename, lineno, line), keep="\n")
