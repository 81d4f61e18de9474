"""Tables of results as text, the same for all forms in which they are written."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dimargin.display.report.words import number
from dimargin_bench.experiments.declarations import Cell, Comparison, Method, Table
from dimargin_bench.experiments.experiment_run import DataFacts, PartResults, Record, Results
from dimargin_bench.experiments.metrics import METRICS
from dimargin_bench.experiments.outcome import DONE, NOT_INSTALLED
from dimargin_bench.papers import Figure, Marked

Figures = Mapping[tuple[str, str, str], Figure]
NOTHING = "—"
SIMULATED = "†"
WHAT_SIMULATED_IS = (
    "† simulated: in one process, in place of several machines. The list of methods says what of each is simulated."
)


@dataclass(frozen=True)
class _Row:
    """The cells whose medians are a row of a table, and their data."""

    name: str
    facts: DataFacts
    records: list[Record]

    def published(self, table: Table, metric: str) -> Figure | None:
        """Return the paper's figure."""
        return _published(table.published, self.records[0].cell, self.facts.set_name, metric)


def _published(figures: Figures, cell: Cell, set_name: str, metric: str) -> Figure | None:
    """Return the paper's figure of a cell: of its sample or of the whole data set, of its case or of all."""
    for data in (cell.data, set_name):
        for method in (f"{cell.method.name}, {cell.case}", cell.method.name):
            if (data, method, metric) in figures:
                return figures[data, method, metric]
    return None


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


def metric_tables(found: PartResults, data: str) -> list[ShownTable]:
    """Return the tables of a data set, with the figures of the paper beside ours."""
    tables: list[ShownTable] = []
    for table in found.part.tables:
        if isinstance(table, Table) and table.rows == "method":
            tables.append(_of_metrics(table, "method", _methods_of(found, data)))
        elif isinstance(table, Table) and table.rows == "metric":
            tables.append(_by_metric(table, _methods_of(found, data)))
        elif isinstance(table, Comparison) and table.rows not in ("data", "total"):
            shown = _compared(table, found, found.of(data), lambda record: record.cell.case)
            tables.append(_turned(shown, "method") if table.rows == "method" else shown)
    return tables


def part_tables(found: PartResults) -> list[ShownTable]:
    """Return the tables of a part that have all its data sets, and one of figures whose data are not here."""
    tables: list[ShownTable] = []
    for table in found.part.tables if found.records else ():
        if isinstance(table, Comparison) and table.rows == "data":
            tables.append(_compared(table, found, found.records, _data_and_case))
        elif isinstance(table, Comparison) and table.rows == "total":
            tables.append(_totals(table, found))
        elif isinstance(table, Table) and table.rows == "data":
            tables.append(_of_metrics(table, "data", _all_rows(found)))
    return tables + [table for table in (_of_missing_data(found),) if table.rows]


def _data_and_case(record: Record) -> str:
    return f"{record.cell.data}, {record.cell.case}" if record.cell.case else record.cell.data


def labelled(record: Record) -> str:
    """Return the name of a method, with that of the case if there are several."""
    name = named(record.cell.method)
    return f"{name}, {record.cell.case}" if record.cell.case else name


def _grouped(records: Iterable[Record], label: Callable[[Record], str]) -> dict[str, list[Record]]:
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(label(record), []).append(record)
    return groups


def _methods_of(found: PartResults, data: str) -> list[_Row]:
    facts = next(facts for facts in found.data if facts.name == data)
    return [_Row(name, facts, records) for name, records in _grouped(found.of(data), labelled).items()]


def _all_rows(found: PartResults) -> list[_Row]:
    """Return the rows of all data sets, with the names of methods where there are several."""
    rows = [row for facts in found.data for row in _methods_of(found, facts.name)]
    several = len({row.name for row in rows}) > 1
    return [replace(row, name=f"{row.facts.name}, {row.name}" if several else row.facts.name) for row in rows]


