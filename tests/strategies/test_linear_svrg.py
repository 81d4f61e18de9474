"""Partitions of linear machines."""

from threading import Event

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import ODM
from numpy.testing import assert_array_equal

from dimargin import LinearDSVRG
from dimargin.problems.margin_losses import MarginLosses
from dimargin.shards.local_engine import LocalEngine
from dimargin.solvers import Limits
from dimargin.strategies import LinearTraining
from dimargin.strategies.linear_newton import LinearFacts, linear_shards


def training(X, labels, weights):
    losses = MarginLosses(labels, weights, ODM, float(weights.sum()), float(weights.sum()))
    facts = LinearFacts(*X.shape, X.size, len(labels), losses.mass, False)
    n = X.shape[0]
    shards = [shard for part in np.array_split(np.arange(n), 3) for shard in [_shard(X, losses, part)]]
    return LinearTraining(facts, LocalEngine(2, Event()).scatter(shards), Limits(), 0, np.zeros((1, X.shape[1] + 1)))


def _shard(X, losses, part):
    (shard,) = linear_shards(X[part], losses.of_rows(part, losses.mass))
    return type(shard)(shard.features, shard.losses, int(part[0]))


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_are_dealt_by_label_and_nearest_landmark(sparse):
    rng = np.random.default_rng(0)
    corners = np.array([[9.0, 0, 0], [0, 9, 0], [0, 0, 9]])
    indices = rng.permutation(np.repeat(np.arange(3), 40))
    X, labels = corners[indices] + 0.1 * rng.normal(size=(120, 3)), rng.choice([-1.0, 1.0], (1, 120), p=[0.8, 0.2])
    weights = np.arange(1.0, 121)
    rows = LinearDSVRG(n_partitions=4, n_landmarks=3)._rows(training(sp.csr_array(X) if sparse else X, labels, weights))
    parts = [(shard.losses.weights - 1).astype(int) for shard in rows.collect()]
    assert_array_equal(np.sort(np.concatenate(parts)), np.arange(120))
    strata = 2 * indices + (labels[0] > 0)
    counts = np.array([np.bincount(strata[part], minlength=6) for part in parts])
    assert (np.ptp(counts, axis=0) <= 1).all() and {len(part) for part in parts} == {30}
    for part, shard in zip(parts, rows.collect(), strict=True):
        assert shard.losses.mass == shard.losses.total == weights.sum()  # pieces of the whole problem
        assert_array_equal(shard.losses.labels, labels[:, part])
        assert_array_equal(shard.features.scores(np.eye(3)).T, X[part])


def test_rows_without_a_landmark_are_dealt_too():
    rows = LinearDSVRG(n_partitions=2)._rows(training(np.zeros((9, 3)), np.ones((1, 9)), np.ones(9)))
    assert sorted(shard.losses.n_rows for shard in rows.collect()) == [4, 5]
