"""Tables of results as text, the same for all forms in which they are written."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from dimargin.experiments.declarations import Method, Table
from dimargin.experiments.metrics import METRICS
from dimargin.experiments.run import Record, Results

NOTHING = "—"
SIMULATED = " (simulated)"


@dataclass(frozen=True)
class ShownTable:
    """A table of texts; the first of its columns are names, the others right-aligned."""

    title: str
    headings: list[str]
    rows: list[list[str]]
    note: str = ""
    n_names: int = 1


def named(method: Method) -> str:
    """Return the name of a method, marked if some of it is simulated."""
    return method.name + SIMULATED * bool(method.simulated)


def metric_tables(results: Results) -> list[tuple[str, list[ShownTable]]]:
    """Return the tables of each data set, with the figures of the paper beside ours."""
    return [(facts.name, [_of_data(table, facts.name, results) for table in results.experiment.tables])
            for facts in results.data]  # fmt: skip


def _of_data(table: Table, data: str, results: Results) -> ShownTable:
    by_method: dict[str, list[Record]] = {}
    for record in results.records:
        if record.cell.data == data:
            by_method.setdefault(named(record.cell.method), []).append(record)
    columns = [_column(table, data, metric, list(by_method.values())) for metric in table.metrics]
    shown = [part for column in columns for part in column]
    rows = [[name, *texts] for name, *texts in zip(by_method, *(texts for _, texts in shown), strict=True)]
    has_paper = any(len(column) > 1 for column in columns)
    return ShownTable(table.title, ["method", *(h for h, _ in shown)], rows, table.note if has_paper else "")


def _column(table: Table, data: str, metric: str, methods: list[list[Record]]) -> list[tuple[str, list[str]]]:
    """Return heading and texts of a metric, none if no method has it, and of the paper's figures if there are any."""
    names = [records[0].cell.method.name for records in methods]
    theirs = [table.published.get((data, name, metric)) for name in names]
    if all(figure is None for figure in theirs) and not any(_values(records, metric) for records in methods):
        return []
    column = [(METRICS[metric].heading, [summary(records, metric) for records in methods])]
    if any(figure is not None for figure in theirs):
        texts = [NOTHING if figure is None else METRICS[metric].shown(figure) for figure in theirs]
        column.append(("paper", texts))
    return column


def _values(records: Sequence[Record], metric: str) -> list[float]:
    return [record.outcome.metrics[metric] for record in records if metric in record.outcome.metrics]


def summary(records: Sequence[Record], metric: str) -> str:
    """Return the median over the seeds with the range, or why there is none, and how many failed."""
    failed = [record.outcome.status for record in records if record.outcome.failed]
    if len(failed) == len(records):
        return ", ".join(dict.fromkeys(failed))
    values, shown = _values(records, metric), METRICS[metric].shown
    if not values:
        return NOTHING
    text, low, high = (shown(choose(values)) for choose in (statistics.median, min, max))
    of_seeds = f" ({low} to {high})" if low != high else ""
    return text + of_seeds + (f", {len(failed)} of {len(records)} failed" if failed else "")


def data_table(results: Results) -> ShownTable:
    """Return the table of the data sets, those that are not here among them."""
    rows = [
        [facts.name, f"{facts.rows:,}", f"{facts.test_rows:,}", f"{facts.features:,}", f"{facts.classes:,}",
         facts.digest[:12]] for facts in results.data
    ]  # fmt: skip
    rows += [[name, *["missing"] * 5] for name in results.missing]
    headings = ["data", "training rows", "test rows", "features", "classes", "SHA-256"]
    note = "Features are scaled by the ranges of the training rows: to [0, 1], or, of wide sparse rows, to [-1, 1]."
    return ShownTable("Data", headings, rows, note)


def method_table(results: Results) -> ShownTable:
    """Return the table of what the methods are."""
    chosen = dict.fromkeys(record.cell.method.name for record in results.records)
    rows = [
        [named(method), method.about + (f"; simulated: {method.simulated}" if method.simulated else ""), method.threads]
        for method in results.experiment.methods
        if method.name in chosen
    ]
    return ShownTable("Methods", ["method", "what it is", "threads"], rows, n_names=2)


def estimator_table(results: Results) -> ShownTable:
    """Return the table of the estimators of the first seed, as Python would make them."""
    seen: dict[tuple[str, str], str] = {}
    for record in results.records:
        seen.setdefault((record.cell.data, record.cell.method.name), record.estimator)
    rows = [[data, method, text] for (data, method), text in seen.items()]
    return ShownTable("Estimators", ["data", "method", "estimator"], rows, n_names=3)


def failure_table(results: Results) -> ShownTable:
    """Return the table of the cells without a result."""
    rows = [[str(record.cell), record.outcome.status, record.outcome.reason] for record in results.failures]
    return ShownTable("Failures", ["cell", "what happened", "reason"], rows, n_names=3)


def warning_table(results: Results) -> ShownTable:
    """Return the table of what the fits warned of."""
    rows = [[str(record.cell), text] for record in results.records for text in record.outcome.warnings]
    return ShownTable("Warnings", ["cell", "warning"], rows, n_names=2)
