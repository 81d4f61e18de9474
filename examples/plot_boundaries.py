"""
Decision boundaries of four machines
====================================

Rows are two measurements of each of 150 irises, so that the boundary can be drawn. Colours show the decision value,
and large dots the support vectors, of which the model consists.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.preprocessing import MinMaxScaler

from dimargin import CoreSetSVMClassifier, LinearODMClassifier, ODMClassifier, SVMClassifier

X, y = load_iris(return_X_y=True)
X, y = MinMaxScaler().fit_transform(X[:, 2:]), y == 1
machines = {
    "SVMClassifier(C=10)": SVMClassifier(C=10.0),
    "ODMClassifier()": ODMClassifier(),
    "CoreSetSVMClassifier(C=10)": CoreSetSVMClassifier(C=10.0, random_state=0),
    "LinearODMClassifier()": LinearODMClassifier(random_state=0),
}

figure, axes = plt.subplots(2, 2, figsize=(8, 6.4), sharex=True, sharey=True, layout="constrained")
for ax, (name, machine) in zip(axes.flat, machines.items(), strict=True):
    machine.fit(X, y)
    DecisionBoundaryDisplay.from_estimator(
        machine,
        X,
        response_method="decision_function",
        plot_method="pcolormesh",
        cmap="RdBu",
        alpha=0.6,
        eps=0.15,
        ax=ax,
    )
    ax.scatter(*X.T, c=y, cmap="RdBu", s=8, edgecolors="black", linewidths=0.4)
    support = getattr(machine, "support_", [])
    ax.scatter(*X[support].T, c=y[support], cmap="RdBu", s=36, edgecolors="black", linewidths=0.8)
    ax.set_title(
        f"{name}: {machine.score(X, y):.0%}" + (f", {len(support)} vectors" if len(support) else ""), fontsize=9
    )
plt.show()
