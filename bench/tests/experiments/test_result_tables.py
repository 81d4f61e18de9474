"""Tables and pictures of results that are made up."""

from dataclasses import replace

import pytest
from experiment_methods import experiment

from dimargin_bench.experiments.declarations import Cell, Comparison, Curves, Figure, Method, Sample, Table
from dimargin_bench.experiments.experiment_run import DataFacts, Options, PartResults, Record, Results
from dimargin_bench.experiments.metrics import METRICS
from dimargin_bench.experiments.outcome import DONE, NOT_INSTALLED, TIME_LIMIT, Outcome
from dimargin_bench.experiments.pictures import pictures, pictures_over_rows, points_along, points_of
from dimargin_bench.experiments.result_tables import method_table, metric_tables, part_tables, summary
from dimargin_bench.papers import Marked

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


def test_figures_of_the_paper_stand_beside_ours_with_the_ratio():
    published = {
        ("a", "dc", "seconds"): 3135.5,
        ("a", "exact, wide", "seconds"): 10.0,
        ("a, 10 rows", "dc", "seconds"): 1.0,
    }
    found = results(
        (Table("Times", ("seconds",), published), Comparison("Times", "seconds", "case", published=published))
    )
    table, comparison = metric_tables(found, "a, 20 rows")
    assert table.headings == ["method", "seconds", "paper", "ratio"]
    expected = [["—", "—"], ["3,135.5", "0.0195"], ["10", "4.1"], ["3,135.5", "0.0386"]]
    assert [row[2:] for row in table.rows] == expected  # all digits that the paper prints
    assert comparison.rows[0] == ["narrow", "21", "61 (paper 3,135.5, ratio 0.0195)"]
    assert comparison.rows[1] == ["wide", "41 (paper 10, ratio 4.1)", "121 (paper 3,135.5, ratio 0.0386)"]
    table, _ = metric_tables(found, "a, 10 rows")  # a figure of this sample comes first
    assert table.rows[1][2:] == ["1", "31"]


def test_what_is_no_plain_number_of_the_paper_is_shown_as_it_is_printed():
    published = {
        ("a", "exact, narrow", "seconds"): Marked(210.0, ">"),
        ("a", "exact, wide", "seconds"): Marked(None, "unreadable"),
        ("a", "dc, narrow", "seconds"): Marked(10.0, "nearly "),
        ("a", "dc", "accuracy"): 0.9409,
    }
    table, compared = metric_tables(
        results((Table("Times", ("accuracy", "seconds"), published, "A note."),
                 Comparison("Times", "seconds", "case", published=published)), accuracy=0.5), "a, 20 rows")  # fmt: skip
    assert [row[2:4] for row in table.rows] == [["—", "—"], ["94.09", "0.531"], ["—", "—"], ["94.09", "0.531"]]
    assert [row[5:] for row in table.rows] == [[">210", "<0.1"], ["nearly 10", "6.1"], ["unreadable", "—"], ["—", "—"]]
    assert [row[1] for row in compared.rows] == ["21 (paper >210, ratio <0.1)", "41 (paper unreadable, ratio —)"]
    (table,) = metric_tables(results((Table("Times", ("seconds",), {}, "A note."),)), "a, 20 rows")
    assert table.note == "A note."  # whether the paper has figures or none


def test_a_name_with_two_meanings_has_the_parts_of_each():
    declared = experiment()
    found = [results(), results(), results()]
    for one, (name, about) in zip(found, (("first", "exact"), ("second", "exact"), ("third", "another")), strict=True):
        one.part = replace(one.part, name=name)
        for k, record in enumerate(one.records):
            if record.cell.method.name == "exact":
                method = replace(record.cell.method, about=about)
                one.records[k] = replace(record, cell=replace(record.cell, method=method))
    table = method_table(Results(declared, Options(), {}, found))
    assert [row[:2] for row in table.rows] == [
        ["exact (first, second)", "exact"], ["dc", "dc"], ["exact (third)", "another"]]  # fmt: skip
    assert table.note and not method_table(Results(declared, Options(), {}, found[:2])).note


def test_quotients_stand_alone_beside_those_of_the_paper():
    published = {("a", "dc, wide", "speed_up"): 4.0}
    quotients = Comparison("Speed-up", "seconds", "case", relative_to="exact", quotients=True, published=published)
    (table,) = metric_tables(results((quotients,)), "a, 20 rows")
    assert table.title == "Speed-up" and table.headings == ["", "dc"]
    assert table.rows == [["narrow", "2.9"], ["wide", "2.95 (paper 4, ratio 0.738)"]]


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


