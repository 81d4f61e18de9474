"""Compare decision_gradient with permutation importances and SHAP: seconds, ranks, copies of a column, distant rows.

The machine is an SVM with an RBF kernel, tuned on the training rows, whose columns are standardized. The
importance of a column is the mean absolute gradient on 200 test rows, the loss of AUC when it is permuted
on all test rows (10 repeats), and the mean absolute SHAP value of the decision function on the 200 test
rows (PermutationExplainer, 50 training rows as background, after a first call that compiles). Seconds
are the median and range of five. "Best k" is the test accuracy of a machine with the same parameters,
trained on the k most important columns only. It needs `pip install shap`, and DIMARGIN_DATA for cod-rna;
set OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1 for one thread.
"""

import numpy as np
import shap
from common import describe, heading, load, table, timed
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.inspection import permutation_importance
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import dimargin as dm

N_EXPLAINED = 200
METHODS = ("gradient", "permutation", "SHAP")


def data(name):
    """Standardized training and test rows, and their labels."""
    X, y = load_breast_cancer(return_X_y=True) if name == "breast cancer" else load(name)
    n_train = min(4000, len(y) // 2)
    X, X_test, y, y_test = train_test_split(
        X, y, train_size=n_train, test_size=min(2000, len(y) - n_train), stratify=y, random_state=0
    )
    scaler = StandardScaler().fit(X)
    return scaler.transform(X), scaler.transform(X_test), y, y_test


def measured(machine, X, X_test, y_test, n_times=1):
    """Return seconds, and the importances of the columns, by each method."""
    rows, background = X_test[:N_EXPLAINED], shap.maskers.Independent(X, max_samples=50)
    explainer = shap.PermutationExplainer(machine.decision_function, background, seed=0)
    explainer(rows[:1], silent=True)
    calls = {
        "gradient": lambda: machine.decision_gradient(rows),
        "permutation": lambda: (
            permutation_importance(
                machine, X_test, y_test, scoring="roc_auc", n_repeats=10, random_state=0
            ).importances_mean
        ),
        "SHAP": lambda: explainer(rows, silent=True).values,
    }
    found = {method: [timed(call) for _ in range(n_times)] for method, call in calls.items()}
    importances = [each[0][1] if method == "permutation" else np.abs(each[0][1]).mean(axis=0)
                   for method, each in found.items()]  # fmt: skip
    return [describe([taken for taken, _ in each]) for each in found.values()], importances


def accuracy(machine, columns, X, X_test, y, y_test):
    """Test accuracy, in percent, of a machine that is trained on some of the columns."""
    return f"{100 * clone(machine).fit(X[:, columns], y).score(X_test[:, columns], y_test):.1f}"


def with_copies(machine, best, X, X_test, y, y_test):
    """Return the share of a column, in percent, after three copies of it with a little noise were added."""
    rng = np.random.default_rng(0)
    wide, wide_test = (
        np.column_stack([rows, rows[:, [best]] + 0.1 * rng.normal(size=(len(rows), 3))]) for rows in (X, X_test)
    )
    _, found = measured(clone(machine).fit(wide, y), wide, wide_test, y_test)
    return [100 * each[best] / each.sum() for each in found]


def compare(name):
    """Print the tables of a data set."""
    X, X_test, y, y_test = own = data(name)
    machine = dm.SVMClassifierCV(random_state=0).fit(X, y).best_estimator_
    chosen = f"gamma={machine.gamma:.3g}, C={machine.C:g}, {len(machine.support_)} support vectors"
    score = 100 * machine.score(X_test, y_test)
    print(f"\n{name}: {X.shape[0]} rows, {X.shape[1]} columns, {chosen}, test accuracy {score:.1f}%\n")
    seconds, importances = measured(machine, X, X_test, y_test, n_times=5)
    best = int(importances[0].argmax())
    copied, counts = with_copies(machine, best, *own), [k for k in (2, 4, 8) if k < X.shape[1]]
    headings = ["method", "seconds", *(f"rank correlation with {other}" for other in METHODS)]
    headings += [*(f"best {k}" for k in counts), "share of the best, %", "with three copies, %"]
    rows = []
    for method, taken, each, share in zip(METHODS, seconds, importances, copied, strict=True):
        ranks = [f"{spearmanr(each, other)[0]:.2f}" for other in importances]
        left = [accuracy(machine, np.argsort(-each)[:k], *own) for k in counts]
        rows.append([method, taken, *ranks, *left, f"{100 * each[best] / each.sum():.1f}", f"{share:.1f}"])
    print(table(headings, rows))
    far = [np.abs(machine.decision_gradient(X_test[:N_EXPLAINED] + shift)).mean() for shift in (0, 1, 2, 4, 8)]
    print("\nmean absolute gradient, all columns shifted by 0, 1, 2, 4, 8: " + ", ".join(f"{size:.2g}" for size in far))


if __name__ == "__main__":
    heading(__doc__)
    for name in ("breast cancer", "cod-rna"):
        compare(name)
