"""Lazy imports of the names of a package, so that a process loads only what it needs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from dimargin.system.extras import naming_extra
from dimargin.system.moved import moved_to


def lazily(
    package: str, modules: Iterable[str] = ()
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__all__``, ``__getattr__`` and ``__dir__`` of a package that imports its names lazily (PEP 562).

    The names are those that the package imports under ``if TYPE_CHECKING``, where type checkers see
    them; they are read from its source. Using a name whose module needs an extra that is not
    installed raises `MissingExtra`. The package is given by its ``__name__``. Its attributes are
    the names, the submodules that they come from, and the submodules given as `modules`.

    Examples
    --------
    >>> import dimargin
    >>> dimargin.no_such_name
    Traceback (most recent call last):
        ...
    AttributeError: module 'dimargin' has no attribute 'no_such_name'
    """
    home = homes(package)
    parts = {module.removeprefix(f"{package}.").partition(".")[0] for module in home.values()}.union(modules)

    def load(name: str) -> Any:
        if name not in home and name not in parts and not moved_to(f"{package}.{name}"):
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
        with naming_extra(f"{package}.{name}"):
            module = import_module(home.get(name, f"{package}.{name}"))
        value = getattr(module, name) if name in home else module
        setattr(sys.modules[package], name, value)  # Later uses do not call this function.
        return value

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home, *parts})

    return sorted(home), load, listed


def homes(package: str) -> dict[str, str]:
    """Return the names that an imported package imports under ``if TYPE_CHECKING``, each with its module."""
    spec: Any = sys.modules[package].__spec__
    source = spec.loader.get_data(spec.origin).decode()  # Its get_source imports a tokenizer.
    imports = re.findall(r"^    from (\S+) import (\w+) as \2$", source, flags=re.MULTILINE)
    return {name: module for module, name in imports}
