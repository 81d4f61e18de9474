"""Files of results: a page of HTML, the same in Markdown, and all cells as CSV and JSON."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import Any

from dimargin.display.report.figures import can_draw
from dimargin.display.report.page import NO_PICTURE
from dimargin.display.report.rendering import rendered
from dimargin.display.report.words import plain
from dimargin.system.writing import write_file
from dimargin_bench.experiments.experiment_run import PartResults, Record, Results
from dimargin_bench.experiments.metrics import METRICS
from dimargin_bench.experiments.outcome import NOT_INSTALLED
from dimargin_bench.experiments.pictures import pictures, pictures_over_rows
from dimargin_bench.experiments.result_tables import (
    WHAT_SIMULATED_IS,
    ShownTable,
    data_table,
    estimator_table,
    failure_table,
    meaning_table,
    method_table,
    metric_tables,
    part_tables,
    warning_table,
)

_QUICK = (
    "This was a quick run, with one seed and, unless a part says otherwise, few rows. Its numbers show that everything "
    "works; do not compare them with those of the paper."
)
NAMES = ("report.html", "report.md", "cells.csv", "cells.json")


def write_results(results: Results, folder: Path) -> None:
    """Write ``report.html``, ``report.md``, ``cells.csv`` and ``cells.json`` into an existing folder.

    The same results give the same bytes. Pictures need matplotlib (extra "report"); without it a
    sentence stands in the place of each.

    Raises
    ------
    OSError
        If a file cannot be written.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from dimargin_bench.experiments import experiment
    >>> from dimargin_bench.experiments.environment import environment
    >>> from dimargin_bench.experiments.experiment_run import Options
    >>> folder = Path(mkdtemp())
    >>> write_results(Results(experiment("dcsvm"), Options(), environment()), folder)  # of a run without data
    >>> sorted(path.name for path in folder.iterdir())
    ['cells.csv', 'cells.json', 'report.html', 'report.md']
    """
    content = _content(results)
    texts = (rendered("dimargin_bench.experiments", **content), _markdown(content), _csv(results), _json(results))
    for name, text in zip(NAMES, texts, strict=True):
        write_file(folder / name, text.encode("utf-8", "backslashreplace"))


def _content(results: Results) -> dict[str, Any]:
    """Return all that page and Markdown say."""
    experiment, n_failed, n_cells = results.experiment, len(results.failures), len(results.records)
    n_left_out = sum(record.outcome.status == NOT_INSTALLED for record in results.records)
    drawn = can_draw()
    return {
        "title": experiment.title,
        "about": experiment.about,
        "source": experiment.source,
        "quick": _QUICK if results.options.quick else "",
        "n_cells": n_cells,
        "n_failed": n_failed,
        "left_out": f", {n_left_out} left out for a package that is not installed" if n_left_out else "",
        "n_seeds": len({record.cell.seed for record in results.records}),
        "limit": f"{results.options.limit:g}",
        "jobs": results.options.jobs,
        "has_simulated": any(record.cell.method.simulated for record in results.records),
        "missing": results.missing,
        "sections": [_section(found, place, drawn) for place, found in enumerate(results.parts)],
        "further": [data_table(results), method_table(results), estimator_table(results), meaning_table(results)],
        "problems": [table for table in (failure_table(results), warning_table(results)) if table.rows],
        "environment": results.environment,
        "no_picture": "" if drawn else NO_PICTURE,
    }


def _section(found: PartResults, place: int, drawn: bool) -> dict[str, Any]:
    """Return what the page says of a part: first what all its data share, and then each data set."""
    names = [facts.name for facts in found.data]
    own = [(plain(name), metric_tables(found, name), pictures(found, name, f"part-{place}-{k}") if drawn else [])
           for k, name in enumerate(names)]  # fmt: skip
    return {
        "name": found.part.name,
        "title": found.part.title,
        "about": found.part.about,
        "simulated": WHAT_SIMULATED_IS if any(record.cell.method.simulated for record in found.records) else "",
        "answer": _answer(found),
        "tables": part_tables(found),
        "figures": pictures_over_rows(found, f"part-{place}-rows") if drawn else [],
        "data": [entry for entry in own if entry[1] or entry[2]],
    }


def _answer(found: PartResults) -> str:
    """Return what the part's results show, or why it has none."""
    if not found.records:
        return f"The data are missing here: {', '.join(found.missing)}." if found.missing else ""
    return found.part.answer(found) if found.part.answer else ""


def _markdown(content: dict[str, Any]) -> str:
    lines = [f"# {content['title']}", content["about"]]
    lines += [f"After {content['source']}."] if content["source"] else []
    lines += [content["quick"]] if content["quick"] else []
    lines.append(f"{content['n_cells']} cells, {content['n_failed']} without a result{content['left_out']}.")
    lines += [f"Missing data: {name}: {reason}." for name, reason in content["missing"].items()]
    lines += ["The pictures are in report.html."] if any(map(_has_pictures, content["sections"])) else []
    for section in content["sections"]:
        simulated = [section["simulated"]] if section["simulated"] else []
        lines += [f"## {section['title']}", section["about"], *simulated, *section["answer"].splitlines()]
        lines += [text for table in section["tables"] for text in _markdown_table(table, "###")]
        for name, tables, _ in section["data"]:
            lines += [f"### {name}"] if tables else []
            lines += [text for table in tables for text in _markdown_table(table, "####")]
    for table in (*content["problems"], *content["further"]):
        lines += _markdown_table(table, "##")
    lines.append("## Machine and versions")
    lines.append("\n".join(f"* {name}: {value}" for name, value in content["environment"].items()))
    return "\n\n".join(lines) + "\n"


def _has_pictures(section: dict[str, Any]) -> bool:
    return bool(section["figures"] or any(own for _, _, own in section["data"]))


def _markdown_table(table: ShownTable, level: str) -> list[str]:
    rules = ["---" if k < table.n_names else "---:" for k in range(len(table.headings))]
    rows = [[cell.replace("|", "\\|") for cell in row] for row in (table.headings, rules, *table.rows)]
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return [f"{level} {table.title}", text, *([table.note] if table.note else [])]


def _csv(results: Results) -> str:
    """Return a line for every cell; metrics that a method does not have are empty."""
    file = StringIO()
    columns = ["part", "data", "method", "case", "simulated", "parameters", "seed", "status", "reason", *METRICS]
    writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
    writer.writeheader()
    for part, record in _with_parts(results):
        cell = _facts(part, record)
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
        "cells": [{**_facts(part, record), "estimator": record.estimator, **record.outcome.as_json()}
                  for part, record in _with_parts(results)],
    }  # fmt: skip
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _with_parts(results: Results) -> list[tuple[str, Record]]:
    return [(found.part.name, record) for found in results.parts for record in found.records]


def _facts(part: str, record: Record) -> dict[str, Any]:
    cell = record.cell
    return {
        "part": part,
        "data": cell.data,
        "method": cell.method.name,
        "case": cell.case,
        "simulated": cell.method.simulated,
        "parameters": dict(cell.parameters),
        "seed": cell.seed,
        "status": record.outcome.status,
        "reason": record.outcome.reason,
    }
