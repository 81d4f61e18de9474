"""The DC-SVM paper's experiments: its Tables 1 to 10 and its Figures 1 to 9, in its order, and two of our own."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dimargin_bench.experiments import dcsvm_answers as answers
from dimargin_bench.experiments import dcsvm_methods as methods
from dimargin_bench.experiments import dcsvm_texts as texts
from dimargin_bench.experiments.dcsvm_examine import (
    of_parameters,
    on_the_way,
    seconds_of_levels,
    sizes_of_sides,
    support_vectors,
    theorem_1,
    theorems_2_and_3,
)
from dimargin_bench.experiments.dcsvm_published import (
    COVTYPE,
    DATA,
    PARAMETERS,
    POLYNOMIAL,
    figures,
    table_5,
)
from dimargin_bench.experiments.declarations import Comparison, Experiment, Figure, Method, Part, Sample, Table

_OF_OTHER_DATA = {"C": 32.0, "gamma": "scale"}
_WITHOUT = (methods.BOOSTING.name, methods.SIZES.name)
_GRID = (-10, -6, 1, 6, 10)  # powers of two
_QUICK_GRID = (-6, 6)
_METRICS = ("accuracy", "seconds", "prediction_seconds")
_NAMES = {
    "DC-SVM (early)": methods.EARLY.name, "DC-SVM": methods.DC.name, "LIBSVM": methods.LIBSVM.name,
    "LIBSVM (subsample)": "subsample", "LaSVM": methods.LASVM.name, "CascadeSVM": methods.CASCADE.name,
    "LLSVM": "llsvm", "FastFood": "fastfood", "SpSVM": "spsvm", "LTPU": "ltpu", "Bagging": methods.BAGGING.name,
}  # fmt: skip
"""Our names of the paper's methods."""
_MNIST8M_ROWS = 8_000_000  # Its others, 100,000, are for the test, as in the paper.
_BOTH = (Sample("ijcnn1"), Sample(COVTYPE))
_QUICK_COVTYPE = (Sample(COVTYPE),)


def _parameters(data: str, method: str) -> Mapping[str, Any]:
    of_data: Mapping[str, Any] = PARAMETERS.get(data, _OF_OTHER_DATA)
    return {} if method in _WITHOUT else of_data


def _polynomial(data: str, _: str) -> Mapping[str, Any]:
    of_data: Mapping[str, Any] = POLYNOMIAL.get(data, POLYNOMIAL[COVTYPE])
    return of_data


def _as_printed(setting: str) -> str:
    return setting


def _names(of: Sequence[Method]) -> dict[str, Sequence[str]]:
    """Return the printed methods that are among ours, with the names of ours and of their second forms."""
    own = [method.name for method in of]
    forms = {printed: [one for one in (name, f"{name}, ours") if one in own] for printed, name in _NAMES.items()}
    return {printed: names for printed, names in forms.items() if names}


def _table_2(of: Sequence[Method]) -> tuple[Table, ...]:
    return Table("Accuracy and time", _METRICS, figures("Table 2", _names(of)), texts.MACHINE), _COST


_COST = Table(
    "Certificate and cost", ("gap", "objective", "kernel_evaluations", "support_vectors", "peak_memory"),
    note="The objective of spsvm has the squared hinge; do not compare it with the others, which have the hinge. Gap "
         "and objective of dc-early are those of its clusters.",
)  # fmt: skip
_ACCURACY_AGAINST_SECONDS = Figure("Accuracy against seconds of the fit", "seconds", "accuracy")
_ON_THE_WAY = (
    Figure("Objective against seconds", "seconds", "dual_objective", joined=True, below_best=True,
           note="Distance from the largest dual objective, that of the exact machine to a gap of 1e-6, which has no "
                "point; methods with an intercept have a best of their own."),
    Figure("Accuracy against seconds", "seconds", "accuracy", joined=True),
)  # fmt: skip

_FIGURE_1 = Part(
    name="figure-1",
    title="Figure 1: Theorem 1's bound",
    about=texts.FIGURE_1,
    data=(Sample(COVTYPE, 10_000),),
    quick_data=_QUICK_COVTYPE,
    methods=(methods.KMEANS_CLUSTERS, methods.RANDOM_CLUSTERS),
    parameters=_parameters,
    cases={f"k = {k}": {"n_clusters": k} for k in (8, 16, 32, 64, 128)},
    seeds=(0,),
    examine=theorem_1,
    answer=answers.is_the_bound_close,
    tables=(Table("Bound and difference", ("difference", "bound", "bound_ratio", "distance", "accuracy")),),
    figures=tuple(
        Figure(f"Bound and difference, {scale} scale", "partitions", "difference", joined=True, beside=("bound",),
               linear=scale == "absolute")
        for scale in ("absolute", "logarithmic")
    ),
)  # fmt: skip

