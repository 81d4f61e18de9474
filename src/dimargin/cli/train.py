"""``dimargin train``: training on a data file, by threads of this computer or on Spark."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import scipy.sparse as sp
import typer

from dimargin.cli import spark_engine
from dimargin.cli.brief_help import Application
from dimargin.cli.column_flags import ColumnChoices, Reading, column_flags
from dimargin.cli.estimator_flags import LOSSES, REGRESSION_LOSSES, flags, make_machine, strategy_options
from dimargin.cli.file_flags import data_option, readable
from dimargin.cli.flags import add_command, existing_file, usage_checked
from dimargin.cli.open_model import OpenModel
from dimargin.cli.probabilities import CalibrationOption, ProbabilitiesOption, chosen_method, with_probabilities
from dimargin.cli.row_columns import WeightOption
from dimargin.cli.searches import FIRST_NAMES, SearchDisplay, choice_text, first_search
from dimargin.cli.shared import (
    DATA,
    NAMES,
    JsonOption,
    LabelOption,
    Output,
    QuietOption,
    Scale,
    Trained,
    check_output,
    fitted,
    leave_interrupted,
    match_class_weights,
    scaled,
)
from dimargin.cli.terminal import FitDisplay
from dimargin.cli.training_rows import fitted_steps, read_training_rows, say_training_rows
from dimargin.estimators import MarginRegressor
from dimargin.estimators.machines import name_of
from dimargin.io.data import DataFileError, DataSet

_MANY_NUMBERS = 50  # More different numbers as labels, each of few rows, are more likely targets than classes.
_where = partial(typer.Option, rich_help_panel="Where it is trained")


def _train(
    context: typer.Context,
    data: Annotated[str, typer.Argument(metavar="DATA", help=f"{DATA} For Spark also a folder or a URL.")],
    model: Annotated[Path, typer.Option("--model", "-m", help="File for the model.", dir_okay=False)],
    task: Annotated[
        Literal["classification", "regression"] | None,
        typer.Option(help="Predict classes (the default) or numbers.", show_default=False),
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(
            help=f"Loss: {LOSSES}. Of regressions: {REGRESSION_LOSSES}.",
            show_default="hinge with C=1 or squared_hinge with C=10, by cross-validation; squared_hinge with --C or "
            "--engine spark",
        ),
    ] = None,
    label: LabelOption = None,
    weight: WeightOption = None,
    scale: Annotated[
        Scale | None,
        typer.Option(
            help="Scaling, fitted on the training rows and stored in the model; sparse rows are not centred.",
            show_default="minmax",
        ),
    ] = None,
    strategy_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help=f"Option of the strategy or solver; may be repeated. {strategy_options()}",
        ),
    ] = None,
    probabilities: ProbabilitiesOption = False,
    calibration: CalibrationOption = None,
    validate: Annotated[
        Path | None,
        data_option(help="Data to score the trained model on; with any engine, this computer reads it."),
    ] = None,
    resume: Annotated[
        Path | None,
        existing_file(
            help="Resume training of this model on the same rows; flags change its parameters. Not with --engine spark."
        ),
    ] = None,
    on_disk: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Keep the rows in this folder in place of memory, in a file that is removed with the process; linear "
            "machines train on it in passes.",
            rich_help_panel="How the file is read",
        ),
    ] = None,
    engine: Annotated[
        Literal["local", "spark"],
        _where(help="Train by threads of this computer, or on Spark's executors, which then read DATA."),
    ] = "local",
    master: Annotated[
        str | None,
        _where(
            metavar="URL",
            help="URL of Spark: local[2], spark://host:port, yarn, k8s://..., or sc://host:port for Spark Connect.",
            show_default="Spark's own configuration",
        ),
    ] = None,
    spark_conf: Annotated[
        list[str] | None, _where(metavar="NAME=VALUE", help="Setting of Spark; may be repeated.")
    ] = None,
    checkpoint_dir: Annotated[
        str | None,
        _where(
            metavar="URL",
            help="Checkpoint folder on Spark: progress is saved after every level, and the same command resumes from "
            "it.",
        ),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    **given: Any,
) -> None:
    """Train a machine and save it.

    Example: dimargin train train.csv --label class --model spam.dimargin --max-time 60 --validate test.csv

    Ctrl-C saves the best model so far and exits with status 1; a second Ctrl-C quits immediately.
    On Spark, the first one cancels the job, and nothing is saved.
    """
    out = Output(as_json, quiet)
    previous = None if resume is None else OpenModel.load(resume)
    with usage_checked():
        columns = ColumnChoices.of(given)
        if on_disk is not None:
            columns = _kept_on_disk(columns, on_disk, engine)
        if engine == "spark":
            spark_engine.check_flags(given, previous, data)
            if probabilities or calibration is not None:
                raise ValueError(
                    f"{'--probabilities' if probabilities else '--calibration'} cannot be used with --engine spark; "
                    "where the rows fit into memory, --resume adds probabilities to the model"
                )
            if columns.first is not None:
                raise ValueError(
                    f"{columns.first} cannot be used with --engine spark; pyspark.ml.feature has transformers"
                )
            if scale is Scale.quantile:
                raise ValueError("--scale quantile cannot be used with --engine spark; minmax and standard can")
            settings = spark_engine.settings(spark_conf or [])
        elif master is not None or spark_conf or checkpoint_dir is not None:
            first = "--master" if master is not None else "--spark-conf" if spark_conf else "--checkpoint-dir"
            raise ValueError(f"{first} needs --engine spark")
        else:
            _check_file(data)
        if previous is not None:
            previous.refuse_detector("dimargin train cannot resume")
            previous.single("--resume")
            previous.refuse_nested()
            if scale is not None:
                raise ValueError(f"--scale {scale} cannot be used with --resume: the model keeps its scaling")
            if columns.first not in (None, "--skip-unlabelled"):
                others = [flag for flag in columns.given if flag != "--skip-unlabelled"]
                raise ValueError(
                    f"{columns.first} cannot be used with --resume: the model keeps its choice of columns; leave out "
                    f"{', '.join(others)}"
                )
        check_output("--model", model, data, validate)
        method = chosen_method(probabilities, calibration, previous)
        if previous is not None:
            previous.machine.set_params(max_time=None)  # The limit of a previous run does not apply.
        resumed = None if previous is None else previous.machine
        machine: Any = make_machine(loss, given, strategy_option or [], resumed, task)
        if isinstance(machine, MarginRegressor) and (engine == "spark" or method is not None):
            flag = "--engine spark" if engine == "spark" else "--probabilities"
            raise ValueError(f"{flag} cannot be used for regression, only for classification")
    try:
        if engine == "spark":
            scale = scale or Scale.minmax
            done = spark_engine.train(
                machine, data, label, weight, scale, master, settings, checkpoint_dir, columns.options, out
            )
        elif previous is None:
            free = [name for name, value in {**given, "loss": loss}.items() if value is None]
            path = readable(context, Path(data))
            done = _train_here(machine, path, label, weight, columns, scale or Scale.minmax, free, method, out)
        else:
            weight = weight or previous.notes.get("weight")
            path = readable(context, Path(data))
            done = _resume(machine, path, label, weight, columns.reading, previous, method, out)
    except KeyboardInterrupt:
        print("dimargin: interrupted, nothing was saved", file=sys.stderr)
        raise
    trained = done.save(model, out)
    facts = {
        **done.facts(model),
        "kernel_evaluations": sum(entry["kernel_evaluations"] for entry in done.machine.history_),
        **trained.certificate(),
        **trained.validation(validate, label, columns.reading, out.warn),
    }
    out.result(facts, NAMES)
    if done.interrupted:
        leave_interrupted(out, _interruption(done, data, model, method, columns))


def _kept_on_disk(columns: ColumnChoices, folder: Path, engine: str) -> ColumnChoices:
    """Return the choices with rows on disk; raises ValueError for flags that do not go with it."""
    other = "--engine spark" if engine == "spark" else columns.first if columns.are_for_tables else None
    if other is not None:
        raise ValueError(f"--on-disk keeps rows of numbers that this computer reads, and cannot be used with {other}")
    return replace(columns, options=replace(columns.options, on_disk=folder))


def _interruption(done: Trained, data: str, model: Path, method: str | None, columns: ColumnChoices) -> str:
    """Return a message on what Ctrl-C has ended, with the command that resumes it, if there is one."""
    if done.machine.status_ != "interrupted" and method is None:
        return f"the search was cut short; the model in {model} is the best candidate so far, completely trained"
    kind = "best model so far" if method is None else "best model so far, without probabilities,"
    return f"the {kind} is in {model}; resume with: {columns.resuming(data, model, method)}"


def _check_file(data: str) -> None:
    path = Path(data)
    if data == "-":
        return
    if not path.exists():
        raise typer.BadParameter(f"file {data!r} does not exist.", param_hint="'DATA'")
    if path.is_dir():
        raise typer.BadParameter(f"{data!r} is a folder, which needs --engine spark.", param_hint="'DATA'")
    if not os.access(path, os.R_OK):
        raise typer.BadParameter(f"file {data!r} is not readable.", param_hint="'DATA'")


def _train_here(
    machine: Any,
    data: Path,
    label: str | None,
    weight: str | None,
    columns: ColumnChoices,
    scale: Scale,
    free: Collection[str],
    method: str | None,
    out: Output,
) -> Trained:
    """Train on a file, and calibrate by `method`, unless that is None.

    If the loss and C of a classifier are `free`, a cross-validation chooses between two losses before.
    """
    predicts_numbers = isinstance(machine, MarginRegressor)
    rows, transformer = read_training_rows(data, columns, label, weight, has_targets=predicts_numbers)
    seed = machine.random_state if isinstance(machine.random_state, int) else None
    steps = fitted_steps(rows, transformer, scale, getattr(machine, "memory_limit", None), seed)
    say_training_rows(data, rows, steps, out)
    search, counts = None, None
    if predicts_numbers:
        out.say(_fit_to_spread(machine, rows, free))
    else:
        y = np.asarray(rows.y)
        labels, counts = np.unique(y, return_counts=True)
        if len(labels) < 2:
            message = f"all rows have the label {str(labels[0])!r}; training needs two classes or more"
            raise DataFileError(f"{data}: {message}")
        are_numbers = all(re.fullmatch(r"[-+]?[\d.,]+", str(label)) for label in labels)  # Maybe with decimal commas.
        if are_numbers and _MANY_NUMBERS < len(labels) > 0.1 * len(y):
            said = f"the {len(y)} labels are {len(labels)} different numbers, each of which is a class"
            out.warn([f"{data}: {said}; --task regression predicts numbers"])
        match_class_weights(machine, labels)
        search = first_search(machine, y) if {"loss", "C"} <= {*free} else None
    out.say(_plan_of(machine, rows.X.shape[0], None if counts is None else counts.tolist(), search is not None))
    X = scaled(steps, rows.X)

    def fit() -> Trained:
        kind = FitDisplay if search is None else SearchDisplay
        display = kind(out.errors, machine.tol, out.quiet)
        done = fitted(search or machine, steps, rows, X, display, columns.notes)
        if search is None:
            return done
        out.say(choice_text(search))
        complaints = [text for text in done.complaints if not text.startswith("the search was cut short")]
        return replace(done, machine=search.best_estimator_, complaints=complaints)

    return with_probabilities(method, machine, X, rows, fit, out)


def _fit_to_spread(machine: Any, rows: DataSet, free: Collection[str]) -> str:
    """Set those of epsilon and C that are `free` and in the units of the targets; return a message on it."""
    mean = np.average(np.asarray(rows.y), weights=rows.weights)
    spread = float(np.sqrt(np.average((rows.y - mean) ** 2, weights=rows.weights)))
    chosen = {"epsilon": 0.1 * spread} | ({"C": spread} if machine.loss == "epsilon_insensitive" else {})
    chosen = {name: float(f"{value:.4g}") for name, value in chosen.items() if name in free and 0 < spread < np.inf}
    machine.set_params(**chosen)
    said = " and ".join(f"--{name} {value:g}" for name, value in chosen.items())
    text = f"the targets have the mean {mean:.4g} and the standard deviation {spread:.4g}"
    return f"{text}, from which {said} follow{'s' * (len(chosen) == 1)}" if chosen else text


def _plan_of(machine: Any, n_rows: int, class_counts: list[int] | None, chooses: bool) -> str:
    """Return a message on what is about to be trained, and for how long."""
    found = machine.fit_plan(n_rows, class_counts=class_counts)
    strategy = "" if found.shape is None else f", strategy {found.name}"  # Linear machines have a solver.
    plan = f"{f'choosing between {FIRST_NAMES}' if chooses else f'training with --loss {name_of(machine)}'}{strategy}"
    if machine.max_time is None:
        return f"{plan}; no time estimate; --max-time limits it"
    return f"{plan}, for at most {machine.max_time:g} s"


def _resume(
    machine: Any,
    data: Path,
    label: str | None,
    weight: str | None,
    reading: Reading,
    previous: OpenModel,
    method: str | None,
    out: Output,
) -> Trained:
    rows = previous.read_labelled(data, label, reading, weight)
    out.warn(previous.remarks(data, rows))
    X = scaled(previous.scalers, rows.X)
    out.say_shape(data, X.shape, sp.issparse(X), rows.X.shape[1] if len(rows.X.shape) == 2 else None)
    if not machine.can_resume_on(X):
        raise DataFileError(f"{data} does not hold the rows that the model to resume was trained on")

    def fit() -> Trained:
        machine.set_params(warm_start=True)
        done = fitted(machine, previous.scalers, rows, X, FitDisplay(out.errors, machine.tol, out.quiet))
        machine.set_params(warm_start=False)
        return replace(done, notes=previous.notes)

    return with_probabilities(method, machine, X, rows, fit, out)


def register(app: Application) -> None:
    """Add the command, whose flags include the parameters of all machines."""
    common = (
        "model", "task", "loss", "label", "weight", "scale", "probabilities", "calibration", "validate", "resume",
        "engine", "missing", "categories", "category", "dates", "decimal_comma", "thousands", "na", "drop",
        "skip_unlabelled", "encoding", "kernel", "gamma", "C", "lam", "strategy", "tol", "max_time", "class_weight",
        "memory_limit", "n_jobs", "random_state", "as_json", "quiet",
    )  # fmt: skip
    add_command(app, "train", _train, [*column_flags(), *flags()], common)
