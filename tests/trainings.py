"""Training problems for tests of strategies, and what records their levels."""

from dataclasses import replace

from helpers import scattered

from dimargin.kernels.functions import Kernel
from dimargin.solvers import Limits
from dimargin.strategies import Facts, Progress, Training, TreeShape

RBF = Kernel("rbf", gamma=0.8)
TREE = TreeShape(branching=2, n_levels=2)
LEVEL_2 = replace(TREE, stop_level=2)


def training(problem, shape, tol=1e-6, n_threads=1, start=None, **options):
    rows = scattered(problem, start=start, n_threads=n_threads)
    return Training(
        facts=Facts.of(problem),
        rows=rows,
        limits=Limits(tol=tol, cancelled=rows.engine.cancelled),
        shape=shape,
        random_state=0,
        started=start is not None,
        **options,
    )


class Recorder(Progress):
    """Keeps the model of every level."""

    def __init__(self):
        self.models, self.begun = [], []

    def level_begin(self, level, n_tasks):
        self.begun.append((level, n_tasks))

    def level_end(self, entry, found):
        self.models.append(found())
        return False
