"""``dimargin train | predict | evaluate | info``, and those of `dimargin.cli.svm_commands`."""

from __future__ import annotations

import inspect
import json
import signal
import sys
import time
import warnings
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import numpy as np
import scipy.sparse as sp
import typer
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import confusion_matrix
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from dimargin.cli import svm_commands
from dimargin.cli.parameters import DEFAULT_LOSS, flags, make_machine, parameters, strategy_options
from dimargin.cli.terminal import FitDisplay
from dimargin.displays import MarginDistributionDisplay
from dimargin.estimators import MACHINES
from dimargin.files import DataFileError, DataSet, load_with_header, read_data, save
from dimargin.files.data import data_format
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


class Scale(StrEnum):
    """How features are scaled."""

    none = "none"
    minmax = "minmax"
    standard = "standard"


DataArgument = Annotated[
    Path,
    typer.Argument(
        exists=True, dir_okay=False, metavar="DATA", help="LIBSVM text (also .gz, .bz2, .xz), CSV or Parquet."
    ),
]
ModelArgument = Annotated[Path, typer.Argument(exists=True, dir_okay=False, metavar="MODEL", help="A model file.")]
LabelOption = Annotated[
    str | None, typer.Option(help="Name or position of the label column of CSV and Parquet.", show_default="by name")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, for machines.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]


