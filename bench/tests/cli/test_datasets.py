"""`dimargin datasets`, with a server on this computer; what fetching does when things fail is in tests/datasets."""

import bz2
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from file_server import file_server

from dimargin.system.extras import EXTRA_OF
from dimargin_bench.datasets.catalogue import CATALOGUE, Entry, PublicFile

CONTENT = bz2.compress(b"+1 1:74 2:85 3:123\n-1 1:207 2:215\n")


@pytest.fixture(autouse=True)
def wide_terminal(cache, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def server(monkeypatch):
    """A server with the data sets "toy", of two files, and "gone", whose file it has not."""
    with file_server() as running:
        running.files.update({"toy.bz2": CONTENT, "toy.t": b"-1 1:1\n"})
        train, test, gone = (PublicFile(name, 2000, running.home) for name in ("toy.bz2", "toy.t", "gone"))
        monkeypatch.setitem(CATALOGUE, "toy", Entry("toy", 3, train, test, ("DC-SVM", "DiODM")))
        monkeypatch.setitem(CATALOGUE, "gone", Entry("gone", 3, gone))
        yield running


def line_of(name, out):
    (line,) = [line for line in out.splitlines() if line.split()[:1] == [name]]
    return line.split(maxsplit=1)[1].rstrip()


def test_from_missing_to_fetched(dimargin, server, cache):
    status, out, err = dimargin("datasets", "list")
    assert status == 0 and line_of("toy", out).split() == ["2,000", "2,000", "3", "DC-SVM,", "DiODM", "missing"]
    assert line_of("cifar", out).endswith("missing, not public") and "covtype.libsvm.binary " in out
    assert err == f"DIMARGIN_DATA: not set\ncache: {cache}\n"
    status, out, err = dimargin("datasets", "path", "toy")
    assert (status, out) == (1, "") and "`dimargin datasets fetch toy` gets" in err
    status, out, err = dimargin("datasets", "fetch", "toy")
    assert (status, out) == (0, "") and f"{cache / 'toy.bz2'}: cache, unverified (fetched 20" in err
    record = json.loads((cache / "toy.bz2.record.json").read_text())
    assert f"\n  SHA256 {record['sha256']}, recorded because no public checksum is known\n" in err
    assert dimargin("datasets", "path", "toy") == (0, f"{cache / 'toy.bz2'}\n{cache / 'toy.t'}\n", "")
    assert "cache, unverified (fetched" in line_of("toy", dimargin("datasets", "list")[1])
    assert dimargin("datasets", "fetch", "toy", "--quiet") == (0, "", "") and len(server.requests) == 2


def test_the_packages_of_the_experiments_are_not_needed(dimargin, server, cache, monkeypatch):
    for package in EXTRA_OF:
        monkeypatch.setitem(sys.modules, package, None)
    assert dimargin("datasets", "fetch", "toy")[0] == 0 and (cache / "toy.bz2").read_bytes() == CONTENT
    status, _, error = dimargin("bench", "dcsvm")
    assert status == 2 and 'dimargin bench needs the extra "report"' in error
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert [re.match(r"[\w-]+", needed)[0] for needed in project["dependencies"]] == ["dimargin", "pooch"]


def test_the_list_says_where_each_file_is(dimargin, server, tmp_path, monkeypatch):
    monkeypatch.setenv("DIMARGIN_DATA", str(tmp_path))
    (tmp_path / "toy").write_bytes(CONTENT)
    _, out, err = dimargin("datasets", "list")
    assert line_of("toy", out).endswith("DIMARGIN_DATA; toy.t: missing") and err.startswith(
        f"DIMARGIN_DATA: {tmp_path}"
    )
    facts = json.loads(dimargin("datasets", "list", "--json")[1])
    assert facts["data_folder"] == str(tmp_path) and facts["data_sets"].keys() == CATALOGUE.keys()
    assert facts["data_sets"]["toy"] == {
        "rows": 2000, "test_rows": 2000, "features": 3, "papers": ["DC-SVM", "DiODM"],
        "addresses": [f"{server.home}toy.bz2", f"{server.home}toy.t"],
        "where": "DIMARGIN_DATA; toy.t: missing", "note": "", "raw_files": [], "also_called": [],
    }  # fmt: skip


def test_raw_files_are_converted_into_a_folder_or_the_cache(dimargin, cache, tmp_path):
    raw = tmp_path / "bio_train.dat"
    raw.write_text("\n".join(f"279 {k} {k % 2} {'0.5 ' * 74}" for k in range(3)))
    for folder, options in ((tmp_path / "made", ["--output", str(tmp_path / "made")]), (cache, [])):
        status, _, err = dimargin("datasets", "convert", "protein", str(raw), *options)
        assert status == 0 and err == f"{folder / 'protein'}: 3 rows\n"
        assert (folder / "protein").read_text().splitlines()[1].startswith("+1 1:0.5 2:0.5 ")
    assert dimargin("datasets", "path", "protein")[1] == f"{cache / 'protein'}\n"
    assert "is made of bio_train.dat" in dimargin("datasets", "convert", "protein", "a", "b")[2]


def test_mistakes_are_a_line(dimargin, server, cache):
    for arguments, words in (
        (["fetch", "toy", "tya"], "there is no data set 'tya'"),
        (["path", "ijcnn"], "did you mean 'ijcnn1'?"),
        (["path", "covtype"], "covtype.libsvm.binary.bz2 is missing"),
        (["fetch", "reuters"], "reuters and reuters.t are missing: sparse text"),
        (["fetch", "gone"], "404"),
    ):
        status, out, err = dimargin("datasets", *arguments)
        assert (status, out) == (1, "") and err.startswith("dimargin: ") and words in err and err.count("\n") == 1
    assert not server.files.keys() & {file.name for file in cache.iterdir()}  # names come before the first fetch
    status, _, err = dimargin("datasets", "fetch")
    assert status == 2 and "Missing argument" in err


def test_an_interrupt_keeps_what_has_come(dimargin, server, cache, monkeypatch):
    monkeypatch.setattr(
        "dimargin_bench.cli.datasets.TransferDisplay.__call__", lambda *_: signal.raise_signal(signal.SIGINT)
    )
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell's background jobs ignore it.
    try:
        status, _, err = dimargin("datasets", "fetch", "toy")
    finally:
        signal.signal(signal.SIGINT, before)
    assert status == 1 and err == "Interrupted: what has come is kept, and the next fetch resumes from there\n"
    assert not (cache / "toy.bz2").exists()


ON_A_TERMINAL = """
import sys
from dimargin.cli import main
from dimargin_bench.datasets.catalogue import CATALOGUE, Entry, PublicFile
CATALOGUE["toy"] = Entry("toy", 3, PublicFile("toy.bz2", 2, sys.argv.pop()))
main()
"""


@pytest.mark.slow
def test_a_terminal_shows_progress(server, cache):
    server.files["toy.bz2"] = bytes(30_000_000)
    leader, follower = pty.openpty()
    command = [sys.executable, "-c", ON_A_TERMINAL, "datasets", "fetch", "toy", server.home]
    with subprocess.Popen(command, stdout=follower, stderr=follower, env={**os.environ, "TERM": "xterm"}) as process:
        os.close(follower)
        shown = b""
        while part := read(leader):
            shown += part
    os.close(leader)
    assert process.returncode == 0 and b"/30.0 MB" in shown and b"unverified" in shown, shown
    assert (cache / "toy.bz2").stat().st_size == 30_000_000


def read(leader):
    try:
        return os.read(leader, 4096)
    except OSError:  # the other side is closed
        return b""
