"""Fetching, from a server on this computer that fails in the ways in which servers do."""

import bz2
import fcntl
import hashlib
import json
import socket

import numpy as np
import pytest

from dimargin_bench.datasets import FetchError, fetch, load, path

TRAIN = bz2.compress(b"+1 1:74 2:85 3:123\n-1 1:207 2:215\n")
TEST = bz2.compress(b"-1 1:1\n")
CHUNK = 65_536
LONG = np.random.default_rng(0).bytes(1_500_000)  # several chunks


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def names(folder):
    return sorted(file.name for file in folder.iterdir()) if folder.exists() else []


def broken(server, after=10 * CHUNK):
    """Try a fetch whose connection the server closes."""
    server.closes_after = after
    with pytest.raises(FetchError) as caught:
        fetch("toy")
    return str(caught.value)


def test_files_are_fetched_once_and_recorded(server, offer, cache):
    offer(TRAIN, TEST)
    told = []
    paths = fetch("toy", lambda *state: told.append(state))
    assert (paths.train.read_bytes(), paths.test.read_bytes()) == (TRAIN, TEST)
    assert told == [("toy.bz2", len(TRAIN), len(TRAIN)), ("toy.t.bz2", len(TEST), len(TEST))]
    assert names(cache) == ["toy.bz2", "toy.bz2.record.json", "toy.t.bz2", "toy.t.bz2.record.json"]
    record = json.loads((cache / "toy.bz2.record.json").read_text())
    assert record.pop("day") > "2025"
    assert record == {"sha256": sha256(TRAIN), "size": len(TRAIN), "address": f"{server.home}toy.bz2"}
    assert fetch("toy") == path("toy") == paths and len(server.requests) == 2
    X, y, X_test, y_test = load("toy")
    assert X.tolist() == [[74, 85, 123], [207, 215, 0]] and y.tolist() == [1, -1]
    assert X_test.shape == (1, 3) and y_test.tolist() == [-1]


def test_progress_goes_up_to_the_size(offer):
    offer(LONG)
    told = []
    fetch("toy", lambda name, done, total: told.append((done, total)))
    assert len(told) > 3 and told == sorted(told) and told[-1] == (len(LONG), len(LONG))
    assert {total for _, total in told} == {len(LONG)}


def test_a_known_checksum_is_compared_and_nothing_recorded(offer, cache):
    offer(TRAIN, sha256=sha256(TRAIN))
    assert fetch("toy").train.read_bytes() == TRAIN and names(cache) == ["toy.bz2"]


def test_a_file_with_another_checksum_is_not_kept(offer, cache):
    offer(TRAIN, sha256=sha256(TEST))
    with pytest.raises(FetchError, match=r"toy\.bz2") as caught:
        fetch("toy")
    assert sha256(TRAIN) in str(caught.value) and sha256(TEST) in str(caught.value)
    assert names(cache) == []


def test_a_broken_transfer_is_gone_on_with(server, offer, cache):
    offer(LONG)
    message = broken(server)
    assert "the 655360 bytes that came are kept" in message and "Or put a copy of toy.bz2 into" in message
    assert names(cache) == ["toy.bz2.part", "toy.bz2.part.json"]
    with pytest.raises(FileNotFoundError):
        path("toy")
    told = []
    assert fetch("toy", lambda *state: told.append(state)).train.read_bytes() == LONG
    assert server.requests == [("/toy.bz2", None), ("/toy.bz2", "bytes=655360-")] and server.sent == len(LONG)
    assert 655_360 < told[0][1] < told[-1][1] == told[-1][2] == len(LONG)
    assert names(cache) == ["toy.bz2", "toy.bz2.record.json"]


def test_a_transfer_may_break_more_than_once(server, offer):
    offer(LONG)
    broken(server, 5 * CHUNK)
    broken(server, 5 * CHUNK)
    assert fetch("toy").train.read_bytes() == LONG and server.sent == len(LONG)
    assert [wanted for _, wanted in server.requests] == [None, "bytes=327680-", "bytes=655360-"]


@pytest.mark.parametrize("header", ["ETag", "Last-Modified"])
def test_what_came_of_another_version_is_not_gone_on_with(server, offer, header):
    offer(LONG)
    server.version = header
    broken(server, 5 * CHUNK)
    broken(server, 5 * CHUNK)
    assert server.requests[-1] == ("/toy.bz2", "bytes=327680-") and server.sent == 10 * CHUNK
    server.files["toy.bz2"] = LONG[::-1]
    assert fetch("toy").train.read_bytes() == LONG[::-1]


