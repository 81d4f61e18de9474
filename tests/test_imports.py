"""Imports point one way: what stands on what."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import dimargin

PACKAGE = Path(dimargin.__file__).parent
# from the bottom to the top; a module may import from its own room and the ranks below
RANKS = [
    {"_core", "version"},
    {"system"},
    {"kernels"},
    {"problems"},
    {"shards"},
    {"solvers"},
    {"strategies"},
    {"gossip"},
    {"estimators"},
    {"svm"},
    {"io", "display", "export"},
    {"spark"},
    {"cli"},
    {"__main__", "accelerate"},
]


def part_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def modules(path, among=()):
    """Modules of the package that a file imports, without its name in front; rooms, or those of a room `among` all."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "dimargin":
            room = node.module.removeprefix("dimargin").removeprefix(".")
            inside = [".".join(filter(None, (room, alias.name))) for alias in node.names]
            yield from [name for name in inside if not room or name in among] or [room]
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "dimargin")


def imports(path):
    return {name.split(".")[0] for name in modules(path)}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downwards(path):
    part = part_of(path)
    if part == "__init__":
        return
    rank = next(i for i, parts in enumerate(RANKS) if part in parts)
    below = set().union(*RANKS[:rank]) | {part}
    assert imports(path) <= below


def test_no_modules_import_each_other():
    """In a circle of any length, imports inside functions included."""
    paths = {path.relative_to(PACKAGE).with_suffix(""): path for path in PACKAGE.rglob("*.py")}
    names = {".".join(relative.parts): path for relative, path in paths.items() if relative.name != "__init__"}
    graph = {name: names.keys() & set(modules(path, names)) for name, path in names.items()}
    list(TopologicalSorter(graph).static_order())  # raises CycleError, which names the circle


def test_the_tree_knows_no_loss_kernel_or_engine():
    for path in (PACKAGE / "shards" / "tree.py", PACKAGE / "shards" / "local_engine.py"):
        assert set(modules(path)) <= {"shards.shards"}
    assert "problems.losses" not in set(modules(PACKAGE / "strategies" / "diodm.py"))


def test_spark_is_imported_only_for_its_engine():
    script = "import sys, dimargin, dimargin.shards.local_engine; assert 'pyspark' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
