"""Gossip and its rivals: ten sites, all methods in one run, by accuracy, distance from the optimum, rounds and bytes.

All linear machines minimise the same objective, ``alpha/2 |w|^2`` and the mean hinge of all rows
with alpha = 1e-4 and a constant feature. Sites form a ring, and every byte of every message counts,
headers and acknowledgements included.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dimargin_bench.experiments import gossip_methods as methods
from dimargin_bench.experiments.declarations import Comparison, Experiment, Figure, Method, Part, Sample, Table
from dimargin_bench.experiments.examine_sites import of_sites
from dimargin_bench.experiments.experiment_run import PartResults
from dimargin_bench.experiments.gossip_published import WARNING, tables
from dimargin_bench.experiments.metrics import METRICS
from dimargin_bench.experiments.result_tables import middle

_A9A, _COVTYPE = Sample("a9a"), Sample("covtype.libsvm.binary", 50_000)
_DATA = (_A9A, _COVTYPE, Sample("reuters"), Sample("usps, 4 or 9"), Sample("svmguide1"))
_RARE = Sample("cod-rna, 0.6% positive")
_SMALL = Sample("svmguide1")
_QUICK = (_SMALL,)
_ROUNDS = {f"{n} rounds": {"max_iter": n} for n in (10, 30, 100, 300, 1000)}
_DEALS = {"at random": {"shards": "random"}, "sorted by label": {"shards": "sorted"}}
_WORTH = 0.01  # above the optimum, at which bytes are compared


def _rounds(n: int) -> Any:
    def parameters(data: str, method: str) -> Mapping[str, Any]:
        return {"max_iter": n}

    return parameters


def _sorted(data: str, method: str) -> Mapping[str, Any]:
    return {"shards": "sorted"}


def _nothing(data: str, method: str) -> Mapping[str, Any]:
    return {}


def _middle(found: PartResults, metric: str, method: str, case: str = "", data: str = "") -> float | None:
    """Return the median of a metric over the cells of a method, of one case or data set, if there are any."""
    own = [record for record in found.records
           if record.cell.method.name == method and case in ("", record.cell.case)
           and data in ("", record.cell.data)]  # fmt: skip
    return middle(own, metric)


def _which_points_are_best(found: PartResults) -> str:
    """Say which point of every grid is nearest to the optimum, for each deal of the rows."""
    texts = []
    for case in found.part.cases:
        said = []
        for line in dict.fromkeys(method.line for method in found.part.methods):
            names = [method.name for method in found.part.methods if method.line == line]
            points = [(excess, name) for name in names
                      if (excess := _middle(found, "worst_excess", name, case)) is not None]  # fmt: skip
            if points:
                excess, name = min(points)
                said.append(
                    f"{line}: {name.removeprefix(f'{line}, ')} ({METRICS['worst_excess'].shown(excess)}% above)"
                )
        if said:
            texts.append(f"Rows {case}, nearest to the optimum by the worst site: {'; '.join(said)}.")
    return "\n".join(texts)


def _what_a_percent_costs(found: PartResults) -> str:
    """Say, for each data set, with how many bytes and rounds each method first comes within one percent."""
    said = []
    for facts in found.data:
        costs: list[tuple[float, str]] = []
        for method in found.part.methods:
            for case in found.part.cases:
                excess, size = (_middle(found, metric, method.name, case, facts.name)
                                for metric in ("worst_excess", "bytes"))  # fmt: skip
                if excess is not None and size is not None and excess <= _WORTH:
                    costs.append((size, f"{method.name} {size / 1e6:.3g} MB ({case})"))
                    break
        said.append(f"{facts.name}: {'; '.join(text for _, text in sorted(costs)) or 'no method'}.")
    return "\n".join(["First within 1% of the optimum at every site, by the bytes until then:", *said])


def _what_liars_cost(found: PartResults) -> str:
    """Say how much accuracy the worst attack leaves with each rule."""
    said = []
    for method in found.part.methods:
        worst = [(accuracy, case) for case in found.part.cases
                 if (accuracy := _middle(found, "honest_accuracy", method.name, case)) is not None]  # fmt: skip
        if worst:
            accuracy, case = min(worst)
            said.append(f"{method.name} {100 * accuracy:.1f}% ({case})")
    return f"Worst honest site, over all attacks (median of the data sets): {', '.join(said)}." if said else ""


def _along_bytes(name: str, title: str, about: str, of: tuple[Method, ...], parameters: Any) -> Part:
    """Return a part in which methods run for more and more rounds."""
    return Part(
        name=name,
        title=title,
        about=about,
        data=(_A9A, _COVTYPE, Sample("usps, 4 or 9"), _SMALL),
        quick_data=_QUICK,
        takes_files=True,
        methods=of,
        parameters=parameters,
        cases=_ROUNDS,
        quick_cases=("10 rounds", "100 rounds", "300 rounds"),
        seeds=(0,),
        examine=of_sites,
        figures=(
            Figure("The worst site's objective above the optimum, against bytes", "bytes", "worst_excess", joined=True,
                   note="Lines join runs of 10, 30, 100, 300 and 1,000 rounds."),
            Figure("The same against rounds", "rounds", "worst_excess", joined=True),
            Figure("The worst site's accuracy against bytes", "bytes", "worst_accuracy", joined=True),
        ),
        tables=(Comparison("The worst site's objective above the optimum", "worst_excess", "method"),
                Comparison("Bytes of all messages", "bytes", "method")),
        answer=_what_a_percent_costs,
    )  # fmt: skip


_MEASURED = ("accuracy", "worst_accuracy", "excess", "worst_excess", "rounds", "messages", "bytes", "rows_shared",
             "seconds")  # fmt: skip

_PARTS = (
    _along_bytes(
        "bytes",
        "Figures 1, 3 to 5: what bytes and rounds buy",
        "Every method after more and more rounds, from rows that are dealt at random, with the parameters that are "
        "best for those of a9a.",
        methods.AT_RANDOM,
        _nothing,
    ),
    _along_bytes(
        "bytes-sorted",
        "The same, where sites hold different classes",
        "Every method after more and more rounds, from rows that are sorted by label, with the parameters that are "
        "best for those of a9a.",
        methods.SORTED,
        _sorted,
    ),
    Part(
        name="tables-2-to-4",
        title="Tables 2 to 4: all methods",
        about="Ten sites after 1,000 rounds, with the parameters that are best for rows of a9a at random, machines of "
        "each site alone, and of all rows in one place.",
        data=_DATA,
        quick_data=_QUICK,
        takes_files=True,
        methods=(*methods.AT_RANDOM, methods.PRINTED, *methods.SETS, methods.DIST_EVAL, *methods.SEPARATE,
                 *methods.CENTRAL),
        parameters=_rounds(1000),
        cases=_DEALS,
        seeds=(0,),
        examine=of_sites,
        tables=(
            Table("Accuracy and cost", _MEASURED,
                  tables({str(sample): sample.name for sample in _DATA}), WARNING),
        ),
    ),
    Part(
        name="tables-5-and-6",
        title="Tables 5 and 6: a rare class, and other learners at each site",
        about="In place of the production line of the paper's study (Bosch), of which 0.6% of the parts failed: "
        "cod-rna with as few positive rows. GADGET ends after 4, 8 or 10 quiet iterations. Whoever says that no part "
        "fails has the accuracy 99.4%, and a balanced one of a half.",
        data=(_RARE, _A9A, _SMALL),
        quick_data=_QUICK,
        methods=(*methods.QUIET, methods.TRACKED, *methods.OTHER, methods.SEPARATE[0]),
        parameters=_rounds(2000),
        seeds=(0,),
        examine=of_sites,
        tables=(Table("Accuracy and cost", ("accuracy", "balanced_accuracy", "excess", "rounds", "bytes", "seconds")),),
    ),
    Part(
        name="tuning",
        title="The grids of steps, batches and rounds",
        about="Every point that was tried, after 300 rounds, on 5,000 rows; the other parts have the best of them.",
        data=(Sample("a9a", 5000),),
        methods=methods.GRID,
        parameters=_rounds(300),
        cases=_DEALS,
        seeds=(0,),
        examine=of_sites,
        tables=(Table("Points of the grids", ("worst_excess", "worst_accuracy", "bytes", "seconds")),),
        answer=_which_points_are_best,
    ),
    Part(
        name="liars",
        title="Two of ten sites lie",
        about="Decentralised gradient descent on a complete graph, 300 rounds, with the attacks of the literature, by "
        "what each rule of merging leaves of it. Accuracies are of the worst of the eight honest sites.",
        data=(Sample("a9a", 5000), Sample("svmguide1")),
        quick_data=_QUICK,
        methods=methods.ROBUST,
        parameters=_rounds(300),
        cases={name: {"attack": name} for name in methods.ATTACKS},
        seeds=(0,),
        examine=of_sites,
        tables=(Comparison("Accuracy of the worst honest site", "honest_accuracy", "case"),),
        answer=_what_liars_cost,
    ),
)  # fmt: skip

EXPERIMENT = Experiment(
    name="gossip",
    title="Gossip and its rivals",
    about="Sites that keep their rows learn a linear machine together: by what they send, and how near they come to "
    "the machine of all rows.",
    source="A Consensus Algorithm for Linear Support Vector Machines (earlier: Dutta, Nataraj, arXiv:1812.02261)",
    parts=_PARTS,
    libraries=("networkx", "msgspec"),
)
