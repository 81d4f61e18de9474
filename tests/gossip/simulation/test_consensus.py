"""How rows come to the sites of a consensus."""

import networkx as nx
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dimargin.gossip.programs.core_set_settings import CoreSetSettings
from dimargin.gossip.simulation.consensus import agree, dealt
from dimargin.solvers import Limits


def test_sites_that_are_given_are_those_of_the_callers_rows():
    """Rows are in the order of their keys, and some of the caller's may be gone."""
    shards, given = [0, 1, 2, 0, 1], np.array([4, 0, 2])
    assert_array_equal(dealt(shards, np.zeros(3), given, 3), [1, 0, 2])
    with pytest.raises(ValueError, match="number of every row's site; got an array of shape"):
        dealt(shards[:4], np.zeros(3), given, 3)
    with pytest.raises(ValueError, match="whole numbers"):
        dealt([0.5] * 5, np.zeros(3), given, 3)


def test_names_deal_in_the_order_that_there_is():
    assert_array_equal(dealt("random", np.zeros(6), np.array([5, 3, 1, 0, 2, 4]), 3), [0, 0, 1, 1, 2, 2])


@pytest.mark.parametrize("n_sites", [1, 4])
def test_all_stop_on_any_connected_network(n_sites):
    X, one = np.random.default_rng(0).normal(size=(20, 2)), np.ones(20)
    wanted = CoreSetSettings(epsilon=1e-6)
    graph = nx.cycle_graph(4, create_using=nx.DiGraph) if n_sites == 4 else "complete"
    agreed = agree(X, one, one, wanted, np.arange(20) % n_sites, n_sites, graph, Limits(), 0)
    assert agreed.status == "converged" and agreed.history[-1]["core_sets"] == 1
    if n_sites == 4:
        with pytest.raises(ValueError, match="cannot both reach one another"):
            agree(X, one, one, wanted, np.arange(20) % 4, 4, nx.path_graph(4, create_using=nx.DiGraph), Limits(), 0)
