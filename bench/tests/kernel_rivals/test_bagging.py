"""Bagging against votes that are counted one by one."""

import numpy as np
import scipy.sparse as sp
from helpers import blobs
from numpy.testing import assert_allclose, assert_array_equal
from qpsolvers import solve_qp
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from dimargin_bench.kernel_rivals import BaggedSVM

C, GAMMA = 2.0, 0.5


def test_the_majority_decides_and_the_sum_where_there_is_none():
    X, labels = blobs(600)
    queries, _ = blobs(500, seed=1)
    bag = BaggedSVM(n_estimators=4, C=C, gamma=GAMMA, fit_intercept=True, tol=1e-6, random_state=0).fit(X, labels[0])
    expected, ties = [], 0
    libsvm = SVC(C=C, gamma=GAMMA, tol=1e-6)
    values = [libsvm.fit(X[rows], labels[0][rows]).decision_function(queries) for rows in bag.samples_]
    for own in zip(*values, strict=True):
        votes = sum(1 if value > 0 else -1 for value in own)
        ties += votes == 0
        expected.append(np.sign(votes) if votes else np.sign(sum(own)))
    assert_array_equal(bag.predict(queries), expected)
    assert ties > 5


def test_samples_are_uniform_of_the_right_size_and_different():
    X, labels = blobs(1000)
    bag = BaggedSVM(n_estimators=30, random_state=0).fit(X, labels[0])
    assert [len(set(sample)) for sample in bag.samples_] == [34] * 30
    taken = np.bincount(np.concatenate(bag.samples_), minlength=1000)
    # each row is drawn 30 times with probability 0.034
    assert_allclose((taken == 0).mean(), (1 - 0.034) ** 30, atol=0.05)


def test_one_machine_of_all_rows_is_the_machine_without_intercept():
    X, labels = blobs(300)
    bag = BaggedSVM(n_estimators=1, C=C, gamma=GAMMA, tol=1e-7, random_state=0).fit(X, labels[0])
    Q = np.outer(labels[0], labels[0]) * rbf_kernel(X, gamma=GAMMA)
    a = solve_qp(sp.csc_matrix(Q), -np.ones(300), lb=np.zeros(300), ub=np.full(300, C), solver="clarabel")
    f = rbf_kernel(X, gamma=GAMMA) @ (labels[0] * a)
    assert_allclose(bag.decision_function(X), np.sign(f) + f / (3 * np.abs(f) + 3), atol=1e-3)


def test_each_sample_has_both_classes():
    X, labels = blobs(400)
    labels[0] = np.where(np.arange(400) < 3, 1.0, -1.0)
    bag = BaggedSVM(n_estimators=40, random_state=0).fit(X, labels[0])
    assert all(len(set(labels[0][sample])) == 2 for sample in bag.samples_)
