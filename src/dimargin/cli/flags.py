"""Declarations of flags, commands that have them, and the report of their invalid values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from types import UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from dimargin.cli.brief_help import Application, brief, full_help_flag
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
    name: str, kind: Any, text: str, default: str, panel: str, metavar: str | None = None, hidden: bool = False
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
        hidden=hidden,
        rich_help_panel=panel,
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )


def parameter_flags(
    parameters: type, about: Callable[[str, str], tuple[str, str]], only: Collection[str] | None = None
) -> list[inspect.Parameter]:
    """Return optional flags for the annotated fields of a dataclass, all or `only` some.

    The annotation has the help, and perhaps a text for the default. `about` is called with a
    field's name and that text, or an empty one, and returns the panel and the text for the default.
    """
    found = []
    for name, hint in get_type_hints(parameters, include_extras=True).items():
        if get_origin(hint) is Annotated and (only is None or name in only):
            kind, text, *words = get_args(hint)
            kind = get_args(kind)[0] if isinstance(kind, UnionType) else kind
            panel, default = about(name, words[0] if words else "")
            found.append(optional_flag(name, kind, text, default or str(getattr(parameters, name)), panel))
    return found


def flags_of(declaration: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the flags that a function declares as parameters, or a dataclass as fields."""
    parameters = inspect.signature(declaration, eval_str=True).parameters.values()
    flags = (one for one in parameters if get_origin(one.annotation) is Annotated)
    return [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in flags]


def values_taken(declaration: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """Remove the flags of `flags_of` from `given`, and return their values."""
    return {flag.name: given.pop(flag.name, None) for flag in flags_of(declaration)}


def add_command(
    app: Application,
    name: str,
    command: Callable[..., None],
    flags: Sequence[inspect.Parameter],
    common: Collection[str] = (),
    before: str | None = None,
) -> None:
    """Add a command with flags for its ``**`` parameter, at the end or before its parameter `before`.

    With `common`, --help describes only these flags, and --help-all describes all of them.
    """
    signature = inspect.signature(command, eval_str=True)
    own = [parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    at = len(own) if before is None else list(signature.parameters).index(before)
    last = [full_help_flag()] if common else []

    @wraps(command)
    def run(*arguments: Any, **given: Any) -> None:
        given.pop("help_all", None)
        command(*arguments, **given)

    run.__signature__ = signature.replace(parameters=[*own[:at], *flags, *own[at:], *last])  # type: ignore[attr-defined]
    app.command(name, **({"cls": brief(common)} if common else {}))(run)
