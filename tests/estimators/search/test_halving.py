"""Successive halving, on scores that are known."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dimargin.estimators.search.halving import Round, Rung, plan, successive_halving


@given(
    n_candidates=st.integers(1, 300),
    n_rows=st.integers(2, 50_000),
    factor=st.floats(1.1, 5),
    least=st.integers(2, 9000),
    finalists=st.integers(2, 20),
)
def test_a_plan_ends_at_all_rows_with_the_finalists(n_candidates, n_rows, factor, least, finalists):
    rungs = plan(n_candidates, n_rows, 3, factor, least, finalists)
    assert rungs[0].n_candidates == n_candidates and rungs[0].n_rows >= min(least, n_rows)
    assert [rung.number for rung in rungs] == list(range(len(rungs)))
    rows, counts = ([getattr(rung, name) for rung in rungs] for name in ("n_rows", "n_candidates"))
    assert sorted(set(rows)) == rows and max(rows) <= n_rows
    assert counts == sorted(counts, reverse=True) and min(counts) >= 1
    assert rows[-1] == n_rows and rungs[-1].n_folds == 3
    if n_rows > max(least, 30):  # rounds of equal rows are one
        assert counts[-1] == min(finalists, n_candidates)
    assert [rung.n_folds for rung in rungs] == sorted(rung.n_folds for rung in rungs) and rungs[0].n_folds >= 1
    assert counts[-1] >= min(2, n_candidates)


def test_the_best_survive_and_equals_come_in_the_order_of_the_grid():
    truth, seen = np.array([0.2, 0.9, 0.5, 0.9, 0.1, 0.7]), []

    def evaluate(rung, candidates):
        seen.append((rung.n_rows, candidates.tolist()))
        return np.repeat(truth[candidates][:, None], rung.n_folds, axis=1)

    rounds = successive_halving(plan(6, 400, 3, 2, 100, 3), evaluate)
    assert seen == [(200, [0, 1, 2, 3, 4, 5]), (400, [1, 3, 5])]
    assert_array_equal(rounds[-1].ranked, [1, 3, 5])
    assert [found.scores.shape[1] for found in rounds] == [2, 3]
    assert all(found.complete for found in rounds)


def test_time_that_runs_out_leaves_an_incomplete_round():
    def evaluate(rung, candidates):
        scores = np.tile(np.arange(len(candidates), dtype=float)[:, None], (1, 2))
        if rung.number == 1:
            scores[0, 1], scores[1] = np.nan, np.nan
        return scores

    rounds = successive_halving(plan(9, 900, 2, 3, 100, 3), evaluate)
    assert [found.complete for found in rounds] == [True, False]
    assert_array_equal(rounds[1].means, [0, -np.inf, 2])
    nothing = Round(Rung(0, 2, 5, 2), np.arange(2), np.full((2, 2), np.nan))
    assert not np.isfinite(nothing.means).any()