_FIGURE_2 = Part(
    name="figure-2",
    title="Figure 2: support vectors, level by level",
    about=texts.FIGURE_2,
    data=(Sample(COVTYPE, 10_000),),
    quick_data=_QUICK_COVTYPE,
    methods=(*methods.levels(5), *methods.cascade_levels(5), *methods.LIBSVM_STOPPED, methods.LIBSVM),
    parameters=_parameters,
    cases={"RBF kernel": {}, "polynomial kernel": POLYNOMIAL[COVTYPE]},
    quick_cases=("RBF kernel",),
    seeds=(0,),
    examine=support_vectors,
    answer=answers.who_finds_support_vectors,
    tables=(Table("Support vectors", ("support_precision", "support_recall", "support_vectors", "seconds")),),
    figures=tuple(
        Figure(f"{heading} against {against}, {case}", x, y, joined=True, cases=(case,))
        for case in ("RBF kernel", "polynomial kernel")
        for against, x in (("clusters", "partitions"), ("seconds", "seconds"))
        for heading, y in (("Precision", "support_precision"), ("Recall", "support_recall"))
    ),
)  # fmt: skip

_TABLE_1 = Part(
    name="table-1",
    title="Table 1: prediction from clusters",
    about=f"{texts.TABLE_1} {texts.unreadable(['webspam'])}",
    data=(Sample("webspam"), Sample(COVTYPE)),
    quick_data=_QUICK_COVTYPE,
    methods=methods.PREDICTING,
    parameters=_parameters,
    cases={f"k = {k}": {"n_clusters": k} for k in (50, 100)},
    seeds=(0,),
    answer=answers.which_rule,
    tables=(
        Table("Accuracy and time", ("accuracy", "prediction_milliseconds", "seconds"),
              figures("Table 1", {"Prediction by (5)": "prediction by (5)", "BCM": "bcm",
                                  "Early Prediction by (6)": [one.name for one in methods.PREDICTING[2:]]},
                      {"accuracy": ("accuracy", 0.01), "milliseconds": ("prediction_milliseconds", 1.0)}, _as_printed),
              texts.MACHINE),
    ),
)  # fmt: skip

_ALL_METHODS = (
    methods.EARLY, methods.DC, methods.LIBSVM, *methods.RIVALS, methods.EXACT, methods.OUR_EARLY, methods.OUR_DC,
    *methods.OUR_RIVALS,
)  # fmt: skip
_FAST_METHODS = (
    methods.EARLY, methods.DC, methods.CASCADE, methods.EXACT, methods.OUR_EARLY, methods.OUR_DC, methods.BOOSTING
)  # fmt: skip
_TABLE_2 = Part(
    name="table-2",
    title="Table 2: accuracy and time of all methods",
    about=f"{texts.TABLE_2} {texts.unreadable(DATA)} {texts.DIFFERENCES}",
    data=tuple(
        Sample(data, None if data == "ijcnn1" else 20_000, train_rows=_MNIST8M_ROWS if data == "mnist8m" else None)
        for data in DATA
    ),
    quick_data=(Sample("ijcnn1"),),
    methods=_ALL_METHODS,
    parameters=_parameters,
    seeds=(0, 1),
    takes_files=True,
    answer=answers.compared,
    tables=_table_2(_ALL_METHODS),
    figures=(_ACCURACY_AGAINST_SECONDS,),
)

_TABLE_2_ALL_ROWS = replace(
    _TABLE_2,
    name="table-2-all-rows",
    title="Table 2: all rows of covtype",
    about=f"The table has the methods that end within the time limit on 464,809 rows. {answers.printed_claims()}",
    data=(Sample(COVTYPE),),
    quick_data=(),
    methods=_FAST_METHODS,
    seeds=(0,),
    takes_files=False,
    examine=seconds_of_levels,
    tables=_table_2(_FAST_METHODS),
)

_TABLE_3 = Part(
    name="table-3",
    title="Table 3: the data sets",
    about=texts.TABLE_3,
    data=tuple(Sample(data, train_rows=_MNIST8M_ROWS if data == "mnist8m" else None) for data in DATA),
    quick_data=_BOTH,
    methods=(methods.SIZES,),
    parameters=_parameters,
    seeds=(0,),
    examine=sizes_of_sides,
    tables=(
        Table("Rows and features", ("training_rows", "test_rows", "features"),
              figures("Table 3", {"": methods.SIZES.name},
                      {"training rows": ("training_rows", 1.0), "testing rows": ("test_rows", 1.0),
                       "features": ("features", 1.0)}), rows="data"),
    ),
)  # fmt: skip

