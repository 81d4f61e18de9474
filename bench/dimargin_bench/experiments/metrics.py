"""Metrics of a fit: how each is measured, and how it is shown."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dimargin.display.report.words import count, number, size
from dimargin_bench.experiments.declarations import Examination
from dimargin_bench.experiments.replay import REPLAYED
from dimargin_bench.experiments.split_data import Split


@dataclass(frozen=True)
class Metric:
    """A metric's heading, how its values are shown, and what it is."""

    heading: str
    shown: Callable[[Any], str]
    about: str
    factor: float = 1.0  # from its values to those of a picture's axis


def _percent(share: float) -> str:
    return f"{100 * share:.2f}"


def _above(share: float) -> str:
    return f"{100 * share:,.0f}" if share >= 0.995 else number(100 * share, 2)


def _seconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else number(value, 3)


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 1000 else number(ratio, 3)


METRICS = {
    "accuracy": Metric(
        "accuracy, %",
        _percent,
        "share of the test rows that are predicted right; of several sites, the mean of their accuracies or the "
        "accuracy of one model, as the list of methods says",
        100.0,
    ),
    "accuracy_sd": Metric("sd, %", _percent, "standard deviation of the sites' accuracies", 100.0),
    "objective": Metric(
        "objective", lambda value: number(value, 6), "as the method defines it, of its partitions if it ends with them"
    ),
    "gap": Metric("gap", lambda value: f"{value:.1e}", "relative duality gap, of the partitions if it ends with them"),
    "dual_objective": Metric(
        "dual objective", lambda value: number(value, 6), "of the whole problem, by hand from the coefficients"
    ),
    "difference": Metric(
        "difference", lambda value: number(value, 3), "from the dual objective to the optimum, which theorems bound"
    ),
    "bound": Metric("bound of Theorem 1", lambda value: number(value, 3), "on the difference"),
    "bound_ratio": Metric(
        "bound / difference", lambda value: number(value, 3), "how many times too large the bound is"
    ),
    "bound_of_support": Metric(
        "bound of Theorem 3", lambda value: number(value, 3), "on the difference, of support vectors only"
    ),
    "distance": Metric("difference / optimum", lambda value: f"{value:.1e}", "difference, relative to the optimum"),
    "screened": Metric("screened", count, "rows that Theorem 2 says are no support vectors"),
    "no_support": Metric("no support vectors", count, "rows that are none of the optimum's"),
    "support_precision": Metric("precision, %", _percent, "share of the support vectors that are the optimum's", 100.0),
    "support_recall": Metric("recall, %", _percent, "share of the optimum's support vectors that are found", 100.0),
    "training_rows": Metric("training rows", count, "rows that methods are fitted to"),
    "test_rows": Metric("test rows", count, "rows that they predict"),
    "all_rows": Metric("all rows", count, "training and test rows, before any were drawn"),
    "features": Metric("features", count, "columns"),
    "global_objective": Metric(
        "objective of all rows", lambda value: number(value, 6), "of the whole problem, whatever the method solved"
    ),
    "global_gap": Metric("gap of all rows", lambda value: f"{value:.1e}", "relative duality gap of the whole problem"),
    "one_core": Metric("1 core, s", _seconds, "of a fit on one core"),
    "measured_2": Metric("2 cores, measured, times", _times, "as fast as on one, both measured"),
    "replay_error": Metric(
        "measured / replayed", _times, "speed-up on two cores: a replay whose ratio is 1 is right there"
    ),
    **{
        f"replayed_{cores}": Metric(
            f"{cores} cores, replayed, times",
            _times,
            "as fast as on one, simulated: the tasks of the fit on one core, dealt to so many by list scheduling",
        )
        for cores in REPLAYED
    },
    "between_tasks": Metric("between tasks, %", _percent, "share of the seconds on one core that no task took", 100.0),
    "partitions": Metric("clusters", count, "into which the rows are divided"),
    "seconds": Metric(
        "seconds",
        _seconds,
        "of the fit, the first of its process: some tenths of a second are those of first use; of sites, until each "
        "has ended, the mean over them; where a page says so, a site's share of those of ten in one process",
    ),
    "seconds_sd": Metric("sd, s", _seconds, "standard deviation of the sites' seconds"),
    "speed_up": Metric("speed-up, times", _times, "seconds of the other method over those of this one"),
    "prediction_seconds": Metric("prediction, s", _seconds, "of the prediction of all test rows"),
    "prediction_milliseconds": Metric("prediction of a row, ms", _seconds, "mean over the test rows"),
    **{
        f"{what}_{level}": Metric(f"level {level}, {what}, s", _seconds, f"seconds of {what} of that level, in the fit")
        for what in ("clustering", "training")
        for level in range(4, -1, -1)
    },
    "C": Metric("C", lambda value: number(value, 3), "parameter"),
    "gamma": Metric("gamma", lambda value: number(value, 3), "parameter"),
    "kernel_evaluations": Metric("kernel evaluations", lambda value: f"{value:.2e}", "kernel values that the fit took"),
    "passes": Metric("passes", count, "over the rows, of the slowest part of every level"),
    "anchor_rows": Metric(
        "rows of anchors", count, "with which gradients at anchors are computed at the end: all, if it is SVRG"
    ),
    "support_vectors": Metric("support vectors", count, "rows that the model holds"),
    "bytes": Metric("sent", size, "bytes of all messages or, of balls, of those until all nodes have one core-set"),
    "messages": Metric("messages", count, "sent by all sites or, of balls, until all nodes have one core-set"),
    "rounds": Metric(
        "rounds",
        count,
        "of the sites, until the run ended or, with core-sets, until all sites had the same one; of a method without "
        "sites, its iterations",
    ),
    "converged": Metric("sites converged", count, "by the stopping rule of the method"),
    **{
        name: metric
        for n in (4, 8, 10)
        for name, metric in (
            (
                f"accuracy_at_{n}",
                Metric(
                    f"accuracy @{n} itr, %",
                    _percent,
                    f"of the sites, as last measured until {n} iterations were quiet",
                    100.0,
                ),
            ),
            (f"converged_at_{n}", Metric(f"sites converged @{n} itr", count, f"with {n} quiet iterations in a row")),
        )
    },
    "rows_shared": Metric("rows shared", count, "rows, or points, that have left their site"),
    "worst_accuracy": Metric(
        "worst site, %", _percent, "share of the test rows that the worst site predicts right", 100.0
    ),
    "honest_accuracy": Metric(
        "worst honest site, %",
        _percent,
        "share of the test rows that the worst of the sites that do not lie predicts right",
        100.0,
    ),
    "balanced_accuracy": Metric("balanced, %", _percent, "mean over the classes of the share predicted right", 100.0),
    "rare_accuracy": Metric("rarer class, %", _percent, "share of its test rows that are predicted right", 100.0),
    "excess": Metric("above the optimum, %", _above, "objective of all rows over LIBLINEAR's, less one", 100.0),
    "worst_excess": Metric(
        "worst site above, %", _above, "objective of all rows at the worst site over LIBLINEAR's, less one", 100.0
    ),
    "core_sets": Metric("core-sets", count, "different ones at the end"),
    "squared_radius": Metric("squared radius", lambda value: number(value, 5), "of the ball"),
    "radius_ratio": Metric("radius / smallest", lambda value: number(value, 5), "of the ball, over the smallest"),
    "reach_ratio": Metric(
        "farthest / smallest", lambda value: number(value, 5), "distance from the centre, over the smallest radius"
    ),
    "own_reach_ratio": Metric(
        "farthest / radius", lambda value: number(value, 5), "distance from the centre, over the radius of the ball"
    ),
    "centre_norm": Metric("norm of the centre", lambda value: number(value, 4), "of the ball"),
    "peak_memory": Metric("peak memory", size, "of the process of the cell, with Python, its libraries and the data"),
}
"""All metrics, by the keys that cells, tables and files have; a method without one lacks its key."""


