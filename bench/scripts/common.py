"""What every benchmark prints and reads in the same way."""

import os
import platform
import statistics
import sys
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
    """What is measured, and on what."""
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


def intel_svc():
    """scikit-learn-intelex's SVC, or None, which is said, where there is none."""
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
