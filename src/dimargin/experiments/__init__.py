"""Experiments: methods on data sets, in processes of their own, with pages of results beside the papers' figures."""

from __future__ import annotations

from importlib import import_module

from dimargin.experiments.declarations import Experiment
from dimargin.system.extras import naming_extra

EXPERIMENTS = ("dcsvm", "diodm", "choosing", "coreset", "gossip")
"""Names of all experiments, each of which is the ``EXPERIMENT`` of the module of that name."""


def experiment(name: str) -> Experiment:
    """Return an experiment by its name.

    Raises
    ------
    ValueError
        If there is none of this name.
    MissingExtra
        If it needs an extra that is not installed: "gossip" and "coreset" need "peers".

    Examples
    --------
    >>> experiment("dcsvm").source
    'Hsieh, Si, Dhillon: A Divide-and-Conquer Solver for Kernel Support Vector Machines, ICML 2014'
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"there is no experiment {name!r}, but {', '.join(EXPERIMENTS)}")
    with naming_extra(f"dimargin bench {name}"):
        found: Experiment = import_module(f"dimargin.experiments.{name}").EXPERIMENT
    return found
