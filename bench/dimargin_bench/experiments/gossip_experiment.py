"""Gossip and its rivals: the tables and figures of the GADGET paper, and behind them comparisons that are ours.

In the latter all linear machines minimise the same objective, ``alpha/2 |w|^2`` and the mean hinge
of all rows with alpha = 1e-4 and a constant feature. Sites form a ring, and every byte of every
message counts, headers and acknowledgements included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from dimargin_bench.experiments import gossip_answers as answers
from dimargin_bench.experiments import gossip_methods as methods
from dimargin_bench.experiments import gossip_printed as printed
from dimargin_bench.experiments.declarations import Comparison, Experiment, Figure, Method, Part, Sample, Table, Traces
from dimargin_bench.experiments.examine_sites import beside_the_optimum, of_production_line, of_sites
from dimargin_bench.experiments.gossip_published import (
    METRICS_OF_A_RUN,
    Figures,
    contradictions,
    figures,
    our_name,
    samples,
)
from dimargin_bench.papers import printed as printed_numbers

# ---- the paper's parts -----------------------------------------------------------------------------------------------

_SMALL, _RARE = Sample("svmguide1"), Sample("cod-rna, 0.6% positive")
_QUICK = (Sample("a9a"),)
_FEWER = 50_000  # rows of covertype where a machine of a kernel is trained or asked
_UNKNOWN = (
    f"The paper prints neither lambda (here {printed.LAMBDA:g}) nor the network (a ring) nor the rounds of Push-Sum in "
    "an iteration (one). Its sites test on a tenth of the test rows each, here on all of them. Its clock is that of "
    "another simulator on another machine; here ten sites take turns in one process."
)


def _with(**values: Any) -> Callable[[str, str], Mapping[str, Any]]:
    """Return a function of data and method that returns these parameters."""

    def parameters(data: str, method: str) -> Mapping[str, Any]:
        return values

    return parameters


def _one_row(data: str, method: str) -> Mapping[str, Any]:
    """Return the parameters of GADGET with SGD, and Table 7's of Dist-ADMM, by default those of quantum."""
    if method == "dist-admm":
        names: dict[str, Mapping[str, Any]] = {our_name(name): own for name, own in printed.ADMM.items()}
        return names.get(data, printed.ADMM["quantum"])
    return {"batch_size": 1, "max_iter": printed.ITERATIONS} if method == "gadget" else {"max_iter": printed.ITERATIONS}


def _measured(table: str, theirs: Figures) -> tuple[Table, Table]:
    """Return the tables of what is measured of all methods."""
    metrics = ("accuracy", "seconds", "rounds", "converged", "bytes", "rows_shared")
    return (Table("Accuracy and time", metrics, theirs, contradictions(table)),
            Table("Standard deviations over the sites", ("accuracy_sd", "seconds_sd"), theirs))  # fmt: skip


def _printed(
    table: str,
    title: str,
    about: str,
    names: Mapping[str, str],
    others: tuple[Method, ...],
    ours: tuple[Method, ...] = (),
    **fewer: int,
) -> Part:
    """Return the part of a table that compares GADGET with other methods, those of the paper first."""
    theirs = figures(table, {"GADGET": "gadget", **names})
    if table in ("Table 5", "Table 6"):  # which refer to Table 4 for GADGET
        theirs |= figures("Table 4", {"GADGET": "gadget"})
    speed_up = Comparison("Speed-up of GADGET: seconds of the others over its own", "seconds", "data",
                          relative_to="gadget", quotients=True, published=theirs)  # fmt: skip
    return Part(
        name=table.lower().replace(" ", "-"),
        title=f"{table}: {title}",
        about=f"{about} ",
        data=samples(**fewer),
        quick_data=_QUICK,
        takes_files=True,
        methods=(printed.GADGET, *others, *ours),
        parameters=_one_row,
        examine=of_sites,
        tables=(*_measured(table, theirs), *[speed_up] * (table == "Table 3")),
        answer=answers.best_and_gadget,
    )


_TABLE_2 = figures("Table 2", {"GADGET": "gadget", "Pegasos": "pegasos"}, METRICS_OF_A_RUN, case=str)
_SPEED_UPS = figures("Table 2", {"GADGET": "pegasos"}, ["speed-up"], case=str)  # stands beside the time of Pegasos

_ROWS_OF_TABLE_7 = {
    f"{data}: lambda {own['lam']:g}, rho {own['rho']:g}, alpha {own['over_relaxation']:g}": own
    for data, own in printed.ADMM.items()
}

