"""Tables and pictures of results that are made up."""

from dataclasses import replace

import pytest
from experiment_methods import experiment

from dimargin.experiments.declarations import Cell, Comparison, Figure, Method, Sample, Table
from dimargin.experiments.outcome import DONE, TIME_LIMIT, Outcome
from dimargin.experiments.pictures import pictures_over_rows, points_of
from dimargin.experiments.run import DataFacts, PartResults, Record
from dimargin.experiments.tables import metric_tables, part_tables

CASES = {"narrow": {"gamma": 1.0}, "wide": {"gamma": 0.1}}
ROWS = {"a, 10 rows": 10, "a, 20 rows": 20}
METHODS = {name: Method(name, dict, name, problem="own" if name == "svc" else "") for name in ("exact", "dc", "svc")}


def results(tables=(), figures=(), seconds=None, **metrics):
    """Two samples, two cases, seeds 0 to 2: seconds are rows, times 2 for "wide", times 3 for "dc", plus the seed."""
    part = replace(experiment().parts[0], tables=tables, figures=figures, cases=CASES, data=(Sample("a", 10),))
    found = PartResults(part, [DataFacts(name, "a", n, 5, 2, 2, "") for name, n in ROWS.items()])
    for name, n in ROWS.items():
        for case in CASES:
            for seed in range(3):
                for method in ("exact", "dc"):
                    value = n * (2 if case == "wide" else 1) * (3 if method == "dc" else 1) + seed
                    outcome = Outcome(DONE, {"seconds": float(value), **metrics})
                    found.records.append(Record(Cell(name, METHODS[method], {}, seed, case), "", outcome))
    return found


def test_a_comparison_has_a_row_for_each_data_set_and_case():
    found = results((Comparison("To the gap", "seconds", "data", relative_to="exact"),))
    (table,) = part_tables(found)
    assert table.title == "To the gap: seconds" and table.headings == ["", "exact", "dc"]
    assert table.rows[0] == ["a, 10 rows, narrow", "11", "31 (2.8 times)"]
    assert [row[0] for row in table.rows[1:]] == ["a, 10 rows, wide", "a, 20 rows, narrow", "a, 20 rows, wide"]
    assert metric_tables(found, "a, 10 rows") == []


def test_a_comparison_over_cases_has_sums_that_say_what_they_lack():
    found = results((Comparison("Over the grid", "seconds", "case", total=True),))
    (table,) = metric_tables(found, "a, 20 rows")
    assert table.rows[-1] == ["all", "62", "182"]  # 21 + 41, 61 + 121
    lost = [record for record in found.records if record.cell.method.name == "dc" and record.cell.case == "wide"]
    found.records = [
        replace(record, outcome=Outcome(TIME_LIMIT, reason="late")) if record in lost else record
        for record in found.records
    ]
    (table,) = metric_tables(found, "a, 20 rows")
    assert table.rows[1] == ["wide", "41", "time limit"]
    assert table.rows[2] == ["all", "62", "61, without 1 of 2"]


def test_figures_of_the_paper_on_missing_data_stand_with_the_reason():
    published = {("b", "exact", "accuracy"): 0.98, ("b", "dc", "seconds"): 12.0, ("a", "exact", "accuracy"): 0.5}
    found = results((Table("Scores", ("accuracy", "seconds"), published),))
    assert part_tables(found) == []
    found.missing["b"] = "b.bz2 is missing"
    (table,) = part_tables(found)
    assert table.headings[2:] == ["here", "accuracy, %, paper", "seconds, paper"]
    assert table.rows == [["b", "exact", "missing data", "98.00", "—"], ["b", "dc", "missing data", "—", "12"]]
    (scores,) = metric_tables(found, "a, 10 rows")  # figures of all rows stand beside those of a sample
    assert scores.rows[0][:3] == ["exact, narrow", "—", "50.00"]


def test_points_over_rows_are_medians_relative_to_a_method():
    figure = Figure("Ratio", "rows", "seconds", relative_to="exact")
    found = results(figures=(figure,))
    narrow = [record for record in found.records if record.cell.case == "narrow"]
    ratios = points_of(figure, narrow, ROWS)["dc"]
    assert ratios == [(10, pytest.approx(31 / 11)), (20, pytest.approx(61 / 21))]
    pytest.importorskip("matplotlib")
    drawn = pictures_over_rows(found, "part")
    assert [caption for caption, _ in drawn] == ["Ratio: a, narrow.", "Ratio: a, wide."]
    assert all(svg.count("<svg") == 1 for _, svg in drawn)


def test_distances_are_from_the_best_of_the_same_problem():
    figure = Figure("Objective", "seconds", "dual_objective", below_best=True)
    records = [
        Record(Cell("a", METHODS[name], {}), "", Outcome(DONE, {"seconds": seconds, "dual_objective": value}))
        for name, seconds, value in (("exact", 1.0, 8.0), ("dc", 2.0, 10.0), ("svc", 3.0, 3.0), ("svc", 4.0, 4.0))
    ]
    # the best of each problem, "dc" and the second of "svc", has no place on a logarithmic axis
    assert points_of(figure, records, {}) == {"exact": [(1.0, pytest.approx(0.2))], "svc": [(3.0, 0.25)]}
