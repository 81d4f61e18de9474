"""Further metrics of a fitted machine: by hand from its coefficients, or by further fits."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics.pairwise import pairwise_kernels

from dimargin.kernels.column_statistics import row_chunks
from dimargin_bench.experiments.replay import REPLAYED, TaskTimes
from dimargin_bench.experiments.split_data import Split

_REPEATS = 3  # of a fit that is timed; the fastest counts
_KERNEL = ("gamma", "kernel", "degree", "coef0")


def dual_objective(machine: Any, split: Split) -> dict[str, float]:
    r"""Return the dual objective ``sum_i a_i - 1/2 a'Qa`` of the whole problem at a machine's coefficients.

    Those of local machines are put together, whatever rule predicts with them. In float64, with
    scikit-learn's kernels, so that the objectives of all machines are the judge's and not their
    own.

    Parameters
    ----------
    machine : SVMClassifier or scikit-learn's SVC
        Of two classes, with the hinge. ``dual_coef_`` has ``a_i y_i``.
    split : Split
        Its training rows are those of the fit.
    """
    signed, rows = machine.dual_coef_[0], split.X[machine.support_]
    kernel = {name: getattr(machine, name) for name in _KERNEL}
    quadratic = 0.0
    for some in row_chunks(len(signed)):
        quadratic += signed[some] @ (_kernel(rows[some], rows, split, **kernel) @ signed)
    return {"dual_objective": float(np.abs(signed).sum() - quadratic / 2)}


def _kernel(X: Any, Y: Any, split: Split, kernel: str, gamma: Any, degree: int, coef0: float) -> Any:
    if kernel == "linear":
        return pairwise_kernels(X, Y, "linear")
    rate = 1 / (split.X.shape[1] * split.X.var()) if gamma == "scale" else gamma
    own = {"degree": degree, "coef0": coef0} if kernel == "poly" else {}
    return pairwise_kernels(X, Y, kernel, gamma=rate, **own)


def sizes(_: Any, split: Split) -> dict[str, float]:
    """Return the number of all rows, before any were drawn, and of features."""
    return {"all_rows": split.n_rows or len(split.y) + len(split.y_test), "features": split.X.shape[1]}


def of_all_rows(machine: Any, split: Split) -> dict[str, float]:
    """Return objective and gap of the whole problem at a machine that may have solved those of its parts.

    A machine without ``certify`` knows no gap.
    """
    if not hasattr(machine, "certify"):
        return {"global_objective": float(machine.objective_)}
    machine.certify(split.X, split.y)
    return {"global_objective": float(machine.objective_), "global_gap": float(machine.duality_gap_)}


def speed_up(machine: Any, split: Split) -> dict[str, float]:
    """Return how many times faster a fit is on two cores, measured, and on more, replayed; see `TaskTimes`.

    The machine's strategy or solver is one of `dimargin_bench.experiments.replay`. It is fitted
    again, three times on one core and on two, of which the fastest count. The error of the replay
    is what is measured on two cores over what is replayed, see
    `dimargin_bench.experiments.replay.error_band`.
    """
    name = "strategy" if hasattr(machine, "strategy") else "solver"
    fits: dict[int, list[TaskTimes]] = {1: [], 2: []}
    for _, (cores, found) in itertools.product(range(_REPEATS), fits.items()):
        again = clone(machine).set_params(n_jobs=cores)
        began = time.perf_counter()
        again.fit(split.X, split.y)
        found.append(TaskTimes(time.perf_counter() - began, getattr(again, name).stages_))
    times, on_two = (min(found, key=lambda one: one.seconds) for found in fits.values())
    replayed = {cores: times.seconds / times.on(cores) for cores in REPLAYED}
    measured = times.seconds / on_two.seconds
    return {
        "one_core": times.seconds,
        "measured_2": measured,
        "replay_error": measured / replayed[2],
        **{f"replayed_{cores}": ratio for cores, ratio in replayed.items()},
        "between_tasks": times.between / times.seconds,
    }
