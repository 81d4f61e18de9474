"""Strategies by their time to the gap, over sizes and kernel widths, and by their accuracy at a time limit.

Usage: bench_strategies.py [gap] [limits] [--only NAME ...] [--limit SECONDS]; both parts and all
data by default.

gap: seconds and kernel values (over n^2) to a relative gap of 1e-3 of the whole problem, one fit
each, given up after --limit seconds. limits: percent of test rows (at most 20,000 that are not
trained on) where `max_time` ends the fit. The ODM with its default lam on cod-rna, the hinge with C
= 32 on ijcnn1 and covtype, and the ODM on covtype with twice the limits, too; features to [0, 1] by
training ranges; gamma as multiples of "scale".
"""

import argparse
import itertools
import warnings

from common import heading, kernel_values, split, table, timed
from sklearn.exceptions import ConvergenceWarning

from dimargin import ODMClassifier, SVMClassifier

DATA = {"cod-rna": (10_000, 40_000), "ijcnn1": (10_000, 40_000), "covtype.libsvm.binary": (10_000, 100_000, 464_810)}
FACTORS = (1.0, 16.0)  # covtype at 16 times "scale" is near the paper's gamma of 32
LOSSES = {"cod-rna": ("ODM",), "ijcnn1": ("hinge",), "covtype.libsvm.binary": ("hinge", "ODM")}
STRATEGIES = ("exact", "diodm", "dc", "cascade", "dip")
LIMITS = {"hinge": (3.0, 10.0), "ODM": (6.0, 20.0)}
MAX_TEST_ROWS = 20_000


def machine(family, X, factor, **options):
    gamma = factor / (X.shape[1] * X.var())
    if family == "ODM":
        return ODMClassifier(gamma=gamma, random_state=0, **options)
    return SVMClassifier(fit_intercept=False, C=32.0, gamma=gamma, random_state=0, **options)


def to_the_gap(names, limit):
    rows = []
    for name in names:
        for n in DATA[name]:
            A, _, a, _ = split(name, n, MAX_TEST_ROWS)
            for factor in FACTORS:
                row = [name, str(n), f"{factor:g}"]
                for strategy in STRATEGIES:
                    fitted = machine(LOSSES[name][0], A, factor, strategy=strategy, max_time=limit)
                    seconds, _ = timed(fitted.fit, A, a)
                    values = kernel_values(fitted) / n**2
                    met = fitted.certificate_ == "global" and fitted.duality_gap_ <= fitted.tol
                    row.append(f"{seconds:.3g} ({values:.2g})" if met else f"gap {fitted.duality_gap_:.1e}")
                print("  ", *row, flush=True)
                rows.append(row)
    print(table(["data", "rows", "gamma / scale", *STRATEGIES], rows), end="\n\n", flush=True)


def at_limits(names):
    rows = []
    strategies = ("exact", "diodm", "dc", "landmark")
    for name in names:
        n = DATA[name][-1]
        A, B, a, b = split(name, n, MAX_TEST_ROWS)
        for loss, factor in itertools.product(LOSSES[name], FACTORS):
            for limit in LIMITS[loss]:
                row = [name, str(n), loss, f"{factor:g}", f"{limit:g}"]
                for strategy in strategies:
                    options = {"strategy": strategy, "max_time": limit}
                    if strategy == "landmark" and loss == "hinge":
                        options["loss"] = "squared_hinge"
                    fitted = machine(loss, A, factor, **options)
                    seconds, _ = timed(fitted.fit, A, a)
                    row.append(f"{100 * fitted.score(B, b):.2f} ({seconds:.3g} s)")
                print("  ", *row, flush=True)
                rows.append(row)
    print(table(["data", "rows", "loss", "gamma / scale", "max_time, s", *strategies], rows), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", choices=["gap", "limits", []])
    parser.add_argument("--only", nargs="*", default=list(DATA), choices=list(DATA))
    parser.add_argument("--limit", type=float, default=300.0)
    options = parser.parse_args()
    heading(__doc__)
    warnings.simplefilter("ignore", ConvergenceWarning)
    parts = options.parts or ["gap", "limits"]
    if "gap" in parts:
        to_the_gap(options.only, options.limit)
    if "limits" in parts:
        at_limits(options.only)


if __name__ == "__main__":
    main()
