"""Commands of the command line that this distribution adds, by entry points of the group "dimargin.commands"."""

from dimargin.cli.root import Command

BENCH = Command(
    "dimargin_bench.cli.bench", "Run an experiment and write a page of results, beside the figures of its paper."
)
DATASETS = Command("dimargin_bench.cli.datasets", "List, find, fetch and convert the data sets of the papers.")
