"""Effect of the relative gap: test accuracy of machines that are solved to gaps from 0.3 to 1e-4.

Up to 10,000 training rows and 10,000 test rows, three random draws, features to [0, 1] by training
ranges; machines: the ODM with its defaults and with lam=1e7, the SVM (hinge) with C=1 and with
C=100 and gamma of four times "scale". Points are those lost against the same machine at 1e-5, on
average over data sets and draws, and in the worst of them, with the part of the test rows whose
label is another one, and kernel values over those of the fit to 1e-5.
"""

import warnings

import numpy as np
from common import heading, kernel_values, load, split, table
from sklearn.exceptions import ConvergenceWarning

from dimargin import ODMClassifier, SVMClassifier

SETS = ("svmguide1", "phishing", "a9a", "cod-rna", "ijcnn1", "SUSY-30k", "covtype.libsvm.binary", "skin_nonskin")
TOLS, EXACT, DRAWS, MAX_ROWS = (0.3, 0.1, 0.03, 1e-2, 1e-3, 1e-4), 1e-5, 3, 10_000


def machines(X):
    scale = 1 / (X.shape[1] * X.var())
    return {
        "ODM": ODMClassifier(random_state=0),
        "ODM, lam=1e7": ODMClassifier(lam=1e7, gamma=4 * scale, random_state=0),
        "SVM, C=1": SVMClassifier(fit_intercept=False, random_state=0),
        "SVM, C=100": SVMClassifier(fit_intercept=False, C=100.0, gamma=4 * scale, random_state=0),
    }


def draw(name, seed):
    n = min(MAX_ROWS, len(load(name)[1]) // 2)
    return split(name, n, n, seed)


def main():
    heading(__doc__)
    warnings.simplefilter("ignore", ConvergenceWarning)
    lost = {}
    for name in SETS:
        for seed in range(DRAWS):
            A, B, a, b = draw(name, seed)
            for label, machine in machines(A).items():
                machine.set_params(tol=EXACT, max_time=120.0).fit(A, a)
                best, predicted, values = machine.score(B, b), machine.predict(B), kernel_values(machine)
                for tol in TOLS:
                    machine.set_params(tol=tol).fit(A, a)
                    other = (machine.predict(B) != predicted).mean()
                    found = 100 * (best - machine.score(B, b)), 100 * other, kernel_values(machine) / values
                    lost.setdefault((label, tol), []).append((name, *found))
        print(name, flush=True)
    rows = []
    for (label, tol), found in lost.items():
        points, others, values = np.array([row[1:] for row in found]).T
        worst = int(np.argmax(points))
        rows.append([label, f"{tol:g}", f"{points.mean():.3f}", f"{points[worst]:.2f} ({found[worst][0]})",
                     f"{others.mean():.2f}", f"{np.median(values):.2f}"])  # fmt: skip
    print(table(["machine", "tol", "points lost", "most (data)", "other labels, %", "kernel values"], rows))


if __name__ == "__main__":
    main()
