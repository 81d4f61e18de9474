"""The DiODM paper's experiments: its Table 1 and its Figures 1 to 3, and its pseudo-code as printed.

The paper draws accuracy and time of every method as curves over the levels of its tree, or over
thirds of the stages. Here every level is a method of its own, ended there by `stop_level`: level 2
has 16 parts, level 1, the last of the paper's loop, has 4, and level 0 is the whole problem. As in
its section 4.1, LIBSVM's training and test rows are joined, a fifth of all is set apart at random,
and features are scaled to [0, 1].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

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
)
from dimargin_bench.experiments.examine import of_all_rows, sizes, speed_up
from dimargin_bench.experiments.replay import REPLAYED
from dimargin_bench.papers import Figure as PaperFigure
from dimargin_bench.papers import published

_NO_PARAMETERS = (methods.MAJORITY.name, methods.LINEAR_SVC.name, methods.BOOSTING.name)
_SVC = (methods.LIBSVM.name, methods.INTEL_SVC.name)
_PRIMAL = {method.name for method in (methods.NEWTON, *methods.ACC_DIODM, methods.ACC_DIODM_OURS, *methods.GRADIENT,
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
_PARAMETERS = "The paper prints neither lambda, theta and upsilon nor p, L and S: all are chosen here."
_TICKS = (
    "The paper's figures are pictures, whose curves cannot be read here. Its column is the highest tick of the panel's "
    "axis, at which, or slightly above, curves end: a hint, and no figure of one method. " + _PARAMETERS
)
_COST = Table(
    "Certificate and cost", ("gap", "objective", "kernel_evaluations", "anchor_rows", "support_vectors", "peak_memory")
)
_ON_THE_WAY = Figure(
    "Test accuracy against training time", "seconds", "accuracy", joined=True,
    note="Points of trees are levels, from 16 parts to the whole problem.",
)  # fmt: skip


def _ticks(figure: str, *names: str) -> Mapping[tuple[str, str, str], PaperFigure]:
    """Return the highest ticks of a figure's axes of accuracy, beside these methods."""
    metrics, found = {"highest tick of accuracy": ("accuracy", 0.01)}, dict[tuple[str, str, str], PaperFigure]()
    for susy in ("SUSY", _SUSY):
        data = {"skin-nonskin": "skin_nonskin", "SUSY": susy}
        found |= published("diodm", figure, {"": names}, data, metrics)
    return found


def _levels(figure: str, *names: str) -> tuple[Table, ...]:
    metrics = "accuracy", "seconds", "prediction_seconds"
    return Table("Accuracy and time", metrics, _ticks(figure, *names), _TICKS), _COST


def _speed_ups(title: str, section: str, timed: tuple[Method, ...]) -> dict[str, Any]:
    """Return what a part of speed-ups shows, with the paper's figure for these methods on 32 cores."""
    metrics = "one_core", "measured_2", "replayed_2", "replay_error", f"replayed_{_MOST}", "between_tasks"
    note = ("Replayed figures are simulated: tasks that were timed on one core are dealt to more, in their order, each "
            "to the core that is free first; messages take no time, and a problem has one core. The paper's figure is "
            "its text's for 32 cores; it does not say of which data, nor of which level.")  # fmt: skip
    name = timed[0].name.split(",")[0]
    theirs = answers.said(section, "speed-up", name)
    figures = {(data.name, method.name, f"replayed_{_MOST}"): theirs for data in _TIMED for method in timed}
    curves = Curves(
        title, "cores", "training speed-up",
        {"replayed": {float(cores): f"replayed_{cores}" for cores in REPLAYED}, "measured": {2.0: "measured_2"}},
        {f"paper, {name}": (float(_MOST), theirs)},
        "Bands show what follows if every doubling of the cores is as wrong as the first, which was measured.",
        {"replayed": "replay_error"},
    )  # fmt: skip
    return {"methods": timed, "tables": (Table(title, metrics, figures, note),), "figures": (curves,),
            "answer": partial(answers.speed_ups, section=section)}  # fmt: skip


