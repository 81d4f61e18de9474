"""``dimargin train | predict | evaluate | info``, and the commands of `dimargin.cli.tune` and `svm_commands`."""

from __future__ import annotations

import inspect
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Annotated, Any, NoReturn

import scipy.sparse as sp
import typer
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline

from dimargin.cli import svm_commands, tune
from dimargin.cli.parameters import DEFAULT_LOSS, flags, make_machine, parameters, strategy_options
from dimargin.cli.shared import (
    DataArgument,
    JsonOption,
    LabelOption,
    ModelArgument,
    Output,
    QuietOption,
    Scale,
    certificate,
    check_folder,
    draw,
    fitted_scalers,
    machine_of,
    name_features,
    open_model,
    read_for,
    scaled,
    scalers_of,
    scores,
)
from dimargin.cli.terminal import FitDisplay
from dimargin.displays import MarginDistributionDisplay
from dimargin.estimators import MACHINES
from dimargin.files import DataFileError, load_with_header, read_data, save
from dimargin.files.writing import write_file

app = typer.Typer(
    name="dimargin",
    help="Large-margin classifiers that carry a certificate.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"token_normalize_func": lambda token: token.replace("_", "-")},
)
_ABORTED = 130  # what typer makes of Ctrl-C
_MISTAKES = (ValueError, TypeError, OSError, MemoryError)  # a line, not a traceback


# ---- commands --------------------------------------------------------------------------------------------------------


def _train(
    data: DataArgument,
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
        Path | None, typer.Option(exists=True, dir_okay=False, help="Data to score the model on when it is trained.")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="Go on from this model, of the same rows; flags given change it."
        ),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    **given: Any,
) -> None:
    """Train a machine and save it.

    Example: dimargin train train.csv --label class --model spam.dimargin --max-time 60 --validate test.csv

    Ctrl-C saves the best model so far and exits with status 1; a second Ctrl-C leaves at once.
    """
    out = Output(as_json, quiet)
    previous, notes = (None, {}) if resume is None else open_model(resume)
    try:
        if previous is not None and scale is not None:
            raise ValueError(f"--scale {scale} cannot be changed: the model to resume has its scaling")
        check_folder("--model", model)
        if previous is not None:
            machine_of(previous).set_params(max_time=None)  # a limit is of one run
        machine: Any = make_machine(loss, given, strategy_option or [], previous and machine_of(previous))
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(str(error)) from error
    rows = read_data(data, label) if previous is None else read_for(previous, notes, data, label)
    n, d = rows.X.shape
    out.say(f"{data}: {n} rows, {d} features{', sparse' if sp.issparse(rows.X) else ''}")
    if previous is None:
        scalers = fitted_scalers(scale or Scale.minmax, rows.X)
        notes = {"label": rows.label, "zero_based": rows.zero_based}
    else:
        scalers = scalers_of(previous)
    X = scaled(scalers, rows.X)
    if previous is not None:
        if not machine._can_resume_on(X):
            raise DataFileError(f"{data} does not hold the rows that the model to resume was trained on")
        machine.set_params(warm_start=True)
    seconds, interrupted, complaints = _fit(machine, X, rows.y, out)
    machine.set_params(warm_start=False)
    name_features(rows.feature_names, machine, *(scaler for _, scaler in scalers))
    trained = Pipeline([*scalers, ("machine", machine)]) if scalers else machine
    save(trained, model, notes)
    for complaint in complaints:
        out.say(f"warning: {complaint}")
    facts = {
        "model": str(model),
        "rows": n,
        "features": d,
        "classes": machine.classes_.tolist(),
        "seconds": seconds,
        "kernel_evaluations": sum(entry["kernel_evaluations"] for entry in machine.history_),
        **certificate(machine),
    }
    if validate is not None:
        found = scores(trained, validate, read_for(trained, notes, validate, label))
        facts["validation"] = {k: v for k, v in found.items() if k not in ("classes", "confusion")}
    out.result(facts)
    if interrupted:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done; a late Ctrl-C shall not change the exit status
        out.say(f"Interrupted: the best model so far is in {model}; go on with --resume {model}")
        raise typer.Exit(1)


def _fit(machine: Any, X: Any, y: Any, out: Output) -> tuple[float, bool, list[str]]:
    """Seconds, whether Ctrl-C ended it, and warnings."""
    machine._monitor = display = FitDisplay(out.errors, machine.tol, out.quiet)
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught, display.running():
        warnings.simplefilter("always", ConvergenceWarning)
        machine.fit(X, y)
    del machine._monitor
    return time.perf_counter() - began, display.interrupted.is_set(), [str(warning.message) for warning in caught]


