"""Parts that commands share: their output, scaling, fits, and the files they write."""

from __future__ import annotations

import json
import os
import signal
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import numpy as np
import scipy.sparse as sp
import typer
from rich.table import Column, Table
from sklearn.base import OneToOneFeatureMixin
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, QuantileTransformer, StandardScaler

from dimargin.cli.file_flags import data_argument
from dimargin.cli.flag_names import errors_in_flags, in_flags
from dimargin.cli.open_model import OpenModel, how_read
from dimargin.cli.streams import names_closed_output
from dimargin.cli.terminal import FitDisplay, PlainConsole
from dimargin.estimators.fit_progress import observed
from dimargin.estimators.preprocessing import SparseScaler
from dimargin.io.data import DataSet
from dimargin.io.data.labels import keyed_by_class
from dimargin.io.models.model_format import is_model_file
from dimargin.system.extras import require
from dimargin.system.memory import check_memory
from dimargin.system.printing import printable
from dimargin.system.writing import replaced_file


class Scale(StrEnum):
    """Ways in which features are scaled."""

    none = "none"
    minmax = "minmax"
    standard = "standard"
    quantile = "quantile"


DATA = "LIBSVM text, CSV (both also .gz, .bz2, .xz) or Parquet; - is standard input."
DataArgument = Annotated[Path, data_argument(metavar="DATA", help=DATA)]
ModelArgument = Annotated[Path, typer.Argument(exists=True, dir_okay=False, metavar="MODEL", help="A model file.")]
LabelOption = Annotated[
    str | None, typer.Option(help="Name or position of the label column of CSV and Parquet.", show_default="by name")
]
ModelLabelOption = Annotated[
    str | None,
    typer.Option(
        help="Name or position of the label column of CSV and Parquet.", show_default="that of the training file"
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, for other programs.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]


def plot_option(help: str) -> Any:
    """Make the flag for the file of a plot."""
    return typer.Option(dir_okay=False, help=f"{help} (.png, .svg, .pdf).")


# Longer lists are summarised: the pairs of 200 classes, for example, have 19,900 objectives.
MANY_VALUES = 50


class Output:
    """Output of a command: its results on standard output, everything else on standard error."""

    def __init__(self, as_json: bool, quiet: bool) -> None:
        self.as_json, self.quiet = as_json, quiet
        self.console, self.errors = PlainConsole(), PlainConsole(stderr=True)

    def say(self, text: str) -> None:
        """Print a message on standard error, unless `quiet`."""
        if not self.quiet:
            self.errors.print(text, highlight=False)

    def say_shape(self, data: Path | str, shape: tuple[int, ...], sparse: bool, n_columns: int | None = None) -> None:
        """Print the numbers of rows and features of data, and that of the columns if it is different.

        Texts have no number of features.
        """
        columns = "" if n_columns in (None, shape[-1]) else f"{n_columns} columns as "
        width = f", {columns}{shape[1]} features" if len(shape) > 1 else " of text"
        self.say(f"{data}: {shape[0]} rows{width}{', sparse' if sparse else ''}")

    def warn(self, remarks: Sequence[str]) -> None:
        """Print warnings on standard error, unless `quiet`."""
        for remark in remarks:
            self.say(f"warning: {remark}")

    def result(self, facts: dict[str, Any], names: Mapping[str, str] = {}) -> None:
        """Print facts as a table, in which `names` replace some of theirs, or as one JSON object."""
        if self.as_json:
            print(json.dumps(facts))
        elif not self.quiet:
            table = Table(Column(overflow="fold"), Column(overflow="fold"), show_header=False, box=None, pad_edge=False)
            for name, value in facts.items():
                if value != {}:
                    table.add_row(names.get(name, name.replace("_", " ")), _CERTIFIED.get(str(value), _text(value)))
            self.console.print(table)


NAMES = {
    "r2": "R2",
    "seconds": "seconds of training",
    "search_seconds": "search seconds, included",
    "calibration_seconds": "calibration seconds, added",
}
"""Names in the tables of results; those of durations say which of them contains another one."""
_CERTIFIED = {
    "global": "global: the gap is for the whole problem, with all rows",
    "partitioned": "partitioned: the gap is for the worst part of the rows",
    "landmark": "landmark: the gap is for the machines that the landmarks span",
    "before_compression": "before_compression: the gap is for the machine with all support vectors",
    "before_rounding": "before_rounding: the gap is for the coefficients before they were rounded to float32",
}


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict) and len(value) > MANY_VALUES:
        return _text([*value.values()])
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {_text(part)}" for name, part in value.items())
    if isinstance(value, list) and len(value) > MANY_VALUES and isinstance(value[0], float):
        return f"{_text(min(value))} to {_text(max(value))} ({len(value)} values)"
    if isinstance(value, list) and len(value) > MANY_VALUES:
        return f"{_text(value[:MANY_VALUES])}, ... ({len(value)} values)"
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return printable(value)


