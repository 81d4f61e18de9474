"""Vectors as differences: both ends agree bit for bit whatever is lost, and what is rounded is not lost."""

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from dimargin.gossip.differences import Change, Incoming, Outgoing, _dequantised, _quantised
from dimargin.gossip.push_sum import Mass, PushSum

PARTS = [slice(0, 3), slice(4, 7)]  # number 3 is exact
SIZE, EXACT = 7, 3


def changed(out, sequence, acknowledged, wanted, sizes=None):
    return out.change(sequence, acknowledged, wanted, np.zeros(SIZE) if sizes is None else sizes, PARTS)


def read(into, sequence, change, value):
    return into.vector(sequence, change, PARTS, value)


@given(arrays(float, SIZE, elements=st.floats(-1e200, 1e200, allow_subnormal=False)))
def test_rounding_is_a_contraction_of_every_number(error):
    tops, levels = _quantised(error, PARTS)
    found = _dequantised(levels, tops, PARTS)
    for part in PARTS:
        e, q, largest = error[part], found[part], np.abs(error[part]).max()
        is_sent = np.abs(e) > largest * 2.0**-31
        assert (np.abs(e - q)[is_sent] <= 0.0907 * np.abs(e)[is_sent] * (1 + 1e-12)).all()
        assert (np.abs(e - q) <= np.abs(e)).all()


def test_sums_that_grow_evenly_cost_little():
    out, into, rng = Outgoing(SIZE, SIZE, EXACT), Incoming(SIZE, SIZE, EXACT), np.random.default_rng(0)
    share, sent = rng.normal(size=SIZE), []
    for k in range(1, 40):
        change, vector = changed(out, k, k - 1, k * share, np.abs(share))
        assert_array_equal(read(into, k, change, vector[EXACT]), vector)
        into.add(k, vector, change.base)
        into.drop_before(change.base)
        assert_allclose(vector, k * share, rtol=0.1)
        sent.append(np.count_nonzero(np.frombuffer(zlib.decompress(change.levels, -15), np.int8)))
    # at first all but the exact one; then what rounding has left of a rate adds up, and is sent now
    # and then
    assert set(sent[:4]) == {SIZE - 1} and np.mean(sent[20:]) < SIZE / 3
    assert len(into.known) <= 2 and len(out.known) <= 2


operations = st.lists(st.tuples(st.sampled_from(["send", "send", "take", "take", "lose", "acknowledge"]),
                                st.integers(0, 9)), max_size=60)  # fmt: skip


@given(operations, st.integers(0, 99))
@settings(max_examples=200)
def test_both_ends_agree_whatever_is_lost_or_overtaken(events, seed):
    rng, out, into = np.random.default_rng(seed), Outgoing(SIZE, 4, EXACT), Incoming(SIZE, 4, EXACT)
    wanted, sent, on_the_way, heard, acknowledged, unread = np.zeros(SIZE), 0, [], 0, 0, 0
    for what, i in events:
        if what == "send":
            sent += 1
            wanted = wanted + rng.normal(size=SIZE) * 10 ** rng.uniform(-3, 3, SIZE)
            found = changed(out, sent, acknowledged, wanted)
            if found is None:  # the last that was acknowledged is too long ago: the vector goes whole
                assert sent - acknowledged >= 8
                out.add(sent, wanted)
            on_the_way.append((sent, found, wanted))
        elif what in ("take", "lose") and on_the_way:
            number, found, whole = on_the_way.pop(i % len(on_the_way))
            if what == "lose" or number <= heard:
                continue
            vector = whole if found is None else read(into, number, found[0], whole[EXACT])
            if vector is None:
                unread += 1
                continue
            assert_array_equal(vector, whole if found is None else found[1])
            into.add(number, vector, None if found is None else found[0].base)
            into.drop_before(0 if found is None else found[0].base)
            heard = number
        elif what == "acknowledge":
            acknowledged = heard
        assert len(into.known) <= 8 >= len(out.known)
    assert not unread


def test_a_sender_that_begins_anew_is_understood():
    into, first, second = Incoming(SIZE, 4, EXACT), Outgoing(SIZE, 4, EXACT), Outgoing(SIZE, 4, EXACT)
    for k in range(1, 6):
        change, vector = changed(first, k, k - 1, np.full(SIZE, float(k)))
        into.add(k, read(into, k, change, vector[EXACT]), change.base)
    for k in range(1, 6):
        change, vector = changed(second, k, k - 1, np.full(SIZE, -float(k)))
        found = read(into, k, change, vector[EXACT])
        assert_array_equal(found, vector)
        into.add(k, found, change.base)


