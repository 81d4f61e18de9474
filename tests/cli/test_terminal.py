"""Bars in a terminal."""

import io
import json
import logging
import os
import sys
import warnings
from pathlib import Path
from threading import Event

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import dimargin as dm
from dimargin.cli.spark_engine import messages_until
from dimargin.cli.terminal import FitDisplay, PlainConsole


@pytest.fixture
def shown(monkeypatch):
    """Percentages that a bar has had."""
    values, plain = [], Progress.update

    def update(self, task_id, **fields):
        plain(self, task_id, **fields)
        values.append(self.tasks[task_id].percentage)

    monkeypatch.setattr(Progress, "update", update)
    return values


def test_the_bar_moves_by_the_logarithm_of_the_gap_and_never_back(shown):
    display = FitDisplay(Console(file=io.StringIO(), force_terminal=True), 1e-3, False)
    with display.running():
        display.level_begin(0, None)
        for gap in (1.0, 0.1, 0.5, np.nan, 10**-1.5, 1e-2):
            display.check({"relative_gap": gap})
        assert shown == pytest.approx([0, 100 / 3, 100 / 3, 100 / 3, 50, 200 / 3])
        display.level_end({"level": 0, "partitions": 1, "relative_gap": 2e-3, "scope": "global"}, lambda: None)
        assert shown[-1] == 100, "the level is over, whatever its gap"
        display.level_begin(0, None)
        display.check({"relative_gap": 0.3})
        assert shown[-1] == 0