def test_sums_over_all_cases_stand_beside_those_of_the_paper():
    published = {("a", "exact", "seconds"): 31.0, ("a, 20 rows", "dc", "seconds"): 1.0}
    found = results((Comparison("Over the grid", "seconds", "total", published=published),))
    (table,) = part_tables(found)
    assert table.headings == ["", "exact", "dc"] and table.title == "Over the grid: seconds"
    assert table.rows == [
        ["a, 10 rows", "32 (paper 31, ratio 1.03)", "92"],
        ["a, 20 rows", "62 (paper 31, ratio 2)", "182 (paper 1, ratio 182)"],
    ]
    found.records = [one for one in found.records if (one.cell.method.name, one.cell.case) != ("dc", "wide")]
    found.records = [one for one in found.records if (one.cell.method.name, one.cell.data) != ("exact", "a, 10 rows")]
    (table,) = part_tables(found)
    assert table.headings == ["", "dc", "exact"]
    assert table.rows == [["a, 10 rows", "31, without 1 of 2", "—"],
                          ["a, 20 rows", "61, without 1 of 2 (paper 1)", "62 (paper 31, ratio 2)"]]  # fmt: skip
    assert metric_tables(found, "a, 20 rows") == []


def test_metrics_may_be_the_rows_of_a_table():
    published = {("a", "dc, wide", "seconds"): 12.1}
    found = results(
        (Table("Times", ("seconds", "accuracy"), published, "Another machine.", rows="metric"),), accuracy=0.5
    )
    found.records = [one for one in found.records if (one.cell.method.name, one.cell.case) != ("exact", "wide")]
    (table,) = metric_tables(found, "a, 20 rows")
    assert table.headings == ["", "exact, narrow", "dc, narrow", "dc, wide", "paper", "ratio"]
    assert table.rows == [["seconds", "21 (20 to 22)", "61 (60 to 62)", "121 (120 to 122)", "12.1", "10"],
                          ["accuracy, %", "50.00", "50.00", "50.00", "—", "—"]]  # fmt: skip
    assert table.note == "Another machine."


def test_a_comparison_may_have_a_row_for_each_method():
    found = results((Comparison("Over the grid", "seconds", "method", total=True),))
    (table,) = metric_tables(found, "a, 20 rows")
    assert table.headings == ["method", "narrow", "wide", "all"]
    assert table.rows == [["exact", "21", "41", "62"], ["dc", "61", "121", "182"]]
    assert part_tables(found) == []


@pytest.mark.parametrize(
    ("share", "shown"), [(0.00123, "0.12"), (0.3, "30"), (0.994, "99"), (0.9969, "100"), (12.345, "1,234")]
)
def test_how_far_above_the_optimum_needs_no_powers_of_ten(share, shown):
    assert METRICS["worst_excess"].shown(share) == shown


def test_figures_of_the_paper_on_missing_data_stand_with_the_reason():
    published = {
        ("b", "exact, ours", "accuracy"): 0.98,
        ("b", "exact", "accuracy"): 0.98,
        ("b", "dc", "seconds"): 12.0,
        ("a", "exact", "accuracy"): 0.5,
    }
    found = results((Table("Scores", ("accuracy", "seconds"), published, "Another machine."),))
    assert part_tables(found) == []
    found.missing["b"] = "b.bz2 is missing"
    (table,) = part_tables(found)
    assert table.headings[2:] == ["here", "accuracy, %, paper", "seconds, paper"] and table.note == "Another machine."
    assert table.rows == [["b", "exact", "missing data", "98", "—"], ["b", "dc", "missing data", "—", "12"]]
    (scores,) = metric_tables(found, "a, 10 rows")  # figures of all rows stand beside those of a sample
    assert scores.rows[0][:3] == ["exact, narrow", "—", "50"]


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


def test_a_table_of_all_data_has_a_row_for_each():
    published = {("a", "exact", "seconds"): 5.0}
    found = results((Table("Sizes", ("seconds", "accuracy"), published, "A note.", rows="data"),), accuracy=0.5)
    assert metric_tables(found, "a, 10 rows") == []
    (table,) = part_tables(found)
    assert (table.title, table.note) == ("Sizes", "A note.")
    assert table.headings == ["data", "seconds", "paper", "ratio", "accuracy, %"]
    assert table.rows[0] == ["a, 10 rows, exact, narrow", "11 (10 to 12)", "5", "2.2", "50.00"]
    assert len(table.rows) == 8 and table.rows[-1][0] == "a, 20 rows, dc, wide"
    found.records = [one for one in found.records if one.cell.method.name == "exact" and one.cell.case == "wide"]
    found.records = [replace(one, cell=replace(one.cell, case="")) for one in found.records]
    (table,) = part_tables(found)
    assert [row[0] for row in table.rows] == list(ROWS)  # of one method its name says nothing
    numbers = {("b", "exact", "seconds"): 5.0}
    tables = (replace(found.part.tables[0], published=numbers),)
    found.part = replace(found.part, methods=found.part.methods[:1], tables=tables)
    found.missing["b"] = "b.bz2 is missing"
    _, missing = part_tables(found)
    assert missing.rows == [["b", "—", "missing data", "5"]]


