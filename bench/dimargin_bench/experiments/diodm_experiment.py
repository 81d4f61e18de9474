"""The DiODM paper's experiments: its Table 1 and its Figures 1 to 3, and its pseudo-code as printed.

The paper draws accuracy and time of every method as curves over the levels of its tree, or over
thirds of the stages. Here every level, and every third, is a method of its own: level 2 has 16
parts, level 1, where the loop of the paper's Algorithm 1 ends, has 4, and level 0 is the whole
problem. LIBSVM's training and test rows are joined, and a fifth of all is set apart at random.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from dimargin.estimators import ODMClassifier
from dimargin.shards.partition import StratifiedPartition
from dimargin.strategies import DiODM, LinearDSVRG
from dimargin_bench.experiments import diodm_answers as answers
from dimargin_bench.experiments import diodm_methods as methods
from dimargin_bench.experiments.declarations import Curves, Experiment, Figure, Method, Part, Sample, Table
from dimargin_bench.experiments.diodm_parameters import (
    CHOSEN,
    CHOSEN_LINEAR,
    CHOSEN_SVC,
    LITERAL_LAM,
    OF_OTHER_DATA,
    SVC_OF_OTHER_DATA,
    kernel_parameters_in_words,
)
from dimargin_bench.experiments.examine import of_all_rows, sizes, speed_up
from dimargin_bench.experiments.replay import REPLAYED
from dimargin_bench.papers import published

_NO_PARAMETERS = (methods.MAJORITY.name, methods.LINEAR_SVC.name, methods.BOOSTING.name)
_SVC = (methods.LIBSVM.name, methods.INTEL_SVC.name)
_PRIMAL = {method.name for method in (methods.NEWTON, methods.ACC_DIODM_OURS, *methods.GRADIENT,
                                      *methods.LITERAL_GRADIENT, methods.TIMED_GRADIENT)}  # fmt: skip
_MOST = REPLAYED[-1]


def _rbf(data: str, method: str) -> Mapping[str, Any]:
    if method in _NO_PARAMETERS:
        return {}
    if method in _PRIMAL:
        return _linear(data, method)
    if method in _SVC:
        return dict(zip(("C", "gamma"), CHOSEN_SVC.get(data, SVC_OF_OTHER_DATA), strict=True))
    return dict(zip(("gamma", "lam", "theta", "upsilon"), CHOSEN.get(data, OF_OTHER_DATA), strict=True))


def _linear(data: str, method: str) -> Mapping[str, Any]:
    if method in _NO_PARAMETERS:
        return {}
    loss = dict(zip(("lam", "theta", "upsilon"), CHOSEN_LINEAR, strict=True))
    if method in _PRIMAL:
        return loss
    if method.endswith(methods.OURS):
        return {"kernel": "poly", "degree": 1, "gamma": 1.0, "coef0": 1.0, **loss}
    return {"kernel": "linear", **loss}


def _literal(data: str, method: str) -> Mapping[str, Any]:
    return {**_rbf(data, method), **({} if method in _PRIMAL else {"lam": LITERAL_LAM})}


def _samples(*names: str, rows: int | None = None) -> tuple[Sample, ...]:
    return tuple(Sample(name, rows, joined=True) for name in names)


_SUSY = "SUSY-30k"
_DATA = ("phishing", "a7a", "cod-rna", "ijcnn1", "skin_nonskin")
_KERNEL_DATA = (*_samples(*_DATA), *_samples("SUSY", rows=40_000), *_samples(_SUSY))
_QUICK = _samples("phishing", "cod-rna")
_TIMED = _samples("phishing", "a7a", "cod-rna", "ijcnn1", _SUSY)
_MENDED_TREE = "DiODM is Algorithm 1 mended; the list of methods says how."
_MENDED_GRADIENT = "acc-DiODM is Algorithm 2 mended; the list of methods says how."
_LANDMARKS_AMONG = "chosen among 2,000 rows, where the paper chooses among all"
_TREE_SHAPE = (
    f"Trees have p = {ODMClassifier().branching} and L = {methods.N_LEVELS}, and those of DiODM at most S = "
    f"{StratifiedPartition().n_landmarks} landmarks, {_LANDMARKS_AMONG}. The level where a tree ends is solved to "
    f"a gap of {ODMClassifier().tol:g}, those before it to {DiODM().level_tol:g}."
)
_LINEAR_LOSS = (
    "All linear ODMs share lambda = {:g}, theta = {:g} and upsilon = {:g}. lambda is small, because gradient "
    "methods need the more stages the larger it is. With 16 times as much, the accuracy over five folds is at most "
    "0.2 points higher, and on SUSY-30k 0.8; that was measured with an intercept, on at most 30,000 rows of each "
    "data set, and not on gisette."
).format(*CHOSEN_LINEAR)


def _gradient_stages(of: str, exception: str = "") -> str:
    return (
        f"acc-DiODM has K = {LinearDSVRG().n_partitions} parts and at most S = {LinearDSVRG().n_landmarks} landmarks, "
        f"{_LANDMARKS_AMONG}. A stage of {of} computes the gradient of all rows{exception}, and then makes one pass of "
        "steps over the rows, at first of the size eta = 1 / (4 + 4 lambda max |x|^2 / (1 - theta)^2)."
    )


_FASTEST_FIT = (
    f"Fits on one and on two cores are measured, and those on up to {_MOST} replayed. Each time is that of the fastest "
    "of three fits."
)
_MORE_PARTS = f"The tree begins with 64 parts, and not with 16 as in Figures 1 and 2, so that {_MOST} cores have work."
_COST = Table(
    "Certificate and cost", ("gap", "objective", "kernel_evaluations", "anchor_rows", "support_vectors", "peak_memory")
)
_ON_THE_WAY = Figure(
    "Test accuracy against training time", "seconds", "accuracy", joined=True,
    note="Points of trees are levels, from 16 parts to the whole problem.",
)  # fmt: skip


_LEVEL_TABLES = (Table("Accuracy and time", ("accuracy", "seconds", "prediction_seconds")), _COST)


def _speed_ups(title: str, section: str, timed: tuple[Method, ...]) -> dict[str, Any]:
    """Return what a part of speed-ups shows, with the paper's figure for these methods if it is one on 32 cores."""
    metrics = "one_core", "measured_2", "replayed_2", "replay_error", f"replayed_{_MOST}", "between_tasks"
    note = ("Replayed figures are simulated: tasks that were timed on one core are dealt to more, in their order, each "
            "to the core that is free first; messages take no time, and a problem has one core.")  # fmt: skip
    name, figures, points = timed[0].name.split(",")[0], {}, {}
    theirs = answers.said(section, "speed-up", name)
    if f"{_MOST} cores" in theirs.setting:
        note += f" The paper's figure is its text's for {_MOST} cores; it does not say of which data"
        note += ", nor of which level." if timed == methods.TIMED_TREES else "."
        metrics_of = {"speed-up": (f"replayed_{_MOST}", 1.0)}
        found = published("diodm", section, {name: [method.name for method in timed]}, metrics=metrics_of)
        figures = {(data.name, own, metric): value for (_, own, metric), value in found.items() for data in _TIMED}
        points = {f"paper, {name}: {answers.in_words(theirs)}": (float(_MOST), answers.value(theirs))}
    curves = Curves(
        title, "cores", "training speed-up",
        {"replayed": {float(cores): f"replayed_{cores}" for cores in REPLAYED}, "measured": {2.0: "measured_2"}},
        points,
        "Bands show what follows if every doubling of the cores is as wrong as the first, which was measured.",
        {"replayed": "replay_error"},
    )  # fmt: skip
    return {"methods": timed, "tables": (Table(title, metrics, figures, note),), "figures": (curves,),
            "answer": partial(answers.speed_ups, section=section)}  # fmt: skip


