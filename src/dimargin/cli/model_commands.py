"""``dimargin predict | evaluate | info``: the commands that use a model file."""

from __future__ import annotations

import csv
import io
import re
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Column, Table

from dimargin.cli.brief_help import Application
from dimargin.cli.column_flags import Reading, reading_flags
from dimargin.cli.estimator_flags import parameters
from dimargin.cli.file_flags import data_option
from dimargin.cli.flags import add_command, usage_checked
from dimargin.cli.open_model import OpenModel
from dimargin.cli.row_columns import WeightOption
from dimargin.cli.shared import (
    MANY_VALUES,
    NAMES,
    DataArgument,
    JsonOption,
    ModelArgument,
    ModelLabelOption,
    Output,
    QuietOption,
    check_output,
    check_plot,
    draw,
    plot_option,
    scaled,
)
from dimargin.cli.training_rows import describe, other_steps, parts_of, scaling_of
from dimargin.display import MarginDistributionDisplay
from dimargin.estimators.facts import facts_of
from dimargin.estimators.nested_steps import search_in
from dimargin.io.data.mixed import remarks_on_empty_rows
from dimargin.system.arrays import Floats
from dimargin.system.printing import printable
from dimargin.system.writing import write_file

_KEPT_TRAINING_DATA = {
    "CountVectorizer": "the vocabulary of the CountVectorizer is of words in training texts",
    "Nystroem": "components of the Nystroem are training rows",
    "TfidfVectorizer": "the vocabulary of the TfidfVectorizer is of words in training texts",
}


def _predict(
    model: ModelArgument,
    data: DataArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            dir_okay=False,
            help="File for the labels; CSV or Parquet if it ends with .csv or .parquet.",
        ),
    ] = None,
    decision_values: Annotated[
        bool, typer.Option(help="Append decision values to each label: after tabs, or as columns of CSV and Parquet.")
    ] = False,
    probabilities: Annotated[
        bool,
        typer.Option(
            "--probabilities",
            help="Write CSV, or Parquet if --output ends with .parquet, with the label and a column for the "
            "probability of each class.",
        ),
    ] = False,
    label: ModelLabelOption = None,
    weight: WeightOption = None,
    quiet: QuietOption = False,
    **given: Any,
) -> None:
    """Write one predicted label or number per line; outlier detectors write 1 for inliers, -1 for outliers.

    Example: dimargin predict spam.dimargin new.csv --output labels.txt

    Files whose names end with .csv or .parquet get a table with the column "label" instead. With
    --probabilities, labels are those of the highest probability, for a model that was trained
    with this flag. A regressor writes numbers, and its column is called "prediction".
    """
    out = Output(False, quiet)
    with usage_checked():
        if output is not None:
            check_output("--output", output, model, data)
        if decision_values and probabilities:
            raise ValueError("--decision-values and --probabilities cannot be used together")
        reading = Reading.of(given)
    opened = OpenModel.load(model, data)
    if (decision_values or probabilities) and opened.is_regressor:
        flag = "--probabilities" if probabilities else "--decision-values"
        raise ValueError(f"{model} predicts numbers, and {flag} is for models that predict classes")
    decide = opened.single("--decision-values").decision_function if decision_values else None
    if probabilities and not opened.has_probabilities:
        opened.refuse_detector("has no probabilities")
        raise ValueError(
            f"{model} has no probabilities; add them by dimargin train TRAINING_DATA --resume {model} --model {model} "
            "--probabilities"
        )
    rows, trained = opened.read(data, label, reading, needs_label=False, weight=weight), opened.estimator
    out.warn([*opened.remarks(data, rows), *remarks_on_empty_rows(data, rows)])
    began = time.perf_counter()
    shares = trained.predict_proba(rows.X) if probabilities else None
    labels = trained.predict(rows.X) if shares is None else trained.classes_[shares.argmax(axis=1)]
    seconds = time.perf_counter() - began
    values = shares if decide is None else decide(rows.X).reshape(len(labels), -1)
    suffix = None if output is None else output.suffix
    names = _value_names(values, getattr(trained, "classes_", None), "" if decide is None else "decision value")
    names = ["prediction" if opened.is_regressor else "label", *names]
    if output is not None and suffix == ".parquet":
        write_file(output, _parquet(labels, values, names))
    else:
        text = _csv(labels, values, names) if suffix == ".csv" or probabilities else _lines(labels, values)
        if output is None:
            sys.stdout.write(printable(text, keep="\n\t") if sys.stdout.isatty() else text)
        else:
            write_file(output, text.encode())
    out.say(f"{len(labels)} rows in {seconds:.3g} s, {len(labels) / max(seconds, 1e-9):.3g} rows per second")


