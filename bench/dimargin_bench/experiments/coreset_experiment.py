"""The core-set paper's experiment, its section V, and a core-set machine beside GADGET and rivals on the same sites.

The paper simulates 100 nodes in 50 dimensions on a random digraph, drawn again in every round, with
epsilon = 0.1, and draws the squared radius and the norm of the centre of every node's ball against
time. It does not say how many vectors a node has, nor their distribution: here each has one, and
they are standard normal. It trains no machine; the comparison is ours.
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

_POINTS_OF_A_NODE = {"normal-2500x50": 25}  # Each of 100 nodes has 25 points; of other sets it has one.
_POINTS = (Sample("normal-100x50"),)
_SEVERAL = (*_POINTS, Sample("normal-2500x50", 2500))
_EPSILONS = {f"epsilon = {epsilon:g}": {"epsilon": epsilon} for epsilon in (0.2, 0.1, 0.05)}
_ALPHA, _GAMMA = 1e-4, {"svmguide1": 8.0, "a9a": 0.05, "cod-rna": 8.0}
_ANY_GAMMA = 1.0  # of files of the user's
_LARGER_ALPHA = {"a9a": 1e-3}  # 123 features for few rows
_ROWS = 1500  # The time of a site grows with the cube of its core-set.
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
    own = {"gamma": _GAMMA.get(data, _ANY_GAMMA)} if "rbf" in method or method.startswith("kernel") else {}
    if method.startswith("core-set"):
        return own
    return {**_of_gossip(data), **own, **methods.tuned(data, method.split(",")[0])}


def _weight_of_a_row(data: str, method: str, n_rows: int) -> Mapping[str, Any]:
    """Give core-set machines the C that `alpha` is for the others, which divide by the number of rows."""
    return {"C": 1 / (_LARGER_ALPHA.get(data, _ALPHA) * n_rows)} if method.startswith("core-set") else {}


def _ball_metrics(ball: methods.Ball, _: Any) -> dict[str, float]:
    return ball.metrics_


def _machine_metrics(machine: Any, _: Any) -> dict[str, float]:
    """Return what a machine says of itself, also behind a transformer, and how many rows have left their site."""
    own = machine[-1] if isinstance(machine, Pipeline) else machine
    last = own.history_[-1]
    return of_model(own) | ({"rows_shared": last.get("rows_shared", 0)} if "messages" in last else {})


_SECTION_5 = (
    "100 nodes in 50 dimensions, with epsilon = 0.1, so that core-sets have 10 vectors. In every round a random "
    "digraph is drawn, in which each of the 9,900 directed edges has the probability 0.01: this is our reading of the "
    "paper's directed Erdos-Renyi graph with parameter 0.01. Section V does not say how many vectors a node has, nor "
    "from where they are: here each node has one, and all are standard normal, drawn again for each seed. A quick run "
    "has the first seed alone, but all vectors."
)
_ALGORITHM = (
    "The nodes run Algorithm 1 as the paper prints it. Where several vectors may go without changing the ball, the "
    "first goes; a squared radius counts as larger if it is so by more than 1e-10 of itself. Of core-sets whose radii "
    "are equal to twelve digits the names of their vectors decide, where the paper proposes an order of the vectors "
    "themselves; and vectors are not sent to a neighbour that is known to have them."
)
_COUNTED = (
    "Rounds, messages and sent bytes are counted until all nodes have one core-set. Seconds are those of the whole "
    "simulation: the paper has no rule by which nodes stop, and here a node does after more than "
    f"{methods.QUIET} rounds in which it has known of no change"
)
_LINES = "The picture has a line for every node."
_CAPTION = "The first seed. Our copy of the paper lacks its pictures."


def _of_section_5(name: str, title: str, about: str, figure: Traces, metrics: tuple[str, ...], answer: Any) -> Part:
    return Part(
        name=name,
        title=title,
        about=f"{_SECTION_5} {_ALGORITHM} {about}",
        data=_POINTS,
        quick_data=_POINTS,
        methods=(methods.SMALLEST, methods.CONSENSUS),
        parameters=_of_balls,
        examine=_ball_metrics,
        tables=(Table(_BALL, (*metrics, *_COSTS), note=f"{_COUNTED}."),),
        figures=(figure,),
        answer=answer,
    )


_PARTS = (
    _of_section_5(
        "figure-1", "Figure 1: squared radius of the core-set of every node", _LINES,
        Traces("Figure 1: time evolution of the squared radius", methods.RADII, "round", "squared radius",
               "smallest ball around all vectors", _CAPTION),
        ("squared_radius", "radius_ratio"), whether_radii_rise,
    ),
    _of_section_5(
        "figure-2", "Figure 2: norm of the centre of the core-set of every node", _LINES,
        Traces("Figure 2: time evolution of the norm of the centre", methods.NORMS, "round", "norm of the centre",
               "of the last core-set", _CAPTION),
        ("centre_norm",), where_centres_end,
    ),
    Part(
        name="theorem-4-5",
        title="Theorem IV.5 and Remarks IV.2 and IV.6: what nodes agree on",
        about="The theorem promises that all nodes end with one core-set, and that no vector is farther from its "
        "centre than 1 + epsilon times the smallest radius. By Remark IV.2 nodes may have more vectors than a "
        "core-set: here also 25 each, of which the routine chooses the first core-set, where the paper takes a random "
        "one. Remark IV.6 has a test that needs no smallest radius, of which the paper says that it will be used in "
        "the simulations; its Section V shows nothing of it. The test is printed with r(C)(1 - epsilon), which is less "
        "than r(C): we read r(C)/(1 - epsilon). A quick run has the first seed alone, but all vectors.",
        data=_SEVERAL,
        quick_data=_SEVERAL,
        methods=(methods.CONSENSUS,),
        parameters=_of_balls,
        cases=_EPSILONS,
        examine=_ball_metrics,
        tables=(
            Table(_BALL, ("core_sets", "reach_ratio", "radius_ratio", "support_vectors", *_COSTS), note=f"{_COUNTED}. "
                  "Support vectors are those of a core-set that have a weight."),
        ),
        answer=whether_the_theorem_holds,
    ),
    Part(
        name="bad-weather",
        title="Nodes out of step, and lost messages",
        about="The simulation of Figures 1 and 2, and the same in bad weather: 30% of the messages are lost, 20% of "
        "the others arrive twice, and each takes between nothing and a second; a node computes every 1 to 1.5 seconds. "
        "The digraph changes every second, and a round of the table is one digraph: nodes in step compute once in "
        "each.",
        data=_POINTS,
        quick_data=_POINTS,
        methods=(methods.CONSENSUS, methods.LOSSY),
        parameters=_of_balls,
        examine=_ball_metrics,
        tables=(
            Table(_BALL, ("core_sets", "reach_ratio", "radius_ratio", *_COSTS),
                  note=f"{_COUNTED}, or {methods.MORE_QUIET} in bad weather, "
                  "counted in its own rounds of 1 to 1.5 seconds."),
        ),
        answer=what_losses_cost,
    ),
    Part(
        name="beside-gossip",
        title="A core-set machine beside GADGET and its rivals",
        about="This comparison is ours: the paper trains no machine. Ten sites on a ring have rows of hardly more than "
        "one class each. Core-set machines minimise |w|^2/2 plus C/2 times the sum of the squared hinges (the paper's "
        "problem (6) with a margin of one), the others alpha/2 |w|^2 plus the mean hinge. The latter equals alpha "
        "times (|w|^2/2 + C times the sum of the hinges), with C = 1 / (alpha n) for n training rows, which is the C "
        "of core-set machines, too; alpha is 0.0001 (0.001 for a9a). All machines have an intercept, as a part of w. "
        "GADGET has tracked gradients, dimargin's default, and is not the GADGET that its paper prints; its steps "
        "follow from the curvature. The penalty of ADMM and the steps of CHOCO-SGD are those of a full run's part "
        "\"tuning\" with the smallest objective after 300 rounds on the 1,500 rows of the first seed, also where other "
        "rows are in use; for files of yours nothing is tuned. Gossip of support vectors has nothing to tune. Rows "
        "that it or core-set consensus shares leave their site as they are; ADMM and CHOCO-SGD send coefficients, "
        "GADGET also sums over rows, but none of them sends a row.",
        data=_DATA,
        quick_data=(Sample("svmguide1", 300),),
        takes_files=True,
        methods=(*methods.CORE_SETS, *methods.GADGET, *methods.RIVALS, *methods.KERNEL_GADGET),
        parameters=_of_machines,
        of_rows=_weight_of_a_row,
        examine=_machine_metrics,
        tables=(
            Table("Accuracy and cost", ("accuracy", "objective", "gap", "bytes", "messages", "rows_shared",
                                        "support_vectors", "seconds"), note=
                  "The accuracy of core-set machines that end after some rounds is that of the model of the site "
                  "whose core-set has the largest dual objective. That of GADGET and its rivals is of the mean of all "
                  "sites' models, which no site has before they agree. Objectives and gaps are those of each "
                  "machine's own problem. Bytes and messages of \"agreed\" include the rounds until all sites know "
                  "that nothing changes."),
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
        about="Every point that was tried, after 300 rounds, on the rows of the first seed of \"beside-gossip\", whose "
        "parameters are those with the smallest objective here, for all numbers of rounds.",
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
    about="Section V of the paper, its theorem, and a comparison of gossip with core-set machines on which sites "
    "agree.",
    source="Notarstefano: A core-set approach for distributed quadratic programming in big-data classification",
    parts=_PARTS,
    quick_rows=300,
    libraries=("networkx", "msgspec"),
)
