"""Further metrics of linear machines that sites have learnt: how far from the optimum they are, and the worst site."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import balanced_accuracy_score
from sklearn.svm import LinearSVC

from dimargin.gossip.simulation.observed_run import site_names
from dimargin.system.arrays import Floats
from dimargin_bench.experiments.metrics import of_model
from dimargin_bench.experiments.observed_sites import Entry, ObservedSites
from dimargin_bench.experiments.split_data import Split
from dimargin_bench.kernel_rivals import PseudoDistributed

ALPHA = 1e-4
"""Weight of the regulariser, the GADGET paper's lambda, in the parts that are ours; the paper's own is not printed."""
_TOL, _MAX_PASSES = 1e-6, 20_000  # of LIBLINEAR, whose machine tells what the optimum is


def of_sites(machine: Any, split: Split) -> dict[str, float]:
    """Return accuracies of the sites and what they have taken and sent.

    Every site predicts all test rows. "accuracy" is the mean of the sites' accuracies, as in the
    GADGET paper, and "accuracy_sd" their standard deviation; a machine of all rows, or of all sites
    together, is one site. "honest_accuracy" leaves out sites that lie
    (`dimargin_bench.gossip_rivals.liars`). "seconds" is, where a machine knows it, the mean over
    the sites of the time until each had ended, and "seconds_sd" the standard deviation where sites
    end by themselves. The seconds of sites that take turns in one process are divided by the number
    of sites, so that all are those of one site. Of `ObservedSites` the trace "profile" is that of
    the paper's Figure 1.
    """
    if not hasattr(machine, "predict"):
        return {}
    given, machine = machine, getattr(machine, "resampled_", machine)
    found = _costs(machine)  # first, as further queries cost more
    found |= _of_predictions(_predictions(machine, split.X_test), machine, split)
    if isinstance(machine, ObservedSites):
        accuracies = 100 * np.array([_accuracies(machine, entry, split) for entry in machine.entries_])
        seconds = [entry.seconds / machine.n_sites for entry in machine.entries_]
        given.traces_ = {"profile": _trace(seconds, [f"site {k}" for k in range(machine.n_sites)], accuracies.T)}
    return found


def beside_the_optimum(machine: Any, split: Split) -> dict[str, float]:
    """Return what `of_sites` does, and of linear machines how far above the optimum their objective is.

    The objective is ``alpha/2 |w|^2 + 1/N sum_i max(0, 1 - y_i w.x_i)`` over all training rows,
    with a constant feature in x, summed over the outputs, and alpha is `ALPHA`. The optimum is
    LIBLINEAR's. "excess" is that of the model, "worst_excess" that of the worst site.
    """
    found = of_sites(machine, split)
    if not hasattr(machine, "coef_"):
        return found
    optimum = float(_objectives(*_liblinear(split), split, ALPHA)[0])
    own = _objectives(machine.coef_[None], np.reshape(machine.intercept_, (1, -1)), split, ALPHA)
    found["excess"] = float(own[0]) / optimum - 1
    if hasattr(machine, "site_coef_"):
        found["worst_excess"] = float(_objectives(*_site_models(machine), split, ALPHA).max()) / optimum - 1
    return found


def behind_features(machine: Any, split: Split) -> dict[str, float]:
    """Return what `beside_the_optimum` does, of the last step of a pipeline, on the features that the others make."""
    features, last = machine[:-1], machine[-1]
    mapped = replace(split, X=features.transform(split.X), X_test=features.transform(split.X_test))
    return {**of_model(last), **beside_the_optimum(last, mapped)}


def of_production_line(machine: Any, split: Split) -> dict[str, float]:
    """Return what `of_sites` does, and of `ObservedSites` the traces of the GADGET paper's Figures 3 to 5.

    "rare_accuracy" is the share of the test rows of the rarer class that are predicted right, the
    mean over the sites. Of every rule of convergence, "accuracy_at_N" is the mean of the sites'
    accuracies where each has converged by N quiet iterations, and "converged_at_N" how many have.
    """
    found, given, machine = of_sites(machine, split), machine, getattr(machine, "resampled_", machine)
    labels, counts = np.unique(split.y, return_counts=True)
    rare = split.y_test == labels[counts.argmin()]
    predicted = _predictions(machine, split.X_test[rare])
    found["rare_accuracy"] = float((predicted == split.y_test[rare]).mean())
    if not isinstance(machine, ObservedSites):
        return found
    accuracies = 100 * np.array([_accuracies(machine, entry, split) for entry in machine.entries_])
    iterations = np.array([entry.iteration for entry in machine.entries_])
    largest, mean, names = [], [], []
    for one in machine.convergence_:
        ends = np.where(one.first > 0, one.first, iterations[-1])
        until = [accuracies[iterations <= end, k] for k, end in enumerate(ends)]
        largest.append([values.max() for values in until])
        mean.append([values.mean() for values in until])
        names.append(f"Converge@{one.n_quiet} itr")
        found[f"accuracy_at_{one.n_quiet}"] = float(np.mean([values[-1] for values in until])) / 100
        found[f"converged_at_{one.n_quiet}"] = float((one.first > 0).sum())
    sites = range(1, accuracies.shape[1] + 1)
    times = np.arange(1 + max(int(one.times.max()) for one in machine.convergence_))
    shares = [[100 * np.mean(one.times >= n) for n in times] for one in machine.convergence_]
    hub = [_objectives(*machine.parts_of(entry.weights[:1]), split, machine.alpha)[0] for entry in machine.entries_]
    given.traces_ |= {
        "largest": _trace(sites, names, largest),
        "mean": _trace(sites, names, mean),
        "times": _trace(times, names, shares),
        "hub accuracy": _trace(iterations, ["accuracy"], [accuracies[:, 0]]),
        "hub objective": _trace(iterations, ["primal objective"], [hub]),
    }
    return found


def _trace(x: Any, names: Any, lines: Any) -> dict[str, Any]:
    """Return lines with names over x, as JSON has them."""
    return {"x": [float(one) for one in x], "names": list(names), "lines": [list(map(float, line)) for line in lines]}


def _costs(machine: Any) -> dict[str, float]:
    """Return rounds or steps, rows that left their sites, seconds, how many have converged, and messages of queries.

    The simulated sites of `ObservedSites` and those of the queries of `DistEval` take turns in one
    process: a site's seconds are its share of theirs.
    """
    history = (getattr(machine, "history_", None) or [{}])[-1]
    found = {ours: history[theirs] for ours, theirs in (("rounds", "round"), ("rows_shared",) * 2) if theirs in history}
    if "rounds" not in found and hasattr(machine, "seconds_"):
        found["rounds"] = machine.n_iter_
    seconds = getattr(machine, "site_seconds_", getattr(machine, "seconds_", None))
    if seconds is not None:
        seconds = seconds / machine.n_sites if isinstance(machine, ObservedSites) else seconds
        found["seconds"] = float(np.mean(seconds))
        if np.size(seconds) > 1 and getattr(machine, "convergence_", True):
            found["seconds_sd"] = float(np.std(seconds))
    if (costs := getattr(machine, "query_costs_", None)) is not None:
        found |= {"bytes": costs.bytes, "messages": costs.messages, "rounds": costs.rounds}
        found["seconds"] += costs.seconds / machine.n_sites
    if isinstance(machine, ObservedSites) and machine.convergence_:
        found["converged"] = float((machine.convergence_[0].first > 0).sum())
    elif hasattr(machine, "converged_"):
        found["converged"] = float(machine.converged_)
    own = [model for model in getattr(machine, "estimators_", ()) if hasattr(model, "status_")]
    if own and isinstance(machine, PseudoDistributed):
        found["converged"] = float(sum(model.status_ == "converged" for model in own))
        found["rounds"] = float(np.mean([model.n_iter_ for model in own]))
    return found


def _predictions(machine: Any, X: Any) -> NDArray[Any]:
    """Return what every site predicts, of shape (n_sites, n_samples)."""
    if isinstance(machine, ObservedSites) or getattr(machine, "combine", "") == "none":
        return np.asarray(machine.site_predictions(X))
    if hasattr(machine, "site_coef_"):
        return _labels(*_site_models(machine), machine.classes_, X)
    return np.asarray(machine.predict(X))[None]


def _of_predictions(predicted: NDArray[Any], machine: Any, split: Split) -> dict[str, float]:
    accuracies = (predicted == split.y_test).mean(axis=1)
    found = {"accuracy": float(accuracies.mean())}
    found["balanced_accuracy"] = float(np.mean([balanced_accuracy_score(split.y_test, own) for own in predicted]))
    if len(predicted) > 1:
        liars = getattr(getattr(machine, "algorithm", None), "sites", ())
        honest = [k for k, name in enumerate(site_names(len(predicted))) if name not in liars]
        found |= {"accuracy_sd": float(accuracies.std()), "worst_accuracy": float(accuracies.min())}
        found["honest_accuracy"] = float(accuracies[honest].min())
    return found


def _site_models(machine: Any) -> tuple[Floats, Floats]:
    """Return coefficients of all sites, of shape (n_sites, n_outputs, n_features), and intercepts."""
    kind = "site_average" if getattr(machine, "average", False) else "site"
    coefficients, intercepts = getattr(machine, f"{kind}_coef_"), getattr(machine, f"{kind}_intercept_")
    n_sites = len(coefficients)
    return coefficients.reshape(n_sites, -1, coefficients.shape[-1]), intercepts.reshape(n_sites, -1)


def _liblinear(split: Split) -> tuple[Floats, Floats]:
    """Return coefficients and intercepts of one model, which LIBLINEAR finds with the hinge and a constant feature."""
    machine = LinearSVC(C=1 / (ALPHA * len(split.y)), loss="hinge", tol=_TOL, max_iter=_MAX_PASSES, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine.fit(split.X, split.y)
    return machine.coef_[None], np.reshape(machine.intercept_, (1, -1))


def _objectives(coefficients: Floats, intercepts: Floats, split: Split, alpha: float) -> Floats:
    """Return the objectives of models, of shape (n_models,), by coefficients of shape (n_models, n_outputs, d)."""
    classes = np.unique(split.y)
    outputs = classes[1:] if len(classes) == 2 else classes
    found = np.zeros(len(coefficients))
    for k, label in enumerate(outputs):
        signs = np.where(split.y == label, 1.0, -1.0)
        margins = signs[:, None] * (split.X @ coefficients[:, k].T + intercepts[:, k])
        squares = (coefficients[:, k] ** 2).sum(axis=1) + intercepts[:, k] ** 2
        found += alpha / 2 * squares + np.maximum(0, 1 - margins).mean(axis=0)
    return found


def _accuracies(machine: ObservedSites, entry: Entry, split: Split) -> Floats:
    """Return the share of the test rows that every site's machine predicts right, after an iteration."""
    predicted = _labels(*machine.parts_of(entry.weights), machine.classes_, split.X_test)
    return np.asarray((predicted == split.y_test).mean(axis=1))


def _labels(coefficients: Floats, intercepts: Floats, classes: Any, X: Any) -> NDArray[Any]:
    """Return the labels that every model predicts, of shape (n_models, n_samples)."""
    values = np.stack([np.asarray(X @ one.T) + shift for one, shift in zip(coefficients, intercepts, strict=True)])
    chosen = values.argmax(axis=2) if values.shape[2] > 1 else (values[:, :, 0] > 0).astype(int)
    return np.asarray(classes[chosen])
