"""Sentences that say what the parts of the gossip experiment show, computed from their results."""

from __future__ import annotations

import statistics

from dimargin.display.report.words import number
from dimargin_bench.experiments.declarations import Method
from dimargin_bench.experiments.experiment_run import PartResults, Record
from dimargin_bench.experiments.gossip_published import beyond_profiles
from dimargin_bench.experiments.gossip_published import number as printed_number
from dimargin_bench.experiments.metrics import METRICS
from dimargin_bench.experiments.result_tables import middle

WORTH = (0.01, 0.001)
"""Parts of the optimum by which a method may be above it where bytes are compared."""


def records_of(found: PartResults, method: str, case: str = "", data: str = "") -> list[Record]:
    """Return the records of a method, of one case or data set."""
    return [record for record in found.records
            if record.cell.method.name == method and case in ("", record.cell.case)
            and data in ("", record.cell.data)]  # fmt: skip


def median(found: PartResults, metric: str, method: str, case: str = "", data: str = "") -> float | None:
    """Return the median of a metric over the cells of a method, if there are any."""
    return middle(records_of(found, method, case, data), metric)


def best_and_gadget(found: PartResults) -> str:
    """Say, for each data set and case, which method is the most accurate, which the fastest, and where GADGET is."""
    said = []
    for facts in found.data:
        for case in found.part.cases:
            known = [(accuracy, seconds, method.name) for method in found.part.methods
                     if (accuracy := median(found, "accuracy", method.name, case, facts.name)) is not None
                     and (seconds := median(found, "seconds", method.name, case, facts.name)) is not None]  # fmt: skip
            own = [one for one in known if one[2].startswith("gadget")]
            if len(known) > 1 and own:
                said.append(f"{facts.name}{f', {case}' if case else ''}: {_placed(known, max(own))}")
    return "\n".join(said)


def _placed(known: list[tuple[float, float, str]], own: tuple[float, float, str]) -> str:
    accuracy, _, best = max(known, key=lambda one: (one[0], one[2] == own[2]))
    _, seconds, fastest = min(known, key=lambda one: one[1])
    first = f"{best} is the most accurate ({100 * accuracy:.2f}%)"
    if best != own[2]:
        first += f", {100 * (accuracy - own[0]):.2f} points above {own[2]} ({100 * own[0]:.2f}%)"
    second = f"{fastest} is the fastest ({number(seconds, 3)} s)"
    if fastest != own[2]:
        second += f", {own[2]} takes {number(own[1] / seconds, 3)} times as long"
    return f"{first}; {second}."


def profiles(found: PartResults) -> str:
    """Say in what range the sites' accuracies were on the way and at the end, and what the paper says of its own."""
    low, high, average, near_highest, near_lowest = (
        printed_number("Section 5.5.1", f"{which} accuracy of the sites{more}")
        for which, more in (("lowest", ""), ("highest", ""), ("average", " (above)"), ("highest", " (close to)"),
                            ("lowest", " (close to)"))
    )  # fmt: skip
    said = [f"The paper says of gisette, quantum, adult and covertype that accuracies remain between {low:g} and "
            f"{high:g}%, with means above {average:g}%. {beyond_profiles(average, high)} Of protein it says that the "
            "accuracy remains constant, and high; of sido and real-sim that the largest is close to "
            f"{near_highest:g}%, and the smallest could be close to {near_lowest:g}%."]  # fmt: skip
    for record in found.records:
        if trace := record.outcome.traces.get("profile"):
            moments = list(zip(*trace["lines"], strict=True))
            best, mean, worst = ([of(one) for one in moments] for of in (max, statistics.mean, min))
            said.append(
                f"{record.cell.data}, seed {record.cell.seed}: between {min(worst):.1f} and {max(best):.1f}%, from a "
                f"mean of {mean[0]:.1f}% after the first iteration to {mean[-1]:.1f}% ({worst[-1]:.1f} to "
                f"{best[-1]:.1f}%) at the end."
            )
    return "\n".join(said)


def what_admm_does(found: PartResults) -> str:
    """Say with which parameters ADMM converges, and what its sites predict."""
    said = []
    for facts in found.data:
        for case, parameters in found.part.cases.items():
            (accuracy, converged, rounds) = (
                median(found, metric, "dist-admm", case, facts.name) for metric in ("accuracy", "converged", "rounds")
            )
            if accuracy is None or converged is None or rounds is None:
                continue
            taken, limit = METRICS["rounds"].shown(rounds), parameters["max_iter"]
            how = f"{converged:g} of 10 sites converge, and sites take {taken} iterations in the mean"
            if not converged:
                how = f"no site converges within {limit} iterations"
                if rounds < limit:
                    how = f"no site converges: their numbers overflow after {taken} iterations in the mean"
            said.append(f"{facts.name}, {case}: {how}; {100 * accuracy:.1f}% are right.")
    return "\n".join(said)


