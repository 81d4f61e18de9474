"""Gossip algorithms in model files: those of the library, and those registered by others.

A distribution registers a class by an entry point in the group "dimargin.algorithms" with the name
of the class. For the name in a file, only the class registered under that name is loaded.
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
    """Return the modules of all classes of algorithms and their parts, by class name.

    Examples
    --------
    >>> algorithm_homes()["ConsensusADMM"]
    'dimargin.gossip.rounds.consensus_admm'
    """
    registered = {entry.name: entry.module for entry in entry_points(group="dimargin.algorithms")}
    return registered | {name: module for name, module in homes(rounds.__name__).items() if name[0].isupper()}


def algorithm_class(name: str) -> type[Any] | None:
    """Return the class with this name, or None for an unknown name."""
    module = algorithm_homes().get(name)
    return None if module is None else getattr(import_module(module), name)
