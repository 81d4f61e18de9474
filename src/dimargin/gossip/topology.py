"""Topologies of networks: networkx graphs of sites 0 .. n-1, and the matrices by which sites average."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np

from dimargin.system.arrays import Floats


def _sides(n: int) -> tuple[int, int]:
    """Return the numbers of rows and columns of a grid of n sites that is as square as possible."""
    rows = next(r for r in range(math.isqrt(n), 0, -1) if n % r == 0)
    return rows, n // rows


TOPOLOGIES: dict[str, Callable[[int, int], Any]] = {
    "complete": lambda n, seed: nx.complete_graph(n),
    "ring": lambda n, seed: nx.cycle_graph(n) if n > 2 else nx.path_graph(n),
    "grid": lambda n, seed: nx.grid_2d_graph(*_sides(n)),
    "torus": lambda n, seed: nx.grid_2d_graph(*_sides(n), periodic=True),
    "star": lambda n, seed: nx.star_graph(n - 1),
    "random_regular": lambda n, seed: nx.random_regular_graph(4, n, seed) if n > 5 else nx.complete_graph(n),
    "small_world": lambda n, seed: (
        nx.connected_watts_strogatz_graph(n, 4, 0.2, seed=seed) if n > 5 else nx.complete_graph(n)
    ),
    "erdos_renyi": lambda n, seed: nx.erdos_renyi_graph(n, min(1.0, 2 * math.log(max(n, 2)) / n), seed),
}


def make_graph(topology: str | Any, n_sites: int, random_state: int = 0) -> Any:
    """Return the graph of a topology.

    Parameters
    ----------
    topology : str or networkx graph
        "complete", "ring", "grid", "torus" (both as square as the number allows), "star",
        "random_regular" (four neighbours), "small_world" (Watts and Strogatz: a ring of four
        neighbours, a fifth of them rewired), "erdos_renyi" (edges with probability ``2 ln n / n``),
        or any graph, directed or not, whose nodes are taken in its own order.
    n_sites : int
    random_state : int
        Seed of the random topologies.

    Returns
    -------
    networkx.Graph or networkx.DiGraph
        Nodes 0 .. n_sites - 1, without loops.

    Raises
    ------
    ValueError
        For an unknown name, or a graph with another number of nodes.

    Examples
    --------
    >>> sorted(make_graph("ring", 4).edges)
    [(0, 1), (0, 3), (1, 2), (2, 3)]
    """
    if isinstance(topology, str):
        if topology not in TOPOLOGIES:
            raise ValueError(f"topology must be one of {', '.join(TOPOLOGIES)} or a networkx graph, got {topology!r}")
        graph = nx.empty_graph(1) if n_sites == 1 else TOPOLOGIES[topology](n_sites, random_state)
    elif isinstance(topology, nx.Graph):
        graph = topology
        if len(graph) != n_sites:
            raise ValueError(f"topology is a graph of {len(graph)} nodes, expected n_sites={n_sites}")
    else:
        raise TypeError(f"topology must be a name or a networkx graph, got {topology!r}")
    graph = nx.convert_node_labels_to_integers(graph, ordering="default" if graph is topology else "sorted")
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    return graph


def changing_digraphs(n_sites: int, p: float, random_state: int = 0) -> Callable[[float], Any]:
    """Return a function from seconds to a random digraph, which changes every second (core-set paper, section V).

    The graphs are directed Erdos-Renyi graphs, which need not be connected; p is the probability of
    every edge. The simulator accepts such a function.

    Examples
    --------
    >>> graph = changing_digraphs(100, 0.01)
    >>> sorted(graph(3.0).edges) == sorted(graph(3.9).edges) != sorted(graph(4.0).edges)
    True
    """

    def graph(now: float) -> Any:
        seed = np.random.SeedSequence([random_state, int(now)]).generate_state(1)[0]
        return nx.fast_gnp_random_graph(n_sites, p, int(seed), directed=True)

    return graph


def check_reachable(graph: Any, names: list[str]) -> None:
    """Raise ValueError, naming two sites, unless every site can reach all other sites."""
    pieces = list((nx.strongly_connected_components if graph.is_directed() else nx.connected_components)(graph))
    if len(pieces) > 1:
        smallest = min(pieces, key=lambda piece: (len(piece), min(piece)))
        lonely, other = min(smallest), min(set(graph) - smallest)
        raise ValueError(
            f"the topology is not connected: {names[lonely]} and {names[other]} cannot both reach one another; "
            f"it has {len(pieces)} components"
        )


def metropolis_weights(graph: Any) -> Floats:
    """Return doubly stochastic weights for plain averaging on an undirected graph.

    They are ``w_ij = 1 / (1 + max(deg_i, deg_j))`` for neighbours; the diagonal makes rows sum to
    one. Their fixed point is the mean, whatever the degrees. The GADGET paper's
    ``b_ij = 1 / deg_i`` is not doubly stochastic if degrees differ, and on bipartite graphs (even
    rings, grids, stars) it does not converge at all.

    Returns
    -------
    ndarray of shape (n, n), symmetric
    """
    n = len(graph)
    weights = np.zeros((n, n))
    for i, j in graph.edges:
        weights[i, j] = weights[j, i] = 1 / (1 + max(graph.degree(i), graph.degree(j)))
    np.fill_diagonal(weights, 1 - weights.sum(axis=1))
    return weights


def uniform_weights(graph: Any) -> Floats:
    """Return the column-stochastic weights by which Push-Sum splits the mass of every site evenly.

    Returns
    -------
    ndarray of shape (n, n)
        Entry (i, j) is the share of j's mass that i gets; j shares with itself and its neighbours.
    """
    weights = np.eye(len(graph))
    for j in graph:
        for i in graph.neighbors(j):
            weights[i, j] = 1
    return np.asarray(weights / weights.sum(axis=0))


def mixing_rounds(weights: Floats, tolerance: float = 1e-6) -> float:
    """Return the number of rounds in which differences shrink by a factor of `tolerance`.

    It is ``log(1/tolerance) / log(1/|lambda_2|)``, and at least one. It is infinite if differences
    do not shrink because the graph is disconnected or periodic.
    """
    sizes = np.sort(np.abs(np.linalg.eigvals(weights)))[::-1]
    second = float(sizes[1]) if len(sizes) > 1 else 0.0
    if second >= 1 - 1e-12:
        return math.inf
    return max(1.0, math.log(tolerance) / math.log(second)) if second > 0 else 1.0
