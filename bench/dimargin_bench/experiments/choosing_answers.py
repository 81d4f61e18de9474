"""Sentences that say what the results of the experiment "choosing" show."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from dimargin.display.report.words import number
from dimargin_bench.experiments.experiment_run import PartResults, Record
from dimargin_bench.experiments.metrics import METRICS
from dimargin_bench.experiments.result_tables import middle

AUTO = "auto"
BOOSTING = "boosting"
SAME = 0.002  # difference of accuracies that is none
TIMES = 1.3  # the fastest strategy's time that "auto" may take
_MAX_NAMED = 5


@dataclass(frozen=True)
class Score:
    """Medians of a method on a data set."""

    method: str
    problem: str
    accuracy: float
    seconds: float


def _scores(found: PartResults, data: str) -> list[Score]:
    """Return the medians of all methods that have a result on a data set."""
    records: dict[str, list[Record]] = {}
    for record in found.of(data):
        records.setdefault(record.cell.method.name, []).append(record)
    scores = []
    for name, own in records.items():
        accuracy, seconds = middle(own, "accuracy"), middle(own, "seconds")
        if accuracy is not None and seconds is not None:
            scores.append(Score(name, own[0].cell.method.problem, accuracy, seconds))
    return scores


def _as_accurate(scores: Collection[Score]) -> list[Score]:
    """Return those that reach the best accuracy, within `SAME`."""
    best = max(score.accuracy for score in scores)
    return [score for score in scores if score.accuracy >= best - SAME]


@dataclass(frozen=True)
class Standing:
    """How "auto" stands among strategies on a data set, beside the fastest of those that reach the best accuracy."""

    data: str
    auto: Score
    fastest: Score
    is_accurate: bool

    @classmethod
    def among(cls, data: str, auto: Score, scores: Collection[Score]) -> Standing:
        """Compare "auto" with `scores`, which have its own."""
        accurate = _as_accurate(scores)
        return cls(data, auto, min(accurate, key=lambda score: score.seconds), auto in accurate)

    @property
    def ratio(self) -> float:
        """Return the time of "auto" over that of the fastest."""
        return self.auto.seconds / self.fastest.seconds

    @property
    def is_good(self) -> bool:
        """Return whether "auto" is as accurate as the best, and within `TIMES` the time of the fastest of these."""
        return self.is_accurate and self.ratio <= TIMES

    def __str__(self) -> str:
        rival = self.fastest.method.split()[-1]
        if not self.is_accurate:
            points = 100 * (self.fastest.accuracy - self.auto.accuracy)
            return f"{self.data} ({number(points, 2)} points less than {rival})"
        own, least = (METRICS["seconds"].shown(score.seconds) for score in (self.auto, self.fastest))
        return f"{self.data} ({number(self.ratio, 2)} times {rival}, {own} for {least} s)"


def is_auto_fast(found: PartResults) -> str:
    """Say in how many samples "auto" is nearly as fast as the fastest strategy of the same accuracy, and where not.

    Among strategies that solve the same problem, with the same certificate, and among all.
    """
    same_problem, all_of_them = list[Standing](), list[Standing]()
    for facts in found.data:
        scores = _scores(found, facts.name)
        for auto in (score for score in scores if score.method.endswith(AUTO)):
            rivals = [score for score in scores if score.problem == auto.problem]
            same_problem.append(Standing.among(facts.name, auto, rivals))
            all_of_them.append(Standing.among(facts.name, auto, scores))
    if not all_of_them:
        return ""
    return (
        f'"{AUTO}" was within {TIMES:g} times the fastest strategy that is at most {100 * SAME:g} points less accurate '
        f"than the best: of those that solve the same problem {_counted(same_problem)}. "
        f"With landmarks, whose problem is another, {_counted(all_of_them)}."
    )


def _counted(standings: Collection[Standing]) -> str:
    bad = sorted((one for one in standings if not one.is_good), key=lambda one: (one.is_accurate, -one.ratio))
    count = f"in {len(standings) - len(bad)} of {len(standings)} samples"
    return f"{count}, but not in {_listed(bad)}" if bad else count


def _listed(items: Collection[object], most: int = _MAX_NAMED) -> str:
    named = "; ".join(str(item) for item in [*items][:most])
    return f"{named}; and {len(items) - most} more" if len(items) > most else named


def is_boosting_better(found: PartResults) -> str:
    """Say where boosted trees are more accurate than all others, and where they are as accurate in less time."""
    better, faster, n_samples = list[tuple[float, str]](), list[str](), 0
    for facts in found.data:
        scores = {score.method: score for score in _scores(found, facts.name)}
        trees = scores.pop(BOOSTING, None)
        if trees is None or not scores:
            continue
        n_samples += 1
        points = trees.accuracy - max(score.accuracy for score in scores.values())
        accurate = [score for score in scores.values() if score.accuracy >= trees.accuracy - SAME]
        if points > SAME:
            better.append((points, facts.name))
        elif points >= -SAME and all(trees.seconds < score.seconds for score in accurate):
            faster.append(facts.name)
    if not n_samples:
        return ""
    gains = [f"{name} ({number(100 * points, 2)})" for points, name in sorted(better, reverse=True)]
    said = f": {_listed(gains, n_samples)}" if gains else ""
    also = f": {_listed(faster, n_samples)}" if faster else ""
    return (
        f"Boosted trees were more accurate than all others, by more than {100 * SAME:g} points, in {len(better)} of "
        f"{n_samples} samples{said}; and as accurate in less time in {len(faster)}{also}."
    )
