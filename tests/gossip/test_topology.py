"""Graphs and the matrices by which sites mix."""

import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from dimargin.gossip.topology import (
    TOPOLOGIES,
    changing_digraphs,
    check_reachable,
    make_graph,
    metropolis_weights,
    mixing_rounds,
    uniform_weights,
)


@pytest.mark.parametrize("name", TOPOLOGIES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 12, 30])
def test_every_topology_has_every_size(name, n):
    graph = make_graph(name, n, random_state=1)
    assert sorted(graph) == list(range(n))
    assert not list(nx.selfloop_edges(graph))
    assert name == "erdos_renyi" or nx.is_connected(graph)


def test_well_known_shapes():
    assert all(degree == 2 for _, degree in make_graph("ring", 6).degree)
    assert all(degree == 4 for _, degree in make_graph("torus", 12).degree)
    assert max(degree for _, degree in make_graph("star", 6).degree) == 5
    assert make_graph("complete", 5).number_of_edges() == 10
    assert make_graph("grid", 12).number_of_edges() == 17


def test_random_topologies_follow_the_seed():
    for name in ("random_regular", "small_world", "erdos_renyi"):
        edges = [set(make_graph(name, 20, seed).edges) for seed in (3, 3, 4)]
        assert edges[0] == edges[1] != edges[2]


def test_digraphs_that_change_are_connected_only_together():
    """Section V of the core-set paper: none is at any second, and a few of them are together."""
    graph = changing_digraphs(100, 0.01)
    digraphs = [graph(float(second)) for second in range(10)]
    assert not any(nx.is_weakly_connected(one) for one in digraphs)
    assert nx.is_strongly_connected(nx.compose_all(digraphs))


def test_any_graph_of_the_right_size():
    given = nx.relabel_nodes(nx.path_graph(3, create_using=nx.DiGraph), {0: "c", 1: "b", 2: "a"})
    assert set(make_graph(given, 3).edges) == {(0, 1), (1, 2)}
    with pytest.raises(ValueError, match="a graph of 3 nodes, expected n_sites=4"):
        make_graph(given, 4)
    with pytest.raises(ValueError, match=r"topology must be one of complete, ring,.* got 'circle'"):
        make_graph("circle", 4)
    with pytest.raises(TypeError, match="a name or a networkx graph, got 3"):
        make_graph(3, 4)


def test_sites_that_cannot_reach_one_another_are_named():
    check_reachable(make_graph("ring", 4), ["a", "b", "c", "d"])
    with pytest.raises(ValueError, match="not connected: c and a cannot both reach one another"):
        check_reachable(_with_a_lonely_node(), ["a", "b", "c"])
    one_way = nx.DiGraph([(0, 1), (1, 2)])
    with pytest.raises(ValueError, match="not connected"):
        check_reachable(one_way, ["a", "b", "c"])


def _with_a_lonely_node():
    graph = nx.Graph([(0, 1)])
    graph.add_node(2)
    return graph


@given(st.integers(2, 15), st.floats(0.2, 1.0), st.integers(0, 99))
def test_weights_are_stochastic(n, p, seed):
    graph = nx.erdos_renyi_graph(n, p, seed=seed)
    metropolis, uniform = metropolis_weights(graph), uniform_weights(graph)
    for weights in (metropolis, uniform):
        assert (weights >= -1e-15).all()
        assert_allclose(weights.sum(axis=0), 1, atol=1e-12)
    assert_allclose(metropolis, metropolis.T)
    allowed = nx.to_numpy_array(graph, nodelist=range(n)) + np.eye(n) > 0
    assert (allowed | (metropolis == 0)).all() and ((uniform > 0) == allowed).all()


def test_mixing_on_rings_has_a_closed_form():
    for n in (5, 10):
        second = 1 - 2 / 3 * (1 - math.cos(2 * math.pi / n))
        assert mixing_rounds(metropolis_weights(make_graph("ring", n))) == pytest.approx(
            math.log(1e-6) / math.log(second)
        )
    assert mixing_rounds(metropolis_weights(make_graph("complete", 4))) == 1.0
    assert mixing_rounds(metropolis_weights(_with_a_lonely_node())) == math.inf
    without_loops = np.array([[0.0, 1.0], [1.0, 0.0]])  # the paper's 1 / deg on two sites: periodic
    assert mixing_rounds(without_loops) == math.inf
