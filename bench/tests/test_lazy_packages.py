"""The packages of dimargin-bench offer the same names as if they imported everything."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "tests" / "system"))

import test_lazy


@pytest.mark.parametrize("package", ["datasets", "gossip_rivals", "kernel_rivals"])
def test_type_checkers_see_what_is_offered(package):
    test_lazy.test_type_checkers_see_what_is_offered(f"dimargin_bench.{package}")