def _of_metrics(table: Table, heading: str, rows: list[_Row]) -> ShownTable:
    """Return a table with a column for each metric."""
    columns = [_column(table, metric, rows) for metric in table.metrics]
    shown = [part for column in columns for part in column]
    names = [row.name for row in rows]
    lines = [[name, *texts] for name, *texts in zip(names, *(texts for _, texts in shown), strict=True)]
    return ShownTable(table.title, [heading, *(h for h, _ in shown)], lines, table.note)


def _column(table: Table, metric: str, rows: list[_Row]) -> list[tuple[str, list[str]]]:
    """Return heading and texts of a metric, none if no method has it, and of the paper's figures if there are any."""
    theirs = [row.published(table, metric) for row in rows]
    if all(figure is None for figure in theirs) and not any(_values(row.records, metric) for row in rows):
        return []
    column = [(METRICS[metric].heading, [summary(row.records, metric) for row in rows])]
    if any(figure is not None for figure in theirs):
        ratios = [_ratio(middle(row.records, metric), figure) for row, figure in zip(rows, theirs, strict=True)]
        column += [("paper", [_figure(figure, metric) for figure in theirs]), ("ratio", ratios)]
    return column


def _by_metric(table: Table, rows: list[_Row]) -> ShownTable:
    """Return a table with a row for each metric, and columns for each method."""
    methods = {row.name: {metric: _column(table, metric, [row]) for metric in table.metrics} for row in rows}
    with_paper = {name for name, own in methods.items() if any(len(column) > 1 for column in own.values())}
    headings = [heading for name in methods for heading in (name, *(("paper", "ratio") if name in with_paper else ()))]
    lines = []
    for metric in table.metrics:
        line = [METRICS[metric].heading]
        for name, own in methods.items():
            texts = [text for _, (text,) in own[metric]]
            line += texts + [NOTHING] * ((3 if name in with_paper else 1) - len(texts))
        lines.append(line)
    return ShownTable(table.title, ["", *headings], lines, table.note)


def _ratio(ours: float | None, theirs: Figure | None) -> str:
    """Return the ratio of ours to the paper's, of which it may have a bound only."""
    figure = theirs.number if isinstance(theirs, Marked) else theirs
    if ours is None or not figure:
        return NOTHING
    is_bound = isinstance(theirs, Marked) and theirs.mark == ">"
    return "<" * is_bound + number(ours / figure, 3)


def _figure(figure: Figure | None, metric: str) -> str:
    """Return a figure of the paper with all digits that it prints, or what it prints in place of one."""
    if isinstance(figure, Marked):
        return figure.mark + ("" if figure.number is None else _figure(figure.number, metric))
    return NOTHING if figure is None else f"{figure * METRICS[metric].factor:,.10g}"


def _compared(
    table: Comparison, found: PartResults, records: Sequence[Record], label: Callable[[Record], str]
) -> ShownTable:
    """Return a table with a column for each method."""
    sets = {facts.name: facts.set_name for facts in found.data}
    methods = list(dict.fromkeys(
        named(record.cell.method) for record in records
        if not (table.quotients and record.cell.method.name == table.relative_to)
    ))  # fmt: skip
    by_row = {
        name: _grouped(group, lambda record: named(record.cell.method))
        for name, group in _grouped(records, label).items()
    }
    rows = []
    for name, cells in by_row.items():
        base = middle(cells.get(table.relative_to, cells.get(table.relative_to + SIMULATED, ())), table.metric)
        shown = _quotient if table.quotients else _beside
        rows.append([name, *(shown(table, cells.get(method, ()), base, sets) for method in methods)])
    if table.total:
        sums = [[middle(cells.get(method, ()), table.metric) for cells in by_row.values()] for method in methods]
        rows.append(["all", *(_sum(values, table.metric) for values in sums)])
    title = table.title if table.quotients else f"{table.title}: {METRICS[table.metric].heading}"
    return ShownTable(title, ["", *methods], rows, table.note)


