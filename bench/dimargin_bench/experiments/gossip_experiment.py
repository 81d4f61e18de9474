"""Gossip and its rivals: the tables and figures of the GADGET paper, and behind them comparisons that are ours.

In our parts all linear machines minimise the same objective, ``alpha/2 |w|^2`` and the mean hinge
of all rows with alpha = 1e-4 and a constant feature. Sites form a ring, and every byte of every
message counts, headers and acknowledgements included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from dimargin_bench.experiments import gossip_answers as answers
from dimargin_bench.experiments import gossip_methods as methods
from dimargin_bench.experiments import gossip_printed as printed
from dimargin_bench.experiments import gossip_texts as texts
from dimargin_bench.experiments.declarations import Comparison, Experiment, Figure, Method, Part, Sample, Table, Traces
from dimargin_bench.experiments.examine_sites import (
    behind_features,
    beside_the_optimum,
    of_production_line,
    of_sites,
)
from dimargin_bench.experiments.gossip_published import (
    METRICS_OF_A_RUN,
    Figures,
    contradictions,
    figures,
    number,
    our_name,
    samples,
)

# ---- the paper's parts -----------------------------------------------------------------------------------------------

_SMALL, _RARE = Sample("svmguide1"), Sample("cod-rna, 0.6% positive")
_QUICK = (Sample("a9a"),)


def _with(**values: Any) -> Callable[[str, str], Mapping[str, Any]]:
    """Return a function of data and method that returns these parameters."""

    def parameters(data: str, method: str) -> Mapping[str, Any]:
        return values

    return parameters


def _gamma(data: str, method: str) -> Mapping[str, Any]:
    """Return the parameter of the kernel."""
    return {"gamma": 1.0 if data == "ijcnn1" else 10.0}


def _one_row(data: str, method: str) -> Mapping[str, Any]:
    """Return the parameters of GADGET with SGD, and Table 7's of Dist-ADMM, by default those of quantum."""
    if method == "dist-admm":
        names: dict[str, Mapping[str, Any]] = {our_name(name): own for name, own in printed.ADMM.items()}
        return names.get(data, printed.ADMM["quantum"])
    return {"batch_size": 1, "max_iter": printed.ITERATIONS} if method == "gadget" else {"max_iter": printed.ITERATIONS}


