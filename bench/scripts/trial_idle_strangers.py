"""A site with certificates to which 2,000 strangers connect: they stay silent, and come back when they are dropped.

Usage: trial_idle_strangers.py [--seconds 120] [--strangers 2000] [--descriptors 1024]

Three sites learn by gossip over TLS on this machine. The first may have so many descriptors, hard
and soft, and the others connect to it. Half of the strangers send nothing, half the beginning of a
handshake. After half of the time a fourth site joins, if need be once the strangers have gone.
"""

import argparse
import contextlib
import json
import os
import resource
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
from common import heading, resident, table

HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"  # the beginning of a TLS handshake
NAMES = "north", "east", "south", "west"
PATIENCE = 600.0  # seconds in which a site that joins must be met


def openssl(folder, *arguments):
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def certificates(folder):
    """Make those of an authority and all sites, as docs/network.md says."""
    curve = "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"
    openssl(folder, "req", "-x509", *curve, "-days", "9", "-subj", "/CN=authority", "-keyout", "authority.key",
            "-out", "authority.pem")  # fmt: skip
    (folder / "extensions").write_text("basicConstraints=CA:FALSE")
    for name in NAMES:
        openssl(folder, "req", *curve, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "authority.pem", "-CAkey", "authority.key",
                "-CAcreateserial", "-days", "9", "-out", f"{name}.pem", "-extfile", "extensions")  # fmt: skip


class Site:
    """A process of `dimargin site`."""

    def __init__(self, folder, name, port, descriptors):
        self.folder, self.name = folder / name, name
        rng = np.random.default_rng(len(name))
        X = rng.normal(size=(200, 3))
        rows = np.column_stack([X, X[:, 0] + 0.3 * rng.normal(size=200) > 0])
        np.savetxt(folder / f"{name}.csv", rows, delimiter=",", header="a,b,c,class", comments="")
        where = "--listen" if name == NAMES[0] else "--connect"
        others = [flag for other in NAMES if other != name for flag in ("--allow", other)]
        self._command = [
            sys.executable, "-m", "dimargin", "site", "--name", name, "--data", str(folder / f"{name}.csv"),
            "--folder", str(self.folder), "--log", str(folder / f"{name}.log"), where, f"tls/127.0.0.1:{port}",
            "--certificate", str(folder / f"{name}.pem"), "--key", str(folder / f"{name}.key"),
            "--authority", str(folder / "authority.pem"), *others,
        ]  # fmt: skip
        self._limit, self._log = (descriptors, descriptors), folder / f"{name}.log"
        self.start()

    def start(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, self._limit)

        self.process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True, preexec_fn=limit)

    def status(self):
        """Return the status that the site has written, and the ages of its status and state in seconds."""
        try:
            found = json.loads((self.folder / "status.json").read_text())
            ages = [time.time() - (self.folder / name).stat().st_mtime for name in ("status.json", "state")]
        except FileNotFoundError:
            return {"neighbours": [], "steps": 0, "ages": [0.0, 0.0]}
        return {**found, "ages": ages}

    def memory(self):
        return resident(self.process.pid) / 1024

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def lines(self, *kinds):
        return [line for line in map(json.loads, self._log.read_text().splitlines()) if line["what"] in kinds]

    def end(self):
        self.process.terminate()
        return self.process.wait(30)


def strangers(port, n, seconds):
    """Keep n connections, and say how many were dropped."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    selector, missing, dropped, end = selectors.DefaultSelector(), n, 0, time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(min(missing, 200)):
            stranger = socket.socket()
            stranger.setblocking(False)
            stranger.connect_ex(("127.0.0.1", port))
            selector.register(stranger, selectors.EVENT_WRITE, missing % 2)
            missing -= 1
        for key, _ in selector.select(0.1):
            stranger = key.fileobj
            try:
                if key.events == selectors.EVENT_WRITE:  # it is connected
                    if key.data:
                        stranger.send(HELLO)
                    selector.modify(stranger, selectors.EVENT_READ)
                    continue
                is_open = bool(stranger.recv(4096))
            except OSError:
                is_open = False
            if not is_open:
                selector.unregister(stranger)
                stranger.close()
                missing += 1
                dropped += 1
    return dropped


def watch(site, seconds, join):
    """Look at a site every second, and let another join after half of the time; return what was seen."""
    began, looks, met, oldest, steps = time.monotonic(), 0, dict.fromkeys(NAMES[1:], 0), [0.0, 0.0], []
    while (passed := time.monotonic() - began) < seconds:
        time.sleep(1)
        if site.process.poll() is not None:
            sys.exit(f"the site has ended after {passed:.0f} s: {site.process.stderr.read()}")
        if passed > seconds / 2 and join is not None:
            join()
            join = None
        status = site.status()
        looks += 1
        for name in status["neighbours"]:
            met[name] += 1
        oldest = np.maximum(oldest, status["ages"])
        steps.append(status["steps"])
    return {name: count / looks for name, count in met.items()}, oldest, steps


def trial(folder, options):
    """Return the rows of the table."""
    certificates(folder)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with contextlib.ExitStack() as ends:
        sites = []

        def start(name):
            sites.append(Site(folder, name, port, options.descriptors))
            ends.callback(sites[-1].process.kill)

        for name in NAMES[:3]:
            start(name)
        first = sites[0]
        while len(first.status()["neighbours"]) < 2:
            time.sleep(0.5)
        before = first.memory()
        crowd = subprocess.Popen(
            [sys.executable, __file__, "strangers", str(port), str(options.strangers), str(options.seconds)],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        ends.callback(crowd.kill)
        met, oldest, steps = watch(first, options.seconds, lambda: start("west"))
        held, after = first.descriptors(), first.memory()
        dropped, left = crowd.communicate()[0].strip(), time.monotonic()
        while "west" not in first.status()["neighbours"] and time.monotonic() < left + PATIENCE:
            time.sleep(0.2)
        waited, trouble = time.monotonic() - left, first.lines("trouble", "broken", "refused")
        codes = [site.end() for site in sites]
    return [
        ["seconds with strangers", f"{options.seconds:.0f}"],
        ["strangers, descriptors", f"{options.strangers}, {options.descriptors}"],
        ["steps in these seconds, longest pause in seconds", f"{steps[-1] - steps[0]}, {pause(steps)}"],
        *([f"share of the seconds with {name}", f"{met[name]:.1%}"] for name in NAMES[1:]),
        ["age of the status and state at most, in seconds", " and ".join(f"{age:.1f}" for age in oldest)],
        ["descriptors in use at the end", str(held)],
        ["memory before and after, in MB", f"{before:.0f}, {after:.0f}"],
        ["strangers dropped", dropped],
        ["seconds until west is met once they have gone", f"{waited:.1f}"],
        ["trouble", "; ".join(sorted({f"{one['what']}: {one['reason']}" for one in trouble})) or "none"],
        ["lines about trouble", str(len(trouble))],
        ["exit status of the sites", ", ".join(map(str, codes))],
    ]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--strangers", type=int, default=2000)
    parser.add_argument("--descriptors", type=int, default=1024)
    options = parser.parse_args()
    heading(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        print(table(["what", "found"], trial(Path(folder), options)))


def pause(steps):
    """Return the longest time without a step, in seconds."""
    longest = run = 0
    for one, next_one in pairwise(steps):
        run = run + 1 if next_one == one else 0
        longest = max(longest, run)
    return longest


if __name__ == "__main__":
    if sys.argv[1:2] == ["strangers"]:
        print(strangers(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
    else:
        main()
