"""Descriptions of parameters, read from numpydoc docstrings for the command line and for Spark."""

from __future__ import annotations

import inspect
import re


def parameter_texts(machine: type) -> dict[str, str]:
    """Return the descriptions of a class's parameters, on one line each, behind its choices if there are some.

    Examples
    --------
    >>> from dimargin import SVMClassifier
    >>> texts = parameter_texts(SVMClassifier)
    >>> texts["loss"], texts["degree"]
    ('{"hinge", "squared_hinge"}.', 'Of "poly".')
    """
    section = inspect.cleandoc(machine.__doc__ or "").partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^(\w+(?:, \w+)*) : (.*)\n((?:    .*\n?)*)", section + "\n", flags=re.MULTILINE)
    return {
        name: re.sub(r"`{1,2}", "", " ".join([_choices(kind), *text.split()]).strip())
        for names, kind, text in entries
        for name in names.split(", ")
    }


def _choices(kind: str) -> str:
    """Return the choices that the type of a parameter lists, or an empty text."""
    return kind.partition(", default")[0] + "." if kind.startswith("{") else ""
