"""Fits while two other processes keep the processors busy, over the same fits while they do not, in turn.

The scheduler shares two processors evenly among all that run: a fit that always has two threads
running would take twice as long, one with a single thread half as long again.
"""

import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial

import numpy as np
from common import describe, heading, load, seconds_of, table
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import dimargin as dm

N_ROWS, ROUNDS, FITS = 10_000, 5, 3


@contextmanager
def busy(n_processes=2):
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n_processes)]
    try:
        time.sleep(0.3)  # until they have begun
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def main():
    heading(__doc__)
    rows = []
    for name, lam in (("cod-rna", 1e5), ("ijcnn1", 1e5)):
        X, y = load(name)
        some = np.random.default_rng(0).permutation(len(y))[:N_ROWS]
        X, y = StandardScaler().fit_transform(X[some]), y[some]
        machines = {f"ODM, lam={lam:g}": dm.ODMClassifier(lam=lam), "SVC, C=10": SVC(C=10.0)}
        for title, machine in machines.items():
            machine.fit(X, y)
            quiet, beside = [], []
            for _ in range(ROUNDS):
                quiet += seconds_of(partial(machine.fit, X, y), FITS)
                with busy():
                    beside += seconds_of(partial(machine.fit, X, y), FITS)
            ratio = np.median(beside) / np.median(quiet)
            rows.append([f"{name}, {N_ROWS} rows", title, describe(quiet), describe(beside), f"{ratio:.2f}"])
    print(table(["rows", "machine", "quiet, s", "beside two busy processes, s", "ratio"], rows))


if __name__ == "__main__":
    main()