_FIGURE_3 = Part(
    name="figure-3",
    title="Figure 3: objective and accuracy against time, RBF kernel",
    about=texts.FIGURE_3,
    data=(Sample(COVTYPE, 20_000), Sample("ijcnn1", 20_000)),
    quick_data=(Sample("ijcnn1"),),
    methods=methods.ON_THE_WAY,
    parameters=_parameters,
    seeds=(0,),
    examine=on_the_way,
    answer=answers.who_is_first,
    figures=_ON_THE_WAY,
)

_FIGURE_4 = replace(
    _FIGURE_3,
    name="figure-4",
    title="Figure 4: objective and accuracy against time, polynomial kernel",
    about=texts.FIGURE_4,
    data=(Sample("webspam", 10_000), Sample(COVTYPE, 10_000)),
    quick_data=(Sample(COVTYPE, 1000),),
    methods=methods.POLYNOMIAL_ON_THE_WAY,
    parameters=_polynomial,
)


def _grid(number: int, data: str, max_rows: int, of_accuracy: str, dc_is_faster: str, *own: Method) -> Part:
    """Return the part of one of Tables 7 to 10, whose caption has these words on accuracy and on DC-SVM's speed."""
    table = f"Table {number}"
    compared = (methods.EARLY, methods.DC, *own)
    theirs = figures(table, _names(compared), None, _as_printed)
    return Part(
        name=f"table-{number}",
        title=f"{table}: C and gamma on {data.removesuffix('.libsvm.binary')}",
        about="The table shows accuracies and seconds for 25 pairs of C and gamma. "
        f"{answers.printed_claims_of_caption(table, of_accuracy, dc_is_faster)}",
        data=(Sample(data, max_rows),),
        quick_data=(Sample(data),),
        methods=compared,
        parameters=_parameters,
        cases={f"C = 2^{a}, gamma = 2^{b}": {"C": 2.0**a, "gamma": 2.0**b} for a, b in itertools.product(_GRID, _GRID)},
        quick_cases=[f"C = 2^{a}, gamma = 2^{b}" for a, b in itertools.product(_QUICK_GRID, _QUICK_GRID)],
        seeds=(0,),
        examine=of_parameters,
        answer=answers.over_the_grid,
        tables=(
            Comparison("Over C and gamma", "accuracy", "case", published=theirs),
            Comparison("Over C and gamma", "seconds", "case", total=True, published=theirs, note=texts.MACHINE),
        ),
    )


def _robustness(number: int, table: Part) -> Part:
    """Return the part of one of Figures 6 to 9, with the cells of a table."""
    added = "; LaSVM is ours" if methods.LASVM in table.methods else ""
    _, _, what = table.title.partition(" on ")
    return replace(
        table,
        name=f"figure-{number}",
        title=f"Figure {number}: robustness to C and gamma on {what}",
        about=f"The figure shows the accuracies of {table.title.partition(':')[0]}, over gamma at every C and over C "
        f"at every gamma. The paper plots DC-SVM and LIBSVM{added}. It says that DC-SVM (early) is more robust. "
        f"{texts.NO_PICTURES}",
        answer=None,
        tables=(),
        figures=tuple(
            Figure(f"Accuracy against {other}, {one} = 2^{power}", other, "accuracy", joined=True,
                   cases=[case for case, own in table.cases.items() if own[one] == 2.0**power])
            for one, other in (("C", "gamma"), ("gamma", "C")) for power in _GRID
        ),
    )  # fmt: skip


_TABLE_7 = _grid(7, "ijcnn1", 10_000, "and achieves similar testing accuracy", "for almost every setting",
                 methods.LIBSVM, methods.LASVM)  # fmt: skip
_TABLE_8 = _grid(
    8, "webspam", 10_000, "and has comparable or better test accuracy", "under all settings", methods.LIBSVM
)
_TABLE_9 = _grid(9, COVTYPE, 10_000, "with similar test accuracy", "under all settings", methods.LIBSVM)
_TABLE_10 = _grid(10, "census", 10_000, "with similar test accuracy", "under all settings", methods.LIBSVM)

_TABLE_4 = replace(
    _TABLE_9,
    name="table-4",
    title="Table 4: time over the grid",
    about=f"The table shows the sums of the seconds of Tables 7 to 10, of the same fits. {answers.printed_sums()}",
    data=tuple(sample for part in (_TABLE_7, _TABLE_8, _TABLE_9, _TABLE_10) for sample in part.data),
    quick_data=_BOTH,
    answer=answers.totals,
    tables=(
        Comparison("Sums over 25 pairs of C and gamma", "seconds", "total", note=texts.MACHINE,
                   published=figures("Table 4", _names(_TABLE_9.methods), {"total time": ("seconds", 1.0)})),
    ),
)  # fmt: skip

