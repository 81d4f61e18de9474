"""The core-set paper's experiment, its section V, and a core-set machine beside GADGET and rivals on the same sites.

The paper simulates 100 nodes with a vector each in 50 dimensions on a random digraph, drawn again
at every step, with epsilon = 0.1, and draws the squared radius and the norm of the centre of every
node's ball against time. Its vectors are not said to be of any distribution: here they are standard
normal. It trains no machine; the comparison is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.pipeline import Pipeline

from dimargin_bench.experiments import coreset_methods as methods
from dimargin_bench.experiments.coreset_answers import (
    best_parameters,
    what_bytes_buy,
    what_losses_cost,
    where_centres_end,
    whether_radii_rise,
    whether_the_theorem_holds,
)
from dimargin_bench.experiments.declarations import Experiment, Figure, Part, Sample, Table, Traces
from dimargin_bench.experiments.metrics import of_model

_POINTS_OF_A_NODE = {"normal-2000x50": 20}  # Each of 100 nodes has 20 points; of other sets it has one.
_POINTS = (Sample("normal-100x50"),)
_SEVERAL = (*_POINTS, Sample("normal-2000x50", 2000))
_EPSILONS = {f"epsilon = {epsilon:g}": {"epsilon": epsilon} for epsilon in (0.2, 0.1, 0.05)}
_ALPHA, _GAMMA = 1e-4, {"svmguide1": 8.0, "a9a": 0.05, "cod-rna": 8.0}
_ANY_GAMMA = 1.0  # of files of the user's
_LARGER_ALPHA = {"a9a": 1e-3}  # 123 features for few rows
_ROWS = 1500  # more of them are a core-set whose cube every site pays
_DATA = (Sample("svmguide1", _ROWS), Sample("a9a", _ROWS), Sample("cod-rna", _ROWS))
_BALL = "Balls and what they cost"
_COSTS = ("rounds", "messages", "bytes", "rows_shared", "seconds")


def _of_balls(data: str, method: str) -> Mapping[str, Any]:
    """Deal all points to 100 nodes."""
    return {} if method == methods.SMALLEST.name else {"n_points": _POINTS_OF_A_NODE.get(data, 1)}


def _of_gossip(data: str) -> Mapping[str, Any]:
    return {"alpha": _LARGER_ALPHA.get(data, _ALPHA)}


def _of_grid(data: str, method: str) -> Mapping[str, Any]:
    return _of_gossip(data)


def _of_machines(data: str, method: str) -> Mapping[str, Any]:
    if not method.startswith("core-set"):
        own = {"gamma": _GAMMA.get(data, _ANY_GAMMA)} if method.startswith("kernel") else {}
        return {**_of_gossip(data), **own, **methods.tuned(data, method.split(",")[0])}
    C = 1 / (_LARGER_ALPHA.get(data, _ALPHA) * _ROWS)
    return {"C": C} | ({"gamma": _GAMMA.get(data, _ANY_GAMMA)} if "rbf" in method else {})


def _ball_metrics(ball: methods.Ball, _: Any) -> dict[str, float]:
    return ball.metrics_


def _machine_metrics(machine: Any, _: Any) -> dict[str, float]:
    """Return what a machine says of itself, also behind a transformer, and how many rows have left their site."""
    own = machine[-1] if isinstance(machine, Pipeline) else machine
    last = own.history_[-1]
    return of_model(own) | ({"rows_shared": last.get("rows_shared", 0)} if "messages" in last else {})


_SECTION_5 = (
    "100 nodes with a vector each, in 50 dimensions; in every step a random digraph, in which an edge has the "
    "probability 0.01; epsilon = 0.1, so that core-sets have 10 vectors. The paper does not say from where its "
    "vectors are: here they are standard normal, others for each seed."
)


def _of_section_5(name: str, title: str, about: str, figure: Traces, metrics: tuple[str, ...], answer: Any) -> Part:
    return Part(
        name=name,
        title=title,
        about=f"{_SECTION_5} {about}",
        data=_POINTS,
        quick_data=_POINTS,
        methods=(methods.SMALLEST, methods.CONSENSUS),
        parameters=_of_balls,
        examine=_ball_metrics,
        tables=(Table(_BALL, (*metrics, *_COSTS)),),
        figures=(figure,),
        answer=answer,
    )


_PARTS = (
    _of_section_5(
        "figure-1", "Figure 1: squared radius of the core-set of every node", "A line for every node.",
        Traces("Figure 1: time evolution of the squared radius", methods.RADII, "step", "squared radius",
               "smallest ball around all vectors", "The first seed. The paper draws its figure without numbers."),
        ("squared_radius", "radius_ratio"), whether_radii_rise,
    ),
    _of_section_5(
        "figure-2", "Figure 2: norm of the centre of the core-set of every node", "A line for every node.",
        Traces("Figure 2: time evolution of the norm of the centre", methods.NORMS, "step", "norm of the centre",
               "of the last core-set", "The first seed. The paper draws its figure without numbers."),
        ("centre_norm",), where_centres_end,
    ),
    Part(
        name="theorem-4-5",
        title="Theorem IV.5 and Remarks IV.2 and IV.6: what nodes agree on",
        about="The theorem promises that all nodes end with one core-set, and that no vector is farther from its "
        "centre than 1 + epsilon times the smallest radius. By Remark IV.2 nodes may have several vectors: 20 each, "
        "more than a core-set's. Remark IV.6 prints a test that needs no smallest radius, with r(C)(1 - epsilon), "
        "which is less than r(C): we read r(C)/(1 - epsilon).",
        data=_SEVERAL,
        quick_data=_SEVERAL,
        methods=(methods.CONSENSUS,),
        parameters=_of_balls,
        cases=_EPSILONS,
        examine=_ball_metrics,
        tables=(Table(_BALL, ("core_sets", "reach_ratio", "radius_ratio", "support_vectors", *_COSTS)),),
        answer=whether_the_theorem_holds,
    ),
    Part(
        name="bad-weather",
        title="Nodes out of step, and lost messages",
        about=f"{_SECTION_5} Here 30% of the messages are lost, 20% arrive twice, and all up to a round late.",
        data=_POINTS,
        quick_data=_POINTS,
        methods=(methods.CONSENSUS, methods.LOSSY),
        parameters=_of_balls,
        examine=_ball_metrics,
        tables=(Table(_BALL, ("core_sets", "reach_ratio", "radius_ratio", *_COSTS)),),
        answer=what_losses_cost,
    ),
    Part(
        name="beside-gossip",
        title="A core-set machine beside GADGET and its rivals",
        about="Ten sites on a ring, each with rows of hardly more than one class. Core-set machines minimise the "
        "squared hinge, the others the hinge, a row with the same weight C = 1 / (alpha n) beside half the squared "
        "weights, for n = 1500 and alpha = 0.0001 (0.001 for a9a): gaps are of their own problems. All have an "
        "intercept. The penalty of ADMM and the steps of CHOCO-SGD are the best for this "
        "deal of the rows, of the points of the part \"tuning\"; GADGET, whose steps follow from the curvature, and "
        "gossip of support vectors have nothing to tune. Rows that core-set consensus and gossip of support vectors "
        "share leave their site as they are; the others send weights only.",
        data=_DATA,
        quick_data=(Sample("svmguide1", 300),),
        takes_files=True,
        methods=(*methods.CORE_SETS, *methods.GADGET, *methods.RIVALS, *methods.KERNEL_GADGET),
        parameters=_of_machines,
        examine=_machine_metrics,
        tables=(
            Table("Accuracy and cost", ("accuracy", "objective", "gap", "bytes", "messages", "rows_shared",
                                        "support_vectors", "seconds")),
        ),
        figures=(
            Figure("Accuracy against bytes", "bytes", "accuracy", joined=True,
                   note="Lines join runs of more and more rounds."),
            Figure("Gap against bytes", "bytes", "gap", joined=True,
                   note="Of each machine's own problem, over all rows."),
        ),
        answer=what_bytes_buy,
    ),
    Part(
        name="tuning",
        title="The grids of ADMM's penalty and CHOCO-SGD's steps",
        about="Every point that was tried, after 300 rounds, on the rows and the deal of \"beside-gossip\", whose "
        "parameters are those with the smallest objective here, with which they also take more or fewer rounds.",
        data=_DATA,
        methods=methods.GRID,
        parameters=_of_grid,
        seeds=(0,),
        examine=_machine_metrics,
        tables=(Table("Points of the grids", ("objective", "gap", "accuracy", "bytes", "seconds")),),
        answer=best_parameters,
    ),
)  # fmt: skip

EXPERIMENT = Experiment(
    name="coreset",
    title="The core-set paper's experiment",
    about="Section V of the paper as it is printed, its theorem, and a core-set machine of sites beside gossip.",
    source="Notarstefano: A core-set approach for distributed quadratic programming in big-data classification",
    parts=_PARTS,
    quick_rows=300,
    libraries=("networkx", "msgspec"),
)
