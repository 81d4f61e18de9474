"""One edge: both ends count alike, and hear of it when the other closes or forgets it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from dimargin.gossip.messages import pack, unpack
from dimargin.gossip.rounds.turns import Edge, Step, Turn, Waiting


class Plain(Step, frozen=True, tag="plain"):
    """Message without content."""


def message(turn=None):
    return Plain(turn or Turn(), 0, 1, "")


def opened():
    a, b = Edge(), Edge()
    a.open(0.0)
    b.open(0.0)
    return a, b


def deliver(sent, edge):
    """Whether the exchange has ended at the end that gets a message."""
    ended = edge.hear(sent.turn, 0.0)
    if edge.may_open(sent.turn):
        edge.open(0.0)
    if sent.turn.number and edge.is_open and edge.fits(sent.turn):
        assert edge.take(sent) is None
    return ended


def exchange(a, b, times):
    for _ in range(times):
        to_b, to_a = a.add(message(), 0.0), b.add(message(), 0.0)
        deliver(to_b, b), deliver(to_a, a)
        assert a.is_complete and b.is_complete
        a.inbox.pop(a.sent), b.inbox.pop(b.sent)


def meet(a, b):
    """Both call one another until both have opened the edge, and say what happened."""
    ended = []
    for _ in range(4):
        for sender, receiver, name in ((a, b, "b"), (b, a, "a")):
            ended += [name] * deliver(Waiting(sender.turn(), 0, 0, ""), receiver)
    return ended


def test_both_count_alike():
    a, b = opened()
    exchange(a, b, 10)
    assert a.sent == b.sent == a.received == b.received == 10 and list(a.kept) == [9, 10]
    again = Edge.restore(unpack(pack(a.checkpoint())), (Plain, Waiting))
    assert again.checkpoint() == a.checkpoint()


def test_one_closes():
    a, b = opened()
    exchange(a, b, 3)
    old = b.stamped(3, 0.0)
    a.close()
    assert meet(a, b) == ["b"]
    assert a.is_open and b.is_open and a.sent == b.sent == 0
    assert not deliver(old, a) and not a.fits(old.turn)  # a message of before
    exchange(a, b, 3)


def test_one_forgets():
    a, b = opened()
    exchange(a, b, 3)
    c = Edge()
    c.open(0.0)
    assert meet(c, b) == ["b"] or meet(c, b) == []
    for _ in range(2):
        meet(c, b)
    assert c.is_open and b.is_open and c.life > 1
    exchange(c, b, 3)


def test_one_that_is_not_ready_does_not_make_the_other_wait():
    a, b = opened()
    exchange(a, b, 3)
    a.close()
    a.closed_until = 10.0
    meet(a, b)
    assert not a.is_open and not b.is_open
    a.hear(b.turn(), 11.0)
    assert a.may_open(b.turn())


def test_what_the_other_cannot_have_sent():
    a, _ = opened()
    a.add(message(), 0.0)
    assert a.hear(Turn(1, 1, 2, 0), 0.0) is False and a.take(message(Turn(1, 1, 2, 0))) is None  # one ahead
    assert "before it can have had message 2" in a.take(message(Turn(1, 1, 3, 0)))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["close", "forget", "send", "lose"])), max_size=20))
def test_whatever_happens_they_meet_again(events):
    a, b = opened()
    for name, what in events:
        own, other = (a, b) if name == "a" else (b, a)
        if what == "close":
            own.close()
        elif what == "forget":
            own = Edge()
            own.open(0.0)
            a, b = (own, b) if name == "a" else (a, own)
        elif own.is_open and own.sent <= own.received:
            own.inbox.pop(own.sent, None)
            sent = own.add(message(), 0.0)
            if what == "send":
                deliver(sent, other)
    for _ in range(3):
        meet(a, b)
    for end in (a, b):
        if end.is_open and not end.sent:
            end.add(message(), 0.0)
    for sender, receiver in ((a, b), (b, a)):
        for number in sender.kept:
            deliver(sender.stamped(number, 0.0), receiver)
    assert a.is_open and b.is_open and abs(a.sent - b.sent) <= 1
