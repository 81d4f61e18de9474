"""Learning without a centre: a9a with a constant feature, alpha=1e-4, ten sites, beside LIBLINEAR and plain GADGET.

Usage: bench_gossip.py [accuracy] [speed] [mixing] [real] [--repeats R] [--processes N ...] [--compression C] [--liar]

accuracy: GossipSVMClassifier as it is by default (at most 2,000 rounds, it stops by itself), on a
complete graph and a ring, with shards of equal and very unequal sizes, random and sorted by label;
without faults, with a fifth of all messages lost, and with two of the ten sites down for 200
rounds. Of the worst site: how far its objective is above that of LIBLINEAR (hinge loss, tol=1e-8),
last iterate and average over all steps, and by how many points its accuracy on a9a.t is below
LIBLINEAR's. Plain GADGET (local gradients, one round, Pegasos steps) for 2,000 rounds beside it.
speed: messages of two numbers a second that the simulator carries, encoded and decoded. mixing:
rounds of Push-Sum to a millionth beside the mixing time. real: processes on loopback, one of them
killed and started again, beside the simulator with the same shards; seconds, bytes and memory of a
process. With --liar the last process lies from its 100th step on (lying_site.py); the others are
then compared with a simulation of their own rows.
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
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from common import describe, heading, load, resident, table, timed
from sklearn.datasets import dump_svmlight_file
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

import dimargin as dm
from dimargin.gossip.programs.average import Average
from dimargin.gossip.simulation.conditions import Conditions, LinkFaults, Outage
from dimargin.gossip.simulation.simulator import Simulator
from dimargin.gossip.topology import make_graph, mixing_rounds, uniform_weights

ALPHA = 1e-4
SHARDS = ("random", "unequal", "sorted", "sorted_unequal")
FAULTS = {
    "none": None,
    "20% lost": Conditions(LinkFaults(loss=0.2)),
    "2 of 10 down": Conditions(outages=(Outage("site2", 300.0, 500.0), Outage("site7", 300.0, 500.0))),
}
PLAIN = {"gradient": "local", "step_size": "pegasos", "gossip_rounds": 1, "tol": 1e-12}


def rows(name):
    """With a constant feature, and signs."""
    X, y = load(name)
    X = np.pad(X, ((0, 0), (0, 123 - X.shape[1])))
    return sp.csr_array(np.column_stack([X, np.ones(len(X))])), np.where(y > 0, 1, -1)


def objective(X, y, w):
    return ALPHA / 2 * w @ w + np.maximum(0, 1 - y * (X @ w)).mean()


def central(X, y):
    """LIBLINEAR's weights."""
    machine = LinearSVC(loss="hinge", C=1 / (ALPHA * len(y)), fit_intercept=False, tol=1e-8, max_iter=10**6)
    return machine.fit(X, y).coef_[0]


# ---- accuracy --------------------------------------------------------------------------------------------------------


def accuracy(repeats):
    (X, y), (X_test, y_test) = rows("a9a"), rows("a9a.t")
    best = central(X, y)
    least, right = objective(X, y, best), np.mean((X_test @ best > 0) == (y_test > 0))
    print(f"LIBLINEAR: objective {least:.6f}, accuracy on a9a.t {100 * right:.2f}%\n", flush=True)

    def of_worst(weights):
        above = 100 * (max(objective(X, y, w) for w in weights) / least - 1)
        return above, 100 * (right - min(np.mean((X_test @ w > 0) == (y_test > 0)) for w in weights))

    lines = []
    for topology in ("complete", "ring"):
        for shards in SHARDS:
            for fault, conditions in [*FAULTS.items(), ("plain GADGET", None)]:
                plain = PLAIN if fault == "plain GADGET" else {}
                found = []
                for seed in range(1 if plain else repeats):
                    machine = dm.GossipSVMClassifier(
                        topology=topology, shards=shards, alpha=ALPHA, conditions=conditions, random_state=seed, **plain
                    )
                    seconds, _ = timed(machine.fit, X, y)
                    last, averaged = of_worst(machine.site_coef_), of_worst(machine.site_average_coef_)
                    sent, gap = machine.history_[-1]["bytes"] / 1e6, 100 * machine.duality_gap_
                    found.append((machine.n_iter_, *last, *averaged, gap, sent, seconds))
                lines.append([topology, shards, fault, *map(describe, zip(*found, strict=True))])
                print("| " + " | ".join(lines[-1]) + " |", file=sys.stderr, flush=True)
    print(table(["graph", "shards", "faults", "rounds", "% above", "points below", "% above, averaged",
                 "points below, averaged", "certified: % at most", "MB", "seconds"], lines), end="\n\n")  # fmt: skip


# ---- the simulator ---------------------------------------------------------------------------------------------------


def averages(n, topology, conditions=None):
    values = np.random.default_rng(0).normal(size=n) + 3
    sites = {f"site{i}": lambda v=v: Average(np.array([v])) for i, v in enumerate(values)}
    return values, Simulator(sites, make_graph(topology, n, 0), conditions)


def speed(repeats):
    lines = []
    for n, topology, name, conditions in (
        (200, "torus", "synchronous", None),
        (500, "small_world", "synchronous", None),
        (200, "torus", "asynchronous, 20% lost", Conditions.asynchronous(loss=0.2)),
    ):
        rates = []
        for _ in range(repeats):
            _, simulator = averages(n, topology, conditions)
            seconds, _ = timed(simulator.run, until=200)
            rates.append(simulator.counts["messages"] / seconds / 1000)
        lines.append([f"{n} sites, {topology}", name, describe(rates)])
    print(table(["network", "events", "thousand messages a second"], lines), end="\n\n", flush=True)


