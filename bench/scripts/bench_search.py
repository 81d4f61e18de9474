"""ODMClassifierCV over its default grid on six data sets: seconds of its rounds and of its last fit, and test accuracy.

80% of the rows of each, at random, features to [0, 1] by training ranges; five splits. With
--before PYTHON another interpreter, in which another version is installed, does the same in turn,
split by split.
"""

import argparse
import json
import subprocess
import sys

import numpy as np
from common import describe, heading, kernel_values, split, table, timed

import dimargin as dm

DATA = ("phishing", "a9a", "cod-rna", "ijcnn1", "skin_nonskin", "SUSY-30k")
SPLITS = 5


def measured(name, seed):
    """Seconds in all, of the rounds and of the last fit, kernel values of the last fit over n^2, and accuracy."""
    A, B, a, b = split(name, seed=seed)
    search = dm.ODMClassifierCV(random_state=seed)
    spent, _ = timed(search.fit, A, a)
    values = kernel_values(search) / len(a) ** 2
    return [spent, search.search_seconds_, search.refit_seconds_, values, 100 * search.score(B, b)]


def measured_by(python, name, seed):
    """The same, by another interpreter."""
    command = [python, __file__, "--one", name, str(seed)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", metavar="PYTHON")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--data", nargs="+", default=DATA)
    parser.add_argument("--one", nargs=2, metavar=("DATA", "SEED"), help="print a measurement as JSON")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measured(given.one[0], int(given.one[1]))))
        return
    heading(__doc__)
    pythons = {"now": sys.executable} | ({"before": given.before} if given.before else {})
    found = {version: [] for version in pythons}  # of shape (data, splits, 5)
    for name in given.data:
        for own in found.values():
            own.append([])
        for seed in range(given.splits):
            for version, python in pythons.items():
                found[version][-1].append(measured_by(python, name, seed))
        print(name, {version: np.round(own[-1], 3).tolist() for version, own in found.items()}, file=sys.stderr)
    rows = []
    for version, own in found.items():
        every = np.array(own)
        for name, splits in zip([*given.data, "all"], [*every, None], strict=True):
            columns = every.sum(axis=0).T if splits is None else splits.T
            accuracy = every[:, :, 4].mean(axis=0) if splits is None else columns[4]
            rows.append([version, name, *(describe(column) for column in columns[:4]), f"{accuracy.mean():.3f}"])
    print(table(["version", "data", "seconds", "search", "last fit", "its kernel values, n^2", "accuracy, %"], rows))


if __name__ == "__main__":
    main()
