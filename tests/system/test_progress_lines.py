"""Lines of progress: who gets them, and that one that cannot be written ends no fit."""

import io
import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_moons

import dimargin as dm
from dimargin.io.libsvm.text_model_training import OneVsOne
from dimargin.system.progress_lines import log_progress, print_progress

FULL = Path("/dev/full")
X, Y = make_moons(120, noise=0.2, random_state=0)
FITS = {
    "ODMClassifier": lambda: dm.ODMClassifier(verbose=2, random_state=0).fit(X, Y),
    "diodm": lambda: dm.ODMClassifier(strategy="diodm", n_levels=1, verbose=1, random_state=0).fit(X, Y),
    "SVMClassifier": lambda: dm.SVMClassifier(verbose=1, random_state=0).fit(X, np.arange(120) % 3),
    "LinearODMClassifier": lambda: dm.LinearODMClassifier(verbose=2, random_state=0).fit(X, Y),
    "ODMClassifierCV": lambda: dm.ODMClassifierCV(param_grid={"gamma": [0.5]}, verbose=2, random_state=0).fit(X, Y),
    "GossipSVMClassifier": lambda: dm.GossipSVMClassifier(max_iter=3, verbose=2, random_state=0).fit(X, Y),
    "svm-train": lambda: OneVsOne(dm.SVMClassifier(fit_intercept=True, gamma=0.5), {}).train(X, Y),
}  # fmt: skip


class Gone(io.StringIO):
    """A stream of a notebook, say, whose reader has gone."""

    def write(self, text):
        raise BrokenPipeError


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


def full():
    if not FULL.exists():
        pytest.skip("this system has no /dev/full")
    return open(FULL, "w", encoding="ascii")


@pytest.fixture
def logger(monkeypatch):
    """Give the logger, below a root without handlers: the real one has those of pytest."""
    own = logging.getLogger("dimargin")
    monkeypatch.setattr(own, "parent", logging.RootLogger(logging.WARNING))
    monkeypatch.setattr(own, "handlers", [])
    monkeypatch.setattr(own, "propagate", True)
    level = own.level
    yield own
    own.setLevel(level)  # This also clears what the logger remembers of its level.


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("way", ["printed", "logged"])
def test_progress_that_cannot_be_written_ends_no_fit(way, name, monkeypatch, logger):
    monkeypatch.setattr(sys, "stdout", Gone())
    with pytest.raises(BrokenPipeError):
        print("x")
    if way == "logged":
        logger.addHandler(logging.StreamHandler(Gone()))
    if name == "GossipSVMClassifier":
        pytest.importorskip("msgspec", reason="dimargin[peers] is not installed")
    FITS[name]()


class Wrapper:
    """A stream that prints in its own way, as that of a progress bar, and is else like the one below it."""

    def __init__(self, stream):
        self.stream, self.printed = stream, ""

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def write(self, text):
        self.printed += text


def test_a_stream_that_prints_in_its_own_way_is_left_to_it(monkeypatch, tmp_path):
    with open(tmp_path / "below", "w") as below:
        monkeypatch.setattr(sys, "stdout", Wrapper(below))
        print_progress("x")
        assert sys.stdout.printed == "x\n" and below.buffer.raw.tell() == 0


@pytest.mark.parametrize("stream", [full, closed, lambda: None])
def test_whatever_stands_in_for_standard_output(stream, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", stream())
        print_progress("x")
        if stream is full:
            sys.stdout.close()  # which would write what was kept


def test_lines_come_in_order_and_at_once(tmp_path):
    code = (
        "import os; from dimargin.system.progress_lines import print_progress as say\n"
        "print('first'); say('.', end=''); say('gr\\xf6\\xdfe'); os._exit(0)"
    )
    done = subprocess.run([sys.executable, "-X", "utf8", "-c", code], capture_output=True, timeout=60)
    assert done.stdout.decode() == "first\n.größe\n", done.stderr


def test_lines_are_captured_as_print_is(capsys):
    print_progress("x")
    assert capsys.readouterr().out == "x\n"


class Kept(logging.Handler):
    """A handler of a program that uses the library."""

    def __init__(self, level=logging.NOTSET):
        super().__init__(level)
        self.records = []

    def emit(self, record):
        self.records.append((record.name, record.levelname, record.getMessage()))


LINE = ("dimargin", "INFO", "level 0: 100% of x")


@pytest.mark.parametrize("root", [False, True])
def test_a_handler_gets_lines_and_nothing_is_printed(root, logger, capsys):
    handler = Kept()
    (logger.parent if root else logger).addHandler(handler)
    log_progress(LINE[2])
    assert handler.records == [LINE] and capsys.readouterr() == ("", "")


@pytest.mark.parametrize("handler", [None, logging.NullHandler(), Kept(logging.WARNING)], ids=["no", "null", "errors"])
def test_without_a_handler_for_them_lines_are_printed(handler, logger, capsys):
    if handler is not None:
        logger.parent.addHandler(handler)
    log_progress(LINE[2])
    assert capsys.readouterr() == (f"[dimargin] {LINE[2]}\n", "")


def test_a_handler_above_that_the_logger_does_not_reach(logger, capsys):
    above = Kept()
    logger.parent.addHandler(above)
    logger.propagate = False
    log_progress("x")
    assert above.records == [] and capsys.readouterr().out == "[dimargin] x\n"


@pytest.mark.parametrize("handlers", [[], [Kept()]], ids=["no handler", "handler"])
def test_the_level_of_the_logger_silences_it(handlers, logger, capsys):
    logger.handlers = handlers
    logger.setLevel(logging.WARNING)
    log_progress("x")
    assert capsys.readouterr() == ("", "") and all(handler.records == [] for handler in handlers)


def test_the_library_sets_up_a_level_only_and_keeps_that_of_the_program():
    code = (
        "import logging, sys; own = logging.getLogger('dimargin'); own.setLevel(int(sys.argv[1]))\n"
        "import dimargin; dimargin.SVMClassifier(verbose=1).fit([[0], [1]] * 9, [0, 1] * 9)\n"
        "print(own.level, own.handlers, logging.getLogger().handlers, logging.getLogger().level)"
    )
    for given, level in ((logging.NOTSET, logging.INFO), (logging.ERROR, logging.ERROR)):
        done = subprocess.run([sys.executable, "-c", code, str(given)], capture_output=True, text=True, timeout=60)
        *lines, last = done.stdout.splitlines()
        assert last == f"{level} [] [] {logging.WARNING}" and done.stderr == ""
        assert [line.split(":")[0] for line in lines] == ["[dimargin] level 0"] * (level == logging.INFO)


def test_verbose_machines_log(logger, capsys):
    handler = Kept()
    logger.addHandler(handler)
    for name in ("SVMClassifier", "ODMClassifierCV", "LinearODMClassifier"):
        handler.records.clear()
        FITS[name]()
        assert {record[:2] for record in handler.records} == {LINE[:2]}
        assert handler.records[-1][2].startswith("round " if "CV" in name else "level 0: ")
    assert capsys.readouterr() == ("", "")
