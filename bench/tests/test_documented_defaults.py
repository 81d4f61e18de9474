"""Docstrings of dimargin-bench tell the defaults of its code."""

import sys
from pathlib import Path

import dimargin_bench

sys.path.append(str(Path(__file__).parents[2] / "tests"))

from test_documentation import described_defaults


def test_docstrings_tell_the_defaults_of_the_code():
    found = list(described_defaults(dimargin_bench))
    assert [one for one in found if one[2] != one[3]] == [] and len(found) > 50