def test_a_figure_of_the_paper_may_be_that_of_one_case():
    published = {
        ("a", "exact, wide", "seconds"): 7.0,
        ("a", "dc", "seconds"): 8.0,
        ("a, 10 rows", "dc", "seconds"): 9.0,
    }
    found = results((Table("Times", ("seconds",), published),))
    (few,), (many,) = (metric_tables(found, data) for data in ROWS)
    assert [row[2] for row in few.rows] == ["—", "9", "7", "9"]
    assert [row[2] for row in many.rows] == ["—", "8", "7", "8"]


def test_what_is_not_installed_says_so_in_its_cell():
    cell = Cell("a", Method("other", dict, "another library's", requires="nosuch"), {})
    record = Record(cell, "", Outcome(NOT_INSTALLED, reason="nosuch"))
    assert summary([record], "seconds") == "not installed" and not record.outcome.failed


def test_joined_points_are_medians_over_the_seeds_on_the_lines_of_their_methods():
    figure = Figure("Way", "seconds", "accuracy", joined=True)
    levels = [Method(f"tree, {k}", dict, "", line="tree") for k in (1, 0)]
    records = [
        Record(Cell("a", method, {}, seed), "", Outcome(DONE, {"seconds": seconds + seed, "accuracy": accuracy}))
        for method, seconds, accuracy in ((levels[0], 1.0, 0.5), (levels[1], 10.0, 0.75), (METHODS["exact"], 20.0, 1.0))
        for seed in range(3)
    ]
    assert points_of(figure, records, {}) == {"tree": [(2.0, 50.0), (11.0, 75.0)], "exact": [(21.0, 100.0)]}
    single = points_of(replace(figure, joined=False), records, {})
    assert single["exact"] == [(20.0, 100.0), (21.0, 100.0), (22.0, 100.0)] and len(single["tree"]) == 6


def test_a_figure_may_have_several_metrics_and_some_of_the_cases():
    found = results(figures=(), accuracy=0.5)
    figure = Figure("Both", "partitions", "seconds", joined=True, beside=("accuracy",), cases=("wide",))
    for one in found.records:
        one.outcome.metrics["partitions"] = 4
    points = points_of(figure, found.of("a, 10 rows"), {})
    assert points == {"exact, seconds": [(4, 21)], "dc, seconds": [(4, 61)],
                      "exact, accuracy, %": [(4, 50)], "dc, accuracy, %": [(4, 50)]}  # fmt: skip
    own = replace(found, part=replace(found.part, figures=(figure, replace(figure, linear=True))))
    logarithmic, linear = (svg for _, svg in pictures(own, "a, 10 rows", "own"))
    assert logarithmic.replace("own-0", "own-1") != linear


def test_curves_are_over_a_number_with_the_points_of_the_paper():
    curves = Curves("Speed-up", "cores", "times", {"replayed": {2.0: "replayed_2", 4.0: "replayed_4"},
                    "measured": {2.0: "measured_2"}}, {"paper": (32.0, 9.0)})  # fmt: skip
    found = results(figures=(curves,), replayed_2=1.5, replayed_4=3.0)
    expected = {"exact, replayed": [(2.0, 1.5), (4.0, 3.0)], "dc, replayed": [(2.0, 1.5), (4.0, 3.0)],
                "paper": [(32.0, 9.0)]}  # fmt: skip
    assert points_along(curves, found.of("a, 10 rows")) == expected
    assert points_along(curves, []) == {}
    pytest.importorskip("matplotlib")
    ((caption, svg),) = pictures(found, "a, 10 rows", "part")
    assert caption == "Speed-up: a, 10 rows." and svg.count("<svg") == 1 and "for exact, replayed" in svg


def test_a_replay_has_the_band_of_its_error(monkeypatch):
    pytest.importorskip("matplotlib")
    curves = Curves("Speed-up", "cores", "times", {"replayed": {1.0: "replayed_1", 4.0: "replayed_4"}},
                    errors={"replayed": "replay_error"})  # fmt: skip
    found = results(figures=(curves,), replayed_1=1.0, replayed_4=3.0, replay_error=0.5)
    monkeypatch.setattr("dimargin_bench.experiments.pictures.inline", lambda canvas, *_: canvas)
    ((_, canvas),) = pictures(found, "a, 10 rows", "part")
    bands = canvas.axes[0].collections
    assert len(bands) == 2  # one for each method
    for band in bands:
        assert {tuple(corner) for corner in band.get_paths()[0].vertices} == {(1.0, 1.0), (4.0, 0.75), (4.0, 4.0)}


def test_a_legend_of_long_names_has_room(monkeypatch):
    pytest.importorskip("matplotlib")
    curves = Curves("Speed-up", "cores", "times", {name: {2.0: "replayed_2"} for name in ("a" * 30, "b" * 30)})
    found = results(figures=(curves,), replayed_2=1.5)
    monkeypatch.setattr("dimargin_bench.experiments.pictures.inline", lambda canvas, *_: canvas)
    ((_, canvas),) = pictures(found, "a, 10 rows", "part")
    canvas.canvas.draw()
    (legend,) = canvas.legends
    box = legend.get_window_extent()
    assert box.x0 >= 0 and box.x1 <= canvas.bbox.x1 and len(legend.get_texts()) == 4
