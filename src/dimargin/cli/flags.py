"""Making of a flag from a parameter of something else."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer


def optional_flag(name: str, kind: Any, text: str, default: str, panel: str) -> inspect.Parameter:
    """Return a keyword for a flag that need not be given: its value is None then, and its help says the default."""
    flag = name.replace("_", "-")
    option = typer.Option(
        f"--{flag}/--no-{flag}" if kind is bool else f"--{flag}", help=text, show_default=default, rich_help_panel=panel
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )
