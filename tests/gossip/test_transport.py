"""The contract that every transport of site programs keeps."""

import importlib.util

import pytest
from contract_transport import WORLDS

needs_zenoh = pytest.mark.skipif(importlib.util.find_spec("zenoh") is None, reason="eclipse-zenoh is not installed")


@pytest.fixture(params=[pytest.param(name, marks=[needs_zenoh] if name != "simulator" else []) for name in WORLDS])
def world(request, tmp_path):
    made = WORLDS[request.param](tmp_path)
    yield made
    made.close()


@pytest.mark.slow_after(1)
def test_messages_arrive_whole(world):
    world.start("a", "Echo")
    world.start("b", "Echo")
    world.wait(lambda: world.facts("a", "returned") and world.facts("b", "returned"))
    for name, other in ("ab", "ba"):
        for facts in world.facts(name, "returned"):
            assert facts == {"sender": other, "arrays": [True] * 6, "others": True}


@pytest.mark.slow
def test_every_message_has_its_senders_name_and_none_comes_from_oneself(world):
    for name in "abc":
        world.start(name, "Counting")
    world.wait(lambda: all(len({f["sender"] for f in world.facts(name, "heard")}) == 2 for name in "abc"))
    for name in "abc":
        heard = [(facts["sender"], facts["origin"]) for facts in world.facts(name, "heard")]
        assert all(sender == origin != name for sender, origin in heard)


@pytest.mark.slow_after(1)
def test_messages_of_one_neighbour_arrive_once_each_and_in_order(world):
    world.start("a", "Counting")
    world.start("b", "Counting")
    world.wait(lambda: len(world.facts("b", "heard")) >= 20)
    values = [facts["value"] for facts in world.facts("b", "heard")]
    assert values == list(range(values[0], values[0] + len(values)))


def test_timers_end_in_order_and_a_replaced_one_once(world):
    world.start("a", "Timers")
    world.wait(lambda: any(facts["name"] == "end" for facts in world.facts("a", "woke")))
    woke = world.facts("a", "woke")
    assert [facts["name"] for facts in woke] == ["first", "second", "third", "put off", "brought forward", "end"]
    due = [0.01, 0.02, 0.03, 0.04, 0.05, 0.2]
    assert all(facts["now"] >= end for facts, end in zip(woke, due, strict=True))


@pytest.mark.slow_after(1)
def test_neighbours_appear_and_disappear(world):
    def seen(name):
        told = world.facts(name, "neighbours")  # None yet, shortly after the start.
        return told[-1]["names"] if told else []

    world.start("a", "Site")
    world.start("b", "Site")
    world.wait(lambda: seen("a") == ["b"] and seen("b") == ["a"])
    world.start("c", "Site")
    world.wait(lambda: seen("a") == ["b", "c"] and seen("b") == ["a", "c"] and seen("c") == ["a", "b"])
    world.kill("b")
    world.wait(lambda: seen("a") == ["c"] and seen("c") == ["a"])
    world.start("b", "Site")
    world.wait(lambda: seen("a") == ["b", "c"] and seen("b") == ["a", "c"])


def test_a_site_that_has_finished_goes_on_answering(world):
    world.start("a", "Counting", last=3)
    world.start("b", "Echo")
    world.wait(lambda: len(world.facts("a", "counted")) >= 6)
    assert world.stop("a") == "counted to 3"


@pytest.mark.slow_after(1)
def test_a_message_of_five_megabytes_arrives(world):
    world.start("a", "Large", size=5_000_000)
    world.start("b", "Large")
    world.wait(lambda: world.facts("b", "large"))
    assert world.facts("b", "large")[0] == {"size": 5_000_000, "whole": True}


def test_a_message_that_is_too_large_is_refused_at_its_sender(world):
    world.start("a", "Site", largest=100_000)
    world.start("b", "Large", largest=100_000, size=200_000)
    world.wait(lambda: world.facts("b", "failed") or world.facts("b", "withheld"))
    failed, withheld = world.facts("b", "failed"), world.facts("b", "withheld")
    assert len(failed) + bool(withheld) == 1  # a simulation ends, and a real site goes on
    reason = failed[0]["error"] if failed else withheld[0]["reason"]
    assert not failed or "b sends" in reason
    assert "a message of 200" in reason and "expected at most 100000" in reason
    assert not world.facts("a", "failed") and not world.facts("a", "heard")


@pytest.mark.slow_after(1)
def test_a_killed_site_goes_on_from_what_it_has_told(world):
    world.start("a", "Site")
    world.start("b", "Counting")
    world.start("c", "Counting")
    world.wait(lambda: len([f for f in world.facts("c", "heard") if f["sender"] == "b"]) >= 5)
    world.kill("b")
    told = max(facts["value"] for facts in world.facts("c", "heard") if facts["sender"] == "b")
    before = len(world.facts("c", "heard"))
    world.start("b", "Counting")
    world.wait(lambda: len(world.facts("b", "began")) == 2)
    assert world.facts("b", "began")[-1]["count"] >= told
    world.wait(lambda: any(facts["sender"] == "b" for facts in world.facts("c", "heard")[before:]))
    values = [facts["value"] for facts in world.facts("c", "heard") if facts["sender"] == "b"]
    assert values == sorted(set(values))


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("data", [b"dm\x01\x81\xa4kind\xa6number", b"GET / HTTP/1.1\r\n", b""])
def test_bytes_that_are_no_message_are_counted_and_their_sender_named(world, data):
    world.start("a", "Counting")
    world.inject("c", "a", data)
    world.wait(lambda: world.facts("a", "undecodable"))
    assert world.facts("a", "undecodable")[0]["sender"] == "c"
    counted = len(world.facts("a", "counted"))
    world.wait(lambda: len(world.facts("a", "counted")) > counted)
    assert not world.facts("a", "failed") and not world.facts("a", "heard")
