"""How many messages are too many."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimargin.gossip.neighbourhood import Neighbourhood


def test_what_came_while_the_site_was_busy_may_be_read_at_once():
    near = Neighbourhood(5.0, 10)
    for k in range(100):  # ten a second, of each of two
        assert near.hear(k / 10, "a") is near.hear(k / 10, "b") is None
    assert not any(near.hear(39.9 + k / 1e4, name) for k in range(300) for name in "ab")  # thirty seconds of it
    assert "more than 10 messages a second" in [near.hear(40.0, "a") for _ in range(20)][-1]
    assert near.hear(40.0, "b") is None


@pytest.mark.parametrize("rate", [11, 30])
def test_who_goes_on_sending_too_many_is_found(rate):
    near = Neighbourhood(5.0, 10)
    refused = [near.hear(k / rate, "a") is not None for k in range(40 * rate)]
    assert not any(refused[:10]) and refused[-1]


@given(st.integers(1, 50), st.lists(st.floats(0, 19), max_size=3), st.integers(0, 10**6))
def test_who_keeps_to_the_rate_is_never_refused(rate, busy, seed):
    """However often the site is busy, and in whatever order messages are read then."""
    starts = np.sort(np.random.default_rng(seed).uniform(5, 100, len(busy)))
    sent = np.arange(1, 150 * rate) / rate
    for start, seconds in zip(starts, busy, strict=True):
        sent = np.where((sent >= start) & (sent < start + seconds), start + seconds, sent)
    near = Neighbourhood(5.0, rate)
    assert not any(near.hear(now, name) for now in sent for name in "ab")