_FIGURE_1 = Part(
    name="figure-1",
    title="Figure 1: accuracy and time, linear kernel",
    about="Trees, with the kernel x'z, are stopped at each of their levels, and acc-DiODM after thirds of its "
    f"{methods.STAGES} stages; all are without intercept, as in the paper. What is called ours has one, and so has "
    "LinearSVC. DiODM is Algorithm 1 mended, and acc-DiODM is Algorithm 2 mended; the list of methods says how. "
    f"{_TREE_SHAPE} {_gradient_stages('acc-DiODM')} {_LINEAR_LOSS}",
    data=_KERNEL_DATA,
    quick_data=_QUICK,
    takes_files=True,
    methods=(*methods.TREES, *methods.ACC_DIODM, methods.EXACT, methods.DIODM_OURS, methods.ACC_DIODM_OURS,
             methods.NEWTON, methods.LINEAR_SVC, methods.BOOSTING),
    parameters=_linear,
    tables=_LEVEL_TABLES,
    figures=(replace(_ON_THE_WAY, note=f"{_ON_THE_WAY.note} Those of acc-DiODM are thirds of its stages."),),
    answer=partial(answers.levels, figure="Figure 1", section="Section 4.2",
                   accuracy="data sets with the better accuracy", speed="data sets with the faster training"),
)  # fmt: skip
_FIGURE_1_A = Part(
    name="figure-1-a",
    title="Figure 1 (a): training speed-up of acc-DiODM",
    about=f"{_MENDED_GRADIENT} {_FASTEST_FIT} acc-DiODM has 32 parts, and not {LinearDSVRG().n_partitions} as in "
    f"Figure 1, so that {_MOST} cores have work. {_LINEAR_LOSS}",
    data=_TIMED,
    quick_data=_QUICK,
    parameters=_linear,
    seeds=(0,),
    examine=speed_up,
    **_speed_ups("Speed-up of acc-DiODM", "Section 4.2", (methods.TIMED_GRADIENT,)),
)
_FIGURE_1_E = replace(
    _FIGURE_1_A,
    name="figure-1-e",
    title="Figure 1 (e): training speed-up of DiODM, linear kernel",
    about=f"{_MENDED_TREE} {_FASTEST_FIT} {_MORE_PARTS} {_LINEAR_LOSS}",
    **_speed_ups("Speed-up of DiODM, linear kernel", "Section 4.2", methods.TIMED_TREES),
)

