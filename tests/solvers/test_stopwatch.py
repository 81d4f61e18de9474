"""Seconds that kernel values take, by which a solve judges whether a pass would end before its time limit."""

import time

import numpy as np
import pytest
from helpers import blobs

from dimargin.kernels.functions import Kernel
from dimargin.kernels.matrix import KernelMatrix
from dimargin.solvers.stopwatch import Stopwatch


def test_all_calls_count_together():
    watch = Stopwatch()
    assert watch.seconds_for(1e9) == 0.0
    watch.add(2.0, 10**6)
    watch.add(1.0, 0)  # a call that computed nothing
    assert watch.seconds_for(10**6) == pytest.approx(3.0)
    watch.add(3.0, 2 * 10**6)
    assert watch.seconds_for(10**6) == pytest.approx(2.0)


def test_a_moment_says_nothing_of_values():
    watch = Stopwatch()
    watch.add(0.01, 1)
    assert watch.seconds_for(10**9) == 0.0
    watch.add(0.09, 9)
    assert watch.seconds_for(10) == pytest.approx(0.1)


def test_a_block_counts_the_values_that_are_computed_in_it_and_those_left_out():
    kernel, watch = KernelMatrix.of(blobs(30)[0], Kernel("rbf", gamma=0.5)), Stopwatch()
    kernel.values(np.arange(30), np.arange(30))
    with watch.timing(kernel):
        kernel.multiply(np.arange(4), np.ones((1, 4)))
        kernel.left_out += 7
        time.sleep(0.06)
    assert watch.values == 4 * 30 + 7 and 0.06 <= watch.seconds < 1.0