_OF_THE_PAPER = (
    Part(
        name="figure-1",
        title="Figure 1: performance profiles of GADGET",
        about="The smallest, mean and largest accuracy over the sites against time, until all have converged: the "
        f"change of the norm was below {printed.EPSILON:g} in {printed.N_QUIET} successive iterations.",
        data=samples(),
        quick_data=_QUICK,
        takes_files=True,
        methods=(printed.GADGET,),
        parameters=_one_row,
        examine=of_sites,
        tables=(Table("At the end", ("worst_accuracy", "accuracy", "accuracy_sd", "rounds", "converged", "seconds")),),
        figures=(Traces("Figure 1", "profile", "seconds", "accuracy, %"),),
        answer=answers.profiles,
    ),
    Part(
        name="table-2",
        title="Table 2: GADGET and centralised Pegasos",
        about="Full gradients (GD), one row a step (SGD), and mini-batches of 1,000, 100 and 10 rows, each until it "
        "has converged. Neither projects, which the paper calls optional.",
        data=samples(),
        quick_data=_QUICK,
        takes_files=True,
        methods=(printed.GADGET, printed.PEGASOS),
        parameters=_with(max_iter=printed.ITERATIONS),
        cases={name: {"batch_size": size} for name, size in printed.BATCHES.items()},
        examine=of_sites,
        tables=(
            *_measured("Table 2", _TABLE_2),
            Comparison("Speed-up of GADGET: seconds of Pegasos over its own", "seconds", "case", relative_to="gadget",
                       quotients=True, published=_SPEED_UPS),
        ),
        answer=answers.best_and_gadget,
    ),
    _printed(
        "Table 3", "other algorithms that gossip", "The time of Dist-Eval is that of training at a site and of the "
        "filter for all test rows, its bytes are those of the filter.",
        {"ASG SVM": "asg-svm", "Dist-Eval": "dist-eval", "CHOCO-SGD": "choco-sgd"},
        (printed.ASG, printed.DIST_EVAL, printed.CHOCO), covertype=_FEWER,
    ),
    _printed(
        "Table 4", "state-of-the-art machines, pseudo-distributed", "Machines of each site alone, whose accuracies are "
        "averaged; averaged models, and machines of all rows, are ours.",
        {"SVM-Perf": "svm-perf", "LIBLINEAR": "liblinear", "LIBSVM": "libsvm", "Dist-ADMM": "dist-admm"},
        printed.TABLE_4, printed.TABLE_4_OURS, covertype=_FEWER,
    ),
    _printed(
        "Table 5", "penalised linear regression", "Regressions of each site alone on labels of minus one and one.",
        {"Lasso": "lasso", "Ridge": "ridge", "Elastic Net": "elastic net"}, printed.TABLE_5,
    ),
    _printed(
        "Table 6", "random forests, boosting and perceptrons", "Learners of each site alone.",
        {"Random Forest": "random forest", "Boosting": "boosting", "MultiLayer Perceptrons": "mlp"},
        printed.TABLE_6, printed.TABLE_6_OURS,
    ),
    Part(
        name="table-7",
        title="Table 7: the parameters of ADMM",
        about="Dist-ADMM with every row of the table, on other data than it was meant for, too: what the values do. "
        "For real-sim the table has none, since ADMM did not converge in a day. It is known to converge for an alpha "
        "between 0 and 2. The ten subsystems of a site, the tolerances and the limit of 300 iterations (30 with the "
        "parameters of covertype) are ours.",
        data=(Sample("a9a", 5000), _SMALL),
        quick_data=(_SMALL,),
        methods=printed.TABLE_4[-1:],
        parameters=_with(),
        cases=_ROWS_OF_TABLE_7,
        quick_cases=[name for name in _ROWS_OF_TABLE_7 if not name.startswith("covertype")],
        seeds=(0,),
        examine=of_sites,
        tables=(Table("Dist-ADMM", ("accuracy", "accuracy_sd", "rounds", "converged", "seconds")),),
        answer=answers.what_admm_does,
    ),
)  # fmt: skip