class _Output:
    """Results on standard output, everything else on standard error."""

    def __init__(self, as_json: bool, quiet: bool) -> None:
        self.as_json, self.quiet = as_json, quiet
        self.console, self.errors = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)

    def say(self, text: str) -> None:
        if not self.quiet:
            self.errors.print(text, markup=False, highlight=False)

    def result(self, facts: dict[str, Any]) -> None:
        if self.as_json:
            print(json.dumps(facts))
        elif not self.quiet:
            table = Table(show_header=False, box=None, pad_edge=False)
            for name, value in facts.items():
                table.add_row(name.replace("_", " "), _text(value))
            self.console.print(table, markup=False)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {_text(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return str(value)


# ---- models and data -------------------------------------------------------------------------------------------------


def _open(path: Path) -> tuple[Any, dict[str, Any]]:
    """The model of a file and the notes that `train` left in it."""
    model, header = load_with_header(path)
    return model, header["notes"]


def _machine(model: Any) -> Any:
    return model[-1] if isinstance(model, Pipeline) else model


def _scalers(model: Any) -> list[tuple[str, Any]]:
    return model.steps[:-1] if isinstance(model, Pipeline) else []


def _scaled(scalers: list[tuple[str, Any]], X: Any) -> Any:
    for _, scaler in scalers:
        X = scaler.transform(X)
    return X


def _fitted_scalers(scale: Scale, X: Any) -> list[tuple[str, Any]]:
    """At most one; sparse rows stay sparse, so that zero has to stay zero."""
    if scale is Scale.none:
        return []
    if scale is Scale.standard:
        return [("scaler", StandardScaler(with_mean=not sp.issparse(X)).fit(X))]
    return [("scaler", (MaxAbsScaler() if sp.issparse(X) else MinMaxScaler()).fit(X))]


def _read_for(model: Any, notes: dict[str, Any], path: Path, label: str | None, needs_label: bool = True) -> DataSet:
    """Data as the model's training file was read."""
    names = getattr(_machine(model), "feature_names_in_", None)
    if label is None and needs_label and data_format(path) != "libsvm":
        label = notes.get("label")
    return read_data(
        path,
        label=label,
        columns=None if names is None else list(names),
        n_features=_machine(model).n_features_in_,
        zero_based=notes.get("zero_based"),
        needs_label=needs_label,
    )


def _certificate(machine: Any) -> dict[str, Any]:
    return {
        "status": machine.status_,
        "relative_duality_gap": float(machine.duality_gap_),
        "certificate": machine.certificate_,
        "objective": np.asarray(machine.objective_).tolist(),
        **{name: value for name, value in machine._facts.items() if name != "privacy"},
    }


def _scores(model: Any, path: Path, data: DataSet) -> dict[str, Any]:
    classes = _machine(model).classes_
    unknown = sorted(set(np.unique(data.y).tolist()) - set(classes.tolist()), key=str)  # type: ignore[arg-type]
    if unknown:
        raise DataFileError(f"{path}: the model knows the classes {classes.tolist()}, not {unknown}")
    began = time.perf_counter()
    predicted = model.predict(data.X)
    seconds = time.perf_counter() - began
    confusion = confusion_matrix(data.y, predicted, labels=classes)
    present = confusion.sum(axis=1) > 0
    return {
        "rows": len(predicted),
        "accuracy": float(np.mean(predicted == data.y)),
        "balanced_accuracy": float((np.diag(confusion)[present] / confusion.sum(axis=1)[present]).mean()),
        "rows_per_second": round(len(predicted) / max(seconds, 1e-9)),
        "classes": classes.tolist(),
        "confusion": confusion.tolist(),
    }


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
    out = _Output(as_json, quiet)
    previous, notes = (None, {}) if resume is None else _open(resume)
    try:
        if previous is not None and scale is not None:
            raise ValueError(f"--scale {scale} cannot be changed: the model to resume has its scaling")
        if not model.parent.is_dir():
            raise ValueError(f"--model {model}: the folder {model.parent} does not exist")
        if previous is not None:
            _machine(previous).set_params(max_time=None)  # a limit is of one run
        machine: Any = make_machine(loss, given, strategy_option or [], previous and _machine(previous))
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(str(error)) from error
    rows = read_data(data, label) if previous is None else _read_for(previous, notes, data, label)
    n, d = rows.X.shape
    out.say(f"{data}: {n} rows, {d} features{', sparse' if sp.issparse(rows.X) else ''}")
    if previous is None:
        scalers = _fitted_scalers(scale or Scale.minmax, rows.X)
        notes = {"label": rows.label, "zero_based": rows.zero_based}
    else:
        scalers = _scalers(previous)
    X = _scaled(scalers, rows.X)
    if previous is not None:
        if not machine._can_resume_on(X):
            raise DataFileError(f"{data} does not hold the rows that the model to resume was trained on")
        machine.set_params(warm_start=True)
    seconds, interrupted, complaints = _fit(machine, X, rows.y, out)
    machine.set_params(warm_start=False)
    if rows.feature_names is not None:
        for step in (machine, *(scaler for _, scaler in scalers)):
            step.feature_names_in_ = np.array(rows.feature_names, dtype=object)
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
        **_certificate(machine),
    }
    if validate is not None:
        scores = _scores(trained, validate, _read_for(trained, notes, validate, label))
        facts["validation"] = {k: v for k, v in scores.items() if k not in ("classes", "confusion")}
    out.result(facts)
    if interrupted:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done; a late Ctrl-C shall not change the exit status
        out.say(f"Interrupted: the best model so far is in {model}; go on with --resume {model}")
        raise typer.Exit(1)


def _fit(machine: Any, X: Any, y: Any, out: _Output) -> tuple[float, bool, list[str]]:
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
    out = _Output(False, quiet)
    trained, notes = _open(model)
    rows = _read_for(trained, notes, data, label, needs_label=False)
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
    out = _Output(as_json, quiet)
    trained, notes = _open(model)
    rows = _read_for(trained, notes, data, label)
    facts = _scores(trained, data, rows)
    if plot is not None:
        _draw(trained, rows, plot)
        out.say(f"margin distribution drawn in {plot}")
    if as_json or quiet:
        return out.result(facts)
    classes, confusion = facts.pop("classes"), facts.pop("confusion")
    out.result(facts)
    table = Table("true \\ predicted", *map(str, classes))
    for name, counts in zip(classes, confusion, strict=True):
        table.add_row(str(name), *map(str, counts))
    out.console.print(table)


def _draw(trained: Any, rows: DataSet, path: Path) -> None:
    try:
        import matplotlib
    except ImportError:
        raise OSError("--plot needs matplotlib: pip install 'dimargin[report]'") from None
    matplotlib.use("Agg")
    display = MarginDistributionDisplay.from_estimator(trained, rows.X, rows.y)
    display.figure_.savefig(path, dpi=150)


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
    out = _Output(as_json, quiet=False)
    trained, header = load_with_header(model)
    machine, scalers = _machine(trained), _scalers(trained)
    if certify is not None:
        rows = _read_for(trained, header["notes"], certify, label)
        machine.certify(_scaled(scalers, rows.X), rows.y)
        save(trained, model, header["notes"])
    values = {name: getattr(machine, name) for name in parameters(type(machine))}
    facts = {
        "machine": type(machine).__name__,
        **_certificate(machine),
        "classes": machine.classes_.tolist(),
        "features": int(machine.n_features_in_),
        "scaling": ", ".join(type(scaler).__name__ for _, scaler in scalers) or "none",
        "parameters": {k: v if isinstance(v, (int, float, str, type(None))) else str(v) for k, v in values.items()},
        "written_by": f"dimargin {header['dimargin_version']}, format {header['format_version']}",
        "privacy": machine._facts["privacy"],
    }
    out.result(facts)


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
