"""Files of results: page, Markdown, CSV and JSON."""

import csv
import json
from dataclasses import replace

import experiment_methods
import pytest
from experiment_methods import experiment
from report_page import Page, check_alone

from dimargin_bench.experiments.declarations import Method
from dimargin_bench.experiments.environment import environment
from dimargin_bench.experiments.experiment_run import Options, PartResults, Results, run_experiment
from dimargin_bench.experiments.result_files import NAMES, write_results
from dimargin_bench.experiments.split_data import load


@pytest.fixture
def written(moons, tmp_path):
    results = run_experiment(experiment("throws", "warns", seeds=(0, 1)), tmp_path, Options())
    write_results(results, tmp_path)
    return tmp_path, results


def test_the_page_has_the_numbers_of_the_estimator(written):
    folder, _ = written
    page = Page(folder / "report.html")
    check_alone(page)
    split, machine = load("svmguide1"), experiment_methods.exact(0)
    accuracy = machine.fit(split.X, split.y).score(split.X_test, split.y_test)
    assert page.tables["table-scores-data-0-0"][:2] == [
        [
            "method",
            "accuracy, %",
            "paper",
            "ratio",
            "objective",
            "support vectors",
        ],  # and no messages, which nobody has sent
        [
            "exact",
            f"{100 * accuracy:.2f}",
            "98.76",
            f"{accuracy / 0.9876:.3g}",
            f"{machine.objective_:.6g}",
            str(len(machine.support_)),
        ],
    ]
    assert page.tables["table-scores-data-0-0"][3] == ["throws", "raised", "—", "—", "raised", "raised"]
    assert page.texts["n-cells"] == "8" and page.texts["n-failed"] == "2"
    assert ["svmguide1, throws, seed 1", "raised", "RuntimeError: no such luck"] in page.tables["table-failures"]
    assert ["svmguide1, warns, seed 0", "UserWarning: a word of warning"] in page.tables["table-warnings"]
    assert page.tables["table-methods"][1] == ["exact", "an exact machine", "all"]
    assert "simulated" not in page.texts and page.source.count("<svg") == 1


def test_markdown_has_the_tables_of_the_page(written):
    folder, _ = written
    text = (folder / "report.md").read_text()
    for rows in Page(folder / "report.html").tables.values():
        for row in rows:
            assert f"| {' | '.join(row)} |" in text
    assert text.count("The pictures are in report.html.") == 1


def test_markdown_of_a_part_with_pictures_alone_has_no_empty_headings(moons, tmp_path):
    declared = experiment("exact")
    trial = replace(declared, parts=[replace(declared.parts[0], tables=())])
    write_results(run_experiment(trial, tmp_path, Options()), tmp_path)
    assert "<svg" in (tmp_path / "report.html").read_text() and "### " not in (tmp_path / "report.md").read_text()


def test_csv_and_json_have_all_cells(written):
    folder, results = written
    with open(folder / "cells.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    cells = json.loads((folder / "cells.json").read_text())["cells"]
    assert len(lines) == len(cells) == 8
    for line, cell, record in zip(lines, cells, results.records, strict=True):
        assert cell["metrics"] == record.outcome.metrics and line["status"] == cell["status"]
        assert {name: float(line[name]) for name in cell["metrics"]} == cell["metrics"]
        assert line["messages"] == "" and json.loads(line["parameters"]) == cell["parameters"]
    assert lines[2]["reason"] == "RuntimeError: no such luck" and lines[2]["accuracy"] == ""


def test_the_same_bytes_from_the_cache(written):
    folder, results = written
    before = [(folder / name).read_bytes() for name in NAMES]
    write_results(run_experiment(results.experiment, folder, Options()), folder)
    assert [(folder / name).read_bytes() for name in NAMES] == before


def test_what_is_simulated_is_marked(moons, tmp_path):
    pytest.importorskip("networkx")
    trial = experiment()
    sites = Method("gossip", experiment_methods.gossip, "sites that talk", simulated="the network")
    part = replace(trial.parts[0], methods=(sites,), parameters=lambda data, method: {})
    trial = replace(trial, parts=(part,))
    results = run_experiment(trial, tmp_path, Options())
    write_results(results, tmp_path)
    (outcome,) = (record.outcome for record in results.records)
    assert outcome.metrics["messages"] > 0 and outcome.metrics["bytes"] > outcome.metrics["messages"]
    page = Page(tmp_path / "report.html")
    assert (
        page.tables["table-scores-data-0-0"][1][0] == "gossip†"
        and "in one process" in page.texts["simulated"]
        and page.source.count("† simulated: in one process") == 1
        and (tmp_path / "report.md").read_text().count("† simulated: in one process") == 1
    )
    assert page.tables["table-methods"][1][1] == "sites that talk; simulated: the network"
    assert int(page.tables["table-scores-data-0-0"][1][-1].replace(",", "")) == outcome.metrics["messages"]


def test_what_is_not_installed_is_counted_apart(moons, tmp_path):
    trial = experiment()
    other = Method("other", dict, "another library's", requires="nosuch")
    part = replace(trial.parts[0], methods=(other, trial.parts[0].methods[1]))
    write_results(run_experiment(replace(trial, parts=(part,)), tmp_path, Options()), tmp_path)
    left_out = ", 1 left out for a package that is not installed"
    assert f"2 cells, 0 without a result{left_out}." in (tmp_path / "report.md").read_text()
    assert left_out in (tmp_path / "report.html").read_text()


def test_without_matplotlib_a_sentence_stands_in_place_of_pictures(written, monkeypatch):
    folder, results = written
    monkeypatch.setattr("dimargin_bench.experiments.result_files.can_draw", lambda: False)
    write_results(results, folder)
    source = (folder / "report.html").read_text()
    assert "<svg" not in source and "The picture is left out" in source
    assert "The pictures are" not in (folder / "report.md").read_text()


def test_a_part_whose_data_are_missing_says_so(tmp_path):
    declared = experiment("fine")
    found = PartResults(declared.parts[0], missing={"moons": "there is no file"})
    write_results(Results(declared, Options(), environment(), [found]), tmp_path)
    for name in ("report.md", "report.html"):
        assert "The data are missing here: moons." in (tmp_path / name).read_text(encoding="utf-8")