# ---- scaling ---------------------------------------------------------------------------------------------------------


def scaled(scalers: list[tuple[str, Any]], X: Any) -> Any:
    """Apply the steps of a pipeline before its machine to rows."""
    for _, scaler in scalers:
        X = scaler.transform(X)
    return X


def dense_scaler(scale: Scale, n_rows: int, seed: int | None = None) -> Any:
    """Return the unfitted scaler of dense rows, None for `Scale.none`.

    `seed` is for the sample of rows from which quantiles are computed.
    """
    if scale is Scale.quantile:
        n_quantiles = min(1000, n_rows)
        return QuantileTransformer(n_quantiles=n_quantiles, output_distribution="normal", random_state=seed or 0)
    return {Scale.none: None, Scale.minmax: MinMaxScaler(), Scale.standard: StandardScaler()}[scale]


def fitted_scalers(
    scale: Scale, X: Any, memory_limit: int | None = None, seed: int | None = None
) -> list[tuple[str, Any]]:
    """Fit the chosen scaler, and return it as a list of at most one pipeline step.

    Sparse rows stay sparse, so zero must stay zero. `seed` is as in `dense_scaler`. Raises
    MemoryError if the scaler, which stores numbers for every column, does not fit into memory, and
    ValueError for quantiles of sparse rows.
    """
    if scale is Scale.none:
        return []
    if not sp.issparse(X):
        return [("scaler", dense_scaler(scale, X.shape[0], seed).fit(X))]
    if scale is Scale.quantile:
        raise ValueError("--scale quantile cannot be used with sparse rows, whose zeros must stay; use minmax")
    if X.shape[1] > X.nnz:  # One number per column would take more memory than the rows.
        return [("scaler", SparseScaler("standard" if scale is Scale.standard else "maxabs").fit(X))]
    # During its fit, a scaler has up to eight arrays of one float64 per column.
    check_memory(8 * 8 * X.shape[1], memory_limit, f"--scale {scale}", "use --scale none")
    return [("scaler", (StandardScaler(with_mean=False) if scale is Scale.standard else MaxAbsScaler()).fit(X))]


# ---- fits ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trained:
    """Machine trained on a data file, with its model file's content and facts about its fit."""

    machine: Any
    scalers: list[tuple[str, Any]]  # All steps of the pipeline before the machine, also a transformer of columns.
    notes: dict[str, Any]
    feature_names: list[str] | None
    shape: tuple[int, int]  # Numbers of rows and features.
    seconds: float  # Duration of the fit, with a search that chooses the machine.
    complaints: list[str]  # Warnings of the fit.
    interrupted: bool = False  # Whether Ctrl-C ended the fit.
    calibrated: Any = None  # The machine with probabilities, as a CalibratedClassifierCV, if it has some.
    calibration_seconds: float = 0.0

    def save(self, path: Path | None, out: Output) -> OpenModel:
        """Return the machine with its scalers as a model, saved unless `path` is None, and print the warnings."""
        last = self.machine if self.calibrated is None else self.calibrated
        steps = [*self.scalers, ("machine", last)]
        if self.feature_names is not None and not isinstance(steps[0][1], ColumnTransformer):
            names = np.array(self.feature_names, dtype=object)  # A ColumnTransformer would have set them itself.
            for _, step in steps:
                if not hasattr(step, "n_features_in_"):
                    break  # It takes texts.
                step.feature_names_in_ = names
                if step is last:
                    self.machine.feature_names_in_ = names
                elif not isinstance(step, OneToOneFeatureMixin):
                    break  # The columns of the next step are others.
        model = OpenModel(path or Path(), Pipeline(steps) if self.scalers else last, self.notes)
        if path is not None:
            model.save()
        out.warn(self.complaints)
        return model

    def facts(self, model: Path) -> dict[str, Any]:
        """Return the facts about a model that was saved at this path."""
        return {
            "model": str(model),
            "rows": self.shape[0],
            "features": self.shape[1],
            **({"classes": self.machine.classes_.tolist()} if hasattr(self.machine, "classes_") else {}),
            "seconds": self.seconds,
            **({} if self.calibrated is None else {"calibration_seconds": self.calibration_seconds}),
        }