_TABLE_5 = Part(
    name="table-5",
    title="Table 5: clustering and training, level by level",
    about=f"{texts.TABLE_5} {answers.printed_levels()}",
    data=(Sample(COVTYPE),),
    quick_data=_QUICK_COVTYPE,
    methods=(methods.DC,),
    parameters=_parameters,
    seeds=(0,),
    examine=seconds_of_levels,
    answer=answers.what_clustering_costs,
    tables=(
        Table("Seconds of the levels",
              [f"{what}_{level}" for level in range(4, -1, -1) for what in ("clustering", "training")],
              table_5(methods.DC.name), texts.MACHINE, rows="metric"),
    ),
)  # fmt: skip

_TABLE_6 = Part(
    name="table-6",
    title="Table 6: DC-SVM (early) and bagging",
    about=f"{texts.TABLE_6} {texts.unreadable(['webspam'])}",
    data=(Sample("ijcnn1"), Sample(COVTYPE, max_seeds=1), Sample("webspam", max_seeds=1)),
    quick_data=_QUICK_COVTYPE,
    methods=(methods.EARLY, methods.BAGGING),
    parameters=_parameters,
    cases={f"k = {k}": {"k": k} for k in (256, 64, 16)},
    seeds=(0, 1),
    answer=answers.is_early_better_than_bagging,
    tables=(
        Table("Accuracy and time", _METRICS,
              figures("Table 6", _names([methods.EARLY, methods.BAGGING]), None, _as_printed), texts.MACHINE),
    ),
)  # fmt: skip

_FIGURE_5 = replace(
    _FIGURE_3,
    name="figure-5",
    title="Figure 5: objective and accuracy against time on kddcup99 and cifar, RBF kernel",
    about=f"{texts.FIGURE_5} {texts.unreadable(['cifar'])}",
    data=(Sample("kddcup99", 20_000), Sample("cifar", 10_000)),
    quick_data=(Sample("cifar"),),
)

_THEOREMS = Part(
    name="theorems-2-and-3",
    title="Theorems 2 and 3",
    about=texts.THEOREMS,
    data=(Sample(COVTYPE, 2000), Sample("ijcnn1", 2000)),
    quick_data=(Sample("ijcnn1"),),
    methods=(methods.KMEANS_CLUSTERS,),
    parameters=_parameters,
    cases={f"k = {k}": {"n_clusters": k} for k in (4, 16, 64)},
    seeds=(0,),
    examine=theorems_2_and_3,
    answer=answers.screened,
    tables=(Table("Screened rows, and bounds", ("screened", "no_support", "difference", "bound_of_support", "bound")),),
)

_CLUSTERS_OR_COLD = Part(
    name="clusters-or-cold",
    title="Ours: is a start from clusters faster than a cold exact solve?",
    about=texts.CLUSTERS_OR_COLD,
    data=tuple(Sample(data, n) for data, sizes in (("ijcnn1", (5000, 12_000, 25_000, 49_990)),
                                                   (COVTYPE, (10_000, 40_000, 100_000))) for n in sizes),
    quick_data=(Sample("ijcnn1", 2000),),
    methods=(methods.EXACT, methods.OUR_DC, methods.DC_OF_ONE_LEVEL),
    parameters=_parameters,
    cases={"paper's gamma": {}, "gamma='scale'": {"gamma": "scale"},
           "polynomial": {"kernel": "poly", "degree": 3, "gamma": 1.0}},
    seeds=(0,),
    answer=answers.is_a_start_faster,
    tables=(
        Comparison("To a gap of 1e-3", "seconds", "data", relative_to="exact"),
        Comparison("To a gap of 1e-3", "kernel_evaluations", "data", relative_to="exact"),
    ),
    figures=(
        Figure("Seconds beside those of the exact solve", "rows", "seconds", joined=True, relative_to="exact"),
    ),
)  # fmt: skip

EXPERIMENT = Experiment(
    name="dcsvm",
    title="Divide and conquer for kernel support vector machines",
    about="This page makes the tables and figures of a paper again. The numbers that the paper prints stand beside "
    "ours; its pictures cannot be shown.",
    source="Hsieh, Si, Dhillon: A Divide-and-Conquer Solver for Kernel Support Vector Machines, ICML 2014",
    parts=(
        _FIGURE_1, _FIGURE_2, _TABLE_1, _TABLE_2, _TABLE_2_ALL_ROWS, _TABLE_3, _FIGURE_3, _FIGURE_4, _TABLE_4, _TABLE_5,
        _TABLE_6, _FIGURE_5, _TABLE_7, _robustness(6, _TABLE_7), _TABLE_8, _robustness(7, _TABLE_9), _TABLE_9,
        _robustness(8, _TABLE_8), _TABLE_10, _robustness(9, _TABLE_10), _THEOREMS, _CLUSTERS_OR_COLD,
    ),
    quick_rows=2000,
)  # fmt: skip
