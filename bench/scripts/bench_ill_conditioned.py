"""ODMClassifier over four lam and five gamma beside LIBSVM (scikit-learn's SVC) with the same weight of a row.

Usage: bench_ill_conditioned.py [--limit SECONDS] [--only DATA ...]

lam of 1e2, 1e4, 1e6 and 1e8, gamma of 1/4, 1, 4, 16 and 64 times "scale", SVC at ``C = lam / n``
and the same gamma, with 2,000 MB of remembered kernel rows; both at their default tolerances, and
stopped at --limit seconds a cell. Each cell is one fit of either, one after the other. LIBSVM runs
on one thread, ours on all. A cell is too slow if it takes more than twice LIBSVM's time and more
than a second.
"""

import argparse
import multiprocessing
import warnings

import numpy as np
from common import first_rows, heading, table, timed
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from dimargin import ODMClassifier

SETS = [("svmguide1", None), ("phishing", 5000), ("cod-rna", 10_000), ("ijcnn1", 10_000), ("SUSY-30k", 10_000)]
LAMS, FACTORS = (1e2, 1e4, 1e6, 1e8), (0.25, 1.0, 4.0, 16.0, 64.0)


def seconds_within(machine, X, y, limit):
    """Seconds of a fit in a process of its own, or the limit where that ended it."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=lambda: theirs.send(timed(machine.fit, X, y)[0]))
    process.start()
    seconds = ours.recv() if ours.poll(limit) else limit
    process.kill()
    process.join()
    return seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=float, default=300.0)
    parser.add_argument("--only", nargs="*", default=[name for name, _ in SETS])
    options = parser.parse_args()
    heading(__doc__)
    warnings.simplefilter("ignore", ConvergenceWarning)
    rows, totals, slow = [], np.zeros(2), []
    for name, n in SETS:
        if name not in options.only:
            continue
        X, y = first_rows(name, n)
        sums = np.zeros(2)
        for lam in LAMS:
            for factor in FACTORS:
                gamma = factor / (X.shape[1] * X.var())
                machine = ODMClassifier(lam=lam, gamma=gamma, max_time=options.limit, random_state=0)
                ours, _ = timed(machine.fit, X, y)
                theirs = seconds_within(SVC(C=lam / len(y), gamma=gamma, cache_size=2000), X, y, options.limit)
                factors = sum(entry["factorizations"] for entry in machine.history_)
                sums += ours, theirs
                is_slow = ours > max(1.0, 2 * theirs)
                cell = f"{name}, lam={lam:g}, {factor:g} x scale"
                slow += [f"{cell}: {ours:.3g} s, LIBSVM {theirs:.3g} s"] * is_slow
                rows.append([name, f"{lam:g}", f"{factor:g}", f"{ours:.3g}", f"{theirs:.3g}",
                             f"{machine.duality_gap_:.1e}", str(factors), "too slow" if is_slow else ""])  # fmt: skip
                print(f"{cell}: {ours:.3g} s, LIBSVM {theirs:.3g} s", flush=True)
        rows.append([name, "all", "", f"{sums[0]:.4g}", f"{sums[1]:.4g}", "", "", f"{sums[0] / sums[1]:.2f}"])
        totals += sums
    rows.append(["all", "", "", f"{totals[0]:.4g}", f"{totals[1]:.4g}", "", "", f"{totals[0] / totals[1]:.2f}"])
    print(table(["data", "lam", "gamma / scale", "dimargin, s", "LIBSVM, s", "gap", "factors", ""], rows))
    print(f"\n{len(slow)} cells are too slow", *slow, sep="\n")


if __name__ == "__main__":
    main()
