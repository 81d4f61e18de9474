"""The gossip experiment: its sentences from results that are made up, and its methods on moons."""

from dataclasses import replace

import pytest
from experiment_methods import made_up

from dimargin_bench.experiments import experiment
from dimargin_bench.experiments.declarations import Sample
from dimargin_bench.experiments.experiment_run import Options, run_experiment
from dimargin_bench.experiments.pictures import pictures

pytest.importorskip("networkx")
pytest.importorskip("msgspec")


def results(name, figures):
    """Results of a part, on one data set: for each method and case some metrics."""
    (declared,) = experiment("gossip").chosen([name])
    return made_up(declared, {("a9a", *names, 0): metrics for names, metrics in figures.items()})


def test_what_a_percent_costs_is_the_first_run_that_is_near_enough():
    found = results(
        "bytes",
        {
            ("tracked", "100 rounds"): {"worst_excess": 0.05, "bytes": 1e6},
            ("tracked", "300 rounds"): {"worst_excess": 0.01, "bytes": 3e6},
            ("tracked", "1000 rounds"): {"worst_excess": 0.001, "bytes": 1e7},
            ("admm", "10 rounds"): {"worst_excess": 0.002, "bytes": 2.5e5},
            ("fedavg", "10 rounds"): {"worst_excess": 0.02, "bytes": 5e5},
            ("fedavg", "30 rounds"): {"worst_excess": 0.009, "bytes": 1.5e6},
            ("d-sgd", "1000 rounds"): {"worst_excess": 0.02, "bytes": 1e5},
        },
    )
    assert found.part.answer(found).splitlines()[1:] == [
        "a9a, within 1%: admm 0.25 MB (10 rounds); fedavg 1.5 MB (30 rounds); tracked 3 MB (300 rounds).",
        "a9a, within 0.1%: tracked 10 MB (1000 rounds).",
    ]


def test_the_best_points_of_grids_are_told_for_each_deal():
    points = [method.name for method in experiment("gossip").chosen(["tuning"])[0].methods if method.line == "admm"][:2]
    found = results(
        "tuning",
        {
            (points[0], "at random"): {"worst_excess": 0.02},
            (points[1], "at random"): {"worst_excess": 0.01},
            (points[0], "sorted by label"): {"worst_excess": 12.345},
        },
    )
    first, second = (name.removeprefix("admm, ") for name in points)
    at_random, by_label = found.part.answer(found).splitlines()
    assert f"admm: {second} (1% above)" in at_random and f"admm: {first} (1,234% above)" in by_label


def test_the_worst_attack_on_each_rule_is_told():
    found = results(
        "liars",
        {
            ("mean", "sign flip"): {"honest_accuracy": 0.3},
            ("mean", "nobody lies"): {"honest_accuracy": 0.9},
            ("trimmed", "a little"): {"honest_accuracy": 0.85},
        },
    )
    said = found.part.answer(found)
    assert said.endswith(
        '"mean" 30.0% (sign flip); "trimmed" 85.0% (a little). The rule "trimmed" has the highest of them.'
    )


def test_parts_are_the_tables_and_figures_in_the_order_of_the_paper_and_ours_have_no_number():
    names = [part.name for part in experiment("gossip").parts]
    of_the_paper = ["figure-1", *(f"table-{k}" for k in range(2, 8)), "figure-3", "figure-4", "figure-5", "section-6"]
    assert names[: len(of_the_paper)] == of_the_paper
    for part in experiment("gossip").parts:
        number = part.name.replace("-", " ").title() if part.name in of_the_paper else ""
        assert (
            part.title.startswith(f"{number}: ") if number else not any(digit in part.title for digit in "0123456789")
        )
        assert ("stand-in" in part.title) == (part.name in of_the_paper[7:])


