"""Steps of a level that all strategies with a tree share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dimargin.kernels.column_statistics import stacked
from dimargin.problems.objectives import Objectives
from dimargin.problems.solution import History
from dimargin.shards.partition import KernelClusters
from dimargin.shards.parts import Part
from dimargin.shards.shards import Shards
from dimargin.shards.tree import Level
from dimargin.solvers import Limits
from dimargin.solvers.loop import ASKED_TO_STOP, INTERRUPTED, Verdict
from dimargin.strategies.routing import Router
from dimargin.strategies.solves import Summary, machine_of, solve_parts
from dimargin.strategies.strategy import LevelModel, Outcome, Training, level_entry


def solve_level(
    training: Training, level: int, parts: Shards[Part], tol: float, mass: float | None = None
) -> Level[Summary]:
    """Solve the local problems of a level in parallel, each from its warm start to `tol`, and report it.

    Above level 0 they have no intercept, because the model of a level is put together of those of
    its parts: far from the support vectors of a part, its intercept alone would speak. The
    coefficients are then a start of level 0 that the solver first makes feasible.
    """
    alone, progress = parts.n_shards == 1, training.progress
    progress.level_begin(level, None if alone else parts.n_shards)
    limits = replace(training.limits, tol=tol)
    if alone:
        limits = replace(limits, stop_requested=progress.check)
    last = level == training.shape.stop_level
    own, done = level == 0, progress.task_end
    return solve_parts(training, parts, limits, level, mass=mass, intercept=own, done=done, machines=last)


def joined_starts(parts: Sequence[Part], rescale: bool) -> Part:
    """Join parts, with their coefficients times ``W_k / W_merged``, or unchanged, as the warm start."""
    mass = sum(part.problem.mass for part in parts)
    factors = [part.problem.mass / mass if rescale else 1.0 for part in parts]
    starts = [replace(part, dual=f * part.coefficients) for f, part in zip(factors, parts, strict=True)]
    return Part.joined(starts, mass).in_order()


def average(level: Level[Summary], total: float) -> Objectives:
    """Return the mean objectives of parts that each represent the whole, or the sums over its pieces.

    Either is the sum of the objectives weighted by mass. The gap is the worst local one.
    """
    share = np.array([part.mass / total for part in level.results])
    results = [part.result.objectives for part in level.results]
    return Objectives(
        primal=share @ np.array([r.primal for r in results]),
        dual=share @ np.array([r.dual for r in results]),
        relative_gap=np.max([r.relative_gap for r in results], axis=0),
        intercept=share @ np.array([r.intercept for r in results]),
        rounding=np.max([r.rounding for r in results], axis=0),
    )


def model(level: Level[Summary], total: float, rule: KernelClusters | None = None) -> LevelModel:
    """Return ``f = sum_k (W_k / W) f_k`` as one set of coefficients: a mean, or a sum if each part has mass W.

    Only the machine of the whole problem has an intercept; those of parts are zero.
    """
    found = [part.machine for part in level.results if part.machine is not None]
    if len(found) < len(level.results):
        found = level.parts.collect(machine_of, total)
    order = np.argsort(np.concatenate([machine.indices for machine in found]))
    router = None
    if rule is not None:
        clusters = np.repeat(np.arange(len(found)), [len(machine.indices) for machine in found])
        router = Router(rule, clusters[order])
    return LevelModel(
        np.concatenate([machine.indices for machine in found])[order],
        np.concatenate([machine.coefficients for machine in found], axis=1)[:, order],
        np.concatenate([machine.labels for machine in found], axis=1)[:, order],
        found[0].vectors if len(found) == 1 else stacked([machine.vectors for machine in found])[order],
        np.sum([machine.intercept for machine in found], axis=0),
        router,
    )


def history_entry(level: Level[Summary], total: float, seconds: float, evaluations: int) -> dict[str, Any]:
    """Return the entry of ``history_``; `evaluations` are those outside the solves (strata)."""
    results = [part.result for part in level.results]
    return level_entry(
        average(level, total),
        seconds,
        evaluations + sum(result.kernel_evaluations for result in results),
        level=level.level,
        partitions=len(results),
        scope="partitioned" if level.level else "global",
        passes=max(result.passes for result in results),
    )


def seconds_for(training: Training, n_vectors: float, n_values: float, history: History) -> float:
    """Return the seconds that `n_values` kernel values take, at the rate of the levels so far.

    `n_vectors` is the number of support vectors of the last level. At least their values with the
    rows of their parts count as computed, even if most were skipped as negligible: otherwise the
    rate could be a thousand times too slow.
    """
    if not history:
        return 0.0
    spent, seconds = (sum(entry[key] for entry in history) for key in ("kernel_evaluations", "seconds"))
    wanted = training.facts.n_rows * n_vectors / history[-1]["partitions"]
    return float(n_values * seconds / max(spent, wanted, 1))


def before_a_pass(training: Training, n_vectors: int, history: History) -> Limits:
    """Return the limits, minus the time to compute the margins of all rows from `n_vectors` support vectors."""
    needed = training.facts.n_rows * n_vectors
    return training.limits.earlier(seconds_for(training, n_vectors, needed, history))


def last_level(training: Training, level: Level[Summary], requested: bool) -> Verdict:
    """Return status and reason if this is the level `stop_level` or a stop was requested, else None."""
    results = [part.result for part in level.results]
    if level.level == training.shape.stop_level:
        worst = max(results, key=lambda result: result.objectives.worst_gap)
        return worst.status, worst.reason
    stopped = [(result.status, result.reason) for result in results if result.status == "stopped"]
    if stopped:
        return stopped[0]
    return ASKED_TO_STOP if requested else None


def out_of_time(training: Training, what: str, n_vectors: int, passes: float, history: History) -> Verdict:
    """Return status and reason if the passes that precede the next model outlast the deadline, else None.

    One pass computes the margins of all rows from `n_vectors` support vectors. A level of parts,
    where only kernels within parts are computed, takes a fraction of one.
    """
    needed = passes * training.facts.n_rows * n_vectors
    if training.limits.deadline is None or training.resumption.is_replaying():
        return None
    if training.limits.allow(seconds_for(training, n_vectors, needed, history)):
        return None
    return "max_time", f"the time limit allows {what}"


@dataclass(frozen=True)
class Step:
    """Solved level."""

    level: Level[Summary]
    found: Callable[[], LevelModel]  # Returns the model of the level.
    evaluations: int = 0  # Kernel values computed outside the solves.
    about: dict[str, Any] = field(default_factory=dict)  # Further values for the level's entry of ``history_``.


def follow(
    training: Training,
    solve_levels: Callable[[Training, History], Iterator[Step]],
    verdict: Callable[[Training, History, Step, bool], Verdict],
) -> Outcome:
    """Report every level as it is solved, and return the model and the certificate of the last one.

    Levels are solved lazily, and may read the history, to which their entries are appended. If an
    interrupt ends the iteration, the last solved level counts. `verdict`, given a step and whether
    a callback requested a stop after it, returns status and reason if the step is the last one,
    else None. A step of level 0 that is not the last one is not reported as the end of its level.
    """
    history: History = []
    total, clock, end = training.facts.total, time.perf_counter(), None
    for step in solve_levels(training, history):
        level, seconds = step.level, time.perf_counter() - clock
        history.append(history_entry(level, total, seconds, step.evaluations) | step.about)
        if level.level == 0:
            end = verdict(training, history, step, False)
        if level.level or end is not None:
            requested = training.progress.level_end(history[-1], step.found)
        if level.level:
            end = verdict(training, history, step, requested)
        if end is not None:
            break
        training.resumption.save(level.parts)
        clock = time.perf_counter()  # The time of callbacks is not counted.
    status, reason = end or INTERRUPTED
    return Outcome(
        model=step.found(),
        objectives=average(level, total),
        scope=history[-1]["scope"],
        status=status,
        reason=reason,
        passes=sum(entry["passes"] for entry in history),
        kernel_evaluations=sum(entry["kernel_evaluations"] for entry in history),
        history=history,
    )
