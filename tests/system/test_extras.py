"""Which extra brings which package, against the installed metadata and the imports of the source."""

import ast
import re
import sys
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest

import dimargin
from dimargin.system.extras import EXTRA_OF, MissingExtra, require

PACKAGE = Path(dimargin.__file__).parent
REQUIREMENT = re.compile(r"([\w.-]+)[^;]*(?:;.*\bextra == ['\"](\w+)['\"])?$")


def required():
    """Names of distributions that the package requires, by extra; None is the plain installation."""
    found = {}
    for text in requires("dimargin"):
        if match := REQUIREMENT.match(text):
            found.setdefault(match[2], set()).add(match[1].lower())
    return found


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def test_extras_bring_the_packages_that_they_are_said_to_bring():
    names, extras = packages_distributions(), required()
    for package, extra in EXTRA_OF.items():
        if package in names:
            assert {name.lower().replace("_", "-") for name in names[package]} <= extras[extra], package


def test_every_import_is_of_the_plain_installation_or_of_an_extra():
    names, plain = packages_distributions(), required()[None]
    others = {name for path in PACKAGE.rglob("*.py") for name in imported(path)}
    others -= {"dimargin", "py4j"} | set(sys.stdlib_module_names) | EXTRA_OF.keys()  # py4j is a part of pyspark
    assert len(others) > 5
    for name in others:
        assert {distribution.lower() for distribution in names[name]} & plain, name


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    require("spam", "matplotlib")
    monkeypatch.setitem(sys.modules, "zenoh", None)
    with pytest.raises(MissingExtra) as caught:
        require("spam", "matplotlib", "zenoh")
    assert str(caught.value) == 'spam needs the extra "peers": pip install "dimargin[peers]"'
    assert caught.value.name == "zenoh" and isinstance(caught.value, ImportError)