def _measured(table: str, theirs: Figures) -> tuple[Table, Table]:
    """Return the tables of what is measured of all methods."""
    metrics = ("accuracy", "seconds", "rounds", "converged", "bytes", "rows_shared")
    note = f"{texts.WHEN_MEASURED} {contradictions(table)}".strip()
    return (Table("Accuracy and time", metrics, theirs, note),
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
    if table in ("Table 5", "Table 6"):  # Table 5 refers to Table 4 for GADGET; Table 6's caption is lost.
        theirs |= figures("Table 4", {"GADGET": "gadget"})
    speed_up = Comparison("Speed-up of GADGET: seconds of the others over its own", "seconds", "data",
                          relative_to="gadget", quotients=True, published=theirs)  # fmt: skip
    return Part(
        name=table.lower().replace(" ", "-"),
        title=f"{table}: {title}",
        about=about,
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
        about="The smallest, mean and largest accuracy over the sites against time, until all have converged, which "
        f"here means that {printed.N_QUIET} successive iterations changed the norm of a site's weights by less than "
        f"{printed.EPSILON:g}. Box plots stand at ten of the moments at which accuracies were taken, the first after "
        "one iteration; the paper's axis of time is not in our copy.",
        data=samples(),
        quick_data=_QUICK,
        takes_files=True,
        methods=(printed.GADGET,),
        parameters=_one_row,
        examine=of_sites,
        tables=(Table("At the end", ("worst_accuracy", "accuracy", "accuracy_sd", "rounds", "converged", "seconds"),
                      note=texts.WHEN_MEASURED),),
        figures=(Traces("Figure 1", "profile", "seconds", "accuracy, %", boxes=True),),
        answer=answers.profiles,
    ),
    Part(
        name="table-2",
        title="Table 2: GADGET and centralised Pegasos",
        about="GADGET and Pegasos take steps along the gradient of all rows (GD), of one row (SGD), and of "
        "mini-batches of about 1,000, 100 and 10 rows, until they have converged. Neither projects, which the paper "
        "calls optional. A site with n rows divides all of them evenly into n / b mini-batches, rounded down, "
        "or has a single one of all its rows, whose step is that of GD. With the paper's numbers of rows and b=1000 a "
        f"site has these mini-batches: {texts.uneven_batches()}, and several of 1,000 rows for the other data; in a "
        "quick run it has a single one. Pegasos draws the rows of a step from all rows, with replacement.",
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
        "Table 3", "other algorithms that gossip", "The time of Dist-Eval is that of training at a site and a site's "
        "share of the filter for all test rows; its bytes are those of the filter. The standard deviation of its time "
        "is that of the training alone, and its accuracy has none, since the answers of one site alone are kept. "
        "ASG-SVM ends at all sites at one time. The paper's threshold "
        f"for it, {number('Section 5.5.2', 'threshold of ASG'):g}% of the local training rows, is less than one row; "
        "here it is a share of the rows of a class that a site holds, and one row of each class at least. Which rows "
        f"rank first is not printed; here they are the nearest to the plane. {texts.ROWS_OF_COVERTYPE}",
        {"ASG SVM": "asg-svm", "Dist-Eval": "dist-eval", "CHOCO-SGD": "choco-sgd"},
        (printed.ASG, printed.DIST_EVAL, printed.CHOCO), covertype=texts.MAX_COVERTYPE,
    ),
    _printed(
        "Table 4", "state-of-the-art classifiers, pseudo-distributed", "GADGET learns at all sites together. The other "
        "classifiers are trained at each site on its own rows, and their accuracies are averaged; averaged models, and "
        "one classifier of all rows in one place, are ours. In our reading SVM-Perf's C is so small that its weights "
        "are proportional to the mean of y x, whatever the margins: where one class is more frequent, the answer may "
        "be the same for all rows. Dist-ADMM has the parameters of Table 7, and those of quantum for real-sim and for "
        f"data of yours, for which there are none. {texts.LIMITS_OF_ADMM}: the paper's seconds are until convergence. "
        f"{texts.ROWS_OF_COVERTYPE}",
        {"SVM-Perf": "svm-perf", "LIBLINEAR": "liblinear", "LIBSVM": "libsvm", "Dist-ADMM": "dist-admm"},
        printed.TABLE_4, printed.TABLE_4_OURS, covertype=texts.MAX_COVERTYPE,
    ),
    _printed(
        "Table 5", "penalised linear regression", "GADGET learns at all sites together; the paper's figures of it are "
        "those of Table 4, to which the caption refers. Regressions are fitted at each site to its own rows, with "
        "labels of minus one and one. That sites are alone is our reading: the paper says it of Table 4 only.",
        {"Lasso": "lasso", "Ridge": "ridge", "Elastic Net": "elastic net"}, printed.TABLE_5,
    ),
    _printed(
        "Table 6", "random forests, boosting and multilayer perceptrons", "GADGET learns at all sites together; the "
        "paper's figures of it are those of Table 4, as for Table 5: that Table 6 refers there as well is our guess, "
        "since its caption is not in our copy of the text. The other classifiers are trained at each site on its own "
        "rows, which is our reading: the paper says it of Table 4 only.",
        {"Random Forest": "random forest", "Boosting": "boosting", "MultiLayer Perceptrons": "mlp"},
        printed.TABLE_6, printed.TABLE_6_OURS,
    ),
    Part(
        name="table-7",
        title="Table 7: the parameters of ADMM",
        about="Dist-ADMM with the parameters of each row of the table, also on data for which the paper has others. "
        "For real-sim the table has none, since ADMM did not converge in a day. Convergence is proved for an alpha "
        f"between 0 and 2 (Eckstein and Bertsekas, 1992). {texts.LIMITS_OF_ADMM}.",
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

_STAND_IN = "on the production line or a stand-in"
_PRODUCTION = partial(
    Part,
    data=(Sample("bosch", 500_000, train_rows=500_000), _RARE),
    quick_data=(_RARE,),
    methods=printed.PRODUCTION,
    parameters=_with(max_iter=printed.ITERATIONS),
    seeds=(0,),
    examine=of_production_line,
)
_OF_THE_LINE = (
    _PRODUCTION(
        name="figure-3",
        title=f"Figure 3: accuracy of the sites of a hub by termination, {_STAND_IN}",
        about="The largest and the mean accuracy of every site until it first converged. Accuracies are measured after "
        "1, 2, 3, 4, 5, 7, ... iterations, each time about a quarter more than the last: means are over these "
        "measurements, and the accuracy at convergence is that of the last one until then. "
        f"{texts.RULES_OF_THE_LINE}",
        figures=(Traces("Figure 3, left: largest accuracy", "largest", "site", "accuracy, %", pillars=True),
                 Traces("Figure 3, right: mean accuracy", "mean", "site", "accuracy, %", pillars=True)),
        tables=(Table("Where sites have converged", tuple(
            f"{metric}_at_{n}" for n in printed.QUIETS for metric in ("accuracy", "converged")),
                      note=texts.said_of_the_line()),),
    ),
    _PRODUCTION(
        name="figure-4",
        title=f"Figure 4: how often sites converge in {printed.ITERATIONS:,} iterations, {_STAND_IN}",
        about=f"The share of the sites that have converged at least so many times. {texts.RULES_OF_THE_LINE}",
        figures=(Traces("Figure 4", "times", "times converged", "sites, %"),),
        answer=answers.times_converged,
    ),
    _PRODUCTION(
        name="figure-5",
        title=f"Figure 5: accuracy and primal objective at one hub, {_STAND_IN}",
        about="Accuracy and objective of the first of the ten sites, which runs on for all "
        f"{printed.ITERATIONS:,} iterations; the paper's sites have converged after "
        f"{printed.N_QUIET_OF_THE_LINE} quiet ones in a row. The objective is that of all training rows. "
        f"{texts.ROWS_OF_THE_LINE}",
        figures=(Traces("Figure 5, accuracy", "hub accuracy", "iteration", "accuracy, %", logarithmic=True),
                 Traces("Figure 5, objective", "hub objective", "iteration", "primal objective", logarithmic=True)),
    ),
    _PRODUCTION(
        name="section-6",
        title=f"Section 6: GADGET, SVM-Perf and LIBLINEAR, {_STAND_IN}",
        about="The accuracies of the text, and what the paper leaves for future work: how many rows of the rare class "
        "are predicted right, and oversampling, by which rows of that class are repeated. GADGET runs until all sites "
        f"have converged by Converge@{printed.N_QUIET_OF_THE_LINE} itr. {texts.ROWS_OF_THE_LINE}",
        methods=printed.SOLVERS,
        tables=(Table("Accuracy", ("accuracy", "rare_accuracy", "balanced_accuracy", "rounds", "converged", "seconds"),
                      figures("Section 6", {"GADGET": "gadget", "SVM-Perf": "svm-perf", "LIBLINEAR": "liblinear"},
                              ["accuracy"]), texts.said_of_the_line()),),
        answer=answers.production_line,
    ),
)  # fmt: skip

# ---- parts that are ours ---------------------------------------------------------------------------------------------

_A9A, _COVTYPE, _USPS = Sample("a9a"), Sample("covtype.libsvm.binary", 50_000), Sample("usps, 4 or 9")
_ROUNDS = {f"{n} rounds": {"max_iter": n} for n in (10, 30, 100, 300, 1000)}
_DEALS = {"at random": {"shards": "random"}, "sorted by label": {"shards": "sorted"}}
_OURS = partial(Part, examine=beside_the_optimum, seeds=(0,))
_TUNED = "Their parameters are those that a search of ours on 5,000 rows of a9a found best"


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
                   note="Lines join runs of more and more rounds."),
            Figure("The worst site's objective above the optimum, against rounds", "rounds", "worst_excess",
                   joined=True),
            Figure("The worst site's accuracy against bytes", "bytes", "worst_accuracy", joined=True),
        ),
        tables=(Comparison("Objective after more and more rounds", "worst_excess", "method"),
                Comparison("Bytes after more and more rounds", "bytes", "method")),
        answer=answers.what_a_percent_costs,
    )  # fmt: skip


