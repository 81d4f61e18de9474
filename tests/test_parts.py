"""Parts: what is taken and joined again, in one process and through another."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import ODM, blobs, make_problem
from numpy.testing import assert_array_equal

from dimargin.engines import LocalEngine
from dimargin.kernels import Kernel, KernelMatrix, RowTransform
from dimargin.parts import Part, first_rows, n_shards_for


def whole(sparse=False, n=60):
    X, labels = blobs(n, n_outputs=2)
    problem = make_problem(X, labels, ODM, Kernel("rbf", gamma=0.8), weights=np.linspace(1, 2, n))
    if sparse:
        X = sp.csr_array(np.where(np.abs(X) > 1, X, 0.0))
        problem = problem.with_kernel(KernelMatrix(RowTransform.fit(X, Kernel("rbf", gamma=0.8)), X))
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
    assert_array_equal(again.places, index)
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
    assert again.problem.kernel._columns is every.problem.kernel._columns


def test_the_first_rows_are_those_of_the_smallest_places():
    every = whole()
    shuffled = [every.take(rows, 1.0) for rows in np.array_split(np.random.default_rng(2).permutation(60), 4)]
    found = first_rows(LocalEngine(2, None).scatter(shuffled), 11)
    assert_array_equal(found.places, np.arange(11))
    assert_array_equal(found.dual, every.dual[:, :11])


def test_the_number_of_shards_depends_on_the_rows_alone():
    assert [n_shards_for(n) for n in (1, 8192, 8193, 10**9)] == [1, 1, 2, 512]
