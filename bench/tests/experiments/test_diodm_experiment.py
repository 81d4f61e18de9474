"""The DiODM paper's experiment: its numbers beside ours, parameters, and sentences from made-up results."""

from dataclasses import replace

import pytest
from experiment_methods import made_up

from dimargin_bench.experiments import diodm_methods as methods
from dimargin_bench.experiments import experiment
from dimargin_bench.experiments.diodm_parameters import CHOSEN, CHOSEN_SVC
from dimargin_bench.papers import Marked, printed

PARTS = {part.name: part for part in experiment("diodm").parts}
ACC, SVRG, CSVRG = ([method.name for method in thirds] for thirds in (methods.ACC_DIODM, methods.SVRG, methods.CSVRG))


def answer(part, **data):
    """Return the sentences of a part: for each data set the metrics of some methods."""
    cells = {(name.replace("_rna", "-rna").replace("_30k", "-30k"), method, "", 0): metrics
             for name, found in data.items() for method, metrics in found.items()}  # fmt: skip
    return PARTS[part].answer(made_up(PARTS[part], cells)).splitlines()


def scores(accuracy, seconds):
    return {"accuracy": accuracy, "seconds": seconds}


def test_parts_have_the_numbers_and_the_order_of_the_paper():
    assert list(PARTS)[:6] == ["table-1", "figure-1", "figure-1-a", "figure-1-e", "figure-2", "figure-3"]
    kernels = {name: {cell.parameters.get("kernel", "rbf") for cell in PARTS[name].cells(PARTS[name].data[0], True)
                      if cell.method.name == methods.DIODM} for name in ("figure-1", "figure-2")}  # fmt: skip
    assert kernels == {"figure-1": {"linear"}, "figure-2": {"rbf"}}
    assert all(sample.joined for part in PARTS.values() for sample in part.data)


def test_all_numbers_of_table_1_stand_beside_ours():
    (table,) = PARTS["table-1"].tables
    names = {"skin-nonskin": "skin_nonskin"}
    metrics = {"rows": "all_rows", "features": "features"}
    assert {sample.name for sample in PARTS["table-1"].data} == {*CHOSEN, "gisette"}
    for one in printed("diodm", "Table 1"):
        key = names.get(one.data, one.data), methods.MAJORITY.name, metrics[one.metric]
        assert table.published[key] == float(one.value)


def test_speed_ups_of_the_text_stand_at_the_kernel_they_belong_to():
    for part, bound in (("figure-1-a", 5.0), ("figure-1-e", 9.0)):
        (table,), (curves,) = PARTS[part].tables, PARTS[part].figures
        assert set(table.published.values()) == {Marked(bound, ">")}
        assert {key[2] for key in table.published} == {"replayed_32"}
        assert ("which level" in table.note) == (part == "figure-1-e")  # Algorithm 2 has no levels.
        assert list(curves.published.values()) == [(32.0, bound)] and f"more than {bound:g}" in str(curves.published)
        assert list(curves.curves["replayed"]) == [1, 2, 4, 8, 16, 32] and curves.errors == {"replayed": "replay_error"}


def test_the_speed_up_of_the_abstract_is_not_put_beside_any_number_of_cores():
    (table,), (curves,) = PARTS["speed-up-rbf"].tables, PARTS["speed-up-rbf"].figures
    assert not table.published and not curves.published and "32 cores; it" not in table.note
    name = methods.TIMED_TREES[0].name
    *_, theirs = answer("speed-up-rbf", phishing={name: {"replayed_32": 4.0, "replay_error": 0.5}})
    assert theirs == "The paper says nearly 10 times."


def test_figures_have_the_data_of_the_papers_panels():
    for figure in ("Figure 1", "Figure 2", "Figure 3"):
        panels = {one.data.replace("skin-", "skin_") for one in printed("diodm", figure) if one.data}
        assert {sample.name for sample in PARTS[figure.lower().replace(" ", "-")].data} == {*panels, "SUSY-30k"}


