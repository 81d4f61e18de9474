"""Help of commands with many options: the common ones by --help, all of them by --help-all."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup


class _WithoutTypeOfSwitches:
    """Mixin of commands whose help gives switches no type."""

    def get_params(self, context: Any) -> list[Any]:
        """Return all parameters."""
        parameters: list[Any] = super().get_params(context)  # type: ignore[misc]
        for option in parameters:
            if getattr(option, "is_flag", False):
                option.metavar = ""
        return parameters


class PlainCommand(_WithoutTypeOfSwitches, TyperCommand):
    """Command whose help gives switches no type."""


class PlainGroup(_WithoutTypeOfSwitches, TyperGroup):
    """Group of commands whose help gives switches no type."""


class Application(typer.Typer):
    """Command line, or a group of commands, whose help gives switches no type."""

    def __init__(self, **given: Any) -> None:
        super().__init__(cls=PlainGroup, **given)

    def command(self, name: str | None = None, **given: Any) -> Any:
        """Return a decorator that adds a command."""
        return super().command(name, **{"cls": PlainCommand, **given})


class BriefCommand(PlainCommand):
    """Command whose help has its `common` options and those that are required, with the first sentence of each.

    The option of `full_help_flag` prints the help of all options.
    """

    common: Collection[str] = ()
    is_brief = True

    def format_help(self, context: Any, formatter: Any) -> None:
        """Write the help."""
        options: list[Any] = [option for option in self.params if option.param_type_name == "option"]
        full = {option.name: (option.help, option.hidden) for option in options}
        if self.is_brief:
            self.epilog = "--help-all shows all options, and says more about each."
            for option in options:
                option.help = _first_sentence(option.help or "")
                option.hidden = option.name not in self.common and not option.required
        super().format_help(context, formatter)
        for option in options:
            option.help, option.hidden = full[option.name]


def _first_sentence(text: str) -> str:
    """Return the first sentence, and the default at the end of the text."""
    default = re.search(r" \(default: [^()]*(?:\([^()]*\)[^()]*)*\)\.$", text)
    text = text[: default.start()] + "." if default else text
    sentence = re.match(r".*?[.](?=\s|$)", text, re.DOTALL)
    text = sentence[0] if sentence else text
    return f"{text.removesuffix('.')}{default[0]}" if default else text


def brief(common: Collection[str]) -> type[BriefCommand]:
    """Return the class of a command of which these options are common."""
    return type("BriefCommand", (BriefCommand,), {"common": frozenset((*common, "help", "help_all"))})


def full_help_flag() -> inspect.Parameter:
    """Return the option --help-all, which prints the help of all options of a `BriefCommand`."""
    option = typer.Option(
        "--help-all", help="Show all options and exit.", is_eager=True, expose_value=False, callback=_print_full_help
    )
    return inspect.Parameter(
        "help_all", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, option]
    )


def _print_full_help(context: typer.Context, is_asked: bool) -> None:
    if not is_asked:
        return
    command: Any = context.command
    command.is_brief = False
    try:
        typer.echo(context.get_help())
    finally:
        command.is_brief = True
    raise typer.Exit
