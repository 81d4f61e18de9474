"""The command line without its commands, and the commands that run without the modules of the others."""

from __future__ import annotations

from importlib import import_module

import typer

ALONE = {"site": "dimargin.cli.site"}
"""Name and module of commands whose process has to stay small; the module's `register` adds the command."""


def new_app() -> typer.Typer:
    """Make the command line, still without commands."""
    return typer.Typer(
        name="dimargin",
        help="Large-margin classifiers that carry a certificate.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"token_normalize_func": lambda token: token.replace("_", "-")},
    )


def register_alone(app: typer.Typer) -> None:
    """Add the commands that can also run alone."""
    for module in ALONE.values():
        import_module(module).register(app)
