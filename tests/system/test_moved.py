"""Modules under their old names."""

import importlib
import pickle
import re
import subprocess
import sys

import pytest

import dimargin
from dimargin.system.moved import _NEW_NAMES


@pytest.mark.parametrize("old", sorted(set(_NEW_NAMES) - {"dimargin.engines.spark"}))  # that one needs an extra
def test_a_module_is_found_by_its_old_name(old):
    now = importlib.import_module(_NEW_NAMES[old])
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=re.escape(f"{old} is {_NEW_NAMES[old]} now")):
        assert importlib.import_module(old) is now


def test_modules_within_and_attributes():
    script = """
import dimargin
from dimargin.data_files import read_data
import dimargin.network.push_sum
assert read_data is dimargin.io.read_data and dimargin.partition.Split is dimargin.shards.partition.Split
assert dimargin.network.push_sum.PushSum is dimargin.gossip.PushSum
try:
    import dimargin.data_files.nothing
except ModuleNotFoundError as error:
    assert str(error) == "No module named 'dimargin.io.data.nothing'", error
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_pickle_that_names_an_old_module():
    content = pickle.dumps(dimargin.gossip.simulation.Outage("a", 1.0, 2.0), protocol=2)
    old = content.replace(b"dimargin.gossip.simulation.conditions", b"dimargin.simulation.conditions")
    assert old != content
    with pytest.warns(DeprecationWarning):
        assert pickle.loads(old) == dimargin.gossip.simulation.Outage("a", 1.0, 2.0)


def test_what_has_not_moved_is_unknown_as_ever():
    with pytest.raises(ModuleNotFoundError, match=r"No module named .dimargin\.nothing."):
        importlib.import_module("dimargin.nothing")
