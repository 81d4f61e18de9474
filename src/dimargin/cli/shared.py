"""Common parts of the commands: their output, models with their scalers, and data read as a model needs them."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
import typer
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import confusion_matrix
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from dimargin.data_files import DataFileError, DataSet, read_data
from dimargin.data_files.data import data_format
from dimargin.estimators import CoreSetDetector
from dimargin.model_files import load_with_header
from dimargin.system.extras import require
from dimargin.system.memory import check_memory


class Scale(StrEnum):
    """Ways in which features are scaled."""

    none = "none"
    minmax = "minmax"
    standard = "standard"


DATA = "LIBSVM text (also .gz, .bz2, .xz), CSV or Parquet."
DataArgument = Annotated[
    Path,
    typer.Argument(exists=True, dir_okay=False, metavar="DATA", help=DATA),
]
ModelArgument = Annotated[Path, typer.Argument(exists=True, dir_okay=False, metavar="MODEL", help="A model file.")]
LabelOption = Annotated[
    str | None, typer.Option(help="Name or position of the label column of CSV and Parquet.", show_default="by name")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, for machines.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]


_ARRAYS_OF_SCALER = 8  # numbers for every column, while it is fitted


@dataclass(frozen=True)
class Trained:
    """Result of training on a data file.

    Attributes
    ----------
    machine : MarginClassifier
    scalers : list of (str, transformer)
        Steps of a pipeline before the machine.
    notes : dict
        Notes for the model file, which say how the data file was read.
    feature_names : list of str or None
    shape : (int, int)
        Rows and features.
    seconds : float
        Seconds of the fit.
    complaints : list of str
        Warnings of the fit.
    interrupted : bool
        Whether Ctrl-C ended it.
    """

    machine: Any
    scalers: list[tuple[str, Any]]
    notes: dict[str, Any]
    feature_names: list[str] | None
    shape: tuple[int, int]
    seconds: float
    complaints: list[str]
    interrupted: bool = False


class Output:
    """Output of a command, with results on standard output and everything else on standard error."""

    def __init__(self, as_json: bool, quiet: bool) -> None:
        self.as_json, self.quiet = as_json, quiet
        self.console, self.errors = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)

    def say(self, text: str) -> None:
        """Print a message for a person on standard error, unless `quiet`."""
        if not self.quiet:
            self.errors.print(text, markup=False, highlight=False)

    def result(self, facts: dict[str, Any]) -> None:
        """Print facts as a table, or as one JSON object."""
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


def open_model(path: Path) -> tuple[Any, dict[str, Any]]:
    """Return the model of a file, and the notes that `train` left in it."""
    model, header = load_with_header(path)
    return model, header["notes"]


def machine_of(model: Any) -> Any:
    """Return the machine of a model, which may be a pipeline."""
    return model[-1] if isinstance(model, Pipeline) else model


def scalers_of(model: Any) -> list[tuple[str, Any]]:
    """Return the steps of a pipeline before its machine."""
    return model.steps[:-1] if isinstance(model, Pipeline) else []


def refuse_detector(path: Path, model: Any, what: str) -> None:
    """Raise ValueError if the file holds an outlier detector; `what` says what that cannot be used for."""
    machine = machine_of(model)
    if isinstance(machine, CoreSetDetector):
        raise ValueError(f"{path} holds a {type(machine).__name__}, an outlier detector, which {what}")


def timed(fit: Callable[[], Any]) -> tuple[Any, float, list[str]]:
    """Return the result of a fit, its seconds and its warnings."""
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        result = fit()
    return result, time.perf_counter() - began, [str(warning.message) for warning in caught]


def scaled(scalers: list[tuple[str, Any]], X: Any) -> Any:
    """Apply the scalers to rows."""
    for _, scaler in scalers:
        X = scaler.transform(X)
    return X


def fitted_scalers(scale: Scale, X: Any, memory_limit: int | None = None) -> list[tuple[str, Any]]:
    """Fit the scaler that was asked for, and return the steps of a pipeline, at most one.

    Sparse rows stay sparse, so that zero has to stay zero. Raises MemoryError where the scaler, which has numbers for
    every column, does not fit.
    """
    if scale is Scale.none:
        return []
    if sp.issparse(X):
        check_memory(8 * _ARRAYS_OF_SCALER * X.shape[1], memory_limit, f"--scale {scale}", "use --scale none")
    if scale is Scale.standard:
        return [("scaler", StandardScaler(with_mean=not sp.issparse(X)).fit(X))]
    return [("scaler", (MaxAbsScaler() if sp.issparse(X) else MinMaxScaler()).fit(X))]


def read_for(model: Any, notes: dict[str, Any], path: Path, label: str | None, needs_label: bool = True) -> DataSet:
    """Read data as the model's training file was read."""
    names = getattr(model, "feature_names_in_", None)  # of a pipeline's first step, which the rows are given to
    if label is None and needs_label and data_format(path) != "libsvm":
        label = notes.get("label")
    return read_data(
        path,
        label=label,
        columns=None if names is None else list(names),
        n_features=machine_of(model).n_features_in_,
        zero_based=notes.get("zero_based"),
        needs_label=needs_label,
    )


def certificate(machine: Any) -> dict[str, Any]:
    """Return the certificate of a machine, as far as its file holds it, and the facts about its size."""
    told = {
        "status": getattr(machine, "status_", None),
        "relative_duality_gap": getattr(machine, "duality_gap_", None),
        "certificate": getattr(machine, "certificate_", None),
        "objective": getattr(machine, "objective_", None),
    }
    return {
        **{name: np.asarray(value).tolist() for name, value in told.items() if value is not None},
        **{name: value for name, value in machine._facts.items() if name != "privacy"},
    }


def scores(model: Any, path: Path, data: DataSet) -> dict[str, Any]:
    """Score a model on labelled data, by accuracy and confusion matrix."""
    classes = machine_of(model).classes_
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


def draw(make: Callable[[], Any], path: Path) -> None:
    """Draw a display into a file."""
    import matplotlib

    matplotlib.use("Agg")
    make().figure_.savefig(path, dpi=150)


def check_plot(path: Path | None) -> None:
    """Raise MissingExtra without matplotlib, or ValueError without the folder, before the work rather than after it."""
    if path is not None:
        require("--plot", "matplotlib")
        check_folder("--plot", path)


def check_folder(name: str, path: Path) -> None:
    """Raise ValueError if the folder of a file does not exist."""
    if not path.parent.is_dir():
        raise ValueError(f"{name} {path}: the folder {path.parent} does not exist")


def name_features(names: Any, *steps: Any) -> None:
    """Give fitted steps the names of their columns, if there are any."""
    for step in steps if names is not None else ():
        step.feature_names_in_ = np.array(names, dtype=object)