def test_the_whole_problem_is_what_the_name_says():
    """With early_stop a tree may end above level 0."""
    (whole,) = (method for method in methods.TREES if method.name == methods.DIODM_WHOLE)
    assert whole.make().strategy.early_stop is False and whole.make().stop_level == 0
    assert all(not cell.make().fit_intercept for cell in PARTS["figure-3"].cells(PARTS["figure-3"].data[0], True))


def test_svc_is_tuned_where_the_odm_is():
    assert set(CHOSEN_SVC) == set(CHOSEN)
    part = PARTS["figure-2"]
    for data, (C, gamma) in CHOSEN_SVC.items():
        assert part.parameters(data, methods.LIBSVM.name) == {"C": C, "gamma": gamma}


def test_the_page_names_the_parameters_of_every_data_set():
    part = PARTS["figure-2"]
    _, entries = part.about.split("and C and gamma of SVC, are: ")
    entries = entries.split(". Trees have")[0].split("; ")
    names = [*CHOSEN, "files of your own"]
    for name, entry in zip(names, entries, strict=True):
        values = [*part.parameters(name, methods.DIODM).values(), *part.parameters(name, methods.LIBSVM.name).values()]
        said = entry.removeprefix(f"{name} ").replace(",", "").replace(" and ", " / ").split(" / ")
        assert [own if own.isalpha() else float(own) for own in said] == values


def test_methods_have_one_name_each():
    """Tables of methods have the first of a name, so that another one would be described by it."""
    seen = {}
    for part in PARTS.values():
        for method in part.methods:
            assert seen.setdefault(method.name, method) is method


def test_ticks_below_the_share_of_the_more_frequent_class_are_named():
    (line,) = answer("table-1", ijcnn1={"majority": {"accuracy": 0.9}}, phishing={"majority": {"accuracy": 0.5}})
    assert "ijcnn1" in line and "90.00%" in line and "Figure 1" in line and "88%" in line


def test_trees_are_judged_as_the_paper_counts_and_beside_machines_without_one():
    (diodm, cascade, dip, dc), wholes = methods.ENDS["4 parts"], methods.ENDS["the whole problem"]
    others = {cascade: scores(0.8, 3.0), dip: scores(0.8, 3.0)}
    of_wholes = {name: scores(0.8, 20.0) for name in wholes[1:]}
    lines = answer(
        "figure-2",
        phishing={diodm: scores(0.9, 1.0), dc: scores(0.7, 2.0), **others, wholes[0]: scores(0.9, 4.0),
                  **of_wholes, "exact": scores(0.85, 2.0), "SVC": scores(0.95, 99.0)},
        cod_rna={diodm: scores(0.7, 9.0), dc: scores(0.71, 2.0), **others, wholes[0]: scores(0.7, 9.0), **of_wholes,
                 "exact": scores(0.7, 10.0), "SVC": scores(0.69, 9.0)},
    )  # fmt: skip
    axes, trees, whole, counts, exact, best, svc = lines
    assert "phishing 84 to 92% and to 60 s (70.00% to 90.00%, to 20 s)" in axes  # without exact and SVC
    assert "on 1 of 2 data sets (phishing), and the fastest on 1 of 2 data sets (phishing)" in trees
    assert trees.endswith("accuracy less DiODM's is, in points: cod-rna 1.00 (the best is Ca-ODM, 10.00 ahead).")
    assert "With the whole problem" in whole and "the fastest on 2 of 2 data sets (phishing, cod-rna)" in whole
    assert whole.endswith("points: cod-rna 10.00.")
    assert "counts 4 and 6 of 6 data sets" in counts and "DC-ODM on the other 2." in counts
    assert "DiODM takes 0.5 to 0.9 times" in exact and "is 0.00 to 5.00 points" in exact
    assert "takes 0.9 to 2 times" in exact and "slower on 1 of 2 data sets (phishing)" in exact
    assert "on phishing SVC (95.00%; DiODM with 4 parts 90.00%); on cod-rna Ca-ODM, 4 parts and DiP-ODM" in best
    assert best.endswith("and DC-ODM, the whole problem (80.00%; DiODM with 4 parts 70.00%).")  # all of them are named
    assert "more accurate than the exact ODM on 1 of 2 data sets (phishing (by 10 points))" in svc
    assert "less accurate on 1 of 2 data sets (cod-rna (by 1 points))" in svc


