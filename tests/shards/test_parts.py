"""Parts: what is taken and joined again, in one process and through another."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import ODM, blobs, make_problem
from numpy.testing import assert_array_equal

from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.problems.dual import DualProblem
from dimargin.shards.local_engine import LocalEngine
from dimargin.shards.parts import Part, first_distinct_rows, first_of_groups, first_rows, n_shards_for


def whole(sparse=False, n=60):
    X, labels = blobs(n, n_outputs=2)
    problem = make_problem(X, labels, ODM, Kernel("rbf", gamma=0.8), weights=np.linspace(1, 2, n))
    if sparse:
        X = sp.csr_array(np.where(np.abs(X) > 1, X, 0.0))
        problem = DualProblem.of(problem, KernelMatrix.of(X, Kernel("rbf", gamma=0.8)))
    return Part(problem, np.arange(n), np.random.default_rng(0).normal(size=labels.shape))


def values(part):
    every = np.arange(part.n_rows)
    return part.problem.kernel.block(every, every)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("travelled", [0, 1, 2])  # how many of the parts have rows of their own
def test_parts_put_together_are_the_whole_in_another_order(sparse, travelled):
    every = whole(sparse)
    index = np.random.default_rng(1).permutation(60)
    parts = [every.take(rows, 1.0) for rows in np.array_split(index, 2)]
    parts = [pickle.loads(pickle.dumps(part, 5)) if k < travelled else part for k, part in enumerate(parts)]
    again = Part.joined(parts, 9.0)
    assert again.problem.mass == 9.0 and again.problem.total == every.problem.total
    assert_array_equal(again.indices, index)
    assert_array_equal(again.dual, every.dual[:, index])
    assert_array_equal(again.problem.labels, every.problem.labels[:, index])
    assert_array_equal(again.problem.weights, every.problem.weights[index])
    assert_array_equal(values(again), values(every)[np.ix_(index, index)])


def test_what_travels_are_the_rows_of_the_view_alone():
    every = whole(n=4000)
    assert len(pickle.dumps(every.take(np.arange(40), 1.0), 5)) < len(pickle.dumps(every, 5)) / 50


def test_views_of_the_same_rows_are_joined_without_a_copy():
    every = whole()
    again = Part.joined([every.take(np.arange(5), 1.0), every.take(np.arange(9), 1.0)], 1.0)
    assert again.problem.kernel._columns.prepared is every.problem.kernel._columns.prepared


def test_the_first_rows_are_those_of_the_smallest_indices():
    every = whole()
    shuffled = [every.take(rows, 1.0) for rows in np.array_split(np.random.default_rng(2).permutation(60), 4)]
    found = first_rows(LocalEngine(2, None).scatter(shuffled), 11, 60)
    assert_array_equal(found.indices, np.arange(11))
    assert_array_equal(found.dual, every.dual[:, :11])


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n_wanted", [5, 10, 60])
def test_the_first_distinct_rows_are_those_that_equal_none_before_them(sparse, n_wanted):
    once = whole(sparse, n=12)
    rows = once.problem.kernel.rows(np.arange(12))
    firsts = np.sort(np.unique(rows.toarray() if sparse else rows, axis=0, return_index=True)[1])
    assert len(firsts) == (10 if sparse else 12)  # some sparse rows have no number
    repeats = once.take(np.repeat(np.arange(12), 5), 1.0)
    every = Part(repeats.problem, np.arange(60), repeats.dual)
    shuffled = [every.take(rows, 1.0) for rows in np.array_split(np.random.default_rng(2).permutation(60), 4)]
    found = first_distinct_rows(LocalEngine(2, None).scatter(shuffled), n_wanted, 60)
    assert_array_equal(found.indices, 5 * firsts[:n_wanted])
    assert_array_equal(found.dual, every.dual[:, found.indices])


def test_where_nearly_all_rows_are_equal_few_of_them_are_looked_at(monkeypatch):
    same = whole().take(np.zeros(6000, dtype=np.int64), 1.0)
    shards = LocalEngine(2, None).scatter([Part(same.problem, np.arange(6000))])
    asked = []
    monkeypatch.setattr(Part, "first", lambda part, n, first=Part.first: (asked.append(n), first(part, n))[1])
    assert first_distinct_rows(shards, 7, 6000).n_rows == 1
    assert max(asked) == 16 * 7


def by_label(part):
    """Rows with a positive first label in group 1, those with a negative one among the first forty in group 0."""
    positive = part.problem.labels[0] > 0
    return part, np.where(positive, 1, np.where(part.indices < 40, 0, -1))


def late(part):
    """A group whose rows do not lie at random."""
    return part, np.where(part.indices >= 5900, 0, -1)


def test_the_first_rows_of_groups_are_found_though_few_are_asked(monkeypatch):
    every = whole(n=6000)
    shards = LocalEngine(2, None).scatter([every.take(rows, 1.0) for rows in np.array_split(np.arange(6000)[::-1], 5)])
    asked = []
    collect = type(shards).collect

    def counting(self, task, value=None, n_shards=None):
        answers = collect(self, task, value, n_shards)
        asked.append(sum(part.n_rows for part, _ in answers))
        return answers

    monkeypatch.setattr(type(shards), "collect", counting)
    positive = np.flatnonzero(every.problem.labels[0] > 0)
    negative = np.setdiff1d(np.arange(40), positive)
    for wanted, expected in (([10**6, 25], 25), ([3, 7000], len(positive))):
        few, many = first_of_groups(shards, by_label, wanted, [len(negative), len(positive)], 6000)
        assert_array_equal(few.indices, negative[: wanted[0]])
        assert_array_equal(many.indices, positive[:expected])
        assert_array_equal(many.problem.labels, every.problem.labels[:, many.indices])
    assert len(asked) == 2 and asked[0] < 250
    asked.clear()
    (found,) = first_of_groups(shards, late, [10], [100], 6000)
    assert_array_equal(found.indices, np.arange(5900, 5910))
    assert asked == [0, 100]


def test_parts_know_their_support_their_order_and_their_name():
    every = whole()
    dual = np.zeros((2, 60))
    dual[0, 7] = dual[1, 3] = 1.0
    part = replace(every, dual=dual).take(np.arange(2, 60)[::-1], 1.0)
    assert_array_equal(part.indices[part.support], [7, 3])
    assert part.first_index == 2
    again = part.in_order()
    assert_array_equal(again.indices, np.arange(2, 60))
    assert_array_equal(again.dual, dual[:, 2:])
    assert again.in_order() is again
    assert not len(replace(part, dual=None).support)
    assert part.with_threads(3).problem.kernel.n_threads == 3


def test_the_number_of_shards_depends_on_the_rows_alone():
    assert [n_shards_for(n) for n in (1, 8192, 8193, 10**9)] == [1, 1, 2, 512]
