"""Flags for how a data file is read, and data from a pipe.

`dimargin site` imports this module, which must load neither scikit-learn nor pyarrow.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from dimargin.io.data.opening import FileOptions, copied, regular

_option = partial(typer.Option, rich_help_panel="How the file is read")


def file_options(
    format: Annotated[
        Literal["csv", "libsvm", "parquet"] | None, _option(help="Format of the data.", show_default="by the content")
    ] = None,
    header: Annotated[
        bool | None,
        _option(
            "--header/--no-header",
            help="Whether the first line of CSV has the column names.",
            show_default="by comparison with the lines below",
        ),
    ] = None,
    encoding: Annotated[
        str | None,
        _option(metavar="NAME", help="Encoding of text, such as cp1252 or latin-1.", show_default="UTF-8"),
    ] = None,
    quotes: Annotated[
        bool | None,
        _option(
            "--quotes/--no-quotes",
            help="Let quoted CSV cells contain separators and line breaks; --no-quotes reads quotes as letters.",
            show_default="quotes, but quoted rows are refused",
        ),
    ] = None,
) -> FileOptions:
    """Return the options for the values of the flags; raises ValueError for an unknown encoding."""
    return FileOptions(format, header, encoding, quotes)


def option_words(options: FileOptions) -> list[str]:
    """Return the words of a command line that give these options."""
    texts = {name.replace("_", "-"): value for name, value in vars(options).items() if isinstance(value, (str, Path))}
    words = [f"--{name}={value}" for name, value in texts.items()]
    switches = [(name, value) for name, value in vars(options).items() if isinstance(value, bool)]
    return words + [f"--{name}" if is_on else f"--no-{name}" for name, is_on in switches]


def readable(context: typer.Context, path: Path) -> Path:
    """Return a path from which the data can be read repeatedly; "-" is standard input."""
    if str(path) != "-":
        return context.with_resource(regular(path))
    if sys.stdin is None:
        raise ValueError("-: standard input is closed; expected rows from a pipe")
    return context.with_resource(copied(sys.stdin.buffer, "standard input", "stdin"))


def _readable_if_given(context: typer.Context, path: Path | None) -> Path | None:
    if path is None:
        return None
    if str(path) != "-" and not path.exists():
        raise typer.BadParameter(f"file {str(path)!r} does not exist.")
    return readable(context, path)


_existing = {"dir_okay": False, "callback": _readable_if_given}
data_argument = partial(typer.Argument, **_existing)  # type: ignore[arg-type]
data_option = partial(typer.Option, **_existing)  # type: ignore[arg-type]
