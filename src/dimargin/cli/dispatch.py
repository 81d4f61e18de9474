"""Dispatch of the command line: the loading of commands, and the report of their errors."""

from __future__ import annotations

import os
import sys
import warnings
from typing import NoReturn

import typer

from dimargin.cli.root import COMMANDS, new_app, overview, register
from dimargin.system.extras import MissingExtra
from dimargin.system.printing import printable

COMPLETION = "_DIMARGIN_COMPLETE"  # set by a shell that completes a line
_ABORTED = 130  # what typer makes of Ctrl-C
_WRONG_USAGE = 2  # of typer too
_plain_warning = warnings.formatwarning
_MISTAKES = (ValueError, TypeError, OSError, MemoryError, ImportError)  # a line, not a traceback


def _app() -> typer.Typer:
    """Return the command line with the command that was asked for, or a list of all."""
    if COMPLETION in os.environ:
        from dimargin.cli.app import app  # loads everything

        return app
    command = COMMANDS.get(sys.argv[1].replace("_", "-")) if len(sys.argv) > 1 else None
    if command is None:
        return overview()
    alone = new_app()
    register(alone, command.module)
    return alone


def main() -> NoReturn:
    """Run the command line; a mistake or a missing extra is a line on standard error and exit status 1 or 2."""
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    warnings.formatwarning = _printable_warning
    try:
        _app()()
    except SystemExit as end:
        if end.code != _ABORTED:
            raise
    except KeyboardInterrupt:
        print("dimargin: interrupted, nothing was saved", file=sys.stderr)
    except BrokenPipeError:
        sys.stderr.close()  # the reader has gone; so do we, without a word
    except MissingExtra as error:
        print(f"dimargin: {printable(error)}", file=sys.stderr)
        sys.exit(_WRONG_USAGE)
    except _MISTAKES as error:
        what = printable(error, keep="\n")
        print(f"dimargin: {what or 'there is not enough memory'}", file=sys.stderr)  # only MemoryError may say nothing
    sys.exit(1)


def _printable_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    return printable(_plain_warning(message, category, filename, lineno, line), keep="\n")
