"""Further metrics of linear machines that sites have learnt: how far from the optimum they are, and the worst site."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import balanced_accuracy_score
from sklearn.svm import LinearSVC

from dimargin.gossip.simulation.observed_run import site_names
from dimargin.system.arrays import Floats
from dimargin_bench.experiments.split_data import Split

ALPHA = 1e-4
"""Weight of the regulariser of all machines that are compared: the GADGET paper's lambda."""
_TOL, _MAX_PASSES = 1e-6, 20_000  # of LIBLINEAR, whose machine tells what the optimum is


def of_sites(machine: Any, split: Split) -> dict[str, float]:
    """Return rounds, rows shared and balanced accuracy, and of linear machines how far above the optimum they are.

    The objective is ``alpha/2 |w|^2 + 1/N sum_i max(0, 1 - y_i w.x_i)`` over all training rows,
    with a constant feature in x, summed over the outputs. The optimum is LIBLINEAR's. "excess" is
    that of the model, "worst_excess" that of the worst site, and "honest_accuracy" leaves out sites
    that lie (`dimargin_bench.gossip_rivals.liars`).
    """
    history = getattr(machine, "history_", None) or [{}]
    found = {"rounds": history[-1]["round"]} if "round" in history[-1] else {}
    found |= {name: history[-1][name] for name in ("rows_shared",) if name in history[-1]}
    if hasattr(machine, "predict"):
        found["balanced_accuracy"] = float(balanced_accuracy_score(split.y_test, machine.predict(split.X_test)))
    if not hasattr(machine, "coef_"):
        return found
    optimum = float(_objectives(*_liblinear(split), split)[0])
    own = _objectives(machine.coef_[None], np.reshape(machine.intercept_, (1, -1)), split)
    found["excess"] = float(own[0]) / optimum - 1
    if hasattr(machine, "site_coef_"):
        n_sites, n_features = len(machine.site_coef_), split.X.shape[1]
        kind = "site_average" if machine.average else "site"
        coefficients = getattr(machine, f"{kind}_coef_").reshape(n_sites, -1, n_features)
        intercepts = getattr(machine, f"{kind}_intercept_").reshape(n_sites, -1)
        found["worst_excess"] = float(_objectives(coefficients, intercepts, split).max()) / optimum - 1
        accuracies = _accuracies(coefficients, intercepts, machine.classes_, split)
        liars = getattr(machine.algorithm, "sites", ())
        honest = [k for k, name in enumerate(site_names(n_sites)) if name not in liars]
        found |= {"worst_accuracy": float(accuracies.min()), "honest_accuracy": float(accuracies[honest].min())}
    return found


def _liblinear(split: Split) -> tuple[Floats, Floats]:
    """Return coefficients and intercepts of one model, which LIBLINEAR finds with the hinge and a constant feature."""
    machine = LinearSVC(C=1 / (ALPHA * len(split.y)), loss="hinge", tol=_TOL, max_iter=_MAX_PASSES, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine.fit(split.X, split.y)
    return machine.coef_[None], np.reshape(machine.intercept_, (1, -1))


def _objectives(coefficients: Floats, intercepts: Floats, split: Split) -> Floats:
    """Return the objectives of models, of shape (n_models,), by coefficients of shape (n_models, n_outputs, d)."""
    classes = np.unique(split.y)
    outputs = classes[1:] if len(classes) == 2 else classes
    found = np.zeros(len(coefficients))
    for k, label in enumerate(outputs):
        signs = np.where(split.y == label, 1.0, -1.0)
        margins = signs[:, None] * (split.X @ coefficients[:, k].T + intercepts[:, k])
        squares = (coefficients[:, k] ** 2).sum(axis=1) + intercepts[:, k] ** 2
        found += ALPHA / 2 * squares + np.maximum(0, 1 - margins).mean(axis=0)
    return found


def _accuracies(coefficients: Floats, intercepts: Floats, classes: Any, split: Split) -> Floats:
    """Return the share of the test rows that every model predicts right."""
    pairs = zip(coefficients, intercepts, strict=True)
    values = np.stack([np.asarray(split.X_test @ one.T) + shift for one, shift in pairs])
    chosen = values.argmax(axis=2) if values.shape[2] > 1 else (values[:, :, 0] > 0).astype(int)
    return np.asarray((classes[chosen] == split.y_test).mean(axis=1))