def test_the_linear_section_has_its_own_counts_and_acc_diodm():
    trees = {name: scores(0.8, 3.0) for name in methods.ENDS["4 parts"]}
    axes, _, counts, accelerated, _ = answer("figure-1", phishing={**trees, ACC[-1]: scores(0.81, 4.0)})
    assert "counts 5 and 6 of 6 data sets" in counts and "DC-ODM on skin-nonskin." in counts
    assert "more accurate on 1 of 1 data sets (phishing), and faster on 0 of 1 data sets" in accelerated
    assert "(80.00% to 81.00%, to 4 s)" in axes


def test_susy_and_the_rows_that_stand_in_for_it_count_as_one():
    trees = {name: scores(0.8, 3.0) for name in methods.ENDS["4 parts"]}
    for data in ({"SUSY": trees, "SUSY_30k": trees}, {"SUSY_30k": trees}):
        axes, counts, *_ = answer("figure-2", **data)
        assert "on 1 of 1 data sets" in counts and axes.count("66 to 75%") == 1
    found = made_up(PARTS["figure-2"], {("SUSY, 40,000 rows", methods.DIODM, "", 0): scores(0.8, 3.0)})
    found.data = [replace(facts, set_name="SUSY") for facts in found.data]
    assert "SUSY, 40,000 rows 66 to 75%" in PARTS["figure-2"].answer(found)


def test_gradient_methods_are_compared_after_all_stages():
    cells = {ACC[-1]: scores(0.8, 2.0), SVRG[0]: scores(0.9, 1.0), SVRG[-1]: scores(0.81, 6.0),
             CSVRG[-1]: {**scores(0.79, 1.0), "anchor_rows": 10}, methods.NO_INTERCEPT: scores(0.7, 1.0)}  # fmt: skip
    axes, times, accuracy, core_set, newton_line = answer("figure-3", phishing=cells)
    assert "(79.00% to 90.00%, to 6 s)" in axes  # of all thirds, without Newton's method
    assert "ODM_svrg take 3 times" in times and "ODM_csvrg 0.5 times" in times and "more than 5 times" in times
    assert "in points: phishing -1.00." in accuracy
    assert "on 1 of 1 data sets (phishing)" in core_set  # made-up data have 10 rows
    assert "faster than acc-DiODM on 1 of 1 data sets" in newton_line


def test_replays_are_given_with_their_error():
    name = methods.TIMED_GRADIENT.name
    found = {"replayed_32": 4.0, "replay_error": 0.5}, {"replayed_32": 8.0, "replay_error": 1.0}
    lines = answer("figure-1-a", phishing={name: found[0]}, cod_rna={name: found[1]})
    assert "is 4 on phishing (between 0.12 and 32), 8 on cod-rna (between 8 and 8)." in lines[0]
    assert "differ by 50% (median)" in lines[0]
    assert lines[1] == "The paper says more than 5 times."
    assert PARTS["figure-1-a"].answer(made_up(PARTS["figure-1-a"], {})) == ""


def test_printed_algorithms_are_compared_with_mended_ones_and_with_no_tree():
    work = {methods.PRINTED_WHOLE: 6e6, methods.MENDED_WHOLE: 3e6, methods.PLAIN: 2e6}
    cells = {name: {"kernel_evaluations": value} for name, value in work.items()}
    cells[methods.PRINTED_TREE] = {"global_gap": 1.5}
    cells |= {methods.PRINTED_GRADIENT: {"global_objective": 50.0}, methods.NO_INTERCEPT: {"global_objective": 5.0}}
    starts, end, gradient = answer("literal-or-mended", phishing=cells)
    assert "take 2 times the kernel values of rescaled ones" in starts and "and 3 times those" in starts
    assert "rescaled ones take 1.5 times" in starts and "relative gap of 1.5" in end and "at 10 times" in gradient


@pytest.mark.parametrize("part", [name for name, part in PARTS.items() if part.answer])
def test_without_results_nothing_is_said(part):
    assert PARTS[part].answer(made_up(PARTS[part], {("phishing", PARTS[part].methods[0].name, "", 0): {}})) == ""