def measure(
    make: Callable[[], Any], split: Split, examine: Examination | None = None
) -> tuple[dict[str, float], dict[str, Any]]:
    """Fit an estimator to the training rows, predict the test rows, and return all metrics and traces that it has.

    The metrics of `examine` come last, and its time and memory are not in the others.

    Raises
    ------
    FloatingPointError
        If predictions or a metric are not finite numbers.
    """
    estimator = make()
    began = time.perf_counter()
    estimator.fit(split.X, split.y)
    fitted = time.perf_counter()
    predicted = np.asarray(estimator.predict(split.X_test))
    ended = time.perf_counter()
    if predicted.dtype.kind == "f" and not np.isfinite(predicted).all():
        raise FloatingPointError(f"{np.sum(~np.isfinite(predicted))} of {len(predicted)} predictions are not finite")
    found = {
        "accuracy": float(np.mean(predicted == split.y_test)),
        "seconds": fitted - began,
        "prediction_seconds": ended - fitted,
        "prediction_milliseconds": 1000 * (ended - fitted) / len(predicted),
        "peak_memory": _peak_memory(),
        **of_model(estimator),
        **(examine(estimator, split) if examine is not None else {}),
    }
    for name, value in found.items():
        if not np.isfinite(value):
            raise FloatingPointError(f"{name} is {value}")
    return {name: found[name] for name in METRICS if name in found}, getattr(estimator, "traces_", {})


def of_model(estimator: Any) -> dict[str, float]:
    """Return the metrics that a fitted model says of itself: objectives and counts of several classes are summed up."""
    found: dict[str, float] = {}
    if hasattr(estimator, "objective_"):
        found["objective"] = float(np.sum(estimator.objective_))
    if hasattr(estimator, "duality_gap_"):
        found["gap"] = float(np.max(estimator.duality_gap_))
    if hasattr(estimator, "support_"):
        found["support_vectors"] = len(estimator.support_)
    history = getattr(estimator, "history_", None) or [{}]
    if "kernel_evaluations" in history[0]:
        found["kernel_evaluations"] = int(sum(entry["kernel_evaluations"] for entry in history))
    if all("passes" in entry for entry in history):
        found["passes"] = int(sum(entry["passes"] for entry in history))
    for name in ("bytes", "messages", "anchor_rows"):
        if name in history[-1]:
            found[name] = int(history[-1][name])
    return found


def _peak_memory() -> int:
    """Return the bytes that this process had at most in memory."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
