"""Shared entries of numpydoc docstrings, and their use as help on the command line and on Spark."""

from __future__ import annotations

import inspect
import re
from typing import TypeVar

Machine = TypeVar("Machine", bound=type)
_PARAMETER_ENTRY = re.compile(r"^(\w+(?:, \w+)*) : (.*)\n((?:    .*\n?)*)", flags=re.MULTILINE)


def documented(machine: Machine) -> Machine:
    """Complete the docstring of a class with parameters and attributes from its base classes.

    A line ``%(tol, max_iter)s`` becomes the entries for these names in the nearest base class.
    """
    entries: dict[str, str] = {}
    for base in reversed(machine.__mro__[1:]):
        text = inspect.cleandoc(base.__doc__ or "") + "\n"
        entries |= {entry[1].partition(",")[0]: entry[0].rstrip() for entry in _PARAMETER_ENTRY.finditer(text)}

    def shared(line: re.Match[str]) -> str:
        return "\n".join(entries[name] for name in line[1].split(", "))

    machine.__doc__ = re.sub(r"^%\((.*)\)s$", shared, inspect.cleandoc(machine.__doc__ or ""), flags=re.MULTILINE)
    return machine


def parameter_texts(machine: type) -> dict[str, str]:
    """Return a line for each parameter of a class: its choices and its description.

    Examples
    --------
    >>> from dimargin import SVMClassifier
    >>> texts = parameter_texts(SVMClassifier)
    >>> texts["loss"], texts["degree"]
    ('{"hinge", "squared_hinge"}.', 'Degree of "poly".')
    """
    section = inspect.cleandoc(machine.__doc__ or "").partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    return {
        name: re.sub(r"`{1,2}", "", " ".join([_choices(kind), *text.split()]).strip())
        for names, kind, text in _PARAMETER_ENTRY.findall(section + "\n")
        for name in names.split(", ")
    }


def _choices(kind: str) -> str:
    """Return the choices in the type of a parameter, or an empty string."""
    return kind.partition(", default")[0] + "." if kind.startswith("{") else ""