_STAND_IN = "on cod-rna with 0.6% positive rows, a stand-in for the production line"
_PRODUCTION = partial(
    Part,
    data=(Sample("bosch", 500_000, train_rows=500_000), _RARE),
    quick_data=(_RARE,),
    methods=printed.PRODUCTION,
    parameters=_with(max_iter=printed.ITERATIONS),
    seeds=(0,),
    examine=of_production_line,
)
_NAMES_AT = (
    "Converge@4 itr, Converge@8 itr and Converge@10 itr: so many successive iterations changed the norm of the weights "
    f"by less than {printed.EPSILON:g}."
)
_SECTION_6 = "Of the production line itself the paper has: " + "; ".join(
    f"{one.method}{f' {one.setting}' if one.setting else ''}, {one.metric} {one.value}%"
    for one in printed_numbers("gadget", "Section 6") if "accuracy" in one.metric
) + "."  # fmt: skip
_OF_THE_LINE = (
    _PRODUCTION(
        name="figure-3",
        title=f"Figure 3: accuracy of the sites of a hub by termination, {_STAND_IN}",
        about=f"The largest and the mean accuracy of every site until it has converged. {_NAMES_AT}",
        figures=(Traces("Figure 3, left: largest accuracy", "largest", "site", "accuracy, %", pillars=True),
                 Traces("Figure 3, right: mean accuracy", "mean", "site", "accuracy, %", pillars=True)),
        tables=(Table("Where sites have converged", tuple(
            f"{metric}_at_{n}" for n in printed.QUIETS for metric in ("accuracy", "converged")), note=_SECTION_6),),
    ),
    _PRODUCTION(
        name="figure-4",
        title=f"Figure 4: how often sites converge in {printed.ITERATIONS:,} iterations, {_STAND_IN}",
        about=f"The share of the sites that have converged at least so many times. {_NAMES_AT}",
        figures=(Traces("Figure 4", "times", "times converged", "sites, %"),),
        answer=answers.times_converged,
    ),
    _PRODUCTION(
        name="figure-5",
        title=f"Figure 5: accuracy and primal objective at one hub, {_STAND_IN}",
        about="The first of the ten sites; the objective is that of all training rows.",
        figures=(Traces("Figure 5, accuracy", "hub accuracy", "iteration", "accuracy, %", logarithmic=True),
                 Traces("Figure 5, objective", "hub objective", "iteration", "primal objective", logarithmic=True)),
    ),
    _PRODUCTION(
        name="section-6",
        title=f"Section 6: GADGET, SVM-Perf and LIBLINEAR, {_STAND_IN}",
        about="The accuracies of the text, and what the paper leaves for future work: how many rows of the rare class "
        "are predicted right, and oversampling (a row of that class is repeated).",
        methods=(*printed.PRODUCTION, *printed.SOLVERS),
        tables=(Table("Accuracy", ("accuracy", "rare_accuracy", "balanced_accuracy", "rounds", "seconds"),
                      note=_SECTION_6),),
        answer=answers.production_line,
    ),
)  # fmt: skip

# ---- parts that are ours ---------------------------------------------------------------------------------------------

_A9A, _COVTYPE, _USPS = Sample("a9a"), Sample("covtype.libsvm.binary", 50_000), Sample("usps, 4 or 9")
_ROUNDS = {f"{n} rounds": {"max_iter": n} for n in (10, 30, 100, 300, 1000)}
_DEALS = {"at random": {"shards": "random"}, "sorted by label": {"shards": "sorted"}}
_OURS = partial(Part, examine=beside_the_optimum, seeds=(0,))
_TUNED = 'with the parameters that are best for those of a9a in the part "tuning", which are ours'


def _along_bytes(name: str, title: str, about: str, of: tuple[Method, ...], parameters: Any) -> Part:
    """Return a part in which methods run for more and more rounds."""
    return _OURS(
        name=name,
        title=title,
        about=about,
        data=(_A9A, _COVTYPE, _USPS, _SMALL),
        quick_data=(_SMALL,),
        takes_files=True,
        methods=of,
        parameters=parameters,
        cases=_ROUNDS,
        quick_cases=("10 rounds", "300 rounds"),
        figures=(
            Figure("The worst site's objective above the optimum, against bytes", "bytes", "worst_excess", joined=True,
                   note="Lines join runs of 10, 30, 100, 300 and 1,000 rounds."),
            Figure("The same against rounds", "rounds", "worst_excess", joined=True),
            Figure("The worst site's accuracy against bytes", "bytes", "worst_accuracy", joined=True),
        ),
        tables=(Comparison("The worst site's objective above the optimum", "worst_excess", "method"),
                Comparison("Bytes of all messages", "bytes", "method")),
        answer=answers.what_a_percent_costs,
    )  # fmt: skip


