"""Methods for tests of experiments, in a module that the processes of cells can import."""

import os
import signal
import subprocess
import sys
import time
import warnings
from multiprocessing import parent_process
from pathlib import Path

import numpy as np
from sklearn.naive_bayes import GaussianNB

import dimargin as dm
from dimargin_bench.experiments.declarations import Cell, Experiment, Figure, Method, Part, Sample, Table
from dimargin_bench.experiments.experiment_run import DataFacts, PartResults, Record
from dimargin_bench.experiments.outcome import DONE, Outcome


class Misbehaving(GaussianNB):
    """A classifier that does something on its way."""

    def __init__(self, what="", file=None, random_state=None):
        super().__init__()
        self.what, self.file, self.random_state = what, file, random_state

    def fit(self, X, y):
        if self.file is not None:
            with open(self.file, "a") as file:
                file.write(f"{os.getpid()}\n")
        getattr(self, f"_{self.what}", lambda: None)()
        return super().fit(X, y)

    def predict(self, X):
        predicted = super().predict(X).astype(float)
        if self.what == "predicts_nan":
            predicted[0] = np.nan
        return predicted

    def _throws(self):
        raise RuntimeError("no such\nluck")

    def _hangs(self):
        time.sleep(600)

    def _has_a_child(self):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        Path(self.file).write_text(f"{os.getpid()}\n{child.pid}\n")
        time.sleep(600)

    def _interrupts(self):
        os.kill(parent_process().pid, signal.SIGINT)  # as Ctrl-C would
        time.sleep(60)

    def _is_killed(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def _crashes(self):
        os.kill(os.getpid(), signal.SIGSEGV)

    def _leaves(self):
        os._exit(3)

    def _has_no_objective(self):
        self.objective_ = float("nan")

    def _warns(self):
        warnings.warn("a word of warning", UserWarning, stacklevel=1)


def misbehaving(**parameters):
    return Misbehaving(**parameters)


def exact(random_state):
    return dm.SVMClassifier(fit_intercept=False, C=10.0, gamma=2.0, strategy="exact", random_state=random_state)


def tree(random_state):
    return dm.ODMClassifier(gamma=2.0, strategy="diodm", n_levels=1, random_state=random_state)


def gossip(random_state):
    return dm.GossipSVMClassifier(n_sites=4, max_iter=30, random_state=random_state)


def experiment(*whats, file=None, **own):
    """An experiment of one part on the data set "svmguide1", with an exact machine, a naive one and misbehaving ones.

    Values in `own` are those of the part.
    """
    names = ("", *whats)
    part = Part(
        name="scores", title="Scores of all", about="Small machines.",
        methods=(
            Method("exact", exact, "an exact machine"),
            *(Method(what or "naive", misbehaving, f"one that {what or 'behaves'}", threads="one") for what in names),
        ),
        parameters=lambda data, method: {} if method == "exact" else {
            "what": "" if method == "naive" else method, "file": None if file is None else str(file)},
        tables=(
            Table("Scores", ("accuracy", "objective", "support_vectors", "messages"),
                  {("svmguide1", "exact", "accuracy"): 0.9876}, "Another machine."),
        ),
        figures=(Figure("Accuracy against seconds", "seconds", "accuracy"),),
        takes_files=True,
        **{"data": (Sample("svmguide1"),), "quick_data": (Sample("svmguide1"),), "seeds": (0,), **own},
    )  # fmt: skip
    return Experiment("trial", "A trial", "Parts with small machines.", "nobody", parts=(part,), quick_rows=50)


def made_up(part, cells):
    """Results of a part: for each data set, method, case and seed its metrics."""
    methods = {method.name: method for method in part.methods}
    names = dict.fromkeys(data for data, *_ in cells)
    found = PartResults(part, [DataFacts(name, name, 10, 5, 2, 2, "") for name in names])
    for (data, method, case, seed), metrics in cells.items():
        found.records.append(Record(Cell(data, methods[method], {}, seed, case), "", Outcome(DONE, metrics)))
    return found
