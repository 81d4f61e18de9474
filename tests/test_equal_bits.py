"""The result of every estimator is the same, bit for bit, whatever the threads of this process, OpenMP and BLAS."""

import pytest
from equal_bits import THREADS, different, fits, results_with

import dimargin as dm


def test_every_estimator_is_compared():
    estimators = {
        name for name in dm.__all__ if isinstance(getattr(dm, name), type) and hasattr(getattr(dm, name), "fit")
    }
    assert estimators and estimators == {type(machine).__name__ for machine, _, _ in fits(None).values()}


@pytest.fixture(scope="module")
def usual():
    return results_with({})


@pytest.mark.slow
@pytest.mark.parametrize("setting", THREADS)
def test_threads_change_no_bit(usual, setting):
    assert different(usual, results_with(THREADS[setting])) == []