_OF_OURS = (
    _OURS(
        name="forms",
        title="GADGET's step as it is printed three times, and mended",
        about=f"2,000 iterations with one row a step and lambda = {printed.LAMBDA:g}.",
        data=(_A9A, _COVTYPE, _SMALL),
        quick_data=(_SMALL,),
        takes_files=True,
        methods=printed.FORMS,
        parameters=_with(batch_size=1, max_iter=2000),
        examine=of_sites,
        tables=(Table("Accuracy and cost", ("accuracy", "worst_accuracy", "balanced_accuracy", "messages", "bytes",
                                            "seconds")),),
    ),
    _OURS(
        name="rule",
        title="When the paper's rule of convergence ends a run",
        about="One row a step, at most 5,000 iterations, three quiet ones in a row. The paper words the rule as a "
        "change of the weights and as one of their norm. A step moves weights by up to R / (lambda t), with R the "
        "length of a row: with lambda = 0.0001 that is below 0.001 from t = 10,000,000 R on. Vectors that have just "
        "been projected have one norm.",
        data=(_A9A, _COVTYPE),
        quick_data=_QUICK,
        methods=(printed.GADGET, printed.PEGASOS),
        parameters=_with(batch_size=1, max_iter=5000),
        cases=printed.RULE,
        quick_cases=[*printed.RULE][:2] + [*printed.RULE][-3:-2],
        examine=of_sites,
        tables=(Comparison("Iterations", "rounds", "case"), Comparison("Accuracy", "accuracy", "case")),
        answer=answers.convergence_of_rules,
    ),
    _along_bytes(
        "bytes", "What bytes and rounds buy",
        f"Every method after more and more rounds, from rows that are dealt at random, {_TUNED}.",
        methods.AT_RANDOM, _with(),
    ),
    _along_bytes(
        "bytes-sorted", "The same, where sites hold different classes",
        f"Every method after more and more rounds, from rows that are sorted by label, {_TUNED}.",
        methods.SORTED, _with(shards="sorted"),
    ),
    _OURS(
        name="all-methods",
        title="All methods",
        about=f"Ten sites after 1,000 rounds, {_TUNED}, averaged machines of each site alone, and machines of all rows "
        "in one place.",
        data=(_A9A, _COVTYPE, Sample("reuters"), _USPS, _SMALL),
        quick_data=(_SMALL,),
        takes_files=True,
        methods=(
            *methods.AT_RANDOM, methods.VOTE, *methods.SETS, methods.DIST_EVAL, *methods.SEPARATE, *methods.CENTRAL
        ),
        parameters=_with(max_iter=1000),
        cases=_DEALS,
        quick_cases=("at random",),
        tables=(Table("Accuracy and cost", ("accuracy", "worst_accuracy", "excess", "worst_excess", "rounds",
                                            "messages", "bytes", "rows_shared", "seconds")),),
    ),
    _OURS(
        name="tuning",
        title="The grids of steps, batches and rounds",
        about="Every point that was tried, after 300 rounds, on 5,000 rows; the other parts have the best of them.",
        data=(Sample("a9a", 5000),),
        methods=methods.GRID,
        parameters=_with(max_iter=300),
        cases=_DEALS,
        tables=(Table("Points of the grids", ("worst_excess", "worst_accuracy", "bytes", "seconds")),),
        answer=answers.best_points,
    ),
    _OURS(
        name="liars",
        title="Two of ten sites lie",
        about="Decentralised gradient descent on a complete graph, 300 rounds, with the attacks of the literature, by "
        "what each rule of merging leaves of it. Accuracies are of the worst of the eight honest sites.",
        data=(Sample("a9a", 5000), _SMALL),
        quick_data=(_SMALL,),
        methods=methods.ROBUST,
        parameters=_with(max_iter=300),
        cases={name: {"attack": name} for name in methods.ATTACKS},
        tables=(Comparison("Accuracy of the worst honest site", "honest_accuracy", "case"),),
        answer=answers.what_liars_cost,
    ),
)  # fmt: skip

EXPERIMENT = Experiment(
    name="gossip",
    title="Gossip and its rivals",
    about="Sites that keep their rows learn a linear machine together: the paper's tables and figures, and then by "
    f"what sites send, and how near they come to the machine of all rows. {_UNKNOWN}",
    source="A Consensus Algorithm for Linear Support Vector Machines (earlier: Dutta, Nataraj, arXiv:1812.02261)",
    parts=(*_OF_THE_PAPER, *_OF_THE_LINE, *_OF_OURS),
    libraries=("networkx", "msgspec"),
)