_PARTS = (
    Part(
        name="table-1",
        title="Table 1: data set statistics",
        about="The table has rows and features, and the accuracy of predicting the more frequent class for every test "
        "row, which is its share of these rows. The paper counts LIBSVM's training and test rows together, but of "
        "cod-rna those of the training file only. The two files of a7a together are the rows of a9a's training file.",
        data=(*_samples("gisette", *_DATA, "SUSY", _SUSY),),
        quick_data=(*_samples("gisette", *_DATA, "SUSY", _SUSY),),
        takes_files=True,
        methods=(methods.MAJORITY,),
        parameters=_rbf,
        seeds=(0,),
        examine=sizes,
        answer=answers.ticks_below_the_majority,
        tables=(
            Table("Data set statistics", ("all_rows", "features", "accuracy"),
                  published("diodm", "Table 1", {"": methods.MAJORITY.name}, {"skin-nonskin": "skin_nonskin"},
                            {"rows": ("all_rows", 1.0), "features": ("features", 1.0)}),
                  rows="data"),
        ),
    ),
    _FIGURE_1,
    _FIGURE_1_A,
    _FIGURE_1_E,
    replace(
        _FIGURE_1,
        name="figure-2",
        title="Figure 2: accuracy and time, RBF kernel",
        about=f"Trees are stopped at each of their levels; other machines have no tree. {_MENDED_TREE} A "
        "cross-validated search on the training rows of the first seed has chosen the width of the kernel, lambda, "
        "theta and upsilon of all ODMs, and C and the width of SVC. SUSY has those of 30,000 of its rows, and files of "
        f"your own have fixed ones. {kernel_parameters_in_words()} {_TREE_SHAPE} The text of the paper that we have "
        "does not tell which axes of accuracy and of seconds are those of ijcnn1 and which are those of cod-rna: that "
        "is our reading.",
        methods=(*methods.TREES, methods.EXACT, methods.LANDMARK, methods.LIBSVM, methods.INTEL_SVC, methods.BOOSTING),
        parameters=_rbf,
        tables=_LEVEL_TABLES,
        figures=(_ON_THE_WAY,),
        answer=partial(answers.levels, figure="Figure 2", section="Section 4.3",
                       accuracy="data sets with the best accuracy", speed="data sets with the fastest training"),
    ),
    Part(
        name="figure-3",
        title="Figure 3: gradient methods",
        about=f"Gradient methods, without intercept, are shown after a third, two thirds and all of {methods.STAGES} "
        "stages; the paper says neither how many stages it has nor where its points lie. Newton's method is ours, and "
        f"has no stages. {_MENDED_GRADIENT} "
        f"{_gradient_stages('a gradient method', ' (or, with ODM_csvrg, of its core-set while that is small)')} "
        f"{_LINEAR_LOSS}",
        data=(*_samples("gisette", "phishing", "a7a", "cod-rna", "skin_nonskin"), *_samples("SUSY", rows=1_000_000),
              *_samples(_SUSY)),
        quick_data=_QUICK,
        takes_files=True,
        methods=(*methods.GRADIENT, methods.NEWTON_PLAIN),
        parameters=_linear,
        tables=(Table("Accuracy and time", ("accuracy", "seconds", "objective", "gap", "anchor_rows")),),
        figures=(replace(_ON_THE_WAY, note="Points of gradient methods are thirds of their stages."),),
        answer=answers.gradients,
    ),
    Part(
        name="literal-or-mended",
        title="Algorithms 1 and 2 as printed, and mended",
        about="Algorithm 1 has an RBF kernel, coordinate descent of one variable at a time, and lambda = "
        f"{LITERAL_LAM:g}, with which the passes do not become too many; Algorithm 2 is linear, without intercept. The "
        "other parameters are those of Figures 1 and 2. Landmarks are chosen among all rows, as in the paper; "
        "dimargin's DiODM, and acc-DiODM, mended, choose them among 2,000. Objectives and gaps are those of the whole "
        "problem, whatever was solved. Kernel values are counted as if each step computed the row it reads.",
        data=_samples("phishing", "a7a", "cod-rna", "ijcnn1", rows=4000),
        quick_data=_samples("phishing", "cod-rna", rows=1200),
        methods=(*methods.LITERAL_TREES, *methods.LITERAL_GRADIENT),
        parameters=_literal,
        examine=of_all_rows,
        tables=(
            Table("Literal and mended",
                  ("accuracy", "global_objective", "global_gap", "kernel_evaluations", "passes", "seconds")),
        ),
        answer=answers.literal,
    ),
    replace(
        _FIGURE_1_A,
        name="speed-up-rbf",
        title="Training speed-up of DiODM, RBF kernel",
        about=f"{_MENDED_TREE} {_FASTEST_FIT} {_MORE_PARTS} The paper's figure is from its abstract, and is for "
        "training a kernel ODM. The abstract names neither cores nor data, nor what DiODM is compared with. Parameters "
        "are those of Figure 2.",
        parameters=_rbf,
        **_speed_ups("Speed-up of DiODM, RBF kernel", "Abstract", methods.TIMED_TREES),
    ),
)  # fmt: skip

