"""Processes of ``dimargin site`` on loopback, for tests."""

import json
import signal
import subprocess
import sys

import numpy as np
from text_files import write_csv

from dimargin.gossip.sites.site_folder import SiteFolder

ALPHA = 5e-2
CORESET = ("--algorithm", "coreset", "--share-rows")
SITES = ["north", "east", "south", "west", "centre"]


class Site:
    """A process, which is gone when the test is."""

    def __init__(self, tmp_path, name, port, *flags, protocol="tcp", descriptors=None):
        self.tmp_path, self.name, self.folder = tmp_path, name, SiteFolder(tmp_path / name)
        address = f"{protocol}/127.0.0.1:{port}"
        where = ("--listen", address) if name == SITES[0] else ("--connect", address)
        self.command = [
            sys.executable, "-m", "dimargin", "site", "--data", str(tmp_path / f"{name}.csv"), "--name", name,
            "--folder", str(self.folder.path), "--interval", "0.01", "--log", str(tmp_path / f"{name}.log"), *where,
            *(() if "coreset" in flags else ("--alpha", str(ALPHA))),
            *(() if "--algorithm" in flags else ("--algorithm", "gadget")), *flags,
        ]  # fmt: skip
        if descriptors is not None:
            self.command = ["sh", "-c", f'ulimit -n {descriptors} && exec "$@"', "sh", *self.command]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)

    def status(self):
        try:
            return self.folder.read_status()
        except FileNotFoundError:
            return {"steps": 0, "refused": {}, "sites": {}, "neighbours": []}

    def log(self):
        path = self.tmp_path / f"{self.name}.log"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def end(self):
        code = self.process.wait(timeout=30)
        self.process.stderr.close()
        return code


def end(sites):
    for site in sites:
        site.process.send_signal(signal.SIGTERM)
    return [site.end() for site in sites]


def dealt_by_class(tmp_path, X, y):
    """Write the files of five sites, most of which hold one class; return the number of every row's site."""
    order, part = np.argsort(y, kind="stable"), np.empty(len(y), dtype=int)
    part[order] = np.arange(len(y)) * 5 // len(y)
    for k, name in enumerate(SITES):
        write_csv(tmp_path / f"{name}.csv", X[part == k], y[part == k])
    return part


def objective(X, y, model):
    signs = np.where(y == model.classes_[1], 1.0, -1.0)
    w = np.append(model.coef_[0], model.intercept_)
    return ALPHA / 2 * w @ w + np.maximum(0, 1 - signs * (X @ w[:-1] + w[-1])).mean()


def trusting(authority, name, *allowed):
    certificate, key = authority.member(name)
    flags = "--certificate", str(certificate), "--key", str(key), "--authority", str(authority.path)
    return *flags, *(f"--allow={other}" for other in allowed)


def told(site, what):
    return [entry for entry in site.log() if entry["what"] == what]


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "dimargin", "site", *arguments], capture_output=True, text=True)
