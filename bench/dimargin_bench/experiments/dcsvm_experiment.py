"""The DC-SVM paper's experiments: its Tables 1, 2 and 4 to 10, and its Figures 1 to 9.

ijcnn1 is taken as LIBSVM has it. Its test rows reach beyond the ranges of its training rows (-1.3
to 1.3, and -0.9 to 0.9), so that to scale it by the latter costs LIBSVM 1.6 points.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dimargin_bench.experiments import dcsvm_methods as methods
from dimargin_bench.experiments.dcsvm_published import CLUSTERS, COVTYPE, NOT_HERE, PARAMETERS, table_1, tables_2_and_6
from dimargin_bench.experiments.declarations import Comparison, Experiment, Figure, Part, Sample, Table
from dimargin_bench.experiments.examine import dual_objective, support_vectors, theorem_1
from dimargin_bench.experiments.experiment_run import PartResults
from dimargin_bench.experiments.result_tables import middle

_OF_OTHER_DATA = {"C": 32.0, "gamma": "scale"}
_POLYNOMIAL = {"kernel": "poly", "degree": 3, "gamma": 1.0}  # (x'z)^3, as in the paper
_KERNELS: dict[str, dict[str, Any]] = {
    "paper's gamma": {}, "gamma='scale'": {"gamma": "scale"}, "polynomial": _POLYNOMIAL
}  # fmt: skip
_GRID = (-10, -6, 1, 6, 10)  # powers of two
_TOLERANCES: dict[str, dict[str, Any]] = {f"tol={tol:g}": {"tol": tol} for tol in (0.1, 0.03, 0.01, 3e-3, 1e-3)}
_SMALL = (Sample("ijcnn1", 10_000), Sample(COVTYPE, 10_000))
_LARGER = (Sample("ijcnn1"), Sample(COVTYPE, 40_000))
_QUICK = (Sample("ijcnn1"),)
_SAME = 0.02  # relative difference of seconds that is none


def _parameters(data: str, method: str) -> Mapping[str, Any]:
    return {} if method == methods.BOOSTING.name else PARAMETERS.get(data, _OF_OTHER_DATA)


def _is_a_start_faster(found: PartResults) -> str:
    """Say how often a start from clusters beat the exact solve, and by how much."""
    starts = (methods.DC.name, methods.DC_OF_ONE_LEVEL.name)
    ratios: dict[str, float] = {}
    for facts, case in itertools.product(found.data, found.part.cases):
        cells = [record for record in found.of(facts.name) if record.cell.case == case]
        seconds = {
            name: middle([one for one in cells if one.cell.method.name == name], "seconds")
            for name in ("exact", *starts)
        }
        times = [value for name in starts if (value := seconds[name]) is not None]
        if times and seconds["exact"]:
            ratios[f"{facts.name}, {case}"] = min(times) / seconds["exact"]
    if not ratios:
        return ""
    faster = {name: ratio for name, ratio in ratios.items() if ratio < 1 - _SAME}
    said = (
        f"faster in {len(faster)} of {len(ratios)} problems" if faster else f"faster in none of {len(ratios)} problems"
    )
    least, most = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
    return (f"A start from clusters, the better of two, was {said}: it took from {ratios[least]:.2f} times the seconds "
            f"of the exact solve ({least}) to {ratios[most]:.2f} times ({most}).")  # fmt: skip


_COST = Table("Certificate and cost", ("gap", "objective", "kernel_evaluations", "support_vectors", "peak_memory"))
_ACCURACY_AND_TIME = Table(
    "Accuracy and time",
    ("accuracy", "seconds", "prediction_seconds"),
    tables_2_and_6(),
    "The paper's seconds are those of its machine and programs, of 2014, and its figures those of all rows.",
)
_ACCURACY_AGAINST_SECONDS = Figure("Accuracy against seconds of the fit", "seconds", "accuracy")
_ON_THE_WAY = (
    Figure("Objective against seconds", "seconds", "dual_objective", joined=True, below_best=True,
           note="Distance from the largest dual objective of the picture, which has no point; methods with an "
                "intercept have a best of their own."),
    Figure("Accuracy against seconds", "seconds", "accuracy", joined=True),
)  # fmt: skip

_OVER_TIME = Part(
    name="figures-3-and-5-to-8",
    title="Figures 3 and 5 to 8: objective and accuracy against time",
    about="Every point is a fit to a tolerance of its own, from 0.1 to 0.001: a gap, or LIBSVM's violation.",
    data=_LARGER,
    quick_data=_QUICK,
    methods=(methods.EXACT, methods.DC, methods.EARLY, methods.WITH_INTERCEPT, methods.LIBSVM),
    parameters=_parameters,
    cases=_TOLERANCES,
    seeds=(0,),
    examine=dual_objective,
    figures=_ON_THE_WAY,
)

_PARTS = (
    Part(
        name="clusters-or-cold",
        title="Is a start from clusters faster than a cold exact solve?",
        about="The exact machine beside divide and conquer to the same gap of 1e-3, over sizes and kernels: C = 32, "
        "and gamma of the paper's Table 2, narrow; of scikit-learn's default, wide; and the polynomial of degree 3.",
        data=tuple(Sample(data, n) for data, sizes in (("ijcnn1", (5000, 12_000, 25_000, 49_990)),
                                                       (COVTYPE, (10_000, 40_000, 100_000))) for n in sizes),
        quick_data=(Sample("ijcnn1", 1000), Sample("ijcnn1", 3000)),
        methods=(methods.EXACT, methods.DC, methods.DC_OF_ONE_LEVEL),
        parameters=_parameters,
        cases=_KERNELS,
        answer=_is_a_start_faster,
        tables=(
            Comparison("To a gap of 1e-3", "seconds", "data", relative_to="exact"),
            Comparison("To a gap of 1e-3", "kernel_evaluations", "data", relative_to="exact"),
        ),
        figures=(
            Figure("Seconds beside those of the exact solve", "rows", "seconds", joined=True, relative_to="exact"),
        ),
    ),
    Part(
        name="table-1",
        title="Table 1: prediction from clusters",
        about="Three rules by which the machines of clusters predict.",
        data=(Sample(COVTYPE, 100_000), Sample("ijcnn1"), Sample("webspam")),
        quick_data=_QUICK,
        methods=tuple(method for k in CLUSTERS for method in methods.predicting(k)),
        parameters=_parameters,
        seeds=(0,),
        tables=(Table("Accuracy and time", ("accuracy", "seconds", "prediction_seconds"), table_1(),
                      "The paper's figures are those of all rows."),),
    ),
    Part(
        name="table-2",
        title="Tables 2 and 6: accuracy and time of all methods",
        about="Kernel machines and boosted trees on the same rows: how well they predict, and what they take.",
        data=(*_LARGER, *map(Sample, NOT_HERE)),
        quick_data=_QUICK,
        methods=(methods.EXACT, methods.EARLY, methods.DC, methods.CASCADE, methods.LIBSVM, *methods.SMALL_RIVALS,
                 methods.BOOSTING),
        parameters=_parameters,
        takes_files=True,
        tables=(_ACCURACY_AND_TIME, _COST),
        figures=(_ACCURACY_AGAINST_SECONDS,),
    ),
    Part(
        name="all-of-covtype",
        title="Table 2: all rows of covtype",
        about="The methods that end within ten minutes on 464,809 rows. The paper's LIBSVM took 23 hours.",
        data=(Sample(COVTYPE),),
        methods=(methods.EXACT, methods.EARLY, methods.DC, methods.BOOSTING),
        parameters=_parameters,
        seeds=(0,),
        tables=(_ACCURACY_AND_TIME, _COST),
        figures=(_ACCURACY_AGAINST_SECONDS,),
    ),
    Part(
        name="table-4",
        title="Table 4: the polynomial kernel",
        about="The kernel (x'z)^3, with the C of Table 2; the paper's C and figures for it are not known here.",
        data=_SMALL,
        quick_data=_QUICK,
        methods=(methods.EXACT, methods.EARLY, methods.DC, methods.CASCADE, methods.LIBSVM),
        parameters=_parameters,
        cases={"": _POLYNOMIAL},
        tables=(Table("Accuracy and time", ("accuracy", "seconds", "prediction_seconds")), _COST),
        figures=(_ACCURACY_AGAINST_SECONDS,),
    ),
    Part(
        name="tables-5-and-7-to-10",
        title="Tables 5 and 7 to 10: over C and gamma",
        about="How methods do where parameters are far from the best, as those of a search are.",
        data=_SMALL,
        quick_data=_QUICK,
        methods=(methods.EXACT, methods.EARLY, methods.DC, methods.LIBSVM),
        parameters=_parameters,
        cases={f"C=2^{a}, gamma=2^{b}": {"C": 2.0**a, "gamma": 2.0**b} for a, b in itertools.product(_GRID, _GRID)},
        quick_cases=[f"C=2^{a}, gamma=2^{b}" for a, b in itertools.product((-6, 6), (-6, 6))],
        seeds=(0,),
        tables=(
            Comparison("Time over the grid", "seconds", "case", total=True),
            Comparison("Accuracy over the grid", "accuracy", "case",
                       note="The paper's best on all rows of ijcnn1 is 98.8%, at C = 2 and gamma = 2."),
        ),
    ),
    Part(
        name="figure-1",
        title="Figure 1: Theorem 1's bound",
        about="How far the machines of clusters, put together, are from the optimum, and the bound on it, over the "
        "number of clusters: by kernel k-means and at random. The bound for k-means is the upper end of a 99% "
        "confidence interval, from 128 rows.",
        data=_SMALL,
        quick_data=_QUICK,
        methods=(methods.KMEANS_CLUSTERS, methods.RANDOM_CLUSTERS),
        parameters=_parameters,
        cases={f"{k} clusters": {"n_clusters": k} for k in (4, 16, 64)},
        seeds=(0,),
        examine=theorem_1,
        tables=(Table("Bound and distance", ("distance", "bound", "accuracy")),),
        figures=(
            Figure("Distance from the optimum", "partitions", "distance", joined=True),
            Figure("Bound", "partitions", "bound", joined=True),
        ),
    ),
    Part(
        name="figure-2",
        title="Figure 2: support vectors, level by level",
        about="Which of the optimum's support vectors the levels of divide and conquer have, and which of theirs are "
        "the optimum's; beside the cascade and the exact machine at loose tolerances.",
        data=_SMALL,
        quick_data=_QUICK,
        methods=(*methods.LEVELS, methods.CASCADE, *methods.LOOSE),
        parameters=_parameters,
        cases={name: _KERNELS[name] for name in ("paper's gamma", "polynomial")},
        seeds=(0,),
        examine=support_vectors,
        tables=(Table("Support vectors", ("support_precision", "support_recall", "support_vectors", "seconds")),),
        figures=(
            Figure("Recall against seconds", "seconds", "support_recall"),
            Figure("Precision against seconds", "seconds", "support_precision"),
        ),
    ),
    _OVER_TIME,
    replace(
        _OVER_TIME,
        name="figures-4-and-9",
        title="Figures 4 and 9: objective and accuracy against time, polynomial kernel",
        about="The same with the kernel (x'z)^3.",
        data=_SMALL,
        cases={name: {**_POLYNOMIAL, **values} for name, values in _TOLERANCES.items()},
    ),
)  # fmt: skip

EXPERIMENT = Experiment(
    name="dcsvm",
    title="Divide and conquer for kernel support vector machines",
    about="Tables and figures of a paper, made again and beside its own.",
    source="Hsieh, Si, Dhillon: A Divide-and-Conquer Solver for Kernel Support Vector Machines, ICML 2014",
    parts=_PARTS,
)