_CLUSTER_FACTS = {name: answers.value(answers.said("Section 4.1", name, ""))
          for name in ("share of training rows", "masters", "workers", "cores a machine", "RAM in GB")}  # fmt: skip

EXPERIMENT = Experiment(
    name="diodm",
    title="Distributed Optimal Margin Distribution Machine",
    about="This page makes the tables and figures of a paper again. The numbers that the paper prints stand beside "
    "ours; its figures are pictures, whose curves cannot be read here. The paper prints no parameters: not lambda, "
    "theta, upsilon or the width of the RBF kernel, not p, L, S or tolerances, and not K, S_t, eta or T of Algorithm "
    "2. All are chosen here. upsilon is the weight of epsilon, as in the paper's formula, and not of xi, as in its "
    "text. The paper's training rows are {share of training rows:g}% of all, drawn at random. Here, too, that many are "
    "for training, and both sides have the same shares of the classes; LIBSVM's training and test files are joined, "
    "but of cod-rna there is the training file only. The paper's seconds are those of a Spark cluster with {masters:g} "
    "master and {workers:g} workers of {cores a machine:g} cores and {RAM in GB:g} GB each, ours those of one "
    "computer, which is described at the end of the page. Where SUSY is missing, 30,000 of its rows, SUSY-30k, stand "
    "in for it, if they are on this computer; they are not public. Where SUSY is there, sentences on Table 1 and "
    "Figures 1 to 3 leave SUSY-30k out; the speed-ups have SUSY-30k alone. Without --rows, Figures 1 and 2 take 40,000 "
    "rows of SUSY, and Figure 3 takes 1,000,000.".format(**_CLUSTER_FACTS),
    source="Distributed Optimal Margin Distribution Machine, by anonymous authors, under review at ICLR 2022",
    parts=_PARTS,
    libraries=(methods.INTEL,),
)