@pytest.mark.parametrize("reason", ["address", "ranges", "notes", "version"])
def test_a_transfer_begins_again_where_it_cannot_go_on(server, offer, cache, reason):
    """Because the address is another one, the server serves no parts, notes are damaged, or versions look the same."""
    offer(LONG)
    server.version = None if reason == "version" else "ETag"
    assert ("are kept" in broken(server)) == (reason != "version") == ("toy.bz2.part" in names(cache))
    server.ranges = reason != "ranges"
    if reason == "address":
        server.files["mirror/toy.bz2"] = LONG
        offer(LONG, home=f"{server.home}mirror/")
    if reason == "notes":
        (cache / "toy.bz2.part.json").write_text("{")
    assert fetch("toy").train.read_bytes() == LONG
    assert server.requests[-1] == (
        "/mirror/toy.bz2" if reason == "address" else "/toy.bz2", "bytes=655360-" if reason == "ranges" else None
    )  # fmt: skip


@pytest.mark.parametrize(
    ("shift", "content", "message"),
    [(7, LONG, "another part than was asked for"), (0, LONG[::-1], "another part than"), (0, LONG[:CHUNK], "416")],
    ids=["shifted", "other version", "shorter"],
)
def test_a_wrong_part_is_not_appended(server, offer, cache, shift, content, message):
    offer(LONG)
    broken(server)
    server.careless, server.shift = True, shift
    server.files["toy.bz2"] = content
    with pytest.raises(FetchError, match=message):
        fetch("toy")
    assert names(cache) == []
    assert fetch("toy").train.read_bytes() == content


def test_a_file_of_unknown_length_is_refused(server, offer, cache):
    offer(LONG)
    server.lengths = False
    with pytest.raises(FetchError, match="does not say how long it is"):
        fetch("toy")
    assert names(cache) == []


@pytest.mark.parametrize("after", [0, 10 * CHUNK], ids=["whole", "gone on with"])
def test_no_more_is_taken_than_the_server_has_said(server, offer, cache, after):
    offer(LONG)
    if after:
        broken(server, after)
    server.excess = bytes(2**20)
    with pytest.raises(FetchError, match=f"more came than the {len(LONG)} bytes that the server had said"):
        fetch("toy")
    assert names(cache) == [] and server.sent < len(LONG) + 100 * 2**20, "all of it was taken"
    server.excess = b""
    assert fetch("toy").train.read_bytes() == LONG


def test_what_is_not_there_is_named(server, offer, cache):
    offer(TRAIN)
    server.files.clear()
    with pytest.raises(FetchError, match=f"404.*{server.home}toy.bz2") as caught:
        fetch("toy")
    assert str(cache) in str(caught.value) and names(cache) == []


def test_without_a_network_the_error_says_where_to_put_a_copy(offer, cache, monkeypatch, tmp_path):
    monkeypatch.setenv("DIMARGIN_DATA", str(tmp_path / "mine"))
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        offer(TRAIN, home=f"http://127.0.0.1:{nobody.getsockname()[1]}/")
        try:
            path("toy")
        except FileNotFoundError:  # which is not why it cannot be fetched
            with pytest.raises(FetchError) as caught:
                fetch("toy")
    assert "Connection refused" in str(caught.value) and names(cache) == []
    assert f"put a copy of toy.bz2 into {tmp_path / 'mine'} (DIMARGIN_DATA) or {cache} (the cache)" in str(caught.value)


def test_an_interrupt_keeps_what_has_come(server, offer, cache):
    offer(LONG)

    def interrupt(name, done, total):
        if done > 500_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch("toy", interrupt)
    assert names(cache) == ["toy.bz2.part", "toy.bz2.part.json"]
    assert fetch("toy").train.read_bytes() == LONG
    assert int(server.requests[1][1].removeprefix("bytes=").removesuffix("-")) > 500_000


def test_two_do_not_write_the_same_file(offer, cache):
    offer(LONG)
    cache.mkdir()
    with open(cache / "toy.bz2.part", "ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(FetchError, match=r"toy\.bz2\.part is being written by another process"):
            fetch("toy")
    assert fetch("toy").train.read_bytes() == LONG
