"""``dimargin train``: a machine from a data file, by this machine's threads or on Spark."""

from __future__ import annotations

import inspect
import os
import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import scipy.sparse as sp
import typer
from sklearn.pipeline import Pipeline

from dimargin.cli import spark_engine
from dimargin.cli.parameters import DEFAULT_LOSS, flags, make_machine, strategy_options
from dimargin.cli.shared import (
    DATA,
    JsonOption,
    LabelOption,
    Output,
    QuietOption,
    Scale,
    Trained,
    certificate,
    check_folder,
    fitted_scalers,
    machine_of,
    name_features,
    open_model,
    read_for,
    refuse_detector,
    scaled,
    scalers_of,
    scores,
    timed,
)
from dimargin.cli.terminal import FitDisplay
from dimargin.data_files import DataFileError, read_data
from dimargin.estimators import MACHINES
from dimargin.model_files import save

_PANEL = "Where it is trained"


class Engine(StrEnum):
    """Engine on which a machine is trained."""

    local = "local"
    spark = "spark"


def _train(
    data: Annotated[str, typer.Argument(metavar="DATA", help=f"{DATA} For Spark also a folder or a URL.")],
    model: Annotated[Path, typer.Option("--model", "-m", help="Where the model goes.", dir_okay=False)],
    loss: Annotated[
        str | None, typer.Option(help=f"Which machine: {', '.join(MACHINES)}.", show_default=DEFAULT_LOSS)
    ] = None,
    label: LabelOption = None,
    scale: Annotated[
        Scale | None,
        typer.Option(
            help="Fitted on the training rows and stored in the model; sparse rows are not centred.",
            show_default="minmax",
        ),
    ] = None,
    strategy_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help=f"An option of the strategy, or of the solver; may be repeated. {strategy_options()}",
        ),
    ] = None,
    validate: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Data to score the model on when it is trained; read by this machine, whatever the engine.",
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Go on from this model, of the same rows; flags given change it. Not with --engine spark.",
        ),
    ] = None,
    engine: Annotated[
        Engine,
        typer.Option(
            help="Threads of this machine, or executors of Spark, which alone read DATA.", rich_help_panel=_PANEL
        ),
    ] = Engine.local,
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Of Spark: local[2], spark://host:port, yarn, k8s://..., or sc://host:port for Spark Connect.",
            show_default="Spark's own configuration",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    spark_conf: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A setting of Spark; may be repeated.", rich_help_panel=_PANEL),
    ] = None,
    checkpoint_dir: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Folder that Spark writes down in after every level how far the work has come; the same command goes "
            "on from there.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    **given: Any,
) -> None:
    """Train a machine and save it.

    Example: dimargin train train.csv --label class --model spam.dimargin --max-time 60 --validate test.csv

    Ctrl-C saves the best model so far and exits with status 1; a second Ctrl-C leaves at once. On Spark, the first one
    cancels the job, and nothing is saved.
    """
    out = Output(as_json, quiet)
    previous, notes = (None, {}) if resume is None else open_model(resume)
    try:
        if engine is Engine.spark:
            spark_engine.check_flags(given, previous)
            settings = spark_engine.settings(spark_conf or [])
        elif master is not None or spark_conf or checkpoint_dir is not None:
            first = "--master" if master is not None else "--spark-conf" if spark_conf else "--checkpoint-dir"
            raise ValueError(f"{first} needs --engine spark")
        else:
            _check_file(data)
        if resume is not None:
            refuse_detector(resume, previous, "dimargin train cannot go on from")
        if previous is not None and scale is not None:
            raise ValueError(f"--scale {scale} cannot be changed: the model to resume has its scaling")
        check_folder("--model", model)
        if previous is not None:
            machine_of(previous).set_params(max_time=None)  # a limit is of one run
        machine: Any = make_machine(loss, given, strategy_option or [], previous and machine_of(previous))
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(str(error)) from error
    try:
        if engine is Engine.spark:
            done = spark_engine.train(
                machine, data, label, scale or Scale.minmax, master, settings, checkpoint_dir, out
            )
        elif previous is None:
            done = _train_here(machine, Path(data), label, scale or Scale.minmax, out)
        else:
            done = _go_on(machine, Path(data), label, previous, notes, out)
    except KeyboardInterrupt:
        print("dimargin: interrupted, nothing was saved", file=sys.stderr)
        raise
    _finish(done, model, label, validate, out)