def mixing():
    lines = []
    for topology in ("complete", "ring", "grid", "torus", "star", "random_regular", "small_world"):
        for n in (16, 64):
            values, simulator = averages(n, topology)
            rounds, worst = 0, 1.0
            while worst > 1e-6:
                rounds += 1
                simulator.run(until=rounds + 0.75)
                estimates = [program.estimate[0] for program in simulator.programs.values()]
                worst = np.abs(np.array(estimates) / values.mean() - 1).max()
            lines.append(
                [topology, str(n), str(rounds), f"{mixing_rounds(uniform_weights(make_graph(topology, n, 0))):.0f}"]
            )
    print(table(["graph", "sites", "rounds to 1e-6", "mixing time"], lines), end="\n\n", flush=True)


# ---- processes -------------------------------------------------------------------------------------------------------


def status(folder):
    path = Path(folder, "status.json")
    return json.loads(path.read_text()) if path.exists() else {"steps": 0}


def real(n_sites, steps, interval, compression, has_liar):
    """Random shards; the first site listens, all others connect to it; the last may be one that lies."""
    (X, y), site = rows("a9a"), None
    site = np.random.default_rng(0).permutation(len(y)) % n_sites
    with tempfile.TemporaryDirectory() as folder, socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        address = f"tcp/127.0.0.1:{sock.getsockname()[1]}"
        sock.close()
        commands, names = [], [f"s{k}" for k in range(n_sites)]
        for k, name in enumerate(names):
            dump_svmlight_file(X[site == k][:, :-1], y[site == k], f"{folder}/{name}.libsvm", zero_based=False)
            lies = has_liar and k == n_sites - 1
            program = [str(Path(__file__).with_name("lying_site.py"))] if lies else ["-m", "dimargin", "site"]
            commands.append([sys.executable, *program, "--data", f"{folder}/{name}.libsvm",
                             "--name", name, "--folder", f"{folder}/{name}", "--log", f"{folder}/{name}.log",
                             "--sites", str(n_sites), "--interval", str(interval), "--algorithm", "gadget",
                             "--compression", "none" if lies else compression,
                             "--lease", str(max(2.0, 20 * interval)),
                             "--listen" if k == 0 else "--connect", address])  # fmt: skip
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        began = time.perf_counter()
        running = [subprocess.Popen(command, env=environment) for command in commands]

        honest = names[: n_sites - has_liar]

        def wait(least):
            while min(status(f"{folder}/{name}")["steps"] for name in honest) < least:
                time.sleep(0.5)

        wait(1)
        learning = time.perf_counter()
        wait(steps // 3)
        running[1].kill()
        running[1].wait()
        running[1] = subprocess.Popen(commands[1], env=environment)
        wait(steps)
        seconds, memory = time.perf_counter() - learning, [resident(process.pid) / 1024 for process in running]
        sent = sum(status(f"{folder}/{name}")["bytes_out"] for name in names) / 1e6
        refused = [status(f"{folder}/{name}")["refused"].get(names[-1], "") for name in honest] if has_liar else []
        for process in running:
            process.send_signal(signal.SIGTERM)
        for process in running:
            process.wait()
        models = [dm.load(f"{folder}/{name}/model.dimargin")[-1] for name in honest]
    X, y, site = X[site < len(honest)], y[site < len(honest)], site[site < len(honest)]
    simulated = dm.GossipSVMClassifier(
        n_sites=len(honest), alpha=ALPHA, shards=site, compression=compression, random_state=0
    )
    simulated.fit(X, y)
    expected = objective(X, y, simulated.coef_[0])
    found = [objective(X, y, np.append(model.coef_[0], model.intercept_)) / expected - 1 for model in models]
    least = objective(X, y, central(X, y))
    if has_liar:
        print(f"the last lies from its 100th step on; {sum(map(bool, refused))} of {len(honest)} others refuse it, for "
              f"example as: {next(filter(None, refused), 'nothing')}")  # fmt: skip
    print(f"{n_sites} processes, the second killed by -9 and started again after {steps // 3} of {steps} steps, a "
          f"round every {interval} s: objective {100 * min(found):.2f} to {100 * max(found):.2f}% above the "
          f"simulator's, which is {100 * (expected / least - 1):.2f}% above LIBLINEAR's; {learning - began:.1f} s to "
          f"agree and begin, {seconds:.1f} s to learn, {sent:.0f} MB sent, {describe(memory)} MB of memory each",
          flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["accuracy", "speed", "mixing", "real"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--processes", type=int, nargs="+", default=[5])
    parser.add_argument("--compression", default="none", help="of the messages of real processes")
    parser.add_argument("--liar", action="store_true", help="the last of the real processes lies")
    options = parser.parse_args()
    heading(__doc__)
    warnings.simplefilter("ignore", ConvergenceWarning)
    if "speed" in options.parts:
        speed(options.repeats)
    if "mixing" in options.parts:
        mixing()
    if "accuracy" in options.parts:
        accuracy(options.repeats)
    if "real" in options.parts:
        for n_sites in options.processes:
            steps, interval = (600, 0.02) if n_sites <= 5 else (400, 0.5)
            real(n_sites, steps, interval, options.compression, options.liar)


if __name__ == "__main__":
    main()
