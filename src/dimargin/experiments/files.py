"""Files of results: a page of HTML, the same in Markdown, and all cells as CSV and JSON."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import Any

from dimargin.experiments.metrics import METRICS
from dimargin.experiments.pictures import pictures
from dimargin.experiments.run import Record, Results
from dimargin.experiments.tables import (
    ShownTable,
    data_table,
    estimator_table,
    failure_table,
    method_table,
    metric_tables,
    warning_table,
)
from dimargin.report.figures import can_draw
from dimargin.report.page import NO_PICTURE
from dimargin.report.rendering import rendered
from dimargin.report.words import plain
from dimargin.system.writing import write_file

_QUICK = "A quick run: few rows, one seed. Its figures are no measurements of what the paper measured."
NAMES = ("report.html", "report.md", "cells.csv", "cells.json")


def write_results(results: Results, folder: Path) -> None:
    """Write ``report.html``, ``report.md``, ``cells.csv`` and ``cells.json`` into an existing folder.

    The same results give the same bytes. Pictures need matplotlib (extra "report"); without it a sentence stands in
    the place of each.

    Raises
    ------
    OSError
        If a file cannot be written.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from dimargin.experiments import experiment
    >>> from dimargin.experiments.environment import environment
    >>> from dimargin.experiments.run import Options
    >>> folder = Path(mkdtemp())
    >>> write_results(Results(experiment("dcsvm"), Options(), environment()), folder)  # of a run without data
    >>> sorted(path.name for path in folder.iterdir())
    ['cells.csv', 'cells.json', 'report.html', 'report.md']
    """
    content = _content(results)
    texts = (rendered("dimargin.experiments", **content), _markdown(content), _csv(results), _json(results))
    for name, text in zip(NAMES, texts, strict=True):
        write_file(folder / name, text.encode("utf-8", "backslashreplace"))


def _content(results: Results) -> dict[str, Any]:
    """Return all that page and Markdown say."""
    experiment, n_failed, n_cells = results.experiment, len(results.failures), len(results.records)
    tables, drawn = dict(metric_tables(results)), can_draw()
    return {
        "title": experiment.title,
        "about": experiment.about,
        "source": experiment.source,
        "quick": _QUICK if results.options.quick else "",
        "n_cells": n_cells,
        "n_failed": n_failed,
        "n_seeds": len({record.cell.seed for record in results.records}),
        "limit": f"{results.options.limit:g}",
        "jobs": results.options.jobs,
        "has_simulated": any(record.cell.method.simulated for record in results.records),
        "missing": results.missing,
        "sections": [(plain(name), shown, pictures(results, name) if drawn else []) for name, shown in tables.items()],
        "further": [data_table(results), method_table(results), estimator_table(results)],
        "problems": [table for table in (failure_table(results), warning_table(results)) if table.rows],
        "metrics": [(metric.heading, metric.about) for metric in METRICS.values()],
        "environment": results.environment,
        "no_picture": "" if drawn else NO_PICTURE,
    }


def _markdown(content: dict[str, Any]) -> str:
    lines = [f"# {content['title']}", content["about"], f"After {content['source']}."]
    lines += [content["quick"]] if content["quick"] else []
    lines.append(f"{content['n_cells']} cells, {content['n_failed']} without a result.")
    lines += [f"Missing data: {name}: {reason}." for name, reason in content["missing"].items()]
    for name, tables, _ in content["sections"]:
        lines += [f"## {name}", *(part for table in tables for part in _markdown_table(table, "###"))]
    for table in (*content["problems"], *content["further"]):
        lines += _markdown_table(table, "##")
    lines.append("## Machine and versions")
    lines.append("\n".join(f"* {name}: {value}" for name, value in content["environment"].items()))
    return "\n\n".join(lines) + "\n"


def _markdown_table(table: ShownTable, level: str) -> list[str]:
    rules = ["---" if k < table.n_names else "---:" for k in range(len(table.headings))]
    rows = [[cell.replace("|", "\\|") for cell in row] for row in (table.headings, rules, *table.rows)]
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return [f"{level} {table.title}", text, *([table.note] if table.note else [])]


def _csv(results: Results) -> str:
    """Return a line for every cell; metrics that a method does not have are empty."""
    file = StringIO()
    columns = ["data", "method", "simulated", "parameters", "seed", "status", "reason", *METRICS]
    writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
    writer.writeheader()
    for record in results.records:
        cell = _facts(record)
        writer.writerow(
            {**{name: cell[name] for name in columns if name in cell},
             "parameters": json.dumps(cell["parameters"], sort_keys=True), **record.outcome.metrics}
        )  # fmt: skip
    return file.getvalue()


def _json(results: Results) -> str:
    content = {
        "experiment": results.experiment.name,
        "quick": results.options.quick,
        "environment": results.environment,
        "data": [asdict(facts) for facts in results.data],
        "missing": results.missing,
        "cells": [{**_facts(record), "estimator": record.estimator, **record.outcome.as_json()}
                  for record in results.records],
    }  # fmt: skip
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _facts(record: Record) -> dict[str, Any]:
    cell = record.cell
    return {
        "data": cell.data,
        "method": cell.method.name,
        "simulated": cell.method.simulated,
        "parameters": dict(cell.parameters),
        "seed": cell.seed,
        "status": record.outcome.status,
        "reason": record.outcome.reason,
    }
