"""How long Ctrl-C takes to be answered during a fit of 300,000 rows x 54 columns, in the middle of the work."""

import _thread
import signal
import threading
import time

import numpy as np
from common import describe, heading, table
from sklearn.datasets import make_classification

import dimargin as dm

DELAYS = (0.3, 1.0, 2.0, 4.0, 6.0, 8.0)


def latency(machine, X, y, delay):
    sent = []

    def press():
        sent.append(time.perf_counter())
        _thread.interrupt_main()

    timer = threading.Timer(delay, press)
    timer.start()
    try:
        machine.fit(X, y)
    except KeyboardInterrupt:
        return time.perf_counter() - sent[0]
    raise RuntimeError("the fit ended before it was interrupted")


def main():
    heading(__doc__)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what it runs in the background ignore it
    X, y = make_classification(300_000, 54, n_informative=20, flip_y=0.2, random_state=0)
    X = X.astype(np.float32)
    rows = []
    for strategy in ("exact", "diodm"):
        machine = dm.ODMClassifier(strategy=strategy, lam=1e6, tol=1e-6, random_state=0)
        rows.append([strategy, describe([latency(machine, X, y, delay) for delay in DELAYS])])
    print(table(["strategy", "seconds from Ctrl-C to KeyboardInterrupt"], rows))


if __name__ == "__main__":
    main()