def _names(labels: NDArray[Any]) -> list[str]:
    """Return the texts of labels, with line breaks escaped, so that every label takes one line."""
    return [re.sub("[\r\n]", lambda found: printable(found[0]), name) for name in map(str, labels.tolist())]


def _lines(labels: NDArray[Any], values: Floats | None) -> str:
    """Return one line per row: the label, and decision values after tabs."""
    lines = _names(labels)
    if values is not None:
        lines = ["\t".join([name, *(f"{v:.9g}" for v in row)]) for name, row in zip(lines, values, strict=True)]
    return "\n".join(lines) + "\n"


def _value_names(values: Floats | None, classes: NDArray[Any] | None, what: str) -> list[str]:
    """Return the names of columns of values: those of the classes, or only `what` for a single one."""
    if values is None:
        return []
    return [what] if values.shape[1] == 1 or classes is None else [f"{what} {name}".strip() for name in _names(classes)]


def _csv(labels: NDArray[Any], values: Floats | None, names: list[str]) -> str:
    """Return CSV with the label and, in full precision, columns of values; `names` are those of all columns."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    rows = np.empty((len(labels), 0)) if values is None else values
    writer.writerows([name, *row] for name, row in zip(_names(labels), rows.tolist(), strict=True))
    return text.getvalue()


def _parquet(labels: NDArray[Any], values: Floats | None, names: list[str]) -> bytes:
    """Return the columns of `_csv` as Parquet, whose labels keep their type."""
    import pyarrow as pa
    from pyarrow import parquet

    content = io.BytesIO()
    columns = [pa.array(column) for column in (labels.tolist(), *([] if values is None else values.T))]
    parquet.write_table(pa.Table.from_arrays(columns, names), content)
    return content.getvalue()


def _evaluate(
    model: ModelArgument,
    data: DataArgument,
    label: ModelLabelOption = None,
    weight: WeightOption = None,
    plot: Annotated[Path | None, plot_option("Draw the margin distribution")] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    **given: Any,
) -> None:
    """Score a model on labelled data.

    Example: dimargin evaluate spam.dimargin test.csv --plot margins.png

    Precision, recall, F1 and AUC (the area under the ROC curve) are those of each class against all
    others; a dash (null in JSON) means undefined, such as the precision of a class that is never
    predicted.

    Of a model with probabilities, the Brier score is their mean squared distance from the outcomes,
    summed over the classes if these are more than two. The calibration error is the mean distance
    between probability and frequency in ten groups of about equally many rows.

    Of a regressor, R2 is the share of the variance that it explains; errors are in the units of the
    labels. Its stored certificate is printed, too.
    """
    out = Output(as_json, quiet)
    with usage_checked():
        check_plot(plot, model, data)
        reading = Reading.of(given)
    trained = OpenModel.load(model, data)
    trained.refuse_detector("has no accuracy; dimargin predict finds the outliers")
    if plot is not None:
        trained.single("--plot")
        if trained.is_regressor:
            raise ValueError(f"{model} predicts numbers, which have no margins; dimargin report draws residuals")
    rows = trained.read_labelled(data, label, reading, weight)
    out.warn(trained.remarks(data, rows))
    facts = trained.scores(rows)
    if trained.is_regressor:
        return out.result(facts | trained.certificate(), NAMES)
    by_class = trained.scores_by_class(rows, facts["confusion"])
    display = MarginDistributionDisplay.from_estimator
    draw(lambda: display(trained.estimator, rows.X, rows.y), plot, out, "margin distribution")
    if as_json or quiet:
        return out.result(facts | by_class)
    classes, confusion = facts.pop("classes"), facts.pop("confusion")
    out.result(facts)
    if len(classes) > MANY_VALUES:
        out.say(f"The scores by class and the confusion matrix of {len(classes)} classes are in the output of --json.")
        return
    names = [*map(printable, classes)]
    scores = Table(Column("class", overflow="fold"), "rows", "precision", "recall", "F1", "AUC")
    for name, counts, *values in zip(names, confusion, *by_class.values(), strict=True):
        scores.add_row(name, f"{sum(counts):.15g}", *("-" if value is None else f"{value:.4g}" for value in values))
    table = Table(*(Column(name, overflow="fold") for name in ("true \\ predicted", *names)))
    for name, counts in zip(names, confusion, strict=True):
        table.add_row(name, *(f"{count:.15g}" for count in counts))
    out.console.print(scores, table)


def _info(
    model: ModelArgument,
    certify: Annotated[
        Path | None, data_option(help="All training data, from which the global certificate is computed and stored.")
    ] = None,
    label: ModelLabelOption = None,
    as_json: JsonOption = False,
    **given: Any,
) -> None:
    """Print the certificate and the parameters of a model file.

    Example: dimargin info spam.dimargin --certify train.csv
    """
    out = Output(as_json, quiet=False)
    with usage_checked():
        reading = Reading.of(given)
    trained = OpenModel.load(model)
    machine, transformer = trained.machine, trained.transformer
    if certify is not None:
        trained.refuse_detector("keeps the certificate of its fit; only classifiers can be certified")
        trained.single("--certify")
        rows = trained.read_labelled(certify, label, reading, trained.notes.get("weight"))
        out.warn(trained.remarks(certify, rows))
        trained.check_all_rows(certify, rows)
        # The argument is left out without weights, since some machines do not accept it.
        weights = {} if rows.weights is None else {"sample_weight": rows.weights}
        machine.certify(scaled(trained.scalers, rows.X), rows.y, **weights)
        trained.save()
        gap, tol = machine.duality_gap_, machine.tol
        certified = f"certified now on the {rows.X.shape[0]} rows of {certify}, and stored in {model}"
        out.say(
            f"{certified}: relative duality gap {gap:.4g}, {'within' if gap <= tol else 'above'} the tolerance {tol:g}"
        )
    values = {name: getattr(machine, name) for name in parameters(type(machine))}
    facts = {
        "machine": type(machine).__name__,
        **({} if trained.calibration is None else {"probabilities": trained.calibration}),
        **trained.certificate(),
        **({"classes": machine.classes_.tolist()} if hasattr(machine, "classes_") else {}),
        "features": int(machine.n_features_in_),
        **({} if transformer is None else {"columns": describe(transformer)}),
        "scaling": scaling_of(trained.scalers),
        **({"steps": others} if (others := other_steps(trained.scalers)) else {}),
        "parameters": _plain(values),
        **_found_by(search_in(trained.estimator) or search_in(trained.members[0])),
        "written_by": trained.written_by,
        "privacy": _privacy(machine, trained.scalers),
    }
    out.result(facts)


def _found_by(search: Any) -> dict[str, Any]:
    """Return facts about a search: what it has chosen, and its score."""
    if search is None:
        return {}
    best, score = search.best_params_, search.best_score_
    return {"search": type(search).__name__, "best": _plain(best), "cross_validated_score": score if best else None}


def _privacy(machine: Any, steps: list[tuple[str, Any]]) -> str:
    """Return a sentence on the training data in a machine and the steps before it."""
    kinds = dict.fromkeys(type(part).__name__ for _, step in steps for part in parts_of(step))
    found = [_KEPT_TRAINING_DATA[kind] for kind in kinds if kind in _KEPT_TRAINING_DATA]
    if hasattr(machine, "support_") or not found:
        found.append(facts_of(machine)["privacy"])
    return "; ".join(found)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {k: v if isinstance(v, (int, float, str, type(None))) else str(v) for k, v in values.items()}


def register(app: Application) -> None:
    """Add the commands of this module."""
    unlabelled = [flag for flag in reading_flags() if flag.name != "skip_unlabelled"]
    for name, command, flags in (
        ("predict", _predict, unlabelled), ("evaluate", _evaluate, reading_flags()), ("info", _info, reading_flags()),
    ):  # fmt: skip
        add_command(app, name, command, flags)