def test_what_no_sender_says_is_a_fault_and_what_is_not_known_is_none():
    out, into = Outgoing(SIZE, 4, EXACT), Incoming(SIZE, 4, EXACT)
    change, vector = changed(out, 1, 0, np.arange(7.0))
    good = read(into, 1, change, 3.0)
    assert_array_equal(good, vector)
    levels = zlib.compressobj(9, wbits=-15)
    bomb = levels.compress(bytes(10**6)) + levels.flush()
    for tops, data, fault in (
        ([0], change.levels, "1 parts, expected 2"),
        ([0, 0], b"\xff\xff", "cannot be read"),
        ([0, 0], change.levels[:3], "does not have 7 numbers"),
        ([0, 0], bomb, "does not have 7 numbers"),
    ):
        with pytest.raises(ValueError, match=fault):
            read(into, 1, Change(0, tops, data, 0), 3.0)
    assert read(into, 1, Change(0, change.tops, change.levels, change.check + 1), 3.0) is None
    assert read(into, 9, Change(5, change.tops, change.levels, change.check), 3.0) is None
    assert read(into, 1, change, 4.0) is None


WHAT = ["share", "share", "deliver", "deliver", "repeat", "lose", "forget", "change"]


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(WHAT), st.integers(0, 3), st.integers(0, 3)), max_size=60))
@settings(max_examples=100)
def test_mass_is_conserved_though_messages_are_rounded(events):
    """As for Push-Sum without rounding: what a message does not tell has not left its sender."""
    names, size = "abc", 4
    values = {name: np.array([float(i), -1.0, 2.0**i, 1.0]) for i, name in enumerate(names)}
    site = {name: PushSum(values[name]) for name in names}
    out, into, on_the_way = {}, {}, []

    def send(a, b):
        edge, found = site[a].edge(b), []
        lives = edge.life, edge.knows
        if out.get((a, b), (None,))[0] != lives:
            out[a, b] = lives, Outgoing(size, size, 3)

        def rounded(_, wanted, share):
            parts = [slice(0, 3)]
            found.append(out[a, b][1].change(edge.sequence + 1, edge.acknowledged, wanted, np.abs(share), parts))
            return wanted if found[0] is None else found[0][1]

        mass = site[a].shares([b], rounded=rounded)[b]
        if found[0] is None:
            out[a, b][1].add(mass.sequence, mass.sent)
        return a, b, mass, found[0]

    def take(a, b, mass, found):
        known = into.setdefault((a, b), Incoming(size, size, 3))
        base = None
        if found is not None:
            base, vector = found[0].base, known.vector(mass.sequence, found[0], [slice(0, 3)], mass.sent[3])
            if vector is None:
                return
            assert_array_equal(vector, mass.sent)
            mass = Mass(mass.life, mass.knows, mass.sequence, mass.heard, vector)
        if site[b].news(a, mass) is not None and site[b].take(a, mass):
            known.add(mass.sequence, mass.sent, base)
            known.drop_before(base or 0)
        else:
            site[b].take(a, mass)

    for what, i, j in events:
        a, b = names[i % 3], names[j % 3]
        if what == "share" and a != b:
            on_the_way.append(send(a, b))
        elif what in ("deliver", "repeat", "lose") and on_the_way:
            index = (i * 4 + j) % len(on_the_way)
            message = on_the_way[index]
            if what != "repeat":
                del on_the_way[index]
            if what != "lose":
                take(*message)
        elif what == "forget" and a != b:
            site[a].forget(b)
        elif what == "change":
            values[a] = np.array([float(j), 3.0, -1.0, 1.0])
            site[a].contribute(values[a])
    for _ in range(40):
        for message in [send(a, b) for a in names for b in names if a != b]:
            take(*message)
    total = sum(values.values())
    assert_allclose(sum(s.mass for s in site.values()), total, rtol=1e-9, atol=1e-9)
    for one in site.values():
        assert_allclose(one.mass / one.mass[3], total / total[3], rtol=0.02, atol=0.02)
