"""``dimargin train | predict | evaluate | info``."""

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

from dimargin.cli.parameters import MACHINES, flags, make_machine, strategy_options
from dimargin.cli.terminal import FitDisplay
from dimargin.displays import MarginDistributionDisplay
from dimargin.files import DataFileError, DataSet, load, read_data, read_header, save
from dimargin.files.writing import write_file

app = typer.Typer(
    name="dimargin",
    help="Large-margin classifiers that carry a certificate.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"token_normalize_func": lambda token: token.replace("_", "-")},
)
_ABORTED = 130  # what typer makes of Ctrl-C
_MISTAKES = (ValueError, TypeError, OSError, MemoryError, TimeoutError)  # a line, not a traceback


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


def _wrong_usage(error: Exception) -> NoReturn:
    raise typer.BadParameter(str(error))


# ---- models and data -------------------------------------------------------------------------------------------------


def _machine(model: Any) -> Any:
    return model.steps[-1][1] if isinstance(model, Pipeline) else model


def _scaler(scale: Scale, X: Any) -> Any:
    """The scaler; sparse rows stay sparse, so that zero has to stay zero."""
    if scale is Scale.minmax:
        return MaxAbsScaler() if sp.issparse(X) else MinMaxScaler()
    return StandardScaler(with_mean=not sp.issparse(X))


def _read_for(model: Any, header: dict[str, Any], path: Path, label: str | None, needs_label: bool) -> DataSet:
    """Data as the model's training file was read."""
    names = getattr(_machine(model), "feature_names_in_", None)
    return read_data(
        path,
        label=label if label is not None or not needs_label or names is None else header["notes"].get("label"),
        columns=None if names is None else list(names),
        n_features=_machine(model).n_features_in_,
        zero_based=header["notes"].get("zero_based"),
        needs_label=needs_label,
    )


