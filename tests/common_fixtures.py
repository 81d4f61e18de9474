"""Fixtures that all tests share; this is imported first, so that scipy sees the variable it reads at import."""

import os
import sys

os.environ.setdefault("SCIPY_ARRAY_API", "1")

from collections import Counter
from pathlib import Path

import pytest
import spark_sessions
from hypothesis import settings

from dimargin.cli import main

settings.register_profile("dimargin", derandomize=True, deadline=None)
settings.load_profile("dimargin")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Folder with files in LIBSVM format."""
    folder = os.environ.get("DIMARGIN_DATA")
    if not folder:
        pytest.skip("DIMARGIN_DATA names no folder with real data")
    return Path(folder)


def needs_session(item):
    """Whether a test uses this process's Spark session, by itself or as one of several engines."""
    case = getattr(item, "callspec", None)
    return "spark" in getattr(item, "fixturenames", ()) or (case is not None and case.params.get("engine") == "spark")


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their markers
def pytest_collection_modifyitems(items):
    cases = Counter()
    for item in items:
        test = item.nodeid.partition("[")[0]
        cases[test] += 1
        for kind in ("slow", "nightly"):
            marker = item.get_closest_marker(f"{kind}_after")
            if marker is not None and cases[test] > marker.args[0]:
                item.add_marker(kind)
        if item.get_closest_marker("nightly") is not None:
            item.add_marker("slow")
    for item in filter(needs_session, items):
        item.add_marker(spark_sessions.needs_spark)
    # side by side, so that one worker runs them, and one Java machine compiles what they need
    items.sort(key=lambda item: not needs_session(item))


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A small session for all tests of a process, local or, with DIMARGIN_SPARK=connect or cluster, another one."""
    mode = os.environ.get("DIMARGIN_SPARK", "local")
    session = spark_sessions.session(mode, tmp_path_factory.mktemp("spark"), spark__sql__shuffle__partitions="2")
    yield session
    spark_sessions.stop(session)


@pytest.fixture
def dimargin(monkeypatch, capsys):
    """Run the command line here; returns exit status, standard output and standard error."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["dimargin", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return stop.value.code or 0, out, err

    return run