def times_converged(found: PartResults) -> str:
    """Say how many sites converge as often as the paper's by the rule of four quiet iterations, and of ten."""
    first, last = "Converge@4 itr", "Converge@10 itr"
    times, share = (
        printed_number("Section 6", metric, data="bosch", setting=first)
        for metric in ("times converged (more than)", "share of sites that converged more than 80 times")
    )
    said = [f"The paper says that about {share:g}% of its sites converge more than {times:g} times by {first}, and "
            f"that sites tend to remain converged for extended periods by {last}."]  # fmt: skip
    for record in found.records:
        if trace := record.outcome.traces.get("times"):
            lines = dict(zip(trace["names"], trace["lines"], strict=True))
            above, later = (next((y for x, y in zip(trace["x"], lines[rule], strict=True) if x > times), 0)
                            for rule in (first, last))  # fmt: skip
            said.append(f"{record.cell.data}, {record.cell.method.name}: {above:g}% of the sites converge more than "
                        f"{times:g} times by {first}, and {later:g}% by {last}.")  # fmt: skip
    return "\n".join(said)


def production_line(found: PartResults) -> str:
    """Say what the accuracies are worth where one class is rare, and compare the rules of convergence."""
    share = printed_number("Section 6", "share of failures", data="bosch", setting="testing")
    claimed = printed_number("Section 6", "accuracy", data="bosch", method="GADGET")
    said = [f"Of the paper's test rows {share:g}% are failures: whoever says that no part fails is right on "
            f"{100 - share:g}%, and the paper's {claimed:g}% for GADGET, if they are of all rows, are below "
            "that."]  # fmt: skip
    for facts in found.data:
        for method in found.part.methods:
            plain, balanced = (median(found, metric, method.name, data=facts.name)
                               for metric in ("accuracy", "balanced_accuracy"))  # fmt: skip
            if plain is not None and balanced is not None:
                useless = ", as a constant answer has" if balanced < 0.505 else ""
                said.append(
                    f"{facts.name}, {method.name}: {100 * plain:.2f}% right, and {100 * balanced:.1f}% as the mean of "
                    f"both classes{useless}."
                )
    return "\n".join(said)


def convergence_of_rules(found: PartResults) -> str:
    """Say when the rules of convergence ended the runs."""
    said = []
    for facts in found.data:
        for case in found.part.cases:
            ends = []
            for method in found.part.methods:
                rounds, accuracy, converged = (median(found, metric, method.name, case, facts.name)
                                               for metric in ("rounds", "accuracy", "converged"))  # fmt: skip
                if rounds is None or accuracy is None:
                    continue
                n = 1 if method.name == "pegasos" else 10
                ended = "ends" if converged == n else f"has not ended ({converged:g} of {n} converged)"
                ends.append(f"{method.name} {ended} after {rounds:,.0f} iterations ({100 * accuracy:.1f}%)")
            if ends:
                said.append(f"{facts.name}, {case}: {', '.join(ends)}.")
    return "\n".join(said)


def best_points(found: PartResults) -> str:
    """Say which point of every grid is nearest to the optimum, for each deal of the rows."""
    texts = []
    for case in found.part.cases:
        said = []
        for line in dict.fromkeys(method.line for method in found.part.methods):
            names = [method.name for method in found.part.methods if method.line == line]
            points = [(excess, name) for name in names
                      if (excess := median(found, "worst_excess", name, case)) is not None]  # fmt: skip
            if points:
                excess, name = min(points)
                said.append(
                    f"{line}: {name.removeprefix(f'{line}, ')} ({METRICS['worst_excess'].shown(excess)}% above)"
                )
        if said:
            texts.append(f"Rows {case}, nearest to the optimum by the worst site: {'; '.join(said)}.")
    return "\n".join(texts)


def what_a_percent_costs(found: PartResults) -> str:
    """Say, for each data set, with how many bytes and rounds each method first comes within 1% and 0.1%."""
    said = ["The fewest of these rounds after which the objective of every site is so near to the optimum, and the "
            "bytes of all messages until then:"]  # fmt: skip
    for facts in found.data:
        for worth in WORTH:
            costs: list[tuple[float, str]] = []
            for method in found.part.methods:
                for case in found.part.cases:
                    excess, size = (median(found, metric, method.name, case, facts.name)
                                    for metric in ("worst_excess", "bytes"))  # fmt: skip
                    if excess is not None and size is not None and excess <= worth:
                        costs.append((size, f"{method.name} {size / 1e6:.3g} MB ({case})"))
                        break
            each = "; ".join(text for _, text in sorted(costs)) or "no method"
            said.append(f"{facts.name}, within {100 * worth:g}%: {each}.")
    return "\n".join(said)


def what_liars_cost(found: PartResults) -> str:
    """Say how much accuracy the worst attack leaves with each rule, and which rule is the best."""
    worst: list[tuple[float, Method, str]] = []
    for method in found.part.methods:
        known = [(accuracy, case) for case in found.part.cases
                 if (accuracy := median(found, "honest_accuracy", method.name, case)) is not None]  # fmt: skip
        if known:
            accuracy, case = min(known)
            worst.append((accuracy, method, case))
    if not worst:
        return ""
    each = "; ".join(f'"{method.name}" {100 * accuracy:.1f}% ({case})' for accuracy, method, case in worst)
    best = max(worst, key=lambda one: one[0])[1].name
    return ("The lowest accuracy of the worst honest site with each rule, and in which case (medians of the data "
            f'sets): {each}. The rule "{best}" has the highest of them.')  # fmt: skip
