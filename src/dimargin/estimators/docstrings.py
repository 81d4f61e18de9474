"""Descriptions of parameters, read from numpydoc docstrings: other faces of a machine write nothing twice."""

from __future__ import annotations

import inspect
import re


def parameter_texts(machine: type) -> dict[str, str]:
    """Descriptions of a class's parameters, on one line each, behind the choices where there are some.

    Examples
    --------
    >>> from dimargin import SVMClassifier
    >>> texts = parameter_texts(SVMClassifier)
    >>> texts["loss"], texts["degree"]
    ('{"hinge", "squared_hinge"}.', 'Of "poly".')
    """
    section = inspect.cleandoc(machine.__doc__ or "").partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^(\w+) : (.*)\n((?:    .*\n?)*)", section + "\n", flags=re.MULTILINE)
    return {
        name: re.sub(r"`{1,2}", "", " ".join([_choices(kind), *text.split()]).strip()) for name, kind, text in entries
    }


def _choices(kind: str) -> str:
    """The choices, where a description begins with some."""
    return kind.partition(", default")[0] + "." if kind.startswith("{") else ""