def test_the_most_accurate_and_the_fastest_are_named_whoever_they_are():
    found = results(
        "table-4",
        {
            ("gadget", ""): {"accuracy": 0.8, "seconds": 3.0},
            ("liblinear", ""): {"accuracy": 0.84, "seconds": 0.1},
            ("libsvm", ""): {"accuracy": 0.83, "seconds": 0.5},
        },
    )
    assert found.part.answer(found) == (
        "a9a: liblinear is the most accurate (84.00%), 4.00 points above gadget (80.00%); liblinear is the fastest "
        "(0.1 s), gadget takes 30 times as long."
    )
    found.records[0].outcome.metrics.update(accuracy=0.9, seconds=0.05)
    assert found.part.answer(found) == "a9a: gadget is the most accurate (90.00%); gadget is the fastest (0.05 s)."


def test_who_says_that_nothing_fails_is_told_so():
    found = results(
        "section-6",
        {
            ("liblinear", ""): {"accuracy": 0.994, "balanced_accuracy": 0.5},
            ("liblinear, oversampled", ""): {"accuracy": 0.97, "balanced_accuracy": 0.98},
        },
    )
    first, second, third = found.part.answer(found).splitlines()
    assert "99.41%" in first and "59% for GADGET, if they are of all rows, are below" in first
    assert second.endswith("as a constant answer has.") and third.endswith("98.0% as the mean of both classes.")


def test_how_often_sites_converge_stands_beside_the_paper():
    found = results("figure-4", {("gadget", ""): {"accuracy": 0.9}})
    times = {
        "x": [0.0, 80.0, 81.0],
        "names": ["Converge@4 itr", "Converge@8 itr", "Converge@10 itr"],
        "lines": [[100, 80, 70], [100, 60, 50], [100, 20, 10]],
    }
    found.records[0].outcome.traces["times"] = times
    assert found.part.answer(found).splitlines() == [
        "The paper says that about 60% of its sites converge more than 80 times by Converge@4 itr, and that sites tend "
        "to remain converged for extended periods by Converge@10 itr.",
        "a9a, gadget: 70% of the sites converge more than 80 times by Converge@4 itr, and 10% by Converge@10 itr.",
    ]


def test_runs_that_did_not_converge_are_told():
    case = next(iter(experiment("gossip").chosen(["rule"])[0].cases))
    found = results(
        "rule",
        {
            ("gadget", case): {"rounds": 5000, "accuracy": 0.8, "converged": 3},
            ("pegasos", case): {"rounds": 6, "accuracy": 0.5, "converged": 1},
        },
    )
    said = found.part.answer(found)
    assert "gadget has not ended (3 of 10 converged) after 5,000" in said and "pegasos ends after 6 " in said


def test_parameters_with_which_admm_overflows_are_told():
    (part,) = experiment("gossip").chosen(["table-7"])
    cases = {name.partition(":")[0]: name for name in part.cases}
    found = results(
        "table-7",
        {
            ("dist-admm", cases["sido"]): {"rounds": 31, "accuracy": 0.47, "converged": 0},
            ("dist-admm", cases["protein"]): {"rounds": 300, "accuracy": 0.5, "converged": 0},
            ("dist-admm", cases["adult"]): {"rounds": 66, "accuracy": 0.85, "converged": 10},
        },
    )
    first, second, third = found.part.answer(found).splitlines()
    assert "alpha 10.5: no site converges: their numbers overflow after 31" in first
    assert "no site converges within 300 iterations; 50.0%" in second
    assert "10 of 10 sites converge, and sites take 66" in third


def test_what_the_paper_says_of_profiles_is_compared_with_its_table():
    found = results("figure-1", {("gadget", ""): {"accuracy": 0.9}})
    found.records[0].outcome.traces["profile"] = {"x": [0.1, 0.2], "lines": [[60, 90], [50, 85], [40, 80]]}
    first, second = found.part.answer(found).splitlines()
    assert "between 30 and 70%, with means above 50%. In Table 2, 12 of GADGET's 18" in first
    assert "quantum 4.9%, adult 75 to 79%, covertype 49%" in first and first.endswith("could be close to 0%.")
    assert second == ("a9a, seed 0: between 40.0 and 90.0%, from a mean of 50.0% after the first iteration to 85.0% "
                      "(80.0 to 90.0%) at the end.")  # fmt: skip


