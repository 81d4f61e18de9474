"""Parallel solves of local problems: the plan, the task that solves a part, and its summary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dimargin.problems.dual import DualProblem
from dimargin.problems.solution import Solution, SolveResult
from dimargin.shards.parts import Part, first_of_groups
from dimargin.shards.shards import Shards
from dimargin.shards.tree import Level
from dimargin.solvers import DualSolver, ExactSolver, Limits, solve
from dimargin.solvers.loop import Solver
from dimargin.strategies.strategy import LevelModel, Training
from dimargin.system.arrays import Floats, Indices

SolverWrapper = Callable[[DualSolver[Any]], Solver[DualProblem, Any, Solution]]
"""Function that returns a solver which uses the exact solver."""


@dataclass(frozen=True)
class Plan:
    """Settings that are sent to the tasks that solve parts."""

    limits: Limits
    random_state: int
    index: tuple[int, ...]  # Position in the computation; seeds solvers together with a part's first index.
    cache: int  # Bytes of a task for cached kernel rows.
    gram: int  # Bytes of a task for a factored kernel matrix, for any number of threads.
    n_threads: int  # Number of threads of a task.
    mass: float | None = None  # Weight that every part represents in its loss; None for the part's own.
    intercept: bool = True  # Whether parts have an intercept, if their machine has one.
    wrap_solver: SolverWrapper | None = None
    exact: type[DualSolver[Any]] = ExactSolver

    @classmethod
    def of(
        cls,
        training: Training,
        parts: Shards[Any],
        limits: Limits,
        *index: int,
        mass: float | None = None,
        intercept: bool = True,
        wrap_solver: SolverWrapper | None = None,
    ) -> Plan:
        """Return the plan for some parts, which share the threads and the cache of a machine."""
        cache, gram = training.cache // parts.n_together, training.cache // parts.n_shards
        seed, n_threads, exact = training.random_state, parts.n_threads, training.solver
        return cls(limits, seed, index, cache, gram, n_threads, mass, intercept, wrap_solver, exact)

    def solver(self, *number: int) -> DualSolver[Any]:
        """Return the exact solver, seeded for a position in the computation."""
        seed = np.random.SeedSequence([self.random_state, *self.index, *number]).generate_state(1)[0]
        return self.exact(self.cache, int(seed), self.gram)


@dataclass(frozen=True)
class Solved:
    """A part with the coefficients of its solution."""

    part: Part
    solution: Solution

    @classmethod
    def of(cls, part: Part, solution: Solution) -> Solved:
        """Return the part with the coefficients of the solution."""
        return cls(replace(part, dual=solution.dual), solution)

    @property
    def dual(self) -> Floats:
        """Coefficients of the solution."""
        return self.solution.dual


@dataclass(frozen=True)
class Summary:
    """Summary of a solved part for the caller.

    Only the machine grows with the rows. It is included if the caller always needs the model of the
    level, which saves a job.
    """

    first_index: int
    mass: float  # Weight of the rows that the part represents.
    weight: float  # Weight of its own rows.
    n_support: int  # Number of rows with a nonzero coefficient.
    result: SolveResult
    machine: LevelModel | None = None


def solve_parts(
    training: Training,
    parts: Shards[Part],
    limits: Limits,
    *index: int,
    mass: float | None = None,
    intercept: bool = True,
    done: Callable[[int], None] | None = None,
    wrap_solver: SolverWrapper | None = None,
    machines: bool = False,
) -> Level[Summary]:
    """Solve local problems in parallel within `limits`; `index`, which begins with the level, seeds the solvers.

    The summaries have the machines of the parts if `machines` is true.
    """
    plan = Plan.of(training, parts, limits, *index, mass=mass, intercept=intercept, wrap_solver=wrap_solver)
    solved = parts.map(solve_part, plan, done)
    return Level(index[0], solved.collect(summarise, training.facts.total if machines else None), solved)


def solve_part(part: Part, plan: Plan) -> Solved:
    """Task that solves a part, starting from its coefficients."""
    problem, exact = part.with_threads(plan.n_threads).problem, plan.solver(part.first_index)
    if plan.mass is not None:
        problem = replace(problem, mass=plan.mass)
    if not plan.intercept:
        problem = replace(problem, intercept=False)
    solver = exact if plan.wrap_solver is None else plan.wrap_solver(exact)
    return Solved.of(part, solve(problem, solver, part.dual, plan.limits))


def summarise(solved: Solved, total: float | None) -> Summary:
    """Task that returns the summary of a solved part, with its machine if the mass of all rows is given."""
    part, solution = solved.part, solved.solution
    return Summary(
        part.first_index,
        part.problem.mass,
        float(part.problem.weights.sum()),
        len(part.support),
        solution.bare(),
        None if total is None else machine_of(solved, total),
    )


def machine_of(solved: Solved, total: float) -> LevelModel:
    """Task that returns a part's share of the model of its level, given the mass of all rows."""
    part, solution = solved.part, solved.solution
    return LevelModel.of(part, part.problem.mass / total * solution.dual, solution.objectives.intercept)


def part_of(solved: Solved, _: None) -> Part:
    """Task that returns the part, with the coefficients of its solution."""
    return solved.part


def support_of(solved: Solved, _: None) -> Part:
    """Task that returns the support vectors of a part, as a piece of the whole problem."""
    part = solved.part
    return part.take(part.support, part.problem.total)


def first_support(level: Level[Summary], wanted: int, n_rows: int) -> Part | None:
    """Return the first support vectors of a level in the order of their keys, or None without any."""
    n_support = sum(part.n_support for part in level.results)
    if not n_support:
        return None
    (sample,) = first_of_groups(level.parts, _support_group, [wanted], [n_support], n_rows)
    return sample


def _support_group(solved: Solved) -> tuple[Part, Indices]:
    return solved.part, np.where(solved.dual.any(axis=0), 0, -1)
