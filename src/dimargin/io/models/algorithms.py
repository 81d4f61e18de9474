"""Algorithms of gossip that model files may hold: those of the library, and those that other distributions register.

A distribution registers a class by an entry point of the group "dimargin.algorithms" that has the name of the class. A
file names a class, and nothing else of it is loaded than what is registered under this name.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from dimargin.gossip import rounds
from dimargin.system.lazy import homes


@cache
def algorithm_homes() -> dict[str, str]:
    """Return the names of all classes of algorithms and of their parts, each with its module.

    Examples
    --------
    >>> algorithm_homes()["ConsensusADMM"]
    'dimargin.gossip.rounds.consensus_admm'
    """
    registered = {entry.name: entry.module for entry in entry_points(group="dimargin.algorithms")}
    return registered | {name: module for name, module in homes(rounds.__name__).items() if name[0].isupper()}


def algorithm_class(name: str) -> type[Any] | None:
    """Return the class of this name, None if there is none."""
    module = algorithm_homes().get(name)
    return None if module is None else getattr(import_module(module), name)
