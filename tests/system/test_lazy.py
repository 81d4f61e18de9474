"""What is imported when: packages offer the same names as if they imported everything, but load what is used."""

import ast
import importlib
import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import dimargin

LAZY = [
    f"dimargin{room}"
    for room in (
        "",
        ".estimators",
        ".gossip",
        ".gossip.rounds",
        ".gossip.simulation",
        ".io",
        ".io.data",
        ".io.libsvm",
        ".io.models",
    )
]
HEAVY = ("sklearn", "pyarrow", "pandas", "matplotlib")


def run(script, *arguments):
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def loaded(statement, *of):
    """Which modules a statement loads."""
    return run(f"import sys\n{statement}\nprint(*sorted(set({of!r}) & set(sys.modules)))")


@pytest.mark.parametrize("package", LAZY)
def test_type_checkers_see_what_is_offered(package):
    """The names under TYPE_CHECKING are `__all__`, and come from the modules that give them."""
    module = importlib.import_module(package)
    block = next(node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.If))
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    seen = {alias.asname: (node.module, alias.name) for node in block.body for alias in node.names}
    assert sorted(seen) == module.__all__
    for name, (source, original) in seen.items():
        assert original == name and source.startswith(package)
        assert getattr(module, name) is getattr(importlib.import_module(source), name)


FRESH = """
import pickle, sys
print(pickle.loads(bytes.fromhex(sys.argv[1])))
for name in ("dimargin", "dimargin.io.data", "dimargin.io.models"):
    package = __import__(name, fromlist=["__all__"])
    listed = dir(package)
    for offered in package.__all__:
        assert offered in listed, offered
        getattr(package, offered)
    homes = {getattr(getattr(package, offered), "__module__", name + ".version") for offered in package.__all__}
    for module in (*(home.removeprefix(name + ".").partition(".")[0] for home in homes), *package._MODULES):
        assert module in listed and getattr(package, module).__name__ == name + "." + module, module
from dimargin import *
import dimargin
assert set(dimargin.__all__) <= set(globals())
"""


@pytest.mark.slow
def test_every_name_and_module_is_there_in_a_fresh_process():
    """Pickles load before the package has been used; then all names are listed, and become what they should."""
    content = pickle.dumps([dimargin.ODMClassifier(lam=3.0), dimargin.DiODM])
    assert run(FRESH, content.hex()).startswith("[ODMClassifier(lam=3.0), <class")


def test_every_module_is_reachable_that_needs_no_extra_and_is_no_program():
    """`import dimargin` is enough to use `dimargin.solvers`, say."""
    folder = Path(dimargin.__file__).parent
    there = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    reachable = run("import dimargin; print(*dir(dimargin))").split()
    assert there.difference(reachable) <= {
        *("__init__", "__main__", "accelerate", "cli", "spark"),
    }


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="module 'dimargin' has no attribute 'ODMClasifier'") as caught:
        dimargin.ODMClasifier  # noqa: B018
    assert caught.value.name == "ODMClasifier" and not hasattr(dimargin, "spam")
    with pytest.raises(ImportError, match="cannot import name 'spam' from 'dimargin'"):
        from dimargin import spam  # noqa: F401


def test_the_package_alone_loads_next_to_nothing():
    assert loaded(f"import {', '.join(LAZY)}, dimargin.cli", *HEAVY, "numpy", "scipy", "safetensors", "rich") == ""


def test_modules_are_reachable_through_their_package():
    assert run("import dimargin; print(dimargin.io.data.chunks.CHUNK, dimargin.__version__)") == (
        f"{2**20} {dimargin.__version__}"
    )
