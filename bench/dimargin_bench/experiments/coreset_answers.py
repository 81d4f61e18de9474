"""What the parts of the core-set experiment show, in sentences that are computed from their results."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dimargin_bench.experiments import coreset_methods as methods
from dimargin_bench.experiments.experiment_run import PartResults, Record
from dimargin_bench.experiments.result_tables import middle

_TARGET_LOSS = 0.01  # below the accuracy of the linear machine of all rows
_ALONE, _AGREED = "core-set, linear, one place", "core-set, linear, agreed"


def _of(found: PartResults, method: str, case: str = "", data: str = "") -> list[Record]:
    """Return the cells of a method with a result."""
    return [
        record for record in found.records
        if record.cell.method.name == method and case in ("", record.cell.case) and data in ("", record.cell.data)
        and not record.outcome.failed
    ]  # fmt: skip


def _ends(records: list[Record]) -> str:
    """Say after how many rounds all nodes agree, or in how many runs they do not."""
    n_apart = sum(record.outcome.metrics["core_sets"] > 1 for record in records)
    if n_apart:
        return f"In {n_apart} of {len(records)} runs the nodes still have DIFFERENT core-sets at the end."
    median = " (median of the seeds)" if len(records) > 1 else ""
    return f"All nodes have one core-set after {middle(records, 'rounds'):g} rounds{median}."


def whether_radii_rise(found: PartResults) -> str:
    """Say after how many rounds all nodes agree, how large their ball is, and whether any radius has ever fallen."""
    records = _of(found, methods.CONSENSUS.name)
    ratio = middle(records, "radius_ratio")
    if ratio is None:
        return ""
    falls = [np.diff(np.array(record.outcome.traces[methods.RADII]["lines"]), axis=1).min() for record in records]
    fell = (
        "No radius has ever fallen, as the paper says." if min(falls) >= 0 else "Radii have fallen, against Lemma IV.1."
    )
    return f"{_ends(records)} The largest radius at the end is {ratio:.4f} times that of the smallest ball. {fell}"


def where_centres_end(found: PartResults) -> str:
    """Say how far apart the norms of the centres are at first, and where they end."""
    records = _of(found, methods.CONSENSUS.name)
    if not records:
        return ""
    lines = np.array(records[0].outcome.traces[methods.NORMS]["lines"])
    first, last = lines[:, 0], lines[:, -1]
    end = f"{last.min():.4g}" if np.ptp(last) == 0 else f"{last.min():.4g} to {last.max():.4g}"
    start = f"{first.min():.4g} to {first.max():.4g} where each node has its own vector alone"
    return f"{_ends(records)} With the first seed the norms of the centres, {start}, end at {end}."


def whether_the_theorem_holds(found: PartResults) -> str:
    """Say for every case whether there is one core-set, and what holds of the two bounds."""
    said, inside = [], []
    for facts in found.data:
        for case, values in found.part.cases.items():
            records = _of(found, methods.CONSENSUS.name, case, facts.name)
            if not records:
                continue
            epsilon = values["epsilon"]
            reach, own = (max(record.outcome.metrics[name] for record in records)
                          for name in ("reach_ratio", "own_reach_ratio"))  # fmt: skip
            sets = max(record.outcome.metrics["core_sets"] for record in records)
            worst = f", in the worst of {len(records)} seeds," if len(records) > 1 else ""
            said.append(
                f"{facts.name}, {case}: {'one core-set at every node' if sets == 1 else f'{sets:g} core-sets'}; the "
                f"farthest vector is{worst} at {reach:.4f} of the smallest radius, {_against(reach, 1 + epsilon)} the "
                f"bound {1 + epsilon:g} of the theorem, and at {own:.4f} of r(C), {_against(own, 1 / (1 - epsilon))} "
                f"{1 / (1 - epsilon):.4g}."
            )
            inside.append(own <= (1 + epsilon) * (1 + 1e-9))
    if said:
        said.append("The routine does not ensure that all vectors are within r(C)(1 + epsilon), but in "
                    f"{sum(inside)} of these {len(inside)} cases they are.")  # fmt: skip
    return "\n".join(said)


def _against(value: float, bound: float) -> str:
    return "within" if value <= bound * (1 + 1e-9) else "ABOVE"


def what_losses_cost(found: PartResults) -> str:
    """Say how many rounds nodes take in both kinds of weather."""
    runs = {name: _of(found, name) for name in (methods.CONSENSUS.name, methods.LOSSY.name)}
    ends = ((name, _ends(records)) for name, records in runs.items() if records)
    return "\n".join(f"{name}: {end[0].lower()}{end[1:]}" for name, end in ends)


# ---- machines --------------------------------------------------------------------------------------------------------


class _Runs:
    """Medians of all methods on a data set that send messages."""

    def __init__(self, found: PartResults, data: str, n_rows: int) -> None:
        self.bytes: dict[str, float] = {}
        self.accuracy: dict[str, float] = {}
        self.share: dict[str, float] = {}  # of the rows that leave their site
        self.lines: dict[str, str] = {}
        for method in found.part.methods:
            records = _of(found, method.name, data=data)
            size, accuracy = middle(records, "bytes"), middle(records, "accuracy")
            if size is not None and accuracy is not None:
                self.bytes[method.name], self.accuracy[method.name] = size, accuracy
                self.share[method.name] = (middle(records, "rows_shared") or 0) / n_rows
                self.lines[method.name] = method.line or method.name

    def told(self, name: str) -> str:
        rows = f", {100 * self.share[name]:.0f}% of the rows shared" if self.share[name] else ""
        return f'"{name}" ({100 * self.accuracy[name]:.2f}% for {self.bytes[name] / 1e6:.3g} MB{rows})'

    def best(self, names: Iterable[str]) -> str | None:
        """Return the most accurate of some, of equally accurate ones that with the fewest bytes."""
        return max(names, key=lambda name: (self.accuracy[name], -self.bytes[name]), default=None)

    def cheapest(self, target: float) -> list[str]:
        """Return of every line the run with the fewest bytes that is as accurate as that, the cheapest first."""
        reached = [name for name, accuracy in self.accuracy.items() if accuracy >= target]
        by_size = sorted(reached, key=self.bytes.__getitem__)
        firsts = {self.lines[name]: name for name in reversed(by_size)}
        return [name for name in by_size if firsts[self.lines[name]] == name]


def what_bytes_buy(found: PartResults) -> str:
    """Say for each data set which method, whoever's, is best for equal bytes, and which needs the fewest bytes."""
    said = []
    for facts in found.data:
        runs, alone = _Runs(found, facts.name, facts.rows), middle(_of(found, _ALONE, data=facts.name), "accuracy")
        if _AGREED not in runs.bytes or alone is None:
            continue
        target, within = alone - _TARGET_LOSS, [name for name in runs.bytes if runs.bytes[name] <= runs.bytes[_AGREED]]
        cheap, best = runs.cheapest(target), runs.best(within)
        keeping = runs.best(name for name in within if not runs.share[name])
        missed = sorted(f'"{line}"' for line in set(runs.lines.values()) - {runs.lines[name] for name in cheap})
        others = f"; of those that share no rows it is {'none' if keeping is None else runs.told(keeping)}"
        said += [
            f"{facts.name}: for the bytes of {runs.told(_AGREED)} or fewer, the best is {runs.told(best or _AGREED)}"
            f"{', which shares no rows' if keeping == best else others}.",
            f"{facts.name}: within a point of the linear machine of all rows ({100 * alone:.2f}%), by bytes: "
            + (", ".join(map(runs.told, cheap)) or "none")
            + (f"; never {', '.join(missed)}." if missed else "."),
        ]
    return "\n".join(said)


def best_parameters(found: PartResults) -> str:
    """Say for each data set and method which point has the smallest objective, and whether it is the one in use."""
    said = []
    for facts in found.data:
        for line in dict.fromkeys(method.line for method in found.part.methods):
            names = [method.name for method in found.part.methods if method.line == line]
            values = {name: value for name in names
                      if (value := middle(_of(found, name, data=facts.name), "objective")) is not None}  # fmt: skip
            if not values:
                continue
            best = min(values, key=values.__getitem__)
            words = ", ".join(f"{key}={value:g}" for key, value in methods.tuned(facts.set_name, line).items())
            used = "in use" if best == f"{line}, {words}" else f"in use is {words}"
            said.append(f"{facts.name}: {best}, with {values[best]:.6g} ({used}).")
    return "\n".join(said)
