"""Probabilities of a trained machine, as ``dimargin train --probabilities`` adds them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import typer

from dimargin.cli.open_model import OpenModel
from dimargin.cli.shared import Output, Trained, scaled, timed
from dimargin.cli.terminal import FitDisplay
from dimargin.estimators.calibration import CalibrationRows, check_method
from dimargin.estimators.fit_progress import Monitor
from dimargin.io.data import DataSet

ProbabilitiesOption = Annotated[
    bool,
    typer.Option(
        "--probabilities",
        help="Also calibrate probabilities, by five fits of cross-validation, which take at most half of --max-time.",
    ),
]
CalibrationOption = Annotated[
    Literal["sigmoid", "isotonic", "temperature"] | None,
    typer.Option(
        help="Map from decision values to probabilities. Isotonic needs thousands of rows; temperature needs "
        "scikit-learn 1.8, and is better for many classes.",
        show_default="sigmoid, or that of the model to resume",
    ),
]

_CLASS_WEIGHT_REMARK = (
    "probabilities are calibrated on the rows without --class-weight, and labels are those of the highest probability: "
    "a class of high weight may be predicted less often than without --probabilities; --weight also weights the "
    "calibration"
)


def chosen_method(probabilities: bool, calibration: str | None, previous: OpenModel | None) -> str | None:
    """Return the method of calibration, or None for a model without probabilities.

    A model that is resumed keeps its method. Raises ValueError for --calibration without
    probabilities, and for a method that the installed scikit-learn does not have.
    """
    kept = None if previous is None else previous.calibration
    if calibration is not None and not (probabilities or kept):
        raise ValueError("--calibration needs --probabilities")
    method = calibration or kept or ("sigmoid" if probabilities else None)
    if method is not None:
        check_method(method)
    return method


def with_probabilities(
    method: str | None, machine: Any, X: Any, rows: DataSet, fit: Callable[[], Trained], out: Output
) -> Trained:
    """Train by `fit`, which trains this machine or search on the scaled rows X, and calibrate its probabilities.

    If X is None, the steps of what `fit` returns scale the rows. The fit takes at most half of the
    machine's time limit, and calibration takes the rest. If one of them is interrupted, the result
    has no probabilities. Raises ValueError if a class has only one row.
    """
    if method is None:
        return fit()
    split = CalibrationRows.split(X, rows.y, rows.weights, machine.random_state or 0)
    limit, began = machine.max_time, time.perf_counter()
    machine.set_params(max_time=limit and limit / 2)
    done = fit()
    if done.machine.max_time is not None:
        done.machine.set_params(max_time=limit)
    if done.interrupted:
        return done
    if X is None:
        split = replace(split, X=scaled(done.scalers, rows.X))
    left = None if limit is None else limit - (time.perf_counter() - began)
    if done.machine.class_weight is not None:
        out.warn([_CLASS_WEIGHT_REMARK])
    out.say(f"calibrating probabilities ({method}) by {len(split.folds)}-fold cross-validation")
    calibrated, seconds, complaints = timed(lambda: _calibrated(method, done.machine, split, left, out))
    return replace(
        done,
        calibrated=calibrated,
        calibration_seconds=seconds,
        complaints=[*done.complaints, *_summarised(complaints, len(split.folds))],
        interrupted=calibrated is None,
    )


def _summarised(complaints: Sequence[str], n_folds: int) -> list[str]:
    """Return the warnings of a calibration, with one for all folds that were not trained to the tolerance."""
    others = [text for text in complaints if "stopped before the tolerance" not in text]
    n_stopped = len(complaints) - len(others)
    stopped = f"{n_stopped} of {n_folds} fits stopped before the tolerance was reached: probabilities may be worse"
    return [f"calibration: {text}" for text in dict.fromkeys([*([stopped] if n_stopped else []), *others])]


def _calibrated(method: str, machine: Any, split: CalibrationRows, max_time: float | None, out: Output) -> Any:
    """Return the machine with probabilities, or None if it was interrupted."""
    display, silent = FitDisplay(out.errors, machine.tol, out.quiet), Monitor()
    silent.interrupted = display.interrupted  # The bar counts folds and does not follow their fits.
    display.level_begin(0, len(split.folds))
    display.describe("calibration, folds")
    with display.running():
        values = split.decision_values(machine, max_time, silent, display.task_end)
    return None if values is None else split.calibrate(machine, values, method)
