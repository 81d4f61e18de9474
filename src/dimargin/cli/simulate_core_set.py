"""``dimargin simulate coreset``: nodes that agree on the few points that determine a ball."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.filesize import decimal

from dimargin.cli.flags import usage_checked
from dimargin.cli.network_conditions import conditions_of, say_what_did_not_happen
from dimargin.cli.shared import JsonOption, Output, QuietOption, check_plot, draw, leave_interrupted, plot_option
from dimargin.cli.terminal import FitDisplay
from dimargin.display import CoreSetConsensusDisplay
from dimargin.estimators import minimum_enclosing_ball
from dimargin.estimators.input_checks import check_number
from dimargin.estimators.sites import PACKAGES
from dimargin.gossip.simulation.conditions import Conditions
from dimargin.system.extras import require

# On a changing network, nodes stop after this many rounds without news: at the paper's density,
# hardly any news takes longer.
_QUIET_ROUNDS = 15
_network = partial(typer.Option, rich_help_panel="Network")


class _Display(FitDisplay):
    """Display of the rounds and the number of different core-sets."""

    def check(self, entry: dict[str, Any]) -> bool:
        """Move the bar to the round."""
        state = f"{entry['core_sets']} different core-sets"
        self._progress.update(self._task, description=f"round {entry['round']}", state=state)
        return False


def simulate_core_set(
    nodes: Annotated[int, typer.Option(help="Number of nodes; each holds the same number of points.")] = 100,
    points: Annotated[int, typer.Option(help="Number of points of each node, which are standard normal.")] = 1,
    dimension: Annotated[int, typer.Option(help="Dimension of the points.")] = 50,
    epsilon: Annotated[
        float, typer.Option(help="All points lie within 1 + EPSILON times the radius; 0 is the exact ball.")
    ] = 0.1,
    topology: Annotated[
        str, _network(help="'changing', or a topology of `simulate gossip`: ring, torus, ...")
    ] = "changing",
    edge_probability: Annotated[
        float, _network(help="Probability of every directed edge in every round of a changing network.")
    ] = 0.01,
    max_iter: Annotated[int, typer.Option(help="Maximum number of rounds.")] = 500,
    quiet_rounds: Annotated[
        int | None,
        typer.Option(
            help="Rounds without news until a node stops.", show_default=f"2 diameter + 1, or {_QUIET_ROUNDS}"
        ),
    ] = None,
    random_state: Annotated[int, typer.Option(help="Seed of points, network and faults.")] = 0,
    plot: Annotated[Path | None, plot_option("Plot radii and core-sets against rounds")] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    **weather: Any,
) -> None:
    """Simulate nodes that agree on a core-set of all points by the core-set paper's consensus.

    The core-set determines the smallest ball around the points. The defaults are those of the
    simulation in the paper's section V: 100 nodes with one point each, in 50 dimensions, on a
    random directed graph that is drawn again in every round, and epsilon = 0.1.

    Example: dimargin simulate coreset --loss 0.3 --plot consensus.png
    """
    out = Output(as_json, quiet)
    require("dimargin simulate coreset", *PACKAGES)
    with usage_checked():
        check_plot(plot)
        check_number("nodes", nodes, 1, low_included=True, whole=True)
        check_number("max_iter", max_iter, 1, low_included=True, whole=True)
        conditions = conditions_of(nodes, max_iter, random_state, **weather)
        run = _run(
            nodes, points, dimension, epsilon, topology, edge_probability, quiet_rounds, random_state, conditions
        )
    display = _Display(out.errors, 1.0, out.quiet)
    with display.running():
        agreed = run.run(max_iter, None, display.interrupted, display.check)
    best = minimum_enclosing_ball(run.X, 0).radius
    last, found = agreed.history[-1], agreed.best
    facts: dict[str, Any] = {
        "nodes": nodes, "points": len(run.X), "dimension": dimension, "epsilon": epsilon, "status": agreed.status,
        "agreed_after_rounds": agreed.agreed_after, "rounds": last["round"], "different_core_sets": last["core_sets"],
        "core_set": len(found.points.names), "radius": math.sqrt(max(found.value, 0.0)),
        "radius_of_smallest_ball": best, "radius_ratio": _ratio(math.sqrt(max(found.value, 0.0)), best),
        "farthest_point_ratio": _ratio(last["farthest"], best), "points_shared": agreed.rows_shared,
        "messages": last["messages"], "bytes": last["bytes"], "seconds": last["seconds"],
    }  # fmt: skip
    out.result(facts if as_json else facts | {"bytes": f"{last['bytes']} ({decimal(last['bytes'])})"})
    display_of = CoreSetConsensusDisplay.from_history
    draw(lambda: display_of(agreed.history, best=best, epsilon=epsilon), plot, out, "radii and core-sets are")
    say_what_did_not_happen(out, conditions, last["round"])
    if display.interrupted.is_set():
        leave_interrupted(out, "these are the results so far")


def _ratio(value: float, best: float) -> float:
    return value / best if best > 0 else 1.0


def _run(
    nodes: int, points: int, dimension: int, epsilon: float, topology: str, p: float, quiet_rounds: int | None,
    random_state: int, conditions: Conditions,
) -> Any:  # fmt: skip
    """Make the run for the values of the flags; raises ValueError for one out of range."""
    from dimargin.gossip.programs.core_set_settings import CoreSetSettings
    from dimargin.gossip.simulation.core_set_run import CoreSetRun
    from dimargin.gossip.simulation.observed_run import connected_graph
    from dimargin.gossip.simulation.observed_run import quiet_rounds as rounds_until_quiet
    from dimargin.gossip.topology import changing_digraphs

    for name, value in (("points", points), ("dimension", dimension), ("quiet_rounds", quiet_rounds or 1)):
        check_number(name, value, 1, low_included=True, whole=True)
    check_number("epsilon", epsilon, 0, 1, low_included=True, high_included=True)
    check_number("edge_probability", p, 0, 1, high_included=True)
    graph: Any = changing_digraphs(nodes, p, random_state)
    patience = _QUIET_ROUNDS
    if topology != "changing":
        graph = connected_graph(topology, nodes, random_state)
        patience = rounds_until_quiet(graph)
    size = math.ceil(1 / epsilon) if epsilon > 0 else None
    settings = CoreSetSettings(epsilon=epsilon, size=size, quiet_rounds=quiet_rounds or patience)
    X = np.random.default_rng(random_state).normal(size=(nodes * points, dimension))
    site = np.repeat(np.arange(nodes), points)
    return CoreSetRun(X, np.ones(len(X)), site, nodes, settings, graph, conditions, random_state)
