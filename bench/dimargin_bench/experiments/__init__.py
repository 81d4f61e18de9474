"""Experiments: methods on data sets, in processes of their own, with pages of results beside the papers' figures."""

from __future__ import annotations

from importlib import import_module

from dimargin_bench.experiments.declarations import Experiment

EXPERIMENTS = ("dcsvm", "diodm", "choosing", "coreset", "gossip")
"""Names of all experiments; the ``EXPERIMENT`` of a name is in the module with "_experiment" behind it."""


def experiment(name: str) -> Experiment:
    """Return an experiment by its name.

    Raises
    ------
    ValueError
        If there is none of this name.

    Examples
    --------
    >>> experiment("dcsvm").source
    'Hsieh, Si, Dhillon: A Divide-and-Conquer Solver for Kernel Support Vector Machines, ICML 2014'
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"there is no experiment {name!r}, but {', '.join(EXPERIMENTS)}")
    found: Experiment = import_module(f"dimargin_bench.experiments.{name}_experiment").EXPERIMENT
    return found
