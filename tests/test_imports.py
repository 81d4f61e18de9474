"""Imports point one way: what stands on what."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dimargin

PACKAGE = Path(dimargin.__file__).parent
# from the bottom to the top; a module may import from its own rank and those below
RANKS = [
    {"_core", "extras", "memory", "sparse_columns", "version"},
    {"accurate_sums", "lazy"},
    {"rows", "threads", "shards"},
    {"kernels", "keys", "losses"},
    {"solution", "user_kernels"},
    {"parts"},
    {"solvers", "partition", "tree", "engines"},
    {"balls"},
    {"strategies"},
    {"network"},
    {"estimators"},
    {"search"},
    {"callbacks", "files"},
    {"displays", "spark", "sites"},
    {"cli"},
    {"__main__"},
]


def part_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "dimargin":
            names = node.module.split(".")[1:2] or [alias.name for alias in node.names]
            yield from names
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "dimargin")


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downwards(path):
    part = part_of(path)
    if part == "__init__":
        return
    rank = next(i for i, parts in enumerate(RANKS) if part in parts)
    below = set().union(*RANKS[:rank]) | {part}
    assert set(imports(path)) <= below


def test_the_tree_knows_no_loss_kernel_or_engine():
    for path in (PACKAGE / "tree.py", PACKAGE / "engines" / "local.py"):
        assert set(imports(path)) <= {"shards"}
    assert "losses" not in set(imports(PACKAGE / "strategies" / "diodm.py"))


def test_spark_is_imported_only_for_its_engine():
    script = "import sys, dimargin, dimargin.engines; assert 'pyspark' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
