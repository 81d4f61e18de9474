"""Texts of the page on gossip: what the GADGET paper leaves open, and where the runs here differ from its own."""

from __future__ import annotations

from dimargin_bench.experiments import gossip_printed as printed
from dimargin_bench.experiments.examine_sites import ALPHA
from dimargin_bench.experiments.gossip_published import DATA, number, samples

MAX_COVERTYPE = 50_000  # Training rows of covertype in the parts whose methods would take hours with all of them.
DIFFERENCES = (
    f"The paper prints neither GADGET's lambda (here {printed.LAMBDA:g}) nor the network (here a ring) nor the rounds "
    'of Push-Sum in an iteration (here one) nor its shares (here a half). In the parts from "What bytes and rounds '
    f"buy\" on, lambda is {ALPHA:g}, and a search of ours chose the rounds. The paper's classifier is w'x; here all "
    f"linear classifiers have an intercept, too. Runs end after {printed.ITERATIONS:,} iterations at the latest, a "
    "number that the paper has for its Figure 4 only. It averages over several runs; tables here have medians over "
    "the seeds, of which covertype has one. Its sites test on a tenth of the test rows each, here on all of them. It "
    "oversamples a class of gisette's training rows, which is not done here. Its clock is that of another simulator "
    "on another computer; here ten sites take turns in one process. In the tables and figures of the paper and in the "
    "parts on its printed steps and its rule of convergence, the seconds of sites that take turns are divided by ten."
)
WHEN_MEASURED = (
    "Rounds and accuracies of sites that learn by gossip are those when the last one has converged; seconds are means "
    "over the sites of the time until each converged, as in the paper's tables, though its equation (6) has the time "
    "until all have."
)
ROWS_OF_COVERTYPE = (
    f"Of covertype at most {MAX_COVERTYPE:,} training rows are used, unless `--rows` has more; the paper's are "
    f"{number('Section 5.2', 'training rows', data='covertype'):,.0f}."
)
LIMITS_OF_ADMM = (
    f"The ten subsystems of a site, the tolerances and the limit of {printed.ADMM['quantum']['max_iter']} iterations "
    f"({printed.ADMM['covertype']['max_iter']} with the parameters of covertype) are ours"
)
ROWS_OF_THE_LINE = (
    "The rows are those of the production line (bosch) where they are on this computer; cod-rna with 0.6% positive "
    "rows stands in for them."
)
RULES_OF_THE_LINE = (
    "By Converge@4 itr, Converge@8 itr and Converge@10 itr a site has converged when 4, 8 or 10 successive "
    f"iterations have changed the norm of its weights by less than {printed.EPSILON:g}; all {printed.ITERATIONS:,} "
    f"iterations are run. {ROWS_OF_THE_LINE}"
)


def uneven_batches() -> str:
    """Return the largest mini-batches of sites of the paper's data whose rows they do not divide evenly."""
    largest = max(size for size in printed.BATCHES.values() if size)
    found = []
    for data, sample in zip(DATA, samples(), strict=True):
        rows = (sample.train_rows or 0) // printed.N_SITES
        n_batches = max(1, rows // largest)
        if rows != n_batches * largest:
            found.append(f"{n_batches} of {rows // n_batches:,} rows ({data})")
    return ", ".join(found)


def said_of_the_line() -> str:
    """Return what the paper says of accuracies on the production line."""
    largest, around, average = (
        f"{number('Section 6', metric, setting=setting):g}%"
        for metric, setting in (
            ("maximum accuracy of some sites", "Converge@8 itr or Converge@10 itr"),
            ("accuracy (around)", "Converge@4 itr"),
            ("average accuracy", "Converge@10 itr"),
        )
    )
    gadget, perf, liblinear = (
        f"{number('Section 6', 'accuracy', method=method):g}%" for method in ("GADGET", "SVM-Perf", "LIBLINEAR")
    )
    return (
        f"Of the production line the paper says that some sites reach an accuracy of {largest} by Converge@8 itr or "
        f"Converge@10 itr, that accuracies hover around {around} by Converge@4 itr, and that GADGET has {average} by "
        f"Converge@10 itr on average. It compares {gadget} for GADGET with {perf} for SVM-Perf and {liblinear} for "
        "LIBLINEAR, and does not say whether these are shares of all test rows or of the failures."
    )
