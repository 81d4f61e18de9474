"""The option --config: flags of a command in a TOML file, so that a service or a series of runs can share them."""

from __future__ import annotations

import inspect
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from dimargin.cli.flags import existing_file
from dimargin.system.printing import printable
from dimargin.system.reading import read_file

_MAX_BYTES = 2**20


def config_flag() -> inspect.Parameter:
    """Return the option, which gives the other options of a command their defaults."""
    option = existing_file(
        "--config",
        help='TOML file of flags, such as alpha = 1e-4 or neighbour = ["east", "west"]. The command line overrides '
        "it.",
        is_eager=True, expose_value=False, callback=_take_defaults,
    )  # fmt: skip
    return inspect.Parameter(
        "config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[Path | None, option]
    )


def _take_defaults(context: typer.Context, path: Path | None) -> None:
    """Make the values of the file the defaults of the command's options."""
    if path is None:
        return
    try:
        found = _read(path)
        context.default_map = dict(_default(context.command, name, value) for name, value in found.items())
    except (ValueError, OSError) as error:
        raise typer.BadParameter(printable(f"{path}: {error}"), param_hint="--config") from error


def _read(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file; invalid TOML or UTF-8 raises a ValueError."""
    try:
        return tomllib.loads(read_file(path, _MAX_BYTES).decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _default(command: Any, name: str, value: Any) -> tuple[str, Any]:
    """Return an option's name in Python, and its value; raise ValueError unless the option takes such a value."""
    options = {flag.removeprefix("--"): option for option in command.params for flag in option.opts}
    option = options.get(name)
    if option is None or option.is_eager or option.param_type_name != "option":
        raise ValueError(f"there is no flag --{name}")
    kinds: tuple[type, ...] = (bool,) if option.is_flag else (str, int, float)
    values = value if isinstance(value, list) and option.multiple else [value]
    for one in values:
        if not isinstance(one, kinds) or isinstance(one, bool) is not option.is_flag:
            wanted = "true or false" if option.is_flag else "a text or a number"
            raise ValueError(f"{name} is {value!r}, expected {wanted}{' or a list of these' * option.multiple}")
    return option.name, value if option.is_flag else [str(one) for one in values] if option.multiple else str(value)
