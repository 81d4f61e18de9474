"""
What a machine reacts to: gradients, permutations and SHAP
==========================================================

`decision_gradient` returns the gradient of the decision function at every row. On standardized columns, its mean
absolute value says how much the decision value changes with each column. The left picture compares it with permutation
importances and SHAP values (``pip install shap``), each divided by its sum. The right picture shows a limit: far from
the training rows, an RBF kernel is zero, and so is the gradient.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
import shap
from sklearn.datasets import load_breast_cancer
from sklearn.inspection import permutation_importance
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from dimargin import SVMClassifierCV

data = load_breast_cancer()
X, X_test, y, y_test = train_test_split(data.data, data.target, test_size=0.5, stratify=data.target, random_state=0)
scaler = StandardScaler().fit(X)
X, X_test = scaler.transform(X), scaler.transform(X_test)
machine = SVMClassifierCV(random_state=0).fit(X, y).best_estimator_
print(f"test accuracy {machine.score(X_test, y_test):.3f}")


def by_gradient():
    return np.abs(machine.decision_gradient(X_test)).mean(axis=0)


def by_permutation():
    return permutation_importance(machine, X_test, y_test, scoring="roc_auc", random_state=0).importances_mean


def by_shap():
    explainer = shap.PermutationExplainer(machine.decision_function, shap.maskers.Independent(X, 50), seed=0)
    return np.abs(explainer(X_test[:50], silent=True).values).mean(axis=0)


importances = {}
for name, method in {"gradient": by_gradient, "permutation": by_permutation, "SHAP": by_shap}.items():
    began = time.perf_counter()
    importances[name] = method()
    print(f"{name}: {time.perf_counter() - began:.3f} s")

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", width_ratios=(2, 1))
first = np.argsort(-importances["gradient"])[:10]
for place, (name, sizes) in enumerate(importances.items()):
    left.barh(np.arange(10) + 0.27 * (place - 1), (sizes / sizes.sum())[first], height=0.27, label=name)
left.set_yticks(range(10), data.feature_names[first])
left.invert_yaxis()
left.set(xlabel="share of the importance of all 30 columns")
left.legend()

shifts = np.linspace(0, 8, 33)
right.semilogy(shifts, [np.abs(machine.decision_gradient(X_test + shift)).mean() for shift in shifts])
right.set(xlabel="shift of all columns", ylabel="mean absolute gradient")
plt.show()
