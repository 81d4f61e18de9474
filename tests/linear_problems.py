"""Linear problems in shards, for the solvers of the primal."""

from threading import Event

import numpy as np

from dimargin.kernels.row_transform import StoredRows
from dimargin.problems.margin_losses import MarginLosses
from dimargin.shards.local_engine import LocalEngine
from dimargin.solvers import LinearFeatures, Shard


def rows_of(n, d, seed=0, n_outputs=1, density=1.0):
    """Rows, labels of noisy linear scores, and weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if density < 1:
        X *= rng.random((n, d)) < density
    scores = rng.normal(size=(n_outputs, d)) @ X.T + 0.7 + rng.normal(size=(n_outputs, n))
    return X, np.where(scores > 0, 1.0, -1.0), rng.uniform(0.2, 3.0, n)


def losses_of(labels, weights, loss, intercept):
    total = float(weights.sum())
    return MarginLosses(labels, weights, loss, total, total, intercept)


def shards_of(X, losses, parts, n_threads=1):
    stored = StoredRows(X)
    items = [Shard(LinearFeatures(stored, part), losses.of_rows(part, losses.mass)) for part in parts]
    return LocalEngine(n_threads, Event()).scatter(items)
