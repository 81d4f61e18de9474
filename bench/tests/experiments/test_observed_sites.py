"""Observed sites: the same weights as those of other runs of the programs, and the rule of convergence by hand."""

import linear_sites
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification

from dimargin_bench.experiments.observed_sites import ObservedSites
from dimargin_bench.gossip_rivals import ChocoSGD, GossipLearning, SetGossip, UniformGadget

ALPHA = linear_sites.ALPHA


@pytest.fixture(scope="module")
def rows():
    X, y = make_classification(400, 5, n_informative=4, n_redundant=0, flip_y=0.1, random_state=0)
    return X, y


def observed(rows, algorithm=None, **parameters):
    given = {"alpha": ALPHA, "n_sites": 5, "max_iter": 60, "epsilon": None, "random_state": 0} | parameters
    return ObservedSites(algorithm=algorithm, **given).fit(*rows)


@pytest.mark.parametrize("algorithm", [UniformGadget(form="equation 5"), ChocoSGD(), GossipLearning()], ids=repr)
def test_weights_are_those_of_the_same_programs_without_anyone_looking(rows, algorithm):
    machine = observed(rows, algorithm)
    X, y = rows
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    run = linear_sites.sites(algorithm, X, 2.0 * y - 1, 5, seed=seed).run(60)
    assert_allclose(machine.site_coef_, run.weights(), rtol=1e-12)
    assert_allclose(machine.coef_, run.weights().mean(axis=0))
    assert (machine.n_iter_, machine.history_[0]["messages"]) == (60, run.simulator.counts["messages"])
    assert machine.history_[0]["bytes"] == run.simulator.counts["bytes"]


@pytest.mark.parametrize(("reading", "epsilon"), [("norm", 0.05), ("weights", 0.5)])
def test_sites_converge_where_the_rule_says_so_by_hand(rows, reading, epsilon):
    rule = {"epsilon": epsilon, "reading": reading, "n_quiet": (2, 5)}
    whole = observed(rows, max_iter=2000, runs_on=True, **rule)
    path = [observed(rows, max_iter=t).site_coef_[:, 0] for t in range(1, 41)]
    quiet, first, times, last = np.zeros(5, int), np.zeros(5, int), np.zeros(5, int), np.zeros((5, 5))
    for t, weights in enumerate(path, 1):
        for k in range(5):
            lengths = np.linalg.norm(weights[k]), np.linalg.norm(last[k])
            change = abs(lengths[0] - lengths[1]) if reading == "norm" else np.linalg.norm(weights[k] - last[k])
            quiet[k] = quiet[k] + 1 if change < epsilon else 0
            if quiet[k] == 2:
                times[k] += 1
                first[k] = first[k] or t
        last = weights
    two, five = whole.convergence_
    assert_array_equal(np.where(two.first <= 40, two.first, 0), first)
    short = observed(rows, max_iter=40, runs_on=True, **rule)
    assert_array_equal(short.convergence_[0].times, times)
    assert (two.first <= five.first).all() and two.first.all() and whole.n_iter_ == 2000
    ended = observed(rows, max_iter=2000, **rule)
    assert ended.n_iter_ == max(two.first.max(), five.first.max())
    assert (ended.site_seconds_ <= ended.history_[0]["seconds"]).all() and (np.diff(ended.site_seconds_) != 0).any()


def test_entries_lead_to_the_end_at_growing_intervals(rows):
    machine = observed(rows, max_iter=200)
    iterations = [entry.iteration for entry in machine.entries_]
    assert iterations[:8] == [1, 2, 3, 4, 5, 7, 9, 12] and iterations[-1] == 200 and len(iterations) < 30
    assert (np.diff([entry.seconds for entry in machine.entries_]) > 0).all()
    assert_array_equal(machine.entries_[-1].weights, machine.site_coef_)


def test_predictions_are_those_of_every_site_and_a_constant_feature_is_an_intercept(rows):
    X, y = rows
    machine = observed((X + 1, y), UniformGadget(form="equation 5"), fit_intercept=True, max_iter=300)
    by_hand = ((X + 1) @ machine.site_coef_[:, 0].T + machine.site_intercept_[:, 0] > 0).astype(int).T
    assert_array_equal(machine.site_predictions(X + 1), by_hand)
    assert machine.score(X + 1, y) > 0.6


def test_three_classes_and_a_vote_of_the_models_that_a_site_has_made(rows):
    X, y = rows
    y = np.where(X[:, 0] > 1, 2, y)
    machine = observed((X, y), GossipLearning(cache_size=3), vote=True, max_iter=100)
    votes = np.zeros((5, 400, 3))
    for k, cache in enumerate(machine.caches_):
        assert len(cache) == 3
        for weights in cache:
            votes[k, np.arange(400), (X @ weights.T).argmax(axis=1)] += 1
    assert_array_equal(machine.site_predictions(X), votes.argmax(axis=2))
    assert (machine.site_predictions(X) == y).mean() > 0.5


def test_an_algorithm_may_end_by_itself_and_send_rows(rows):
    machine = observed(rows, SetGossip("ranked"), max_iter=500)
    assert machine.n_iter_ < 200 and 0 < machine.history_[0]["rows_shared"] < 100


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"reading": "step"}, "reading must be 'norm' or 'weights'"),
        ({"n_quiet": (3, 0)}, "n_quiet must be a whole number"),
        ({"n_sites": 0}, "n_sites must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"algorithm": UniformGadget(batch_size=0)}, "batch_size must be"),
    ],
)
def test_parameters_out_of_range(rows, parameters, message):
    with pytest.raises(ValueError, match=message):
        ObservedSites(**parameters).fit(*rows)
