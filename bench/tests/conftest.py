"""Fixtures and helpers of the library's tests, which these ones use, too."""

import sys
from pathlib import Path

import pytest

_TESTS = Path(__file__).parents[2] / "tests"
sys.path[:0] = [str(_TESTS), str(_TESTS / "gossip")]

from common_fixtures import data_folder, dimargin, pytest_collection_modifyitems, spark  # noqa: E402, F401


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The folder of the cache of data sets, which is not there yet; DIMARGIN_DATA is not set."""
    monkeypatch.setenv("DIMARGIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DIMARGIN_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / "cache"
