"""Data sets on this computer: where they are found, what is compared, and what is said of them."""

import bz2
import gzip
import hashlib
import json
import lzma
import re
import sys
from pathlib import Path

import pooch
import pytest

from dimargin.io.data import DataFileError
from dimargin_bench.datasets import ChangedFileError, FetchError, available, fetch, load, path
from dimargin_bench.datasets.catalogue import CATALOGUE, entry_of
from dimargin_bench.datasets.places import cache_folder, find
from dimargin_bench.datasets.records import trust

TEXT = b"+1 1:74 2:85 3:123\n-1 1:207 2:215\n"


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The folder DIMARGIN_DATA."""
    (tmp_path / "mine").mkdir()
    monkeypatch.setenv("DIMARGIN_DATA", str(tmp_path / "mine"))
    return tmp_path / "mine"


def words(entry):
    return [trust(file, find(file)) for file in entry.files]


@pytest.mark.parametrize(
    ("name", "compress"), [("toy.bz2", gzip.compress), ("toy", bytes), ("toy.xz", lzma.compress)]
)  # fmt: skip
def test_copies_of_ones_own_come_first_however_compressed(offer, mine, cache, name, compress):
    entry = offer(bz2.compress(TEXT), sha256=hashlib.sha256(bz2.compress(TEXT)).hexdigest())
    fetch("toy")
    assert path("toy").train.parent == cache
    (mine / name).write_bytes(compress(TEXT))
    assert path("toy") == (mine / name, None) and words(entry) == ["DIMARGIN_DATA"]
    X, y, X_test, y_test = load("toy")
    assert X.shape == (2, 3) and y.tolist() == [1, -1] and X_test is y_test is None


def test_files_may_lie_in_both_folders(offer, mine, server):
    offer(bz2.compress(TEXT), bz2.compress(b"-1 1:1\n"))
    (mine / "toy").write_bytes(TEXT)
    paths = fetch("toy")
    assert paths.train == mine / "toy" and paths.test == cache_folder() / "toy.t.bz2" and len(server.requests) == 1


def test_what_is_missing_is_said_with_address_and_folders(offer, mine, cache, server):
    offer(TEXT, TEXT)
    (mine / "toy").write_bytes(TEXT)
    with pytest.raises(FileNotFoundError) as caught:
        path("toy")
    assert str(caught.value) == (
        f"toy: toy.t.bz2 is missing. `dimargin datasets fetch toy` gets {server.home}toy.t.bz2; "
        f"or put a copy into {mine} (DIMARGIN_DATA) or {cache} (the cache)"
    )
    with pytest.raises(FileNotFoundError, match=r"reuters.t are missing: sparse text.* Put LIBSVM text of that name"):
        load("reuters")
    with pytest.raises(ValueError, match="there is no data set 'ijcnn'; did you mean 'ijcnn1'"):
        load("ijcnn")
    with pytest.raises(ValueError, match="there is no data set ''; there are ijcnn1, covtype"):
        path("")


def test_a_fetched_file_that_changes_is_noticed(offer, server):
    entry = offer(bz2.compress(TEXT))
    train = fetch("toy").train
    assert re.fullmatch(r"cache, unverified \(fetched 20\d\d-\d\d-\d\d\)", words(entry)[0])
    content = bytearray(train.read_bytes())
    content[-1] ^= 1
    train.write_bytes(content)  # of the same size
    for use in (path, load, fetch):
        with pytest.raises(ChangedFileError, match=r"toy.bz2 has the SHA256 .* recorded when it was fetched on 20"):
            use("toy")
    train.write_bytes(content[:-1])
    assert words(entry)[0].startswith("cache, changed since it was fetched on 20")
    train.unlink()
    assert fetch("toy").train == train
    train.unlink()
    server.files["toy.bz2"] = bz2.compress(TEXT + TEXT)
    with pytest.raises(FetchError, match=r"toy.bz2.record.json has the expected one; remove it to take what is public"):
        fetch("toy")
    assert not train.exists()
    train.with_name("toy.bz2.record.json").unlink()
    fetch("toy")
    assert load("toy").X.shape == (4, 3)


def test_a_public_checksum_counts_rather_than_a_record(offer):
    entry = offer(bz2.compress(TEXT), sha256=pooch.file_hash(__file__))
    with pytest.raises(OSError, match=r"toy\.bz2"):
        fetch("toy")
    cache_folder().mkdir(exist_ok=True)
    (cache_folder() / "toy.bz2").write_bytes(Path(__file__).read_bytes())
    assert path("toy").train.name == "toy.bz2" and words(entry) == ["cache"]
    (cache_folder() / "toy.bz2").write_bytes(bz2.compress(TEXT))
    with pytest.raises(ChangedFileError, match=f"the one of the public file is {entry.train.sha256}"):
        path("toy")


def test_a_file_put_into_the_cache_by_hand_is_taken_as_it_is(offer, cache, server):
    entry = offer(bz2.compress(TEXT), sha256="0" * 64)
    cache.mkdir()
    (cache / "toy").write_bytes(TEXT)  # not compressed, so that the public checksum says nothing of it
    assert load("toy").X.shape == (2, 3) and words(entry) == ["cache, put there by hand"] and not server.requests


RECORD = {"sha256": "0" * 64, "size": 3, "address": "http://x", "day": "2026-01-01"}


@pytest.mark.parametrize(
    "text",
    ["{", '{"size": 3}', "[" * 10**5, "3", json.dumps({**RECORD, "day": None})],
)
def test_a_damaged_record_is_named(offer, text):
    entry = offer(bz2.compress(TEXT))
    record = fetch("toy").train.with_name("toy.bz2.record.json")
    record.write_text(text)
    with pytest.raises(ChangedFileError, match=r"toy.bz2.record.json is no record of a fetch .*; remove it and"):
        path("toy")
    assert words(entry) == ["cache, with a damaged record"]


def test_features_beyond_those_of_the_catalogue_are_refused(offer, mine):
    offer(TEXT)
    (mine / "toy").write_text("+1 7:1\n")
    with pytest.raises(DataFileError, match="has a feature 7, expected 3 features"):
        load("toy")


def test_the_cache_is_where_pooch_has_it(monkeypatch):
    monkeypatch.delenv("DIMARGIN_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == Path(pooch.os_cache("dimargin"))
    if sys.platform == "linux":
        monkeypatch.setenv("XDG_CACHE_HOME", "/var/tmp/spam")
        assert cache_folder() == Path(pooch.os_cache("dimargin")) == Path("/var/tmp/spam/dimargin")
    monkeypatch.setenv("DIMARGIN_CACHE", "~/eggs")
    assert cache_folder() == Path.home() / "eggs"


def test_the_catalogue_is_in_order():
    assert set(available()) == set(CATALOGUE) >= {"ijcnn1", "census", "gisette", "SUSY", "a9a", "usps", "reuters"}
    files = [file for entry in CATALOGUE.values() for file in entry.files]
    assert len({file.name for file in files}) == len(files)
    for entry in CATALOGUE.values():
        assert entry_of(entry.name) is entry and (entry.train.address or entry.note) and not entry.note.endswith(".")
        for file in entry.files:
            assert file.address is None or (file.address.startswith("https://") and file.address.endswith(file.name))
            assert file.sha256 is None or re.fullmatch(r"[0-9a-f]{64}", file.sha256)


@pytest.mark.parametrize("name", ["svmguide1", "phishing"])
def test_real_data_have_the_rows_and_features_of_the_catalogue(data_folder, monkeypatch, name):
    agrees(data_folder, monkeypatch, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CATALOGUE if name not in ("svmguide1", "phishing")])
def test_all_real_data_have_the_rows_and_features_of_the_catalogue(data_folder, monkeypatch, name):
    agrees(data_folder, monkeypatch, name)


def agrees(folder, monkeypatch, name):
    monkeypatch.setenv("DIMARGIN_DATA", str(folder))
    entry = entry_of(name)
    if any(find(file) is None for file in entry.files):
        pytest.skip(f"{name} is not in DIMARGIN_DATA")
    X, y, X_test, y_test = load(name)
    assert X.shape == (entry.train.rows, entry.features) == (len(y), entry.features)
    if entry.test is not None:
        assert X_test.shape == (entry.test.rows, entry.features) == (len(y_test), entry.features)
