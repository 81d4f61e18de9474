"""Work of the process of a cell."""

from __future__ import annotations

import os
import threading
import traceback
import warnings
from multiprocessing import parent_process
from multiprocessing.connection import Connection

import joblib
from sklearn.exceptions import ConvergenceWarning

from dimargin_bench.experiments.declarations import Cell
from dimargin_bench.experiments.metrics import measure
from dimargin_bench.experiments.outcome import DONE, NOT_FINITE, RAISED, Outcome

STARTED = "started"


def work(cell: Cell, data: str, results: Connection) -> None:
    """Send `STARTED` when the data are here, so that the time limit runs from then on, and then the outcome.

    The process leads a group of its own, so that Ctrl-C reaches the parent only, and that processes
    which the method started can be ended with it. It ends when the parent does.
    """
    os.setsid()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    split = joblib.load(data)
    results.send(STARTED)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        if cell.method.ends_early:
            warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            metrics, traces = measure(cell.make, split, cell.examine)
            outcome = Outcome(DONE, metrics, traces=traces)
        except FloatingPointError as error:
            outcome = Outcome(NOT_FINITE, reason=str(error), traceback=traceback.format_exc())
        except Exception as error:
            outcome = Outcome(RAISED, reason=_in_a_line(error), traceback=traceback.format_exc())
    outcome.warnings.extend(dict.fromkeys(f"{one.category.__name__}: {one.message}" for one in caught))
    results.send(outcome)


def _in_a_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
