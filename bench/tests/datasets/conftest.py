import pytest
from file_server import file_server

from dimargin_bench.datasets.catalogue import CATALOGUE, Entry, PublicFile


@pytest.fixture(autouse=True)
def use_cache(cache):
    """Let no test see data sets of this computer."""


@pytest.fixture
def server():
    with file_server() as running:
        yield running


@pytest.fixture
def offer(server, monkeypatch):
    """Offer a data set by the server, as "toy"."""

    def add(content, test=None, sha256=None, home=server.home):
        files = {"toy.bz2": content} | ({} if test is None else {"toy.t.bz2": test})
        server.files.update(files)
        train = PublicFile("toy.bz2", 2, home, sha256)
        entry = Entry("toy", 3, train, None if test is None else PublicFile("toy.t.bz2", 1, server.home))
        monkeypatch.setitem(CATALOGUE, "toy", entry)
        return entry

    return add