def _totals(table: Comparison, found: PartResults) -> ShownTable:
    """Return a table with a row for each data set, of the sums over its cases."""
    methods = list(dict.fromkeys(named(record.cell.method) for record in found.records))
    rows = [
        [facts.name, *(_total(table, found, [one for one in found.of(facts.name) if named(one.cell.method) == method],
                              facts.set_name) for method in methods)] for facts in found.data
    ]  # fmt: skip
    return ShownTable(f"{table.title}: {METRICS[table.metric].heading}", ["", *methods], rows, table.note)


def _total(table: Comparison, found: PartResults, records: Sequence[Record], set_name: str) -> str:
    """Return the sum over the cases of a method, and the paper's with the ratio of ours to it."""
    if not records:
        return NOTHING
    values = [middle(group, table.metric) for group in _grouped(records, lambda record: record.cell.case).values()]
    known, n_cases = [value for value in values if value is not None], len(found.part.cases)
    missing = f", without {n_cases - len(known)} of {n_cases}" if len(known) < n_cases else ""
    theirs, shown = _published(table.published, records[0].cell, set_name, table.metric), METRICS[table.metric].shown
    ratio = "" if missing else f", ratio {_ratio(sum(known), theirs)}"
    return shown(sum(known)) + missing + ("" if theirs is None else f" (paper {_figure(theirs, table.metric)}{ratio})")


def _turned(table: ShownTable, heading: str) -> ShownTable:
    """Return a table with its columns as rows, whose names are below a heading."""
    (_, *headings), *rows = zip(table.headings, *table.rows, strict=True)
    return replace(table, headings=[heading, *headings], rows=[list(row) for row in rows])


def _quotient(table: Comparison, records: Sequence[Record], base: float | None, sets: Mapping[str, str]) -> str:
    """Return how many times the base a median is, and the paper's figure of that with the ratio to it."""
    own, shown = middle(records, table.metric), METRICS["speed_up"].shown
    ours = own / base if own is not None and base else None
    theirs = _published(table.published, records[0].cell, sets[records[0].cell.data], "speed_up") if records else None
    text = NOTHING if ours is None else shown(ours)
    return text + ("" if theirs is None else f" (paper {_figure(theirs, 'speed_up')}, ratio {_ratio(ours, theirs)})")


def _beside(table: Comparison, records: Sequence[Record], base: float | None, sets: Mapping[str, str]) -> str:
    """Return the median of a metric, how many times the base it is, and the paper's figure with the ratio to it."""
    own, shown = middle(records, table.metric), METRICS[table.metric].shown
    cell = records[0].cell if records else None
    theirs = None if cell is None else _published(table.published, cell, sets[cell.data], table.metric)
    text = (summary(records, table.metric) if records else NOTHING) if own is None else shown(own)
    times = "" if base is None or own is None or own == base else f" ({number(own / base, 2)} times)"
    ratio = "" if own is None else f", ratio {_ratio(own, theirs)}"
    return text + times + ("" if theirs is None else f" (paper {_figure(theirs, table.metric)}{ratio})")


def _sum(values: Sequence[float | None], metric: str) -> str:
    """Return a sum, of which it is said what is not in it."""
    known = [value for value in values if value is not None]
    missing = f", without {len(values) - len(known)} of {len(values)}" if len(known) < len(values) else ""
    return METRICS[metric].shown(sum(known)) + missing


def _of_missing_data(found: PartResults) -> ShownTable:
    """Return the paper's figures on data sets that are not here, of its own methods."""
    tables = [table for table in found.part.tables if any(key[0] in found.missing for key in table.published)]
    published = {key: value for table in tables for key, value in table.published.items()
                 if key[0] in found.missing and "ours" not in key[1].split(", ")}  # fmt: skip
    note = " ".join(dict.fromkeys(table.note for table in tables if table.note))
    metrics = list(dict.fromkeys(metric for _, _, metric in published))
    is_of_data = len(found.part.methods) == 1 and all(table.rows == "data" for table in tables)
    rows = [
        [
            pair[0],
            NOTHING if is_of_data else pair[1],
            "missing data",
            *(_figure(published.get((*pair, metric)), metric) for metric in metrics),
        ]
        for pair in dict.fromkeys(key[:2] for key in published)
    ]
    headings = ["data", "method", "here", *(f"{METRICS[metric].heading}, paper" for metric in metrics)]
    return ShownTable("The paper's numbers on data sets that are missing here", headings, rows, note, n_names=3)


