"""Processes of ``dimargin site`` on loopback, in a ring: bytes until every site's model is near the optimum.

Usage: bench_sites.py [--data a9a] [--shards random sorted] [--processes 10] [--interval 0.2] [--max-time 120]
                      [--test a9a.t] [--emulated PYTHON] [flags of dimargin site]

All messages count, from the first on: those by which sites agree on a schema, rounds and certificates.
Every second, each site writes its status, with the bytes that it has sent and the objective of its
model over all rows; a row of the table says how many bytes all sites together had sent, by these, when
every model was within 1% and 0.1% of the optimum (of LIBLINEAR, tol=1e-8; the features scaled as the
sites scale them, with a constant feature), and when all had stopped by their certificate. With --test,
the accuracies of the final models on the rows of another data set, or on a share of these rows, such as
0.2, which no site gets: smallest and largest.

With --emulated, the first site runs on that Python, such as the one for 64-bit ARM which `.ci/arm64` unpacks
and qemu emulates: build/arm64/system/usr/bin/python. Its memory is that of the emulated program, the
largest of all samples, without what qemu needs for itself.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from common import heading, load, resident, table
from sklearn.datasets import dump_svmlight_file
from sklearn.svm import LinearSVC

import dimargin as dm
from dimargin.gossip.simulation.gossip_run import deal

ALPHA = 1e-4  # The default of sites.


def optimum(X, signs):
    """The least objective of a linear machine on rows that are scaled like those of sites."""
    size = np.abs(X).max(axis=0)
    size = size.toarray().ravel() if sp.issparse(size) else size
    wide = sp.csr_array(sp.hstack([X / np.where(size > 0, size, 1.0), np.ones((X.shape[0], 1))]))
    machine = LinearSVC(loss="hinge", C=1 / (ALPHA * len(signs)), fit_intercept=False, tol=1e-8, max_iter=10**6)
    w = machine.fit(wide, signs).coef_[0]
    return ALPHA / 2 * w @ w + np.maximum(0, 1 - signs * (wide @ w)).mean()


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def started(folder, X, y, site, options, flags):
    """The processes, each of which is connected to the next and the last one."""
    n, ports = options.processes, free_ports(options.processes)
    names, running = [f"s{k:03}" for k in range(n)], []
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    for k, name in enumerate(names):
        is_emulated = k == 0 and options.emulated is not None
        python = options.emulated if is_emulated else sys.executable
        dump_svmlight_file(X[site == k], y[site == k], f"{folder}/{name}.libsvm", zero_based=False)
        others = sorted({(k - 1) % n, (k + 1) % n})
        command = [python, "-m", "dimargin", "site", "--data", f"{folder}/{name}.libsvm", "--name", name,
                   "--folder", f"{folder}/{name}", "--log", f"{folder}/{name}.log", "--sites", str(n),
                   "--interval", str(options.interval), "--lease", str(max(5.0, 20 * options.interval)),
                   "--listen", f"tcp/127.0.0.1:{ports[k]}", *flags]  # fmt: skip
        for other in others:
            command += ["--neighbour", names[other], "--connect", f"tcp/127.0.0.1:{ports[other]}"]
        own = {key: value for key, value in environment.items() if key != "PYTHONPATH" or not is_emulated}
        running.append(subprocess.Popen(command, env=own))
    return names, running


def emulated_memory(pid):
    """Resident kilobytes of an emulated program: qemu 7.2 maps those of 64 bits below 2^40, and itself above."""
    found, is_program = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        first, *others = line.split()
        if not first.endswith(":"):
            is_program = int(first.partition("-")[0], 16) < 2**40
        elif first == "Rss:" and is_program:
            found += int(others[0])
    return found


def statuses(folder, names):
    found = []
    for name in names:
        path = Path(folder, name, "status.json")
        found.append(json.loads(path.read_text()) if path.exists() else {"bytes_out": 0, "objective": []})
    return found


def reached(now, within):
    """Return whether every site has a model whose objective is at most `within`."""
    return all(len(one.get("objective", [])) == 1 and one["objective"][0] <= within for one in now)


def trial(X, y, shards, best, options, flags, test):
    site = deal(shards, (y > y.min()).astype(int), np.random.default_rng(0).permutation(len(y)), options.processes)
    goals = {} if best is None else {"1%": 1.01 * best, "0.1%": 1.001 * best}
    with tempfile.TemporaryDirectory() as folder:
        names, running = started(folder, X, y, site, options, flags)
        sent, began, emulated = {}, time.perf_counter(), 0
        try:
            while time.perf_counter() - began < options.max_time:
                time.sleep(0.25)
                if options.emulated is not None:
                    emulated = max(emulated, emulated_memory(running[0].pid))
                now = statuses(folder, names)
                total = sum(one["bytes_out"] for one in now)
                for goal, within in goals.items():
                    if goal not in sent and reached(now, within):
                        sent[goal] = total
                if all(one.get("converged") for one in now):
                    sent["stopped"] = total
                    break
            native = running[options.emulated is not None :]
            seconds, memory = time.perf_counter() - began, max(resident(one.pid, peak=True) for one in native) / 1024
        finally:
            for one in running:
                one.send_signal(signal.SIGTERM)
            for one in running:
                one.wait()
        models = [dm.load(f"{folder}/{name}/model.dimargin") for name in names]
    scores = [model.score(*test) for model in models] if test is not None else []
    shown = [f"{sent[goal] / 1e3:,.0f}" if goal in sent else "no" for goal in ("1%", "0.1%", "stopped")]
    accuracy = f"{100 * min(scores):.2f} to {100 * max(scores):.2f}" if scores else ""
    rounds, gap = max(one["round"] for one in now), models[0][-1].duality_gap_
    return [
        shards,
        *shown,
        f"{total / 1e3:,.0f}",
        str(rounds),
        f"{gap:.1e}",
        f"{seconds:.0f}",
        f"{memory:.0f}",
        f"{emulated / 1024:.0f}" if emulated else "",
        f"{now[0]['bytes_out'] / 1e3:,.0f}",
        accuracy,
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="a9a")
    parser.add_argument("--test")
    parser.add_argument("--shards", nargs="+", default=["random", "sorted"])
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--interval", type=float, default=0.2)
    parser.add_argument("--max-time", type=float, default=120.0)
    parser.add_argument("--emulated", metavar="PYTHON")
    options, flags = parser.parse_known_args()
    heading(__doc__)
    X, y = load(options.data)
    X = sp.csr_array(X)
    test = None
    if options.test is not None and options.test.replace(".", "", 1).isdigit():
        order = np.random.default_rng(1).permutation(len(y))
        n = round(float(options.test) * len(y))
        test, X, y = (X[order[:n]].toarray(), y[order[:n]]), X[order[n:]], y[order[n:]]
    elif options.test is not None:
        Z, z = load(options.test)
        test = np.pad(np.asarray(Z), ((0, 0), (0, max(0, X.shape[1] - Z.shape[1]))))[:, : X.shape[1]], z
    is_linear = "--kernel" not in flags and "--loss-function" not in flags and "--alpha" not in flags
    best = optimum(X, np.where(y > y.min(), 1.0, -1.0)) if is_linear else None
    print(f"{options.data}: {X.shape[0]} rows, {options.processes} processes, a round every {options.interval} s")
    rows = [trial(X, y, shards, best, options, flags, test) for shards in options.shards]
    head = (
        "shards",
        "kB to 1%",
        "kB to 0.1%",
        "kB until stopped",
        "kB in all",
        "rounds",
        "gap",
        "s",
        "MB",
        "MB emulated",
        "kB of the first",
        "accuracy, %",
    )
    print(table(head, rows))


if __name__ == "__main__":
    main()