_OF_OURS = (
    _OURS(
        name="forms",
        title="GADGET with each of its printed steps, and mended",
        about=f"The sites run 2,000 iterations with one row a step and lambda = {printed.LAMBDA:g}.",
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
        about="Steps are on one row, and runs end after 5,000 iterations at the latest. The paper words the rule in "
        f"three ways: in {printed.N_QUIET} successive iterations the weights, or their norm, change by less than "
        f"{printed.EPSILON:g}; or, most often, the norm itself is below {printed.EPSILON:g}, as it never is once "
        "something has been learnt. Here it is read in the first two ways. A step moves weights w by up to |w| / t + "
        "R / (lambda t), with R the length of a row: with lambda = 0.0001 the second term is below "
        f"{printed.EPSILON:g} from t = {1 / (1e-4 * printed.EPSILON):,.0f} R on. Weights that the projection has just "
        "shortened all have the norm 1/sqrt(lambda), so that by the norm Pegasos may end within its first iterations.",
        data=(_A9A, _COVTYPE),
        quick_data=_QUICK,
        methods=(printed.GADGET, printed.PEGASOS),
        parameters=_with(batch_size=1, max_iter=5000),
        cases=printed.RULE,
        quick_cases=[*printed.RULE][:2] + [*printed.RULE][-3:-2],
        examine=of_sites,
        tables=(Comparison("At the end", "rounds", "case"), Comparison("At the end", "accuracy", "case")),
        answer=answers.convergence_of_rules,
    ),
    _along_bytes(
        "bytes", "What bytes and rounds buy",
        f"The methods learn for more and more rounds, from rows that are dealt to the sites at random. {_TUNED}.",
        methods.AT_RANDOM, _with(),
    ),
    _along_bytes(
        "bytes-sorted", "What bytes and rounds buy where sites hold different classes",
        f"The methods learn for more and more rounds, from rows that are dealt to the sites sorted by label. {_TUNED}.",
        methods.SORTED, _with(shards="sorted"),
    ),
    replace(
        _along_bytes(
            "bytes-kernel", "What bytes and rounds buy with a kernel",
            "The same for a Gaussian kernel, with gamma = 1 on ijcnn1 and 10 on svmguide1: machines on 200 random "
            "Fourier features, which are equal at all sites, from rows that are dealt to the sites at random. The "
            "optimum is that on these features. Parameters are those that a search of ours on ijcnn1 found best.",
            methods.KERNEL, _gamma,
        ),
        data=(Sample("ijcnn1", 5000), _SMALL), cases={name: _ROUNDS[name] for name in [*_ROUNDS][:-1]},
        takes_files=False, examine=behind_features,
    ),
    _OURS(
        name="all-methods",
        title="All methods",
        about=f"Ten sites learn for 1,000 rounds at most. {_TUNED}. They are compared with averaged classifiers of "
        "each site alone, and with classifiers of all rows in one place.",
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
                                            "messages", "bytes", "rows_shared", "seconds"),
                      note="Seconds of gossip learning with a vote, of Dist-Eval and of averaged classifiers are those "
                      "of one site. All others are those of a whole fit: of ten sites in one process, with the bound "
                      "of how far from the optimum they are, or of all rows in one place."),),
    ),
    _OURS(
        name="tuning",
        title="The grids of steps, batches and rounds",
        about="The points that were tried, each after 300 rounds on 5,000 rows; the other parts have the best of them.",
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
        about="Ten sites learn by decentralised gradient descent on a complete graph, for 300 rounds. Two of them lie, "
        "by attacks of the literature, and all merge what they receive by one of several rules. Accuracies are those "
        "of the worst of the eight honest sites.",
        data=(Sample("a9a", 5000), _SMALL),
        quick_data=(_SMALL,),
        methods=methods.ROBUST,
        parameters=_with(max_iter=300),
        cases={name: {"attack": name} for name in methods.ATTACKS},
        tables=(Comparison("Accuracy", "honest_accuracy", "case"),),
        answer=answers.what_liars_cost,
    ),
)  # fmt: skip

EXPERIMENT = Experiment(
    name="gossip",
    title="Gossip and its rivals",
    about="Ten sites learn a linear classifier together, by gossip with their neighbours. The first parts are the "
    "tables and figures of the GADGET paper, and compare its algorithm with others. The other parts are ours: they "
    "compare what sites send, and how near they come to the classifier of all rows. Rows stay at their sites, except "
    f"that ASG-SVM and MSG-SVM send some. {texts.DIFFERENCES}",
    source="A Consensus Algorithm for Linear Support Vector Machines (earlier: Dutta, Nataraj, arXiv:1812.02261)",
    parts=(*_OF_THE_PAPER, *_OF_THE_LINE, *_OF_OURS),
    libraries=("networkx", "msgspec"),
)
