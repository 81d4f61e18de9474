"""Bars in a terminal."""

import io
import os
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from rich.console import Console
from rich.progress import Progress

from dimargin.cli.spark_engine import _messages_until
from dimargin.cli.terminal import FitDisplay


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


def test_messages_of_spark_that_cannot_be_shown_are_taken_nevertheless():
    full, before, ending = Path("/dev/full"), os.dup(2), Event()
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    with open(full, "w") as stream:
        os.dup2(stream.fileno(), 2)
        try:
            with _messages_until(ending):
                for _ in range(20):
                    os.write(2, 9_999 * b"x" + b"\n")  # more than a pipe holds
        finally:
            os.dup2(before, 2)
            os.close(before)
            ending.set()
