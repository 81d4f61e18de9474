"""Lazy imports of the names of a package, so that a process loads only what it needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from dimargin.system.extras import EXTRA_OF, MissingExtra


def lazily(
    package: str, names: Mapping[str, Iterable[str]]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__all__``, ``__getattr__`` and ``__dir__`` of a package that imports its names lazily (PEP 562).

    Type checkers do not see what these do: the package also imports its names under ``if TYPE_CHECKING``.

    Parameters
    ----------
    package : str
        Name of the package, its ``__name__``.
    names : mapping of str to iterable of str
        Modules of the package, which become its attributes, and what the package offers of each of them. A name whose
        module needs an extra that is not installed raises `MissingExtra` when it is used.

    Examples
    --------
    >>> import dimargin
    >>> dimargin.no_such_name
    Traceback (most recent call last):
        ...
    AttributeError: module 'dimargin' has no attribute 'no_such_name'
    """
    home = {name: module for module, offered in names.items() for name in offered}

    def load(name: str) -> Any:
        if name not in home and name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
        try:
            module = import_module(f"{package}.{home.get(name, name)}")
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing not in EXTRA_OF:
                raise
            raise MissingExtra(f"{package}.{name}", missing) from error
        value = getattr(module, name) if name in home else module
        setattr(sys.modules[package], name, value)  # the next use goes without this function
        return value

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home, *names})

    return sorted(home), load, listed
