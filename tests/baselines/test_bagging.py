"""Bagging against votes that are counted one by one."""

import numpy as np
from helpers import blobs
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.svm import SVC

from dimargin.baselines import BaggedSVM

C, GAMMA = 2.0, 0.5


def test_the_majority_decides_and_the_sum_where_there_is_none():
    X, labels = blobs(600)
    queries, _ = blobs(500, seed=1)
    bag = BaggedSVM(n_estimators=4, C=C, gamma=GAMMA, random_state=0).fit(X, labels[0])
    expected, ties = [], 0
    values = [SVC(C=C, gamma=GAMMA).fit(X[rows], labels[0][rows]).decision_function(queries) for rows in bag.samples_]
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


def test_one_machine_of_all_rows_is_libsvm():
    X, labels = blobs(300)
    bag = BaggedSVM(n_estimators=1, C=C, gamma=GAMMA, random_state=0).fit(X, labels[0])
    assert_array_equal(bag.predict(X), SVC(C=C, gamma=GAMMA).fit(X, labels[0]).predict(X))


def test_each_sample_has_both_classes():
    X, labels = blobs(400)
    labels[0] = np.where(np.arange(400) < 3, 1.0, -1.0)
    bag = BaggedSVM(n_estimators=40, random_state=0).fit(X, labels[0])
    assert all(len(set(labels[0][sample])) == 2 for sample in bag.samples_)
