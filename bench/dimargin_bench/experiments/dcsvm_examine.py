"""Further metrics of the DC-SVM paper's experiments: bounds of its theorems, support vectors, seconds of levels."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigvalsh
from sklearn.metrics.pairwise import rbf_kernel

from dimargin.estimators import SVMClassifier
from dimargin_bench.experiments.examine import dual_objective
from dimargin_bench.experiments.split_data import Split

_REFERENCE_TOL = 1e-5  # of the machine that tells which rows are support vectors, and what the optimum is
_OF_PROBLEM = ("C", "gamma", "kernel", "degree", "coef0")


def sizes_of_sides(_: Any, split: Split) -> dict[str, float]:
    """Return the numbers of training rows, of test rows and of features."""
    return {"training_rows": len(split.y), "test_rows": len(split.y_test), "features": split.X.shape[1]}


def of_parameters(machine: Any, _: Split) -> dict[str, float]:
    """Return the machine's C and gamma, as the axes of a picture."""
    return {"C": machine.C, "gamma": machine.gamma}


def seconds_of_levels(machine: Any, _: Split) -> dict[str, float]:
    """Return for every level of divide and conquer the seconds of its clustering, and the others.

    Level 0 is the whole problem, which is not clustered.
    """
    found: dict[str, float] = {}
    history = getattr(machine, "history_", [])
    for entry in history if any("clustering_seconds" in entry for entry in history) else ():
        clustering = entry.get("clustering_seconds", 0.0)
        found[f"clustering_{entry['level']}"] = clustering
        found[f"training_{entry['level']}"] = entry["seconds"] - clustering
    return found


def on_the_way(machine: Any, split: Split) -> dict[str, float]:
    """Return the dual objective of the whole problem, of a machine that has support vectors among the rows."""
    return dual_objective(machine, split) if hasattr(machine, "support_") else {}


def support_vectors(machine: Any, split: Split) -> dict[str, float]:
    """Return which share of a machine's support vectors are the optimum's, and which share of the optimum's it has.

    The optimum is the exact machine to a gap of 1e-5, with an intercept if the machine is LIBSVM's.
    `partitions` is the number of clusters or parts, of a machine that has them.
    """
    found = set(machine.support_.tolist())
    wanted = set(_optimum(machine, split, fit_intercept=not hasattr(machine, "strategy")).support_.tolist())
    shared = len(found & wanted)
    shares = {"support_precision": shared / max(len(found), 1), "support_recall": shared / max(len(wanted), 1)}
    return shares | _partitions(machine)


def _partitions(machine: Any) -> dict[str, float]:
    history = getattr(machine, "history_", [{}])
    return {"partitions": history[-1]["partitions"]} if "partitions" in history[-1] else {}


def theorem_1(machine: Any, split: Split) -> dict[str, float]:
    """Return Theorem 1's bound and what it bounds: how far local solutions, put together, are from the optimum.

    The optimum is the exact machine's to a gap of 1e-5. `distance` is relative to it.
    """
    optimum = float(_optimum(machine, split).dual_objective_)
    bound, difference = (
        machine.history_[-1]["theorem_1_bound"],
        optimum - dual_objective(machine, split)["dual_objective"],
    )
    ratio = {"bound_ratio": bound / difference} if difference > 0 else {}  # otherwise it is within the tolerances
    found = {"bound": bound, "difference": difference, **ratio, "distance": difference / optimum}
    return _partitions(machine) | found


def theorems_2_and_3(machine: SVMClassifier, split: Split) -> dict[str, float]:
    r"""Return what Theorem 2 screens, and Theorem 3's bound beside what it bounds, of clusters with the RBF kernel.

    With the kernel values K of all rows, clusters pi, ``D = sum_{pi(i) != pi(j)} |K_ij|``, the smallest
    eigenvalue ``sigma`` of K, local solutions ``a`` and ``g_i = y_i f_i - 1`` of the local machines:

    - Theorem 2: row i with ``a_i = 0`` and ``g_i > C D (1 + sqrt(n) / sqrt(sigma D))``, which is
      ``C (D + sqrt(n D / sigma))``, is no support vector of the whole problem;
    - Theorem 3: ``f(a) - f(a*)`` is at most ``C^2 / 2`` times the part of D between rows that are
      support vectors of one of the two.

    Both are of exact local solutions. Here the gaps of the clusters are added to the bound.
    """
    K = rbf_kernel(split.X, gamma=machine.gamma)
    optimum = _optimum(machine, split)
    signs = np.where(split.y == machine.classes_[1], 1.0, -1.0)
    signed = np.zeros(len(signs))
    signed[machine.support_] = machine.dual_coef_[0]
    router = machine._router
    assert router is not None
    clusters = router.rule.assign(split.X)
    apart = clusters[:, None] != clusters
    between = np.abs(K * apart)
    smallest = eigvalsh(K, subset_by_index=[0, 0])[0]
    D, sigma = between.sum(), max(smallest, len(K) * np.finfo(float).eps)  # a smaller one is rounding
    slope = signs * ((K * ~apart) @ signed) - 1
    screened = (signed == 0) & (slope > machine.C * (D + np.sqrt(len(K) * D / sigma)))
    either = np.union1d(machine.support_, optimum.support_)
    gap = machine.objective_ - machine.dual_objective_
    return _partitions(machine) | {
        "screened": int(screened.sum()),
        "no_support": len(K) - len(optimum.support_),
        "bound": gap + machine.C**2 * D / 2,
        "bound_of_support": gap + machine.C**2 * between[np.ix_(either, either)].sum() / 2,
        "difference": float(optimum.dual_objective_) - dual_objective(machine, split)["dual_objective"],
    }


def _optimum(machine: Any, split: Split, fit_intercept: bool = False) -> SVMClassifier:
    exact = SVMClassifier(fit_intercept=fit_intercept, strategy="exact", tol=_REFERENCE_TOL, random_state=0)
    exact.set_params(**{name: getattr(machine, name) for name in _OF_PROBLEM})
    exact.fit(split.X, split.y)
    return exact
