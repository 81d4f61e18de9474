"""Dispatch of the command line: the loading of commands, and the report of their errors."""

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
    name = sys.argv[1].replace("_", "-") if len(sys.argv) > 1 else ""
    command = COMMANDS.get(name) or all_commands().get(name)
    if command is None:
        return overview()
    alone = new_app()
    register(alone, command.module)
    return alone


def main() -> NoReturn:
    """Run the command line; a mistake or a missing extra is a line on standard error and exit status 1 or 2."""
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    warnings.formatwarning = _printable_warning
    output = open_streams()
    status = _status_of(lambda: _app()())
    if not (status and output.error):  # else it was said
        status = _status_of(output.finish) or status
    sys.exit(status)


def _status_of(work: Callable[[], object]) -> str | int | None:
    """Do work, and return the exit status, once what went wrong is said."""
    try:
        work()
    except SystemExit as end:
        return 1 if end.code == _ABORTED else end.code
    except KeyboardInterrupt:
        _say("interrupted, nothing was saved")
    except BrokenPipeError:
        pass  # the reader has gone; so do we, without a word
    except MissingExtra as error:
        _say(printable(error))
        return _WRONG_USAGE
    except _MISTAKES as error:
        _say(printable(error, keep="\n") or "there is not enough memory")  # only MemoryError may say nothing
    else:
        return 0
    return 1


def _say(what: str) -> None:
    print(f"dimargin: {what}", file=sys.stderr)


def _printable_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    return printable(_plain_warning(message, category, filename, lineno, line), keep="\n")