_THIRDS = {f"{third}/3 of the stages": {"max_iter": third * methods.STAGES // 3} for third in (1, 2, 3)}
*_, _LAST = _THIRDS
_FIGURE_1 = Part(
    name="figure-1",
    title="Figure 1: accuracy and time, linear kernel (30,000 rows stand in for SUSY)",
    about="Trees with the kernel x'z, stopped at each of their levels, and acc-DiODM after thirds of its stages, all "
    "without intercept, as in the paper. What is called ours has one, and so has LinearSVC.",
    data=_KERNEL_DATA,
    quick_data=_QUICK,
    takes_files=True,
    methods=(*methods.TREES, *methods.ACC_DIODM, methods.EXACT, methods.DIODM_OURS, methods.ACC_DIODM_OURS,
             methods.NEWTON, methods.LINEAR_SVC, methods.BOOSTING),
    parameters=_linear,
    tables=_levels("Figure 1", methods.DIODM, methods.ACC_DIODM[-1].name),
    figures=(replace(_ON_THE_WAY, note=f"{_ON_THE_WAY.note} Those of acc-DiODM are thirds of its stages."),),
    answer=partial(answers.levels, figure="Figure 1", section="Section 4.2",
                   accuracy="data sets with the better accuracy", speed="data sets with the faster training"),
)  # fmt: skip
_FIGURE_1_A = Part(
    name="figure-1-a",
    title="Figure 1 (a): training speed-up of acc-DiODM",
    about="Fits on one and on two cores, measured, and on up to 32, replayed; of three fits the fastest.",
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
    **_speed_ups("Speed-up of DiODM, linear kernel", "Section 4.2", methods.TIMED_TREES),
)

_PARTS = (
    Part(
        name="table-1",
        title="Table 1: data set statistics",
        about="Rows and features, and the share of the more frequent class. The paper counts LIBSVM's training and "
        "test rows together, but of cod-rna those of the training file only. The two files of a7a together are the "
        "rows of a9a's training file. SUSY-30k is a sample of SUSY, for which it stands in below.",
        data=(*_samples("gisette", *_DATA, "SUSY", _SUSY),),
        quick_data=(*_samples("gisette", *_DATA, "SUSY", _SUSY),),
        takes_files=True,
        methods=(methods.MAJORITY,),
        parameters=_rbf,
        seeds=(0,),
        examine=sizes,
        answer=answers.ticks_below_the_majority,
        tables=(
            Table("Data set statistics", ("all_rows", "features", "accuracy"), {
                key: value for susy in ("SUSY", _SUSY) for key, value in published(
                    "diodm", "Table 1", {"": methods.MAJORITY.name}, {"skin-nonskin": "skin_nonskin", "SUSY": susy},
                    {"rows": ("all_rows", 1.0), "features": ("features", 1.0)}).items()
            }, rows="data"),
        ),
    ),
    _FIGURE_1,
    _FIGURE_1_A,
    _FIGURE_1_E,
    replace(
        _FIGURE_1,
        name="figure-2",
        title="Figure 2: accuracy and time, RBF kernel (30,000 rows stand in for SUSY)",
        about="Trees, stopped at each of their levels, beside machines without one. SVC is tuned as the ODM is.",
        methods=(*methods.TREES, methods.EXACT, methods.LANDMARK, methods.LIBSVM, methods.INTEL_SVC, methods.BOOSTING),
        parameters=_rbf,
        tables=_levels("Figure 2", methods.DIODM),
        figures=(_ON_THE_WAY,),
        answer=partial(answers.levels, figure="Figure 2", section="Section 4.3",
                       accuracy="data sets with the best accuracy", speed="data sets with the fastest training"),
    ),
    Part(
        name="figure-3",
        title="Figure 3: gradient methods (30,000 rows stand in for SUSY)",
        about=f"Linear machines without intercept after a third, two thirds and all of {methods.STAGES} stages of one "
        "pass over the rows each. The paper does not say how many stages it has.",
        data=(*_samples("gisette", *_DATA), *_samples("SUSY", rows=1_000_000), *_samples(_SUSY)),
        quick_data=_QUICK,
        takes_files=True,
        methods=(*methods.GRADIENT, methods.NEWTON),
        parameters=_linear,
        cases=_THIRDS,
        tables=(
            Table("Accuracy and time", ("accuracy", "seconds", "objective", "gap", "anchor_rows"),
                  _ticks("Figure 3", f"acc-DiODM, {_LAST}"), _TICKS),
        ),
        figures=(Figure("Test accuracy against training time", "seconds", "accuracy", joined=True),),
        answer=partial(answers.gradients, last=_LAST),
    ),
    Part(
        name="literal-or-mended",
        title="Algorithms 1 and 2 as printed, and mended",
        about="Algorithm 1 with an RBF kernel by coordinate descent, one variable at a time, with lambda = "
        f"{LITERAL_LAM:g}, and Algorithm 2, which is linear, without intercept. Objectives and gaps are those of the "
        "whole problem, whatever was solved. Kernel values are counted as if each step computed the row it reads.",
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
        about="As in Figure 1 (e). The paper's figure is its abstract's: nearly ten times for the ODM with a kernel.",
        parameters=_rbf,
        **_speed_ups("Speed-up of DiODM, RBF kernel", "Abstract", methods.TIMED_TREES),
    ),
)  # fmt: skip

EXPERIMENT = Experiment(
    name="diodm",
    title="Distributed Optimal margin Distribution Machines",
    about="Tables and figures of a paper, made again and beside its own.",
    source="DiODM: Distributed Optimal margin Distribution Machine",
    parts=_PARTS,
    libraries=(methods.INTEL,),
)
