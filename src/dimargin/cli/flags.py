"""Construction of flags, and the report of their invalid values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from typing import Annotated, Any

import typer

from dimargin.system.printing import printable

existing_file = partial(typer.Option, exists=True, dir_okay=False)


@contextmanager
def usage_checked() -> Iterator[None]:
    """Turn errors about the values of flags into usage errors, which show how to get help."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(printable(error)) from error


def optional_flag(
    name: str, kind: Any, text: str, default: str, panel: str, metavar: str | None = None
) -> inspect.Parameter:
    """Return a keyword for an optional flag, which is None by default.

    Its help ends with `default`, unless that is "None".
    """
    flag = name.replace("_", "-")
    text = text if default == "None" else f"{text.removesuffix('.')} (default: {default})."
    option = typer.Option(
        f"--{flag}/--no-{flag}" if kind is bool else f"--{flag}",
        help=text,
        show_default=False,
        metavar=metavar,
        rich_help_panel=panel,
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )


def with_flags(
    command: Callable[..., None], flags: Sequence[inspect.Parameter], before: str | None = None
) -> Callable[..., None]:
    """Return a command with flags for its ``**`` parameter, at the end or before `before`."""
    signature = inspect.signature(command, eval_str=True)
    own = [parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    at = len(own) if before is None else list(signature.parameters).index(before)

    @wraps(command)
    def run(*arguments: Any, **given: Any) -> None:
        command(*arguments, **given)

    run.__signature__ = signature.replace(parameters=[*own[:at], *flags, *own[at:]])  # type: ignore[attr-defined]
    return run
