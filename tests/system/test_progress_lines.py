"""Progress that cannot be printed, which ends no fit."""

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_moons

import dimargin as dm
from dimargin.io.libsvm.train_c_svc import OneVsOne
from dimargin.system.progress_lines import print_progress

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


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", FITS)
def test_progress_that_cannot_be_printed_ends_no_fit(name, monkeypatch):
    monkeypatch.setattr(sys, "stdout", Gone())
    with pytest.raises(BrokenPipeError):
        print("x")
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