@pytest.mark.parametrize("flags", [(), ("--json",), ("--quiet",)])
def test_what_a_verbose_machine_logs_is_on_standard_error(flags, dimargin, tmp_path):
    """A model that was saved with verbose=1 in Python is resumed here."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=np.where(X.sum(axis=1) > 0, "yes", "no"))
    frame.to_csv(tmp_path / "t.csv", index=False)
    dm.save(dm.SVMClassifier(verbose=1, tol=0.1).fit(frame[["a", "b"]], frame["y"]), tmp_path / "m")
    before = logging.getLogger("dimargin").handlers[:]
    train = ("train", tmp_path / "t.csv", "--model", tmp_path / "m2", "--resume", tmp_path / "m", "--tol", 1e-4, *flags)
    status, out, err = dimargin(*train)
    assert status == 0 and "relative gap" not in out
    assert err.count("level 0: 1 partition, ") == ("--quiet" not in flags)
    assert "--json" not in flags or json.loads(out)["rows"] == 60
    assert logging.getLogger("dimargin").handlers == before


def test_messages_of_spark_that_cannot_be_shown_are_taken_nevertheless():
    full, before, ending = Path("/dev/full"), os.dup(2), Event()
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    with open(full, "w") as stream:
        os.dup2(stream.fileno(), 2)
        try:
            with messages_until(ending):
                for _ in range(20):
                    os.write(2, 9_999 * b"x" + b"\n")  # more than a pipe holds
        finally:
            os.dup2(before, 2)
            os.close(before)
            ending.set()


# ---- what others have written ----------------------------------------------------------------------------------------

EVIL, SHOWN = "\x1b]0;evil\x07\x1b[2J\u202espam", "\\x1b]0;evil\\x07\\x1b[2J\\u202espam"
BROKEN, MARKUP = "two\nlines", "[/red] :smile: [bold]x[/bold]"


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    """A model and a table whose labels and columns nobody would like to obey."""
    folder = tmp_path_factory.mktemp("evil")
    X = np.random.default_rng(0).normal(size=(60, 2))
    labels = np.array([EVIL, MARKUP, BROKEN], dtype=object)[np.digitize(X[:, 0], (-0.5, 0.5))]
    machine = dm.SVMClassifier(gamma=1.0).fit(X, labels)
    dm.save(machine, folder / "m.dimargin", {"label": "class"})
    rows = [f'{a},{b},"{label}"' for (a, b), label in zip(X, labels, strict=True) if label != BROKEN]
    (folder / "rows.csv").write_text("\n".join(["a\x1b[31m,[/b],class", *rows]) + "\n")
    return folder, machine, X


def obeyed(text):
    return {*text} & {"\x1b", "\x07", "\u202e", "\r"}


def test_labels_are_shown_and_not_obeyed(dimargin, evil, monkeypatch):
    folder, *_ = evil
    monkeypatch.setenv("COLUMNS", "300")
    status, out, err = dimargin("info", folder / "m.dimargin")
    assert status == 0 and f"{SHOWN}, {MARKUP}, two\\nlines" in out and not obeyed(out + err)
    status, out, err = dimargin("evaluate", folder / "m.dimargin", folder / "rows.csv")
    assert status == 0 and out.count(SHOWN) == out.count(MARKUP) == 3 and not obeyed(out + err)
    assert "two\\nlines" in out


@pytest.mark.parametrize("terminal", [False, True])
def test_predictions_are_a_line_each_and_a_file_has_the_labels_as_they_are(dimargin, evil, terminal, monkeypatch):
    folder, machine, X = evil
    (folder / "new.csv").write_text("\n".join(["a\x1b[31m,[/b]", *(f"{a},{b}" for a, b in X)]) + "\n")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
    expected = [label.replace("\n", "\\n") for label in machine.predict(X)]
    shown = [label.replace(EVIL, SHOWN) for label in expected]
    _, out, _ = dimargin("predict", folder / "m.dimargin", folder / "new.csv")
    assert out.split("\n")[:-1] == (shown if terminal else expected)
    dimargin("predict", folder / "m.dimargin", folder / "new.csv", "--output", folder / "labels")
    assert (folder / "labels").read_text().split("\n")[:-1] == expected


def test_errors_and_warnings_are_shown_and_not_obeyed(dimargin, evil, monkeypatch):
    folder, *_ = evil
    (folder / "bad\x1b[2J.csv").write_text(f"a,{EVIL}\n1,2\n")
    status, out, err = dimargin("evaluate", folder / "m.dimargin", folder / "bad\x1b[2J.csv")
    assert status == 1 and "bad\\x1b[2J.csv" in err and not obeyed(out + err) and err.count("\n") == 1

    def fit(*_, **__):
        raise ValueError(f"wrong: {EVIL}\nmore")

    monkeypatch.setattr(dm.SVMClassifier, "fit", fit)
    status, out, err = dimargin("train", folder / "rows.csv", "--model", folder / "n.dimargin")
    assert status == 1 and f"dimargin: wrong: {SHOWN}\nmore" in err and not obeyed(out + err)
    shown = warnings.formatwarning(UserWarning(EVIL), UserWarning, "file.py", 1)
    assert SHOWN in shown and shown.endswith("\n") and not obeyed(shown)


def test_a_console_takes_texts_as_they_are():
    file = io.StringIO()
    console = PlainConsole(file=file, force_terminal=True, width=200)
    table = Table("[/b]", EVIL, box=None)
    table.add_row(MARKUP, EVIL)
    console.print(table, highlight=False)
    console.print(f"{MARKUP} {EVIL}\nmore", highlight=False)
    plain = file.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "")  # headings are bold
    assert not obeyed(plain) and plain.count(SHOWN) == 3 and plain.count(MARKUP) == 2 and "[/b]" in plain
    assert plain.endswith("\nmore\n")


def test_what_peers_say_is_shown_in_the_status_of_a_site(dimargin, tmp_path):
    facts = {
        "site": "a", "round": 1, "steps": 2, "neighbours": [EVIL], "refused": {"b": EVIL}, "bytes_in": 1,
        "bytes_out": 1, "rows": 3, "sites": {EVIL: 3}, "rows_shared": 0, "converged": False, "schema": EVIL,
        "sealed": True, "trouble": f"{EVIL}\nmore",
    }  # fmt: skip
    (tmp_path / "status.json").write_text(json.dumps(facts))
    status, out, err = dimargin("site", "--name", "a", "--folder", tmp_path, "--status")
    assert status == 0 and out.count(SHOWN) == 4 and f"{SHOWN}\\nmore" in out and not obeyed(out + err)
