"""What a site knows of the rows that its neighbour has, whatever happens to their messages."""

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dimargin.gossip.messages import decoder, encode
from dimargin.gossip.programs.candidates import Named
from dimargin_bench.gossip_rivals.shared_rows import ANSWERS, RowEdge, SharedRows, parcel_fields

ROWS = Named.of("a", 0, np.arange(12.0)[:, None], np.ones(12))


def message(edge, points):
    data = encode(SharedRows(0, edge.has_heard, edge.answers(), **parcel_fields(points)))
    return decoder((SharedRows,))(data)


@given(st.lists(st.tuples(st.integers(1, 12), *[st.sampled_from([0, 1, 1, 2])] * 2), min_size=1, max_size=40))
@settings(max_examples=80)
def test_nobody_is_thought_to_have_rows_that_it_has_not(rounds):
    """One site sends ever more of its rows; either direction loses, repeats and delays messages."""
    a, b, has, late = RowEdge(), RowEdge(), set(), []
    n = 0

    def exchange(now, there, back):
        nonlocal late
        lacking = a.lacks(ROWS.names[:n], now)
        points = ROWS.take([name.row for name in lacking])
        if points.names:
            a.send(points, now)
        sent = message(a, points)
        for one in [*late, *[sent] * there]:
            rows = one.points(1)
            b.hear(one, rows)
            has.update(() if rows is None else rows.names)
        late = [sent] if there == 2 else []
        answer = message(b, ROWS.take([]))
        for _ in range(back):
            a.hear(answer, None)
        assert a.known <= has

    for now, (more, there, back) in enumerate(rounds):
        n = max(n, more)
        exchange(now, there, back)
    for now in range(len(rounds), len(rounds) + 9):  # without faults all is known soon
        exchange(now, 1, 1)
    assert a.is_settled(ROWS.names[:n]) and has == set(ROWS.names[:n])


def test_many_answers_go_in_several_messages():
    edge, parcels = RowEdge(), list(combinations(range(12), 2))
    assert len(parcels) == ANSWERS + 2
    for parcel in parcels * 2:  # each comes again before it is answered
        edge.hear(SharedRows(0), ROWS.take(list(parcel)))
    assert [len(message(edge, ROWS.take([])).acknowledged) for _ in range(3)] == [ANSWERS, 2, 0]


def test_answers_that_wait_do_not_pile_up():
    edge, rows = RowEdge(), Named.of("a", 0, np.arange(13.0)[:, None], np.ones(13))
    for k in range(1, 2**13):
        edge.hear(SharedRows(0), rows.take([i for i in range(13) if k >> i & 1]))
    assert len(edge.to_answer) == 64 * ANSWERS


def test_a_neighbour_that_begins_anew_has_nothing():
    edge = RowEdge()
    edge.hear(SharedRows(0, has_heard=False), ROWS.take([0]))
    edge.hear(SharedRows(0, has_heard=False), None)
    assert edge.known == {ROWS.names[0]}  # it has not heard this site yet
    edge.hear(SharedRows(0, has_heard=True), None)
    edge.hear(SharedRows(0, has_heard=False), None)
    assert not edge.known
