"""The core-set paper's experiment, its section V, and a core-set machine beside GADGET and rivals on the same sites.

The paper simulates 100 nodes with a point each in 50 dimensions on a random digraph, drawn again at
every step, with epsilon = 0.1, and draws the squared radius and the norm of the centre of every
node's ball against time. Its points are not said to be of any distribution: here they are standard
normal. It trains no machine; the comparison is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.pipeline import Pipeline

from dimargin_bench.experiments import coreset_methods as methods
from dimargin_bench.experiments.declarations import Experiment, Figure, Part, Sample, Table, Traces
from dimargin_bench.experiments.experiment_run import PartResults
from dimargin_bench.experiments.metrics import of_model
from dimargin_bench.experiments.result_tables import middle

_POINTS = (Sample("normal-100x50"),)
_C, _ALPHA, _GAMMA = 1.0, 1e-4, {"svmguide1": 8.0, "a9a": 0.05, "cod-rna": 8.0}
_ANY_GAMMA = 1.0  # of files of the user's
_LARGER_ALPHA = {"a9a": 1e-3}  # 123 features for few rows
_ROWS = 1500  # more of them are a core-set whose cube every site pays
_DATA = (Sample("svmguide1", _ROWS), Sample("a9a", _ROWS), Sample("cod-rna", _ROWS))


def _of_balls(data: str, method: str) -> Mapping[str, Any]:
    return {}


def _of_machines(data: str, method: str) -> Mapping[str, Any]:
    if not method.startswith("core-set"):
        own = {"gamma": _GAMMA.get(data, _ANY_GAMMA)} if method.startswith("kernel") else {}
        return {"alpha": _LARGER_ALPHA.get(data, _ALPHA), **own}
    return {"C": _C} | ({"gamma": _GAMMA.get(data, _ANY_GAMMA)} if "rbf" in method else {})


def _ball_metrics(ball: methods.Ball, _: Any) -> dict[str, float]:
    return ball.metrics_


def _machine_metrics(machine: Any, _: Any) -> dict[str, float]:
    """Return what a machine says of itself, also behind a transformer, and how many rows have left their site."""
    own = machine[-1] if isinstance(machine, Pipeline) else machine
    last = own.history_[-1]
    return of_model(own) | ({"rows_shared": last.get("rows_shared", 0)} if "messages" in last else {})


def _whether_they_agree(found: PartResults) -> str:
    """Say after how many steps all nodes have one ball, and how large it is."""
    said = []
    for method in methods.AGREEING:
        own = [record for record in found.records if record.cell.method.name == method.name]
        rounds, ratio = middle(own, "rounds"), middle(own, "reach_ratio")
        if rounds is not None and ratio is not None:
            said.append(
                f"{method.name}: {rounds:g} steps, and no point is beyond {ratio:.3f} times the smallest radius"
            )
    return f"Until all nodes have the same core-set (median). {'; '.join(said)}." if said else ""


def _what_bytes_buy(found: PartResults) -> str:
    """Say, for each data set, what core-set machines and GADGET reach, and at what price in bytes and rows."""
    said = []
    for facts in found.data:
        texts = []
        for name in (
            "core-set, linear, agreed",
            "core-set, rbf, agreed",
            methods.GADGET[-1].name,
            methods.KERNEL_GADGET[-1].name,
        ):
            own = [one for one in found.records if (one.cell.data, one.cell.method.name) == (facts.name, name)]
            accuracy, size, rows = (middle(own, metric) for metric in ("accuracy", "bytes", "rows_shared"))
            if accuracy is not None and size is not None:
                shared = f", {100 * (rows or 0) / facts.rows:.0f}% of the rows shared"
                texts.append(f"{name} {100 * accuracy:.2f}% for {size / 1e6:.3g} MB{shared}")
        if texts:
            said.append(f"{facts.name}: {'; '.join(texts)}.")
    return "\n".join(said)


EXPERIMENT = Experiment(
    name="coreset",
    title="The core-set paper's experiment",
    about="Section V of the paper as it is printed, and a core-set machine of sites beside GADGET.",
    source="Notarstefano: A core-set approach for distributed quadratic programming in big-data classification",
    quick_rows=300,
    libraries=("networkx", "msgspec"),
    parts=(
        Part(
            name="section-5",
            title="Figures 1 and 2: the ball at every node",
            about=(
                "100 nodes with a point each, standard normal, in 50 dimensions; in every step a random digraph, in "
                "which an edge has the probability 0.01; epsilon = 0.1, so that core-sets have 10 points. The accuracy "
                "is the share of the points within 1.1 times the smallest radius; points are not scaled."
            ),
            data=_POINTS,
            quick_data=_POINTS,
            methods=(methods.SMALLEST, *methods.AGREEING),
            parameters=_of_balls,
            examine=_ball_metrics,
            tables=(
                Table("Balls and what they cost",
                      ("accuracy", "squared_radius", "radius_ratio", "reach_ratio", "rounds", "core_sets", "messages",
                       "bytes", "rows_shared", "support_vectors", "seconds")),
            ),
            figures=(
                Traces("Figure 1: squared radius of the ball at every node", methods.RADII, "step", "squared radius",
                       "smallest ball around all points", "The first seed; radii never fall."),
                Traces("Figure 2: norm of the centre at every node", methods.NORMS, "step", "norm of the centre",
                       "of the last core-set", "The first seed."),
            ),
            answer=_whether_they_agree,
        ),
        Part(
            name="beside-gossip",
            title="A core-set machine beside GADGET and its rivals",
            about=(
                "Ten sites on a ring, each with rows of hardly more than one class. Core-set machines minimise the "
                "squared hinge with C = 1, GADGET the mean hinge with alpha = 0.0001 (0.001 for a9a): gaps are of "
                "their own problems. Rows that core-set consensus shares leave their site as they are; GADGET sends "
                "weights only."
            ),
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
            answer=_what_bytes_buy,
        ),
    ),
)  # fmt: skip
