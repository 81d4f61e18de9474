"""Fixtures and helpers of the library's tests, which these ones use, too."""

import sys
from pathlib import Path

_TESTS = Path(__file__).parents[2] / "tests"
sys.path[:0] = [str(_TESTS), str(_TESTS / "gossip")]

from common_fixtures import data_folder, dimargin, pytest_collection_modifyitems, spark  # noqa: E402, F401
