"""Dual coordinate descent for all classes together: its dual coefficients, and rows of every kind."""

from threading import Event

import numpy as np
import pytest
import scipy.sparse as sp

from dimargin import _core
from dimargin.kernels.row_transform import StoredRows
from dimargin.problems.losses import HingeLoss
from dimargin.problems.margin_losses import MarginLosses
from dimargin.problems.one_vs_rest import labels_of
from dimargin.shards.local_engine import LocalEngine
from dimargin.solvers import CrammerSinger, Limits, LinearFeatures, Shard, solve


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array, lambda X: sp.csr_array(X.astype(np.float32))])
def test_coefficients_are_feasible_and_give_the_weights(n_classes, store):
    rng = np.random.default_rng(n_classes)
    X = np.round(rng.standard_normal((53, 4)), 1) * (rng.random((53, 4)) < 0.7)  # Some rows are empty.
    X[7] = 0.0
    y, weights = rng.integers(0, n_classes, 53), rng.uniform(0.2, 3.0, 53)
    losses = MarginLosses(labels_of(y, n_classes), weights, HingeLoss(0.4), 1.0, 1.0)
    rows = StoredRows(store(X))
    parts = [slice(0, 20), slice(20, 53)]
    shards = [
        Shard(LinearFeatures(rows.between(part.start, part.stop)), losses.of_rows(part, 1.0), part.start)
        for part in parts
    ]
    task = LocalEngine(2, Event()).scatter(shards)
    solution = solve(task, CrammerSinger(), np.zeros((len(losses.labels), 5)), Limits(tol=1e-4, max_iter=20_000))
    assert solution.status == "converged" and solution.dual.shape == (n_classes, 53)
    own = solution.dual[y, np.arange(53)]
    others = solution.dual.copy()
    others[y, np.arange(53)] = 0.0
    assert (others <= 0).all() and (own <= 0.4 * weights * (1 + 1e-12)).all()
    assert solution.dual.sum(axis=0) == pytest.approx(0, abs=1e-12)
    vectors = solution.dual @ store(X).astype(float)
    expected = vectors if n_classes > 2 else vectors[1:] - vectors[:1]
    assert solution.weights == pytest.approx(expected, abs=2e-2)


def test_arrays_that_do_not_fit_together():
    rows = StoredRows(np.eye(3)).core
    good = {
        "x": rows, "classes": np.arange(3), "prices": np.ones(3), "squares": np.ones(3), "slack": np.inf,
        "blocks": np.zeros(1, dtype=np.int64), "rows_per_block": 8, "weights": np.zeros((3, 3)),
        "dual": np.zeros((3, 3)), "active": np.ones(3, dtype=np.uint8),
    }  # fmt: skip
    visited, largest, gap = _core.descend_classes(**good)
    assert visited == 3 and largest > 0 and gap == pytest.approx(3.0, abs=1.0)
    for name, value in {
        "classes": np.array([0, 1, 3]), "prices": np.ones(2), "squares": np.ones(4), "blocks": np.array([1]),
        "rows_per_block": 0, "weights": np.zeros((2, 3)), "dual": np.zeros((3, 2)),
        "active": np.ones(2, dtype=np.uint8),
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match="arrays of a pass do not fit together"):
            _core.descend_classes(**good | {name: value})
