"""Printing, timing, memory and data that all benchmarks share."""

import ctypes
import os
import platform
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import scipy
import sklearn
from sklearn.datasets import load_svmlight_file
from threadpoolctl import threadpool_info

import dimargin
from dimargin import _core


def machine():
    """Processor, cores and instruction set in use."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":")[1].strip() if names else model
    return f"{model}, {os.cpu_count()} cores, tiles for {_core.instruction_set()}, {_core.max_threads()} OpenMP threads"


def versions():
    """Versions of what is compared."""
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    blas = sorted({f"{pool['internal_api']} {pool['version']}" for pool in pools})
    return (
        f"Python {platform.python_version()}, dimargin {dimargin.__version__}, numpy {np.__version__}, "
        f"scipy {scipy.__version__}, scikit-learn {sklearn.__version__}, BLAS {', '.join(blas)}"
    )


def heading(text):
    """Print the purpose of a benchmark, the machine and the versions."""
    print(text.strip(), machine(), versions(), sep="\n\n", end="\n\n", flush=True)


def median_and_spread(values):
    """Median, smallest and largest."""
    return statistics.median(values), min(values), max(values)


def describe(values):
    """``median [smallest .. largest]`` with three digits."""
    return "{:.3g} [{:.3g} .. {:.3g}]".format(*median_and_spread(list(values)))


def table(headings, rows):
    """A Markdown table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def timed(call, *arguments, **options):
    """Seconds of a call, and what it returned."""
    began = time.perf_counter()
    found = call(*arguments, **options)
    return time.perf_counter() - began, found


def seconds_of(call, times=1):
    """Seconds of each of several calls."""
    return [timed(call)[0] for _ in range(times)]


def kernel_values(machine):
    """Kernel values that a fit took."""
    return sum(entry["kernel_evaluations"] for entry in machine.history_)


def resident(process="self", peak=False):
    """Kilobytes that a process has in memory, or had at most since that was last reset (Linux)."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmHWM:" if peak else "VmRSS:")[1].split()[0])


def extra_memory(call):
    """Bytes that a call needs at most, in addition to those that were resident before (Linux)."""
    ctypes.CDLL(None).malloc_trim(0)  # Memory that was freed would not count.
    Path("/proc/self/clear_refs").write_text("5")  # The peak becomes what is resident now.
    before = resident()
    call()
    return 1024 * (resident(peak=True) - before)


def intel_svc():
    """scikit-learn-intelex's SVC, or None and a message if it is not installed."""
    try:
        from sklearnex.svm import SVC
    except ImportError as error:
        print(f"scikit-learn-intelex is missing, and left out: {error}\n", flush=True)
        return None
    return SVC


def load(name):
    """A data set of the folder DIMARGIN_DATA: dense rows, but for wide sparse text."""
    folder = os.environ.get("DIMARGIN_DATA")
    if not folder:
        sys.exit("set DIMARGIN_DATA to a folder with data sets in LIBSVM format to run this benchmark")
    X, y = load_svmlight_file(str(Path(folder) / f"{name}.bz2"))
    return (X if X.shape[1] > 1000 else X.toarray()), y


def scaled(X, *others):
    """Features to [0, 1] by the ranges of the first argument."""
    low, high = X.min(axis=0), X.max(axis=0)
    span = np.where(high > low, high - low, 1.0)
    result = [(rows - low) / span for rows in (X, *others)]
    return result[0] if not others else result


def split(name, n_train=None, n_test=None, seed=0):
    """Training rows, 80% of all or so many, and test rows, drawn at random and scaled; and the labels of both."""
    X, y = load(name)
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = np.split(order, [n_train or len(y) * 4 // 5])
    test = test[:n_test]
    return *scaled(X[train], X[test]), y[train], y[test]


def first_rows(name, n):
    """The first `n` rows of a random order, scaled, and labels of plus and minus one."""
    X, y = load(name)
    order = np.random.default_rng(0).permutation(len(y))[:n]
    return np.ascontiguousarray(scaled(X[order])), np.where(y[order] == y.max(), 1.0, -1.0)
