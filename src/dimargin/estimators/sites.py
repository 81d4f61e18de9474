"""Validation of the parameters of simulated networks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dimargin.estimators.input_checks import check_number
from dimargin.system.extras import require

PACKAGES = ("msgspec", "networkx")
"""Packages that a simulated network needs."""


def check_sites(name: str, n_sites: int, topology: Any, shards: Any) -> None:
    """Raise an error if a parameter is out of range, or MissingExtra without the packages.

    Parameters
    ----------
    name : str
        Name of the estimator.
    n_sites : int
    topology : str or networkx graph
    shards : str or array-like
    """
    require(name, *PACKAGES)
    from dimargin.gossip.simulation.gossip_run import SHARDS
    from dimargin.gossip.topology import make_graph

    check_number("n_sites", n_sites, 1, low_included=True, whole=True)
    make_graph(topology, int(n_sites))
    if isinstance(shards, str) and shards not in SHARDS:
        raise ValueError(f"shards must be {', '.join(map(repr, SHARDS))} or an array, got {shards!r}")


def site_algorithm(algorithm: Any) -> Any:
    """Return the algorithm of a name, or the given one; raise ValueError for anything else."""
    from dimargin.gossip.programs.algorithm import SiteAlgorithm
    from dimargin.gossip.rounds.compression import Logarithmic
    from dimargin.gossip.rounds.consensus_admm import ConsensusADMM

    if isinstance(algorithm, str) and algorithm == "admm":
        return ConsensusADMM(compression=Logarithmic())
    if not isinstance(algorithm, SiteAlgorithm):
        raise ValueError(
            "algorithm must be 'gadget', 'admm' or an instance of a class of dimargin.gossip.rounds, such as "
            f"ConsensusADMM(), got {algorithm!r}"
        )
    return algorithm


def check_graph(algorithm: Any, graph: Any) -> None:
    """Raise ValueError if the algorithm cannot run on the network or would have no effect."""
    if graph.is_directed() and algorithm.needs_answers:
        name = type(algorithm).__name__
        raise ValueError(f"topology must have undirected edges, because sites that run {name} wait for answers")
    needed, (site, degree) = algorithm.min_neighbours, min(graph.degree, key=lambda pair: pair[1])
    if degree < needed:
        raise ValueError(
            f"topology must give every site {needed} neighbours or more for {algorithm!r}; site{site} has {degree}: "
            "choose a smaller f, or a topology with more edges"
        )


def privacy_attributes(estimator: Any, programs: Iterable[Any]) -> dict[str, float]:
    """Return the fitted attributes about the privacy budget that the programs of sites have spent, if there is one."""
    privacy = getattr(estimator.algorithm, "privacy", None)
    if privacy is None:
        return {}
    return {"epsilon_": privacy.spent(max(program.releases for program in programs)), "delta_": privacy.delta}


def check_consensus(estimator: Any, **alone: bool) -> None:
    """Raise an error if parameters of an estimator on core-sets do not suit its number of sites.

    `alone` tells of parameters that several sites do not use whether they were set.
    """
    n_sites = estimator.n_sites
    check_number("n_sites", n_sites, 1, low_included=True, whole=True)
    if n_sites == 1:
        return
    check_sites(type(estimator).__name__, n_sites, estimator.topology, estimator.shards)
    for name, is_set in alone.items():
        if is_set:
            raise ValueError(f"{name} was set, but n_sites={n_sites} does not use it; leave it at its default")
    if callable(estimator.kernel) or estimator.kernel == "precomputed":
        raise ValueError(f"kernel must have a name for n_sites={n_sites}, because sites compute kernel values")
