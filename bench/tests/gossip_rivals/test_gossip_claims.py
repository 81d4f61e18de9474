"""Claims that the papers of the rivals make themselves; docs/experiments.md has the list and the numbers."""

import networkx as nx
import numpy as np
import pytest
from linear_sites import excess, objective, optimum, overlapping, sites
from numpy.testing import assert_allclose
from test_set_gossip import hard_margin, network, separable, weights

from dimargin.gossip.rounds.compression import Quantised, RandomK, TopK
from dimargin.gossip.topology import make_graph, metropolis_weights
from dimargin_bench.gossip_rivals import ChocoSGD, GossipLearning, MoMDSVM, SetGossip

ROWS = overlapping()


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("compression", [TopK(0.5), RandomK(0.5), Quantised(3)], ids=repr)
def test_choco_gossip_tends_to_the_mean_as_fast_as_its_theorem_says(compression):
    """Koloskova et al. 2019, Theorem 2: with this gamma the error shrinks by ``1 - delta^2 omega / 82`` a round."""
    W = metropolis_weights(make_graph("complete", 6))
    eigenvalues = np.linalg.eigvalsh(W)
    delta, beta, omega = 1 - np.abs(eigenvalues[:-1]).max(), 1 - eigenvalues[0], compression.delta(7)
    gamma = delta**2 * omega / (16 * delta + delta**2 + 4 * beta**2 + 2 * delta * beta**2 - 8 * delta * omega)
    run = sites(ChocoSGD(compression, gamma, 1e-300), *ROWS, topology="complete")  # steps of nothing
    makers, values = run._program, np.random.default_rng(1).normal(size=(6, 7))

    def begun(number, name):
        program = makers(number, name)
        program.weights = values[number][None]
        return program

    run._program = begun
    first = ((values - values.mean(axis=0)) ** 2).sum() + (1 - omega) * (values**2).sum()
    for n_rounds in (50, 500):
        run.run(n_rounds)
        error = ((run.weights()[:, 0] - values.mean(axis=0)) ** 2).sum()
        assert error <= (1 - delta**2 * omega / 82) ** n_rounds * first


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("eta", [0.05, 0.02, 0.5])
def test_mom_dsvm_finds_the_machine_of_all_rows_for_any_eta(eta):
    """Forero et al. 2010: it converges for every eta > 0, on which only the rate depends."""
    run = sites(MoMDSVM(eta), *ROWS, shards="sorted").run(400)
    assert excess(run, *ROWS, optimum(*ROWS)) < 1e-3


@pytest.mark.slow
def test_models_that_merge_cost_no_more_messages_and_are_twice_as_near():
    """Ormandi et al. 2013, abstract: better than random walks at practically no extra cost, with one row at a site."""
    X, y = overlapping(100)
    best, above, sent = optimum(X, y), {}, {}
    for variant in ("rw", "mu", "um"):
        run = sites(GossipLearning(variant), X, y, 100, nx.random_regular_graph(20, 100, seed=0), np.arange(100))
        run.run(100)
        above[variant] = np.mean([objective(X, y, one[0]) for one in run.weights()]) / best - 1
        sent[variant] = run.simulator.counts["messages"]
    assert max(above["mu"], above["um"]) < above["rw"] / 2
    assert sent["mu"] == sent["um"] == sent["rw"]


def test_asg_svm_finds_the_hyperplane_of_all_rows_from_a_tenth_of_them_where_classes_are_apart():
    """Flouri et al. 2009, abstract. Where classes overlap, the rows nearest to the plane are not enough."""
    X, signs = separable(400, 0, 2)
    simulator = network(SetGossip("ranked", share=0.1, tol=1e-8), X, signs, 8, alpha=1e-6)
    assert simulator.run(until=400) == "stopped"
    assert_allclose(weights(simulator), np.tile(hard_margin(X, signs), (8, 1)), rtol=1e-6)
    assert sum(program.rows_shared for program in simulator.programs.values()) <= 40
    overlap = network(SetGossip("ranked", share=0.3), *ROWS, 8)
    assert overlap.run(until=400) == "stopped"
    assert max(objective(*ROWS, w) for w in weights(overlap)) > 1.05 * optimum(*ROWS)
