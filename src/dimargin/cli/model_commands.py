"""``dimargin predict | evaluate | info``: the commands that use a model file."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
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
    DataArgument,
    JsonOption,
    LabelOption,
    ModelArgument,
    Output,
    QuietOption,
    check_output,
    check_plot,
    draw,
    plot_option,
    scaled,
)
from dimargin.cli.training_rows import describe, scaling_of
from dimargin.display import MarginDistributionDisplay
from dimargin.estimators.facts import facts_of
from dimargin.io.data.mixed import remarks_on_empty_rows
from dimargin.system.printing import printable
from dimargin.system.writing import write_file


def _predict(
    model: ModelArgument,
    data: DataArgument,
    output: Annotated[Path | None, typer.Option("--output", "-o", dir_okay=False, help="File for the labels.")] = None,
    decision_values: Annotated[bool, typer.Option(help="Append decision values to each label, after tabs.")] = False,
    label: LabelOption = None,
    weight: WeightOption = None,
    quiet: QuietOption = False,
    **given: Any,
) -> None:
    """Write one predicted label per line; outlier detectors write 1 for inliers, -1 for outliers.

    Example: dimargin predict spam.dimargin new.csv --output labels.txt
    """
    out = Output(False, quiet)
    with usage_checked():
        if output is not None:
            check_output("--output", output, model, data)
        reading = Reading.of(given)
    opened = OpenModel.load(model)
    rows, trained = opened.read(data, label, reading, needs_label=False, weight=weight), opened.estimator
    out.warn(remarks_on_empty_rows(data, rows))
    began = time.perf_counter()
    # Line breaks in labels are escaped, so that every label takes one line.
    names = map(str, trained.predict(rows.X).tolist())
    lines = [re.sub("[\r\n]", lambda found: printable(found[0]), name) for name in names]
    seconds = time.perf_counter() - began
    if decision_values:
        values = trained.decision_function(rows.X).reshape(len(lines), -1)
        lines = ["\t".join([name, *(f"{v:.9g}" for v in row)]) for name, row in zip(lines, values, strict=True)]
    text = "\n".join(lines) + "\n"
    if output is None:
        sys.stdout.write(printable(text, keep="\n\t") if sys.stdout.isatty() else text)
    else:
        write_file(output, text.encode())
    out.say(f"{len(lines)} rows in {seconds:.3g} s, {len(lines) / max(seconds, 1e-9):.3g} rows per second")


def _evaluate(
    model: ModelArgument,
    data: DataArgument,
    label: LabelOption = None,
    weight: WeightOption = None,
    plot: Annotated[Path | None, plot_option("Draw the margin distribution")] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    **given: Any,
) -> None:
    """Score a model on labelled data.

    Example: dimargin evaluate spam.dimargin test.csv --plot margins.png
    """
    out = Output(as_json, quiet)
    with usage_checked():
        check_plot(plot, model, data)
        reading = Reading.of(given)
    trained = OpenModel.load(model)
    trained.refuse_detector("has no accuracy; dimargin predict finds the outliers")
    rows = trained.read_labelled(data, label, reading, weight)
    facts = trained.scores(rows)
    display = MarginDistributionDisplay.from_estimator
    draw(lambda: display(trained.estimator, rows.X, rows.y), plot, out, "margin distribution")
    if as_json or quiet:
        return out.result(facts)
    classes, confusion = facts.pop("classes"), facts.pop("confusion")
    out.result(facts)
    if len(classes) > MANY_VALUES:
        out.say(f"The confusion matrix of {len(classes)} classes is in the output of --json.")
        return
    table = Table(*(Column(name, overflow="fold") for name in ("true \\ predicted", *map(printable, classes))))
    for name, counts in zip(classes, confusion, strict=True):
        table.add_row(printable(name), *(f"{count:.15g}" for count in counts))
    out.console.print(table)


def _info(
    model: ModelArgument,
    certify: Annotated[
        Path | None, data_option(help="All training data, from which the global certificate is computed and stored.")
    ] = None,
    label: LabelOption = None,
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
        rows = trained.read_labelled(certify, label, reading, trained.notes.get("weight"))
        trained.check_all_rows(certify, rows)
        # The argument is left out without weights, since some machines do not accept it.
        weights = {} if rows.weights is None else {"sample_weight": rows.weights}
        machine.certify(scaled(trained.scalers, rows.X), rows.y, **weights)
        trained.save()
    values = {name: getattr(machine, name) for name in parameters(type(machine))}
    facts = {
        "machine": type(machine).__name__,
        **trained.certificate(),
        **({} if trained.is_detector else {"classes": machine.classes_.tolist()}),
        "features": int(machine.n_features_in_),
        **({} if transformer is None else {"columns": describe(transformer)}),
        "scaling": scaling_of(trained.scalers),
        "parameters": {k: v if isinstance(v, (int, float, str, type(None))) else str(v) for k, v in values.items()},
        "written_by": trained.written_by,
        "privacy": facts_of(machine)["privacy"],
    }
    out.result(facts)


def register(app: Application) -> None:
    """Add the commands of this module."""
    for name, command in (("predict", _predict), ("evaluate", _evaluate), ("info", _info)):
        add_command(app, name, command, reading_flags())
