"""
Ten sites of a ring, each with one class
========================================

The curves show the model of every site while it learns, with its two neighbours as its only contacts. One run tracks
the gradient of all rows by gossip, the other uses the GADGET paper's local gradients. The classes are handwritten
digits below five and the others; rows are sorted by class, so every site has only one class.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.svm import LinearSVC

from dimargin import GossipSVMClassifier, PerformanceProfileDisplay

alpha = 1e-2

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X / 16, y >= 5, test_size=0.3, stratify=y, random_state=0)
central = LinearSVC(loss="hinge", C=1 / (alpha * len(y)), max_iter=100_000).fit(X, y)
losses = np.maximum(0, 1 - np.where(y, 1, -1) * central.decision_function(X))
objective = alpha / 2 * (np.sum(central.coef_**2) + central.intercept_[0] ** 2) + losses.mean()

runs = {
    "tracked gradients": {"gradient": "tracked"},
    "the paper's local gradients": {"gradient": "local", "step_size": "pegasos"},
}
axes = None
for name, parameters in runs.items():
    machine = GossipSVMClassifier(
        n_sites=10, topology="ring", shards="sorted", alpha=alpha, fit_intercept=True, max_iter=1000, random_state=0,
        **parameters,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # The sites of the paper's form do not agree in time.
        display = PerformanceProfileDisplay.from_estimator(
            machine, X, y, X_test=X_test, y_test=y_test, central_accuracy=central.score(X_test, y_test),
            central_objective=objective, name=name, ax=axes,
        )  # fmt: skip
    axes, last = display.axes_, display.estimator_.history_[-1]
    print(
        f"{name}: {display.estimator_.n_iter_} rounds, {last['bytes'] / 1e6:.1f} MB, test accuracy of the sites "
        f"{last['accuracy_min']:.3f} to {last['accuracy_max']:.3f}, worst objective {last['worst_objective']:.4f}"
    )

display.figure_.suptitle("A ring of ten sites, each with digits below five or above only", fontsize="medium")
plt.show()