def test_pages_say_where_runs_differ_from_the_paper_s():
    """By its numbers of rows: 5,000, 11,000 and 25,000 of ten sites."""
    said = {part.name: part.about for part in experiment("gossip").parts}
    assert "1 of 500 rows (gisette), 1 of 1,100 rows (sido), 2 of 1,250 rows (adult), and several" in said["table-2"]
    for name in ("table-3", "table-4"):
        assert "50,000 training rows are used, unless `--rows` has more; the paper's are 500,000" in said[name]
    assert "300 iterations (30 with the parameters of covertype)" in said["table-4"]
    assert [sample.name for sample in experiment("gossip").parts[0].data if sample.max_seeds == 1] == [
        "covtype.libsvm.binary"
    ]
    for name in ("table-5", "table-6"):
        assert "the paper's figures of it are those of Table 4" in said[name]


def test_section_6_has_the_figures_of_the_text_and_one_run_by_ten_quiet_iterations():
    (part,) = experiment("gossip").chosen(["section-6"])
    (table,) = part.tables
    assert table.published == {
        ("bosch", "gadget", "accuracy"): 0.59,
        ("bosch", "svm-perf", "accuracy"): 0.41,
        ("bosch", "liblinear", "accuracy"): 0.47,
    }
    for number in ("60% by Converge@8", "around 55% by Converge@4", "51% by Converge@10", "59%", "41%", "47%"):
        assert number in table.note
    plain, repeated = (method.make(max_iter=50, random_state=0) for method in part.methods[:2])
    for sites in (plain, repeated.estimator):
        assert (sites.n_quiet, sites.runs_on) == ((10,), False)


@pytest.mark.slow
@pytest.mark.parametrize("name", [part.name for part in experiment("gossip").parts if not part.name.startswith("fig")])
def test_every_method_runs(name, moons, tmp_path):
    declared = experiment("gossip")
    (part,) = declared.chosen([name])

    def few_rounds(data, method):
        given = {**part.parameters(data, method)}
        return given | {"max_iter": 5} if "max_iter" in given else given

    few = replace(part, quick_data=(Sample("svmguide1"),), parameters=few_rounds, quick_cases=[*part.cases][:1])
    found = run_experiment(replace(declared, parts=(few,)), tmp_path, Options(quick=True, jobs=2))
    assert not found.failures and len(found.records) == len(part.methods)
    for record in found.records:
        metrics = record.outcome.metrics
        assert 0 <= metrics["accuracy"] <= 1 and 0 <= metrics["balanced_accuracy"] <= 1
        assert "rounds" in metrics or "bytes" not in metrics


def test_the_profile_and_the_figures_of_the_paper_are_drawn(moons, tmp_path):
    pytest.importorskip("matplotlib")
    declared, drawn = experiment("gossip"), {}
    for name in ("figure-1", "figure-3", "figure-4", "figure-5"):
        (part,) = declared.chosen([name])
        few = replace(part, quick_data=(Sample("svmguide1"),), parameters=lambda data, method: {"max_iter": 60})
        (found,) = run_experiment(replace(declared, parts=(few,)), tmp_path, Options(quick=True)).parts
        drawn[name] = pictures(found, "svmguide1", "p")
    assert {name: len(own) for name, own in drawn.items()} == {
        "figure-1": 1, "figure-3": 4, "figure-4": 2, "figure-5": 4  # the latter with and without oversampling
    }  # fmt: skip
    for own in drawn.values():
        for caption, svg in own:
            assert caption.startswith("Figure") and "svmguide1" in caption and svg.startswith("<svg")
    assert "for 10 nodes" in drawn["figure-1"][0][1]


def test_more_rounds_bring_sites_nearer_to_the_optimum_and_cost_more(moons, tmp_path):
    declared = experiment("gossip")
    (part,) = declared.chosen(["bytes"])
    few = replace(part, quick_data=(Sample("svmguide1"),), quick_cases=("10 rounds", "300 rounds"))
    found = run_experiment(replace(declared, parts=(few,)), tmp_path, Options(quick=True, only=["tracked"]))
    first, last = (record.outcome.metrics for record in found.records)
    assert 0 < last["worst_excess"] < first["worst_excess"]
    assert last["bytes"] == pytest.approx(30 * first["bytes"], rel=0.05)  # numbers of rounds have more digits later
    assert (first["rounds"], last["rounds"]) == (10, 300)
