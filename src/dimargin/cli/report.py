"""``dimargin report``: an HTML page about a model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import scipy.sparse as sp
import typer
from sklearn.pipeline import make_pipeline

from dimargin.cli.brief_help import Application
from dimargin.cli.column_flags import Reading, reading_flags
from dimargin.cli.flags import add_command, usage_checked
from dimargin.cli.open_model import OpenModel
from dimargin.cli.shared import DataArgument, ModelArgument, ModelLabelOption, Output, QuietOption, check_output
from dimargin.cli.text_rows import TextColumn
from dimargin.display.report import Source, write_report
from dimargin.display.report.figures import can_draw
from dimargin.display.report.page import FeatureNumbers


def _report(
    model: ModelArgument,
    data: DataArgument,
    output: Annotated[Path, typer.Option("--output", "-o", dir_okay=False, help="File for the page.")],
    label: ModelLabelOption = None,
    random_state: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Seed for the sample of rows from which importances are computed.")
    ] = 0,
    quiet: QuietOption = False,
    **given: Any,
) -> None:
    """Write an HTML page about a model and its results on labelled data.

    Example: dimargin report spam.dimargin test.csv --output report.html

    The page is a single file without external resources. For an outlier detector, whose data need
    no labels, it shows the outliers.
    """
    out = Output(False, quiet)
    with usage_checked():
        check_output("--output", output, model, data)
        reading = Reading.of(given)
    began = time.perf_counter()
    trained = OpenModel.load(model, data)
    if trained.is_detector:
        rows = trained.read(data, label, reading, needs_label=False)
    else:
        rows = trained.read_labelled(data, label, reading)
    out.warn(trained.remarks(data, rows))
    estimator, X = trained.estimator, rows.X
    n_features = trained.machine.n_features_in_
    shape = X.shape if trained.takes_texts else (X.shape[0], int(n_features))
    out.say_shape(data, shape, sp.issparse(X), X.shape[-1])
    names: Sequence[str] | None = rows.feature_names
    if trained.takes_texts:
        estimator, X = make_pipeline(TextColumn(), estimator), pa.table([X], names=names)
    if names is None and rows.zero_based is not None:
        names = FeatureNumbers(rows.X.shape[1], 0 if rows.zero_based else 1)
    source = Source(model.name, data.name, model.stat().st_size, trained.written_by, rows.labelled)
    write_report(output, estimator, X, rows.y, feature_names=names, source=source, random_state=random_state)
    if not can_draw():
        out.say(f'{output} has no figures; they need the extra "report": pip install "dimargin[report]"')
    out.say(f"{output}: {output.stat().st_size / 1000:.0f} kB, in {time.perf_counter() - began:.1f} s")


def register(app: Application) -> None:
    """Add the command."""
    add_command(app, "report", _report, reading_flags())