def _check_file(data: str) -> None:
    path = Path(data)
    if not path.exists():
        raise ValueError(f"DATA: file {data!r} does not exist")
    if path.is_dir():
        raise ValueError(f"DATA: {data!r} is a folder; --engine spark reads such")
    if not os.access(path, os.R_OK):
        raise ValueError(f"DATA: file {data!r} is not readable")


# ---- on this machine -------------------------------------------------------------------------------------------------


def _train_here(machine: Any, data: Path, label: str | None, scale: Scale, out: Output) -> Trained:
    rows = read_data(data, label)
    _say_shape(data, rows.X, out)
    scalers = fitted_scalers(scale, rows.X, getattr(machine, "memory_limit", None))
    notes = {"label": rows.label, "zero_based": rows.zero_based}
    return _fitted(machine, scalers, scaled(scalers, rows.X), rows.y, notes, rows.feature_names, out)


def _go_on(machine: Any, data: Path, label: str | None, previous: Any, notes: dict[str, Any], out: Output) -> Trained:
    rows = read_for(previous, notes, data, label)
    _say_shape(data, rows.X, out)
    X = scaled(scalers_of(previous), rows.X)
    if not machine._can_resume_on(X):
        raise DataFileError(f"{data} does not hold the rows that the model to resume was trained on")
    machine.set_params(warm_start=True)
    done = _fitted(machine, scalers_of(previous), X, rows.y, notes, rows.feature_names, out)
    machine.set_params(warm_start=False)
    return done


def _say_shape(data: Path, X: Any, out: Output) -> None:
    out.say(f"{data}: {X.shape[0]} rows, {X.shape[1]} features{', sparse' if sp.issparse(X) else ''}")


def _fitted(
    machine: Any, scalers: list[tuple[str, Any]], X: Any, y: Any, notes: dict[str, Any], names: Any, out: Output
) -> Trained:
    machine._monitor = display = FitDisplay(out.errors, machine.tol, out.quiet)
    with display.running():
        _, seconds, complaints = timed(lambda: machine.fit(X, y))
    del machine._monitor
    return Trained(machine, scalers, notes, names, X.shape, seconds, complaints, display.interrupted.is_set())


# ---- what is left of it ----------------------------------------------------------------------------------------------


def _finish(done: Trained, model: Path, label: str | None, validate: Path | None, out: Output) -> None:
    """Save the model, and print the facts about it."""
    machine = done.machine
    name_features(done.feature_names, machine, *(scaler for _, scaler in done.scalers))
    trained = Pipeline([*done.scalers, ("machine", machine)]) if done.scalers else machine
    save(trained, model, done.notes)
    for complaint in done.complaints:
        out.say(f"warning: {complaint}")
    facts = {
        "model": str(model),
        "rows": done.shape[0],
        "features": done.shape[1],
        "classes": machine.classes_.tolist(),
        "seconds": done.seconds,
        "kernel_evaluations": sum(entry["kernel_evaluations"] for entry in machine.history_),
        **certificate(machine),
    }
    if validate is not None:
        found = scores(trained, validate, read_for(trained, done.notes, validate, label))
        facts["validation"] = {k: v for k, v in found.items() if k not in ("classes", "confusion")}
    out.result(facts)
    if done.interrupted:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done; a late Ctrl-C shall not change the exit status
        out.say(f"Interrupted: the best model so far is in {model}; go on with --resume {model}")
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add the command, whose flags are also those of the machines."""
    own = [p for p in inspect.signature(_train, eval_str=True).parameters.values() if p.kind is not p.VAR_KEYWORD]
    _train.__signature__ = inspect.signature(_train).replace(parameters=[*own, *flags()])  # type: ignore[attr-defined]
    app.command("train")(_train)