def middle(records: Iterable[Record], metric: str) -> float | None:
    """Return the median of a metric over the seeds, or None if no cell has it."""
    values = _values(records, metric)
    return statistics.median(values) if values else None


def _values(records: Iterable[Record], metric: str) -> list[float]:
    return [record.outcome.metrics[metric] for record in records if metric in record.outcome.metrics]


def summary(records: Sequence[Record], metric: str) -> str:
    """Return the median over the seeds with the range, or why there is none, and how many failed."""
    failed = [record.outcome.status for record in records if record.outcome.status != DONE]
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
         facts.scaling, facts.digest[:12]] for facts in results.data
    ]  # fmt: skip
    rows += [[name, *["missing"] * 6] for name in results.missing]
    headings = ["data", "training rows", "test rows", "features", "classes", "scaled to", "SHA-256"]
    note = (
        "Features are scaled by the ranges of the training rows; test rows may reach beyond them. Checksums are of the "
        "first seed's rows."
    )
    return ShownTable("Data", headings, rows, note)


def method_table(results: Results) -> ShownTable:
    """Return the table of what the methods are, of a name with several meanings in which parts it has each."""
    lacking = {record.cell.method.name for record in results.records if record.outcome.status == NOT_INSTALLED}
    parts: dict[tuple[str, str, str], dict[str, None]] = {}
    for found in results.parts:
        for method in dict.fromkeys(record.cell.method for record in found.records):
            row = named(method), _about(method, method.name in lacking), method.threads
            parts.setdefault(row, {})[found.part.name] = None
    n_meanings = Counter(name for name, *_ in parts)
    rows = [
        [f"{name} ({', '.join(where)})" if n_meanings[name] > 1 else name, about, threads]
        for (name, about, threads), where in parts.items()
    ]
    note = (
        "A name that means several methods has the parts of each in brackets."
        if max(n_meanings.values(), default=1) > 1
        else ""
    )
    return ShownTable("Methods", ["method", "what it is", "threads"], rows, note, n_names=2)


def _about(method: Method, is_left_out: bool) -> str:
    simulated = f"; simulated: {method.simulated}" if method.simulated else ""
    return method.about + simulated + (f"; left out: {method.requires} is not installed" if is_left_out else "")


def estimator_table(results: Results) -> ShownTable:
    """Return the table of the estimators, as Python would make them: of every part and method the first cell's."""
    firsts: dict[tuple[str, str], Record] = {}
    for found in results.parts:
        for record in found.records:
            firsts.setdefault((found.part.name, named(record.cell.method)), record)
    rows = [[part, str(record.cell), record.estimator] for (part, _), record in firsts.items()]
    note = (
        "Each row is of the first cell of a method in a part. The other cells differ in the parameters that the "
        "page names, and in the seed."
    )
    return ShownTable("Estimators", ["part", "cell", "estimator"], rows, note, n_names=3)


def meaning_table(results: Results) -> ShownTable:
    """Return the table of what the metrics of the cells mean."""
    measured = {name for record in results.records for name in record.outcome.metrics}
    rows = [[metric.heading, metric.about] for name, metric in METRICS.items() if name in measured]
    return ShownTable("Metrics", ["metric", "what it is"], rows, n_names=2)


def failure_table(results: Results) -> ShownTable:
    """Return the table of the cells without a result."""
    rows = [[str(record.cell), record.outcome.status, record.outcome.reason] for record in results.failures]
    rows = [list(row) for row in dict.fromkeys(map(tuple, rows))]  # parts may share cells
    return ShownTable("Failures", ["cell", "what happened", "reason"], rows, n_names=3)


def warning_table(results: Results) -> ShownTable:
    """Return the table of what the fits warned of."""
    said = ((str(record.cell), text) for record in results.records for text in record.outcome.warnings)
    rows = [list(row) for row in dict.fromkeys(said)]
    return ShownTable("Warnings", ["cell", "warning"], rows, n_names=2)
