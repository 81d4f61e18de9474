"""Dist-Eval: the mean of machines that were trained apart, and what its queries cost."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_moons
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from dimargin import SVMClassifier
from dimargin.gossip.simulation.conditions import Conditions
from dimargin_bench.kernel_rivals import DistEval


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(900, noise=0.2, random_state=0)
    return X[:600], np.array(["no", "yes"])[y[:600]], X[600:], np.array(["no", "yes"])[y[600:]]


def apart(machine, X, y, queries, estimator):
    """Mean of the decision values of machines that were trained on the rows of each site."""
    sites = [machine.site_of_rows_ == k for k in range(machine.n_sites)]
    signs = np.where(y == "yes", 1.0, -1.0)
    return np.mean([estimator().fit(X[own], signs[own]).decision_function(queries) for own in sites], axis=0)


@pytest.mark.parametrize("topology", ["complete", "ring", "star"])
def test_the_answer_is_the_mean_of_the_sites_machines(moons, topology):
    X, y, queries, labels = moons
    machine = DistEval(SVC(), n_sites=6, topology=topology, tol=1e-9, random_state=0).fit(X, y)
    expected = apart(machine, X, y, queries, SVC)
    assert_allclose(machine.decision_function(queries), expected, atol=1e-7)
    assert_array_equal(machine.predict(queries), np.where(expected > 0, "yes", "no"))
    assert machine.score(queries, labels) > 0.95
    assert machine.query_costs_.spread < 1e-7


def test_by_default_sites_train_kernel_machines_and_a_thousandth_is_near_enough(moons):
    X, y, queries, _ = moons
    machine = DistEval(n_sites=6, topology="ring", random_state=0).fit(X, y)
    assert all(isinstance(one, SVMClassifier) for one in machine.machines_)
    expected = apart(machine, X, y, queries, SVMClassifier)
    found = machine.decision_function(queries)
    assert_allclose(found, expected, atol=3e-3)
    assert machine.query_costs_.spread < 3e-3


def test_a_vote_counts_signs(moons):
    X, y, queries, _ = moons
    parameters = {"n_sites": 5, "topology": "complete", "random_state": 0}
    machine = DistEval(DecisionTreeClassifier(), exchange="label", **parameters).fit(X, y)
    votes = np.mean([one.predict(queries) for one in machine.machines_], axis=0)
    assert_allclose(machine.decision_function(queries), votes, atol=1e-12)  # the mean after one round
    assert_array_equal(
        DistEval(DecisionTreeClassifier(), **parameters).fit(X, y).decision_function(queries),
        machine.decision_function(queries),
    )
    vote = DistEval(SVC(), exchange="label", **parameters).fit(X, y)
    assert_allclose(
        vote.decision_function(queries),
        np.mean([np.sign(m.decision_function(queries)) for m in vote.machines_], axis=0),
    )


def test_queries_cost_messages_and_training_none(moons):
    X, y, queries, _ = moons
    machine = DistEval(LinearSVC(), n_sites=7, topology="ring", rounds=9, random_state=0).fit(X, y)
    assert (machine.query_costs_.messages, machine.query_costs_.bytes, machine.query_costs_.rounds) == (0, 0, 0)
    machine.predict(queries)
    costs = machine.query_costs_
    assert costs.rounds == machine.n_rounds_ == 9
    assert costs.messages == 14 * 10  # to two neighbours, in nine rounds and before
    assert 8 * len(queries) < costs.bytes / costs.messages < 8 * len(queries) + 80
    assert costs.seconds > 0 and machine.site_seconds_.shape == (7,)
    before = costs.bytes
    machine.predict(queries[:1])
    assert costs.messages == 2 * 14 * 10 and costs.bytes < before * 1.1
    machine.fit(X, y)
    assert machine.query_costs_.messages == 0


@pytest.mark.parametrize("shards", ["sorted", "sorted_unequal"])
def test_sites_with_one_class_answer_it(moons, shards):
    X, y, queries, _ = moons
    machine = DistEval(SVC(), n_sites=4, topology="complete", shards=shards, random_state=0).fit(X, y)
    values = machine.decision_function(queries)
    assert np.isfinite(values).all()
    signs = {sign for one in machine.machines_ for sign in np.unique(one.decision_function(queries)) if abs(sign) == 1}
    assert len(signs) >= 1
    deal = np.zeros(600, dtype=int)
    deal[300:] = 2  # two of four sites have no rows, and halve what the others say
    machine = DistEval(SVC(), n_sites=4, topology="complete", shards=deal, random_state=0).fit(X, y)
    two = [SVC().fit(X[deal == k], y[deal == k]).decision_function(queries) for k in (0, 2)]
    assert_allclose(machine.decision_function(queries), np.sum(two, axis=0) / 4)


def test_with_faults_sites_agree_on_something_near_the_mean(moons):
    X, y, queries, labels = moons
    faults = Conditions.asynchronous(loss=0.3, duplication=0.2)
    machine = DistEval(SVC(), n_sites=6, topology="ring", rounds=60, conditions=faults, random_state=0).fit(X, y)
    assert machine.score(queries, labels) > 0.95
    values = machine.decision_function(queries)
    assert machine.query_costs_.spread < 1e-2
    assert np.abs(values - apart(machine, X, y, queries, SVC)).max() < 0.5
    assert_array_equal(values, machine.decision_function(queries))


def test_many_queries_go_in_parts(moons, monkeypatch):
    X, y, queries, _ = moons
    machine = DistEval(SVC(), n_sites=3, random_state=0).fit(X, y)
    whole = machine.decision_function(queries)
    monkeypatch.setattr("dimargin_bench.kernel_rivals.dist_eval._QUERIES", 100)
    before = machine.query_costs_.rounds
    assert_allclose(machine.decision_function(queries), whole, atol=1e-12)
    assert machine.query_costs_.rounds == before + 3 * machine.n_rounds_


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"exchange": "row"}, "exchange must be 'decision' or 'label', got 'row'"),
        ({"beta": 0}, r"beta must be a finite number in \(0, inf\), got 0"),
        ({"beta": 1.6, "topology": "ring"}, r"beta must be below 2 / lambda_max, 1.5 on this topology, got 1.6"),
        ({"tol": 1.0}, r"tol must be a finite number in \(0, 1\), got 1.0"),
        ({"rounds": 0}, r"rounds must be a whole number in \[1, inf\), got 0"),
        ({"n_sites": 0}, "n_sites must be"),
        ({"shards": "even"}, "shards must be"),
        ({"topology": nx.cycle_graph(10, create_using=nx.DiGraph)}, "topology must be undirected"),
        ({"topology": nx.empty_graph(10)}, "not connected: site0 and site1"),
    ],
)
def test_parameters_out_of_range(moons, parameters, text):
    X, y, *_ = moons
    with pytest.raises(ValueError, match=text):
        DistEval(SVC(), **parameters).fit(X, y)


def test_sparse_rows(moons):
    X, y, queries, _ = moons
    dense, sparse = (
        DistEval(LinearSVC(), 4, shards="sorted", random_state=0).fit(form(X), y).decision_function(form(queries))
        for form in (np.array, sp.csr_array)
    )
    assert_allclose(dense, sparse, atol=1e-6)
    refused = DistEval(GaussianNB(), n_sites=4, random_state=0)
    with pytest.raises(TypeError, match="Sparse data was passed"):
        refused.fit(sp.csr_array(X), y)