def timed(fit: Callable[[], Any]) -> tuple[Any, float, list[str]]:
    """Return the result of a fit, its seconds and its warnings, which name parameters as flags, like its errors."""
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught, errors_in_flags():
        warnings.simplefilter("always", ConvergenceWarning)
        result = fit()
    return result, time.perf_counter() - began, [in_flags(str(warning.message)) for warning in caught]


def fitted(
    machine: Any,
    scalers: list[tuple[str, Any]],
    rows: DataSet,
    X: Any,
    display: FitDisplay,
    columns: dict[str, Any] | None = None,
) -> Trained:
    """Fit a machine or a search, and show its progress.

    `rows` are those of a data file and `X` is their scaled form; `columns` are the notes of the
    flags for columns.
    """
    match_class_weights(machine, rows.y)
    with observed(machine, display), display.running():
        optional = {"sample_weight": rows.weights, "groups": rows.groups}
        given = {name: values for name, values in optional.items() if values is not None}
        _, seconds, complaints = timed(lambda: machine.fit(X, rows.y, **given))
    interrupted = display.interrupted.is_set()
    notes = how_read(rows, columns) | {"rows": X.shape[0]}
    return Trained(machine, scalers, notes, rows.feature_names, X.shape, seconds, complaints, interrupted)


@errors_in_flags()
def match_class_weights(machine: Any, y: Any) -> None:
    """Replace the keys of ``class_weight`` in a machine or a search by the labels in `y`."""
    classes = np.unique(y)
    estimator, grid = getattr(machine, "estimator", machine), getattr(machine, "param_grid", None) or []
    if isinstance(getattr(estimator, "class_weight", None), dict):
        estimator.set_params(class_weight=keyed_by_class(estimator.class_weight, classes))
    for part in [grid] if isinstance(grid, dict) else grid:
        if isinstance(part, dict) and isinstance(part.get("class_weight"), list):
            part["class_weight"] = [
                keyed_by_class(given, classes) if isinstance(given, dict) else given for given in part["class_weight"]
            ]


def leave_interrupted(out: Output, text: str) -> NoReturn:
    """Print a message about a fit that Ctrl-C ended, and exit with status 1."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # A late Ctrl-C must not change the exit status.
    out.say(f"Interrupted: {text}")
    raise typer.Exit(1)


# ---- files that are written ------------------------------------------------------------------------------------------


def draw(make: Callable[[], Any], path: Path | None, out: Output, what: str) -> None:
    """Draw a display into the file `path`, unless it is None, and print a message about `what`."""
    if path is None:
        return
    import matplotlib

    matplotlib.use("Agg")
    make().figure_.savefig(path, dpi=150)
    out.say(f"{what} drawn in {path}")


def check_plot(path: Path | None, *read: Path | None) -> None:
    """Check before the work that matplotlib is installed and the plot can be written."""
    if path is not None:
        require("--plot", "matplotlib")
        check_output("--plot", path, *read)


def check_output(name: str, path: Path, *read: Path | str | None) -> None:
    """Raise ValueError if a file obviously cannot be written, or is one of those that are read.

    A model replaces other models only.
    """
    try:
        target = replaced_file(path)
    except OSError as error:
        raise ValueError(f"{name} {path}: the current folder no longer exists") from error
    if target is None:
        if names_closed_output(path):
            raise ValueError(f"{name} {path}: standard output is closed")
        return
    if not target.parent.is_dir():
        raise ValueError(f"{name} {path}: the folder {path.parent} does not exist")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise ValueError(f"{name} {path}: the folder {path.parent} is not writable")
    if any(given is not None and os.path.realpath(given) == str(target) for given in read):
        raise ValueError(f"{name} {path} would replace an input file; choose another path")
    if name == "--model" and target.is_file():
        with open(target, "rb") as file:
            start = file.read(64)
        if start and not is_model_file(start):
            raise ValueError(f"{name} {path} would replace a file that is not a model; choose another path")
