"""Operators of compression are contractive, or unbiased, as claimed, and their codes as short as claimed."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from dimargin.gossip.messages import Message, UnsoundError, decoder, encode
from dimargin.gossip.rounds.compression import Code, Identity, Logarithmic, Quantised, RandomK, TopK

OPERATORS = [
    Identity(), TopK(0.1), TopK(0.01), TopK(1.0), RandomK(0.3), Quantised(1), Quantised(4), Quantised(200),
    Logarithmic(1), Logarithmic(7), Logarithmic(3000),
]  # fmt: skip
vectors = arrays(
    np.float64,
    st.integers(1, 200),
    elements=st.one_of(st.just(0.0), st.floats(-1e6, 1e6).filter(lambda v: abs(v) > 1e-6)),
)


class Carrier(Message, frozen=True, tag="carrier"):
    code: Code


def sent(code):
    return decoder((Carrier,))(encode(Carrier(code))).code


def squares(operator, x, times=200):
    rng = np.random.default_rng(0)
    found = np.array([operator.restore(operator.compress(x, rng), len(x)) for _ in range(times)])
    return found.mean(axis=0), ((found - x) ** 2).sum(axis=1)


@settings(max_examples=60, deadline=None)
@given(vectors, st.sampled_from(OPERATORS))
def test_what_arrives_is_what_was_meant(x, operator):
    code = operator.compress(x, np.random.default_rng(1))
    arrived = sent(code)
    assert operator.fault(arrived, len(x)) is None
    assert_array_equal(operator.restore(arrived, len(x)), operator.restore(code, len(x)))


@settings(max_examples=60, deadline=None)
@given(vectors, st.floats(0.001, 1.0))
def test_the_largest_are_contractive_for_certain(x, share):
    operator = TopK(share)
    found = operator.restore(operator.compress(x, np.random.default_rng(0)), len(x))
    assert ((found - x) ** 2).sum() <= (1 - operator.delta(len(x)) + 1e-9) * (x**2).sum()
    k = max(1, int(np.ceil(share * len(x))))
    assert_allclose(np.sort(np.abs(found))[-k:], np.sort(np.abs(x))[-k:], rtol=1e-6)


@settings(max_examples=100, deadline=None)
@given(vectors, st.integers(1, 40))
def test_halves_are_the_nearest_levels_and_contractive_for_certain(x, levels):
    operator = Logarithmic(levels)
    found = operator.restore(operator.compress(x, np.random.default_rng(0)), len(x))
    top = np.abs(x).max()
    near = np.concatenate([[0.0], top / 2.0 ** np.arange(levels)])
    # The scale is in single precision.
    assert_allclose(np.abs(found - x), np.abs(near[:, None] - np.abs(x)).min(axis=0), rtol=1e-6, atol=1e-7 * top)
    assert_array_equal(np.sign(found) * np.sign(x), np.abs(np.sign(found)))
    assert ((found - x) ** 2).sum() <= (1 - operator.delta(len(x)) + 1e-6) * (x**2).sum()


@settings(max_examples=25, deadline=None)
@given(vectors, st.sampled_from([RandomK(0.3), Quantised(1), Quantised(4), Quantised(30)]))
def test_random_ones_are_contractive_on_the_average(x, operator):
    _, errors = squares(operator, x)
    slack = 5 * errors.std() / np.sqrt(len(errors)) + 1e-9 * (x**2).sum()
    assert errors.mean() <= (1 - operator.delta(len(x))) * (x**2).sum() + slack


@pytest.mark.parametrize("levels", [1, 4, 64])
def test_levels_are_unbiased_times_tau(levels):
    x, operator = np.random.default_rng(3).normal(size=30), Quantised(levels)
    mean, _ = squares(operator, x, 20_000)
    assert_allclose(mean * operator.tau(30), x, atol=5 * np.linalg.norm(x) / levels / np.sqrt(20_000))
    # and their variance is at most tau - 1, which gives the division by tau its constant
    rng = np.random.default_rng(1)
    raw = [operator.restore(operator.compress(x, rng), 30) * operator.tau(30) - x for _ in range(2000)]
    assert (np.array(raw) ** 2).sum(axis=1).mean() <= (operator.tau(30) - 1) * (x**2).sum() * 1.05


@pytest.mark.parametrize("operator", OPERATORS)
def test_zero_stays_zero(operator):
    found = operator.restore(sent(operator.compress(np.zeros(9), np.random.default_rng(0))), 9)
    assert_array_equal(found, np.zeros(9))


@pytest.mark.parametrize(
    ("operator", "most"),
    [
        (Identity(), 8000),
        (TopK(0.1), 4 * 100 + 125),  # a bit for every number is less than four bytes for each of them
        (TopK(0.01), 8 * 10),
        (RandomK(0.2), 4 * 200 + 125),
        (Quantised(3), 375),
        (Quantised(7), 500),
        (Quantised(127), 1000),
        (Logarithmic(), 500),
    ],
)
def test_bytes_are_saved(operator, most):
    x = np.random.default_rng(0).normal(size=1000)
    size = len(encode(Carrier(operator.compress(x, np.random.default_rng(1)))))
    empty = len(encode(Carrier(Code())))
    assert most <= size - empty <= most + 40


FAULTS = [
    (Identity(), Code(dense=np.ones(3)), "not that of 4 numbers"),
    (Identity(), Code(), "not that of 4 numbers"),
    (TopK(0.5), Code(values=np.ones(2, "<f4")), "not that of 2 of 4 numbers"),
    (TopK(0.5), Code(values=np.ones(2, "<f4"), places=np.array([1, 4], "<i4")), "not that of 2 of 4"),
    (TopK(0.5), Code(values=np.ones(2, "<f4"), places=np.array([2, 1], "<i4")), "not that of 2 of 4"),
    (TopK(0.5), Code(values=np.ones(2, "<f4"), places=np.array([1, 1], "<i4")), "not that of 2 of 4"),
    (TopK(0.5), Code(values=np.ones(3, "<f4"), places=np.array([0, 1, 2], "<i4")), "not that of 2 of 4"),
    (TopK(0.5), Code(values=np.ones(1, "<f4"), bits=np.array([3], "|u1")), "not that of 2 of 4"),
    (TopK(0.5), Code(values=np.ones(2, "<f4"), bits=np.array([128, 128], "|u1")), "not that of 2 of 4"),
    (RandomK(0.5), Code(bits=np.array([192], "|u1")), "not that of 2 of 4"),
    (Quantised(1), Code(bits=np.array([1, 2], "|u1")), "not that of 4 numbers of 1 levels"),
    (Quantised(1), Code(bits=np.array([255], "|u1"), scale=1.0), "not that of 4 numbers of 1 levels"),
    (Logarithmic(1), Code(bits=np.array([1, 2], "|u1")), "not that of 4 numbers of 1 levels"),
    (Logarithmic(1), Code(bits=np.array([255], "|u1"), scale=1.0), "not that of 4 numbers of 1 levels"),
]


@pytest.mark.parametrize(("operator", "code", "reason"), FAULTS)
def test_codes_of_no_site_are_found(operator, code, reason):
    assert re.search(reason, operator.fault(sent(code), 4))


@pytest.mark.parametrize("code", [Code(dense=np.array([np.nan])), Code(scale=-1.0), Code(scale=np.inf)])
def test_unsound_numbers_are_not_even_decoded(code):
    with pytest.raises(UnsoundError):
        sent(code)


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        (TopK(0.0), "share must be a number in (0, 1], got 0.0"),
        (RandomK(1.5), "share must be a number in (0, 1], got 1.5"),
        (TopK(np.nan), "share must be a number in (0, 1], got nan"),
        (Quantised(0), "levels must be a whole number in [1, 32768], got 0"),
        (Logarithmic(0), "levels must be a whole number in [1, 32768], got 0"),
        (Quantised(2.5), "levels must be a whole number in [1, 32768], got 2.5"),
    ],
)
def test_parameters_out_of_range_are_refused(operator, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        operator.validate()
