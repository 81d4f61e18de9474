"""Sentences of the experiment "choosing", from results that are made up."""

from dataclasses import replace

from experiment_methods import made_up

from dimargin_bench.experiments import experiment
from dimargin_bench.experiments.choosing_answers import is_auto_fast, is_boosting_better
from dimargin_bench.experiments.declarations import Sample
from dimargin_bench.experiments.outcome import RAISED, Outcome


def results(part, **data):
    """Results of a part of the experiment: for each data set the accuracy and the seconds of some methods."""
    (declared,) = experiment("choosing").chosen([part])
    names = {method.name.split()[-1]: method.name for method in declared.methods}
    cells = {
        (name, names[method], "", seed): {"accuracy": accuracy, "seconds": seconds}
        for name, scores in data.items()
        for method, (accuracy, *seeds) in scores.items()
        for seed, seconds in enumerate(seeds)
    }
    return made_up(declared, cells)


def test_auto_is_compared_with_strategies_that_reach_the_best_accuracy():
    found = results(
        "odm-strategies",
        even={"auto": (0.9, 1.3), "exact": (0.9, 1.0), "dc": (0.897, 0.1)},  # dc is less accurate
        slow={"auto": (0.9, 2.0), "exact": (0.9, 2.0), "dc": (0.8985, 1.0), "landmark": (0.7, 0.1)},
        landmarks={"auto": (0.9, 3.0), "exact": (0.9, 3.0), "landmark": (0.9, 1.0)},
        worse={"auto": (0.9, 1.0), "exact": (0.9, 2.0), "landmark": (0.91, 5.0)},
    )
    same_problem, with_landmarks = is_auto_fast(found).split("With landmarks")
    assert "in 3 of 4 samples, but not in slow (2 times dc, 2 for 1 s)." in same_problem
    assert "in 1 of 4 samples" in with_landmarks and "even" not in with_landmarks
    for bad in ("worse (1 points less than landmark)", "landmarks (3 times landmark, 3 for 1 s)", "slow (2 times dc"):
        assert bad in with_landmarks


def test_auto_is_judged_by_medians_over_the_seeds_and_without_failures():
    seeds = {"auto": (0.9, 1.0, 9.0, 1.1), "exact": (0.9, 1.0, 1.0, 9.0)}
    found = results("svm-strategies", a={**seeds, "dc": (0.9, 0.1)})
    found.records[-1] = replace(found.records[-1], outcome=Outcome(RAISED))
    assert "in 1 of 1 samples. With landmarks, whose problem is another, in 1 of 1 samples." in is_auto_fast(found)
    assert is_auto_fast(results("svm-strategies", a={"exact": (0.9, 1.0)})) == ""


def test_boosting_is_better_where_it_is_more_accurate_or_as_accurate_in_less_time():
    found = results(
        "estimators",
        better={"boosting": (0.95, 9.0), "auto": (0.9, 1.0)},
        best={"boosting": (0.95, 9.0), "auto": (0.8, 1.0)},
        faster={"boosting": (0.899, 1.0), "auto": (0.9, 1.1), "landmark": (0.8, 0.1)},
        slower={"boosting": (0.9, 1.0), "auto": (0.9, 0.9)},
        worse={"boosting": (0.8, 0.1), "auto": (0.9, 0.9)},
    )
    said = is_boosting_better(found)
    assert "in 2 of 5 samples: best (15); better (5);" in said and "less time in 1: faster." in said
    assert is_boosting_better(results("estimators", a={"auto": (0.9, 1.0)})) == ""


def test_large_samples_have_one_seed():
    part = experiment("choosing").parts[0]
    seeds = {str(sample): {cell.seed for cell in part.cells(sample)} for sample in part.data}
    assert seeds["covtype.libsvm.binary, 120,000 rows"] == {0} and seeds["cod-rna, 10,000 rows"] == {0, 1, 2}
    assert {cell.seed for cell in part.cells(Sample("mine.csv"), quick=True)} == {0}


def test_every_data_set_has_three_sizes_in_every_part_of_strategies():
    for part in experiment("choosing").parts[:2]:
        names = [sample.name for sample in part.data]
        assert {names.count(name) for name in names} == {3}
