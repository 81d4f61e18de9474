"""Every input that ever failed is taken as it should be; every target runs; the driver sees what fails."""

import random
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from dimargin.io.data import csv_text, growing_file, libsvm, sniffing

from . import driver

KEPT = sorted(path for path in driver.CORPUS.glob("*/*") if path.is_file())


@pytest.fixture(autouse=True)
def sizes_of_readers(monkeypatch):
    """Restore what targets set to read in small blocks."""
    for module, *names in (
        (csv_text, "CHUNK", "_WIDE_COLUMNS"), (growing_file, "CHUNK", "_QUIET_SECONDS"), (libsvm, "CHUNK"),
        (sniffing, "SAMPLE_BYTES"),
    ):  # fmt: skip
        for name in names:
            monkeypatch.setattr(module, name, getattr(module, name))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_input_that_failed_once(path):
    assert driver.failure(driver.target(path.parent.name), path.read_bytes()) is None


@pytest.mark.parametrize("name", driver.NAMES)
def test_inputs_are_the_same_every_time(name):
    module = driver.target(name)
    one, other = (module.generate(random.Random("0/7")) for _ in range(2))
    assert isinstance(one, bytes) and one == other
    assert driver.failure(module, one) is None


@pytest.mark.slow
def test_hostile_messages_are_made_of_every_kind_that_sites_send():
    pytest.importorskip("msgspec")
    from dimargin.gossip.sites.admm_options import ADMMOptions
    from dimargin.gossip.sites.core_set_options import CoreSetOptions
    from dimargin.gossip.sites.gossip_options import GossipOptions

    programs = GossipOptions, CoreSetOptions, ADMMOptions
    kinds = {kind.__struct_config__.tag for options in programs for kind in options.messages}
    assert driver.target("messages").genuine_kinds() == {"card", "check"} | kinds


# ---- the driver ------------------------------------------------------------------------------------------------------


def refuse(data):
    raise ValueError("refused")


def linger(data):
    time.sleep(60)


def grow(data):
    """The peak is what the test says."""


@pytest.mark.parametrize(("check", "kind"), [(refuse, ValueError), (linger, TimeoutError), (grow, MemoryError)])
def test_what_fails(check, kind, monkeypatch):
    monkeypatch.setattr(driver, "SECONDS", 0.3)
    monkeypatch.setattr(driver, "peak", iter([0, 2**26]).__next__)
    monkeypatch.setattr(driver, "GROWTH", 2**25)
    assert type(driver.failure(SimpleNamespace(check=check), b"")) is kind


RUN = """
import os, sys, time
from pathlib import Path
from types import SimpleNamespace
from tests.fuzz import driver

def generate(rng):
    return str(rng.randrange(10)).encode()

def check(data):
    if data == b"3":
        raise ValueError("refused")
    if data == b"5":
        os.abort()
    if data == b"7":
        bytearray(2**31)
    if data == b"8":
        time.sleep(60)

driver.SECONDS, driver.CORPUS = 0.3, driver.FOLDER.parent.parent / sys.argv[1]
driver.target = lambda name: SimpleNamespace(generate=generate, check=lambda data: ready and check(data))
ready = []
work = driver._work
def _work(*arguments):
    ready.clear()
    original = driver.failure
    driver.failure = lambda *given: (ready.append(1), original(*given))[1]
    work(*arguments)
driver._work = _work
print("failures", driver.run("digits", 0, 60.0, 60, 0))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="a limit of addresses")
def test_a_target_that_dies_is_started_again(tmp_path):
    root = driver.FOLDER.parent.parent
    done = subprocess.run([sys.executable, "-c", RUN, tmp_path], cwd=root, capture_output=True, text=True, timeout=300)
    digits = [str(random.Random(f"0/digits/{k}").randrange(10)) for k in range(60)]
    expected = sum(digit in "3578" for digit in digits)
    assert f"failures {expected}\n" in done.stdout and set("3578") <= set(digits), done.stdout + done.stderr
    assert "digits: 60 inputs of seed 0" in done.stdout
    kept = {path.read_bytes() for path in (tmp_path / "digits").iterdir()}
    assert kept == {b"3", b"5", b"7", b"8"}