_train.__signature__ = inspect.signature(_train).replace(  # type: ignore[attr-defined]
    parameters=[
        *(p for p in inspect.signature(_train, eval_str=True).parameters.values() if p.kind is not p.VAR_KEYWORD),
        *flags(),
    ]
)
app.command("train")(_train)


@app.command()
def predict(
    model: ModelArgument,
    data: DataArgument,
    output: Annotated[Path | None, typer.Option("--output", "-o", dir_okay=False, help="File for the labels.")] = None,
    decision_values: Annotated[bool, typer.Option(help="Decision values after each label, tab-separated.")] = False,
    label: LabelOption = None,
    quiet: QuietOption = False,
) -> None:
    """Predict a label a line.

    Example: dimargin predict spam.dimargin new.csv --output labels.txt
    """
    out = Output(False, quiet)
    trained, notes = open_model(model)
    rows = read_for(trained, notes, data, label, needs_label=False)
    began = time.perf_counter()
    lines = [str(name) for name in trained.predict(rows.X).tolist()]
    seconds = time.perf_counter() - began
    if decision_values:
        values = trained.decision_function(rows.X).reshape(len(lines), -1)
        lines = ["\t".join([name, *(f"{v:.9g}" for v in row)]) for name, row in zip(lines, values, strict=True)]
    text = "\n".join(lines) + "\n"
    if output is None:
        sys.stdout.write(text)
    else:
        write_file(output, text.encode())
    out.say(f"{len(lines)} rows in {seconds:.3g} s, {len(lines) / max(seconds, 1e-9):.3g} rows per second")


@app.command()
def evaluate(
    model: ModelArgument,
    data: DataArgument,
    label: LabelOption = None,
    plot: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Draw the margin distribution (.png, .svg, .pdf).")
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Score a model on labelled data.

    Example: dimargin evaluate spam.dimargin test.csv --plot margins.png
    """
    out = Output(as_json, quiet)
    trained, notes = open_model(model)
    rows = read_for(trained, notes, data, label)
    facts = scores(trained, data, rows)
    if plot is not None:
        draw(lambda: MarginDistributionDisplay.from_estimator(trained, rows.X, rows.y), plot)
        out.say(f"margin distribution drawn in {plot}")
    if as_json or quiet:
        return out.result(facts)
    classes, confusion = facts.pop("classes"), facts.pop("confusion")
    out.result(facts)
    table = Table("true \\ predicted", *map(str, classes))
    for name, counts in zip(classes, confusion, strict=True):
        table.add_row(str(name), *map(str, counts))
    out.console.print(table)


@app.command()
def info(
    model: ModelArgument,
    certify: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Training data: compute the global certificate and store it."),
    ] = None,
    label: LabelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print what a model file says of itself: its certificate above all.

    Example: dimargin info spam.dimargin --certify train.csv
    """
    out = Output(as_json, quiet=False)
    trained, header = load_with_header(model)
    machine, scalers = machine_of(trained), scalers_of(trained)
    if certify is not None:
        rows = read_for(trained, header["notes"], certify, label)
        machine.certify(scaled(scalers, rows.X), rows.y)
        save(trained, model, header["notes"])
    values = {name: getattr(machine, name) for name in parameters(type(machine))}
    facts = {
        "machine": type(machine).__name__,
        **certificate(machine),
        "classes": machine.classes_.tolist(),
        "features": int(machine.n_features_in_),
        "scaling": ", ".join(type(scaler).__name__ for _, scaler in scalers) or "none",
        "parameters": {k: v if isinstance(v, (int, float, str, type(None))) else str(v) for k, v in values.items()},
        "written_by": f"dimargin {header['dimargin_version']}, format {header['format_version']}",
        "privacy": machine._facts["privacy"],
    }
    out.result(facts)


tune.register(app)
svm_commands.register(app)


def main() -> NoReturn:
    """Run the command line; a user's mistake is a line on standard error and exit status 1 or 2."""
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    try:
        app()
    except SystemExit as end:
        if end.code != _ABORTED:
            raise
    except KeyboardInterrupt:
        print("dimargin: interrupted, nothing was saved", file=sys.stderr)
    except BrokenPipeError:
        sys.stderr.close()  # the reader has gone; so do we, without a word
    except _MISTAKES as error:
        print(f"dimargin: {error}", file=sys.stderr)
    sys.exit(1)
