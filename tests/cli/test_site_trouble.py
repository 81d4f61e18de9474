"""Trouble of ``dimargin site`` in real processes: mistakes of its owner, full disks, no neighbours, idle strangers."""

import contextlib
import socket
import subprocess
import sys
from functools import partial

import pytest
from authority import Authority
from site_processes import CORESET, SITES, end, run, told, trusting
from text_files import write_csv
from waiting import wait_for

from dimargin.gossip.sites.site_folder import SiteFolder

pytest.importorskip("zenoh", reason="eclipse-zenoh is not installed: pip install 'dimargin[peers]'")


@pytest.mark.slow
def test_a_site_that_meets_nobody_waits_and_says_so(started, rows, tmp_path):
    write_csv(tmp_path / "east.csv", *rows)
    site = started("east", "--settle", "0.5")  # nobody listens
    wait_for(lambda: told(site, "waiting for others"), "a word about it")
    assert site.status()["steps"] == 0 and end([site]) == [0]
    assert not site.folder.model.exists()


def test_an_address_that_is_taken_is_a_line(tmp_path, rows):
    write_csv(tmp_path / "a.csv", rows[0][:9], rows[1][:9])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"tcp/127.0.0.1:{taken.getsockname()[1]}"
        found = run(
            "--data", str(tmp_path / "a.csv"), "--name", "a", "--folder", str(tmp_path / "a"), "--listen", address
        )
    assert found.returncode == 1 and found.stderr.count("\n") == 1
    assert found.stderr.startswith(f"dimargin: site a cannot open its link ({address}): Address already in use")
    assert "choose another port" in found.stderr


@pytest.mark.slow
def test_a_log_on_a_full_disk_ends_nothing(tmp_path, rows):
    """And neither does one that nobody reads any more."""
    write_csv(tmp_path / "a.csv", *rows)
    arguments = [sys.executable, "-m", "dimargin", "site", "--data", str(tmp_path / "a.csv"), "--name", "a",
                 "--folder", str(tmp_path / "a"), "--settle", "0.2"]  # fmt: skip
    folder = SiteFolder(tmp_path / "a")

    def has_learnt(pid):
        status = folder.read_status() if folder.status.exists() else {}
        return status.get("process") == pid and status["steps"] > 0

    for log in (["--log", "/dev/full"], []):
        with subprocess.Popen([*arguments, *log], stderr=subprocess.PIPE) as site:
            site.stderr.close()
            wait_for(partial(has_learnt, site.pid), "steps")
            site.terminate()
        assert site.returncode == 0


def test_a_line_of_the_log_is_whole_or_not_there(tmp_path):
    """The file may have 1,000 bytes, then more: what a full disk lets through of a line is taken back."""
    script = """
import errno, resource, sys
from pathlib import Path
from dimargin.cli.site import log_lines
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
with log_lines(Path(sys.argv[1])) as write:
    for k in range(4):
        try:
            write(f"{k}" * 399 + chr(10))
        except OSError as error:
            print(k, error.errno == errno.ENOSPC)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""
    log = tmp_path / "log"
    found = subprocess.run([sys.executable, "-c", script, str(log)], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["2", "True"]
    assert [(line[0], len(line)) for line in log.read_text().split()] == [("0", 399), ("1", 399), ("3", 399)]


@pytest.mark.slow
def test_idle_strangers_end_no_site_and_it_recovers(tmp_path, started, rows):
    """They take all descriptors that there are; those who have met stay together."""
    authority = Authority(tmp_path, "authority")
    X, y = rows
    for k, name in enumerate(SITES[:3]):
        write_csv(tmp_path / f"{name}.csv", X[k::3], y[k::3])

    def member(name):
        return started(name, *trusting(authority, name, *SITES[:3]), "--settle", "0.5", protocol="tls", descriptors=128)

    north, east = map(member, SITES[:2])
    wait_for(lambda: min(site.status()["steps"] for site in (north, east)) > 5, "steps")
    with contextlib.ExitStack() as crowd:
        for _ in range(150):
            stranger = crowd.enter_context(socket.socket())
            stranger.setblocking(False)
            stranger.connect_ex(("127.0.0.1", started.port))
        wait_for(lambda: "no descriptor is free" in north.status()["trouble"], "the strangers to fill the site")
        before, began = north.status(), north.folder.state.stat().st_mtime
        wait_for(lambda: north.status()["steps"] > before["steps"] + 30, "steps among strangers")
        assert north.folder.state.stat().st_mtime > began and north.status()["neighbours"] == ["east"]
        write_csv(tmp_path / "north.csv", X[:9], y[:9], mode="a")
        wait_for(lambda: north.status()["rows"] == before["rows"] + 9, "rows appended among strangers")
    south = member("south")
    wait_for(lambda: north.status()["neighbours"] == ["east", "south"], "a new site once they have gone")
    wait_for(lambda: not north.status()["trouble"], "an end of trouble")
    assert [entry["with"] for entry in told(north, "trouble")] == ["link"]
    assert end([north, east, south]) == [0] * 3


@pytest.mark.slow
def test_mistakes_are_a_line(tmp_path, rows):
    write_csv(tmp_path / "a.csv", rows[0][:9], rows[1][:9])
    data = ("--data", str(tmp_path / "a.csv"), "--name", "a", "--folder", str(tmp_path / "a"))
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "status.json").write_text('{"site": "a", "neighbours": 3}')
    for flags, text in (
        (("--name", "a", "--folder", str(tmp_path / "none"), "--status"), "no site has run in this folder"),
        (("--name", "a", "--folder", str(tmp_path / "odd"), "--status"), "status.json is damaged"),
        (("--name", "a", "--folder", str(tmp_path / "odd"), "--page", str(tmp_path / "page")), "the status is damaged"),
        ((*data, "--metrics", "nowhere"), "--metrics must be a port or ADDRESS:PORT"),
        ((*data, "--alpha", "-1"), "--alpha must be a number above 0, got -1.0"),
        ((*data, "--alpha", "1e-60"), "alpha must be in [1e-50, 1e+50], got 1e-60"),
        ((*data, "--share-rows"), "--share-rows cannot be used with --algorithm admm"),
        ((*data, "--algorithm", "coreset"), "--algorithm coreset sends the rows of this site's core-set"),
        ((*data, *CORESET, "--alpha", "1"), "--alpha is not a parameter of --algorithm coreset"),
        ((*data, "--kind", "svdd"), "--kind is not a parameter of --algorithm admm"),
        ((*data, *CORESET, "--C", "1e51"), "C must be in [1e-50, 1e+50], or infinite for svm and svdd; got 1e+51"),
        (
            (*data, *CORESET, "--kind", "one-class", "--C", "inf"),
            "C must be in [1e-50, 1e+50], or infinite for svm and svdd; got inf",
        ),
        ((*data, *CORESET, "--gamma", "0"), "--gamma must be a number above 0, got 0.0"),
        (
            (*data, "--certificate", str(tmp_path / "a.csv")),
            "--certificate needs --key and --authority and --allow too",
        ),
        (
            (*data, *trusting(Authority(tmp_path, "authority"), "a", "b"), "--connect", "tls/127.0.0.1:1", "--router"),
            "--router with certificates needs --router-name",
        ),
        ((*data, "--router-name", "r"), "--router-name needs --router"),
        ((*data, "--connect", "nowhere"), "expected an address such as tcp/192.0.2.1:7447, got 'nowhere'"),
    ):
        found = run(*flags)
        assert found.returncode == 1 and text in found.stderr and "Traceback" not in found.stderr