def _certificate(machine: Any) -> dict[str, Any]:
    return {
        "status": machine.status_,
        "relative_duality_gap": float(machine.duality_gap_),
        "certificate": machine.certificate_,
        "objective": np.asarray(machine.objective_).tolist(),
        "support_vectors": len(machine.support_),
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
    loss: Annotated[str | None, typer.Option(help=f"Which machine: {', '.join(MACHINES)}.", show_default="odm")] = None,
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
        typer.Option(metavar="NAME=VALUE", help=f"An option of the strategy; may be repeated. {strategy_options()}"),
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
    previous = None if resume is None else load(resume)
    try:
        if previous is not None:
            if scale is not None:
                raise ValueError(f"--scale {scale} cannot be changed: the model to resume has its scaling")
            _machine(previous).set_params(max_time=None)  # was the limit of that run
        machine: Any = make_machine(
            loss, given, strategy_option or [], None if previous is None else _machine(previous)
        )
        if not model.parent.is_dir():
            raise ValueError(f"--model {model}: the folder {model.parent} does not exist")
    except (ValueError, TypeError) as error:
        _wrong_usage(error)
    notes = {} if resume is None else read_header(resume)["notes"]
    rows = read_data(data, label) if previous is None else _read_for(previous, {"notes": notes}, data, label, True)
    out.say(f"{data}: {rows.X.shape[0]} rows, {rows.X.shape[1]} features{', sparse' if sp.issparse(rows.X) else ''}")
    steps: list[tuple[str, Any]] = []
    X = rows.X
    if previous is not None:
        steps = previous.steps[:-1] if isinstance(previous, Pipeline) else []
        for _, step in steps:
            X = step.transform(X)
        _check_resumable(machine, X, data)
        machine.set_params(warm_start=True)
    elif scale is not Scale.none:
        steps = [("scaler", _scaler(scale or Scale.minmax, X))]
        X = steps[0][1].fit_transform(X)
        notes = {}
    display = FitDisplay(out.errors, machine.tol, quiet)
    machine._monitor = display
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught, display.running():
        warnings.simplefilter("always", ConvergenceWarning)
        machine.fit(X, rows.y)
    seconds = time.perf_counter() - began
    del machine._monitor
    machine.set_params(warm_start=False)
    for step in (machine, *(step for _, step in steps)):
        if rows.feature_names is not None:
            step.feature_names_in_ = np.array(rows.feature_names, dtype=object)
    trained = Pipeline([*steps, ("machine", machine)]) if steps else machine
    if previous is None:
        notes = {"label": label, "zero_based": rows.zero_based}
    save(trained, model, notes)
    for warning in caught:
        out.say(f"warning: {warning.message}")
    facts = {
        "model": str(model),
        "rows": rows.X.shape[0],
        "features": rows.X.shape[1],
        "classes": machine.classes_.tolist(),
        "seconds": seconds,
        "kernel_evaluations": sum(entry["kernel_evaluations"] for entry in machine.history_),
        **_certificate(machine),
    }
    if validate is not None:
        scored = _read_for(trained, {"notes": notes}, validate, label, True)
        facts["validation"] = _scores(trained, validate, scored)
        del facts["validation"]["classes"], facts["validation"]["confusion"]
    out.result(facts)
    if display.interrupted.is_set():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done; a late Ctrl-C shall not change the exit status
        out.say(f"Interrupted: the best model so far is in {model}; go on with --resume {model}")
        raise typer.Exit(1)


def _check_resumable(machine: Any, X: Any, path: Path) -> None:
    support = machine.support_
    same = X.shape[0] == machine._n_given and sp.issparse(X) == sp.issparse(machine.support_vectors_)
    if not same or (len(support) and abs(X[support] - machine.support_vectors_).max() > 0):
        raise DataFileError(f"{path} does not hold the rows that the model to resume was trained on")


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
    trained = load(model)
    rows = _read_for(trained, read_header(model), data, label, needs_label=False)
    began = time.perf_counter()
    values = trained.decision_function(rows.X)
    columns = values[:, None] if values.ndim == 1 else values
    places = (values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)
    seconds = time.perf_counter() - began
    lines = [str(label) for label in _machine(trained).classes_[places].tolist()]
    if decision_values:
        lines = ["\t".join([name, *(f"{v:.9g}" for v in row)]) for name, row in zip(lines, columns, strict=True)]
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
    trained = load(model)
    rows = _read_for(trained, read_header(model), data, label, needs_label=True)
    facts = _scores(trained, data, rows)
    if plot is not None:
        _draw(trained, rows, plot)
        out.say(f"margin distribution drawn in {plot}")
    if not as_json and not quiet:
        classes, confusion = facts.pop("classes"), facts.pop("confusion")
        out.result(facts)
        table = Table("true \\ predicted", *map(str, classes))
        for name, counts in zip(classes, confusion, strict=True):
            table.add_row(str(name), *map(str, counts))
        out.console.print(table)
    else:
        out.result(facts)


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
    header, trained = read_header(model), load(model)
    machine = _machine(trained)
    if certify is not None:
        rows = _read_for(trained, header, certify, label, needs_label=True)
        X = trained[:-1].transform(rows.X) if isinstance(trained, Pipeline) else rows.X
        machine.certify(X, rows.y)
        save(trained, model, header["notes"])
    parameters = {k: v for k, v in machine.get_params(deep=False).items() if k not in ("verbose", "warm_start")}
    facts = {
        "machine": type(machine).__name__,
        **_certificate(machine),
        "classes": machine.classes_.tolist(),
        "features": int(machine.n_features_in_),
        "scaling": ", ".join(type(step).__name__ for _, step in trained.steps[:-1])
        if isinstance(trained, Pipeline)
        else "none",
        "parameters": {k: v if isinstance(v, (int, float, str, type(None))) else str(v) for k, v in parameters.items()},
        "written_by": f"dimargin {header['dimargin_version']}, format {header['format_version']}",
        "privacy": "support vectors are training rows: whoever has the model has them",
    }
    out.result(facts)


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
