"""The table of README.md: seconds to train and test accuracy on two data sets, with everybody's default tolerance.

Support vector machines have the same C and gamma, and an intercept; ODM and gradient boosting their
defaults. Features are scaled to [0, 1]. All may use every core; LIBSVM and scikit-learn's SVC have
one thread each.
"""

import numpy as np
from common import describe, heading, intel_svc, load, scaled, table, timed
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from dimargin import ODMClassifier, SVMClassifier

try:
    from libsvm import svmutil
except ImportError:
    svmutil = None

PROBLEMS = {"ijcnn1": (32.0, 2.0), "cod-rna": (10.0, 4.0)}  # C and gamma
REPEATS = 3


class Libsvm:
    """LIBSVM itself, by its own Python interface."""

    def __init__(self, C, gamma):
        self.flags = f"-q -m 2000 -c {C} -g {gamma}"

    def fit(self, X, y):
        self.model = svmutil.svm_train(svmutil.svm_problem(y, X), svmutil.svm_parameter(self.flags))
        return self

    def score(self, X, y):
        return float(np.mean(np.array(svmutil.svm_predict(y, X, self.model, "-q")[0]) == y))


def machines(C, gamma):
    yield "`SVMClassifier`", lambda: SVMClassifier(C=C, gamma=gamma, fit_intercept=True, random_state=0)
    yield "`ODMClassifier`, defaults", lambda: ODMClassifier(random_state=0)
    yield '`ODMClassifier(strategy="landmark")`', lambda: ODMClassifier(strategy="landmark", random_state=0)
    if intel := intel_svc():
        yield "scikit-learn-intelex `SVC`", lambda: intel(C=C, gamma=gamma)
    yield "scikit-learn `SVC`", lambda: SVC(C=C, gamma=gamma)
    if svmutil is None:
        print("LIBSVM's own Python package is missing, and left out: pip install libsvm-official\n", flush=True)
    else:
        yield "LIBSVM", lambda: Libsvm(C, gamma)
    yield "`HistGradientBoostingClassifier`", lambda: HistGradientBoostingClassifier(random_state=0)


def main():
    heading(__doc__)
    results = {}
    for name, (C, gamma) in PROBLEMS.items():
        X, y = load(name)
        if name == "ijcnn1":
            X_test, y_test = load("ijcnn1.t")
        else:
            X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=0)
        X, X_test = scaled(X, X_test)
        print(f"{name}: {X.shape[0]} training rows of {X.shape[1]} numbers, {len(y_test)} test rows", flush=True)
        for who, make in machines(C, gamma):
            seconds = []
            for _ in range(REPEATS):
                machine = make()
                seconds.append(timed(machine.fit, X, y)[0])
            results.setdefault(who, []).extend([describe(seconds), f"{100 * machine.score(X_test, y_test):.2f}"])
            print(f"    {who}: {results[who][-2:]}", flush=True)
    headings = ["", *(text for name in PROBLEMS for text in (f"{name}, s", "accuracy, %"))]
    print("\n" + table(headings, [[who, *values] for who, values in results.items()]))


if __name__ == "__main__":
    main()
