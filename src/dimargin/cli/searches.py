"""Searches as the commands run them: their display, and the one with which train chooses between two machines."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from dimargin.cli.terminal import FitDisplay
from dimargin.estimators import SVMClassifier
from dimargin.estimators.search import SVMClassifierCV, round_text

FIRST_MACHINES: tuple[dict[str, list[Any]], ...] = (
    {"loss": ["hinge"], "C": [1.0]},
    {"loss": ["squared_hinge"], "C": [10.0]},
)
"""Machines between which `dimargin train` chooses.

The first is that of SVC's defaults. The mean accuracy of the second on twenty data sets is 1.1 points higher, but lower
where labels are noisy (docs/defaults.md).
"""


class SearchDisplay(FitDisplay):
    """Display of the rounds of a search, and then of the fit of the best candidate."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._searching = True
        self.stopping = "Stopping the search; the best candidate so far is trained as the model"

    def level_begin(self, level: int, n_tasks: int | None) -> None:
        """Start a new bar, of the kernels and folds of a round or of the gap in the final fit."""
        super().level_begin(level, n_tasks)
        if self._searching:
            self.describe(f"round {level}, kernels and folds")

    def level_end(self, entry: dict[str, Any], found: Any) -> bool:
        """Print a line about the round."""
        if "best_score" not in entry:
            return super().level_end(entry, found)
        self.say(round_text(entry))
        return False

    def refit_begin(self) -> None:
        """Switch to the display of the final fit."""
        self._searching, self.stopping = False, FitDisplay.stopping


def first_search(machine: SVMClassifier, y: Any) -> SVMClassifierCV | None:
    """Return the search among `FIRST_MACHINES`, or None if rows with these labels cannot be cross-validated.

    It has five folds and a smaller gap than other searches, since the two candidates may differ by little;
    docs/defaults.md compares the accuracy of what it chooses with that of SVC.
    """
    if machine.kernel == "precomputed" or max(np.unique(np.asarray(y), return_counts=True)[1]) < 2:
        return None
    return SVMClassifierCV(
        machine, FIRST_MACHINES, cv=5, search_tol=0.05, max_time=machine.max_time, n_jobs=machine.n_jobs,
        random_state=machine.random_state,
    )  # fmt: skip


FIRST_NAMES = " and ".join(f"{machine['loss'][0]} with C={machine['C'][0]:g}" for machine in FIRST_MACHINES)


def choice_text(search: SVMClassifierCV) -> str:
    """Return a message on what the search among `FIRST_MACHINES` has chosen."""
    best, chosen = search.best_params_, search.best_estimator_
    what = f"{chosen.loss} with C={chosen.C:g} is"
    scores = [values for name, values in search.cv_results_.items() if re.fullmatch(r"split\d+_test_score", name)]
    scored = np.isfinite(scores).sum(axis=0)
    if scored.min() == search.n_splits_:
        return f"cross-validated {FIRST_NAMES}: {what} chosen, accuracy {100 * search.best_score_:.2f}%"
    folds = " and ".join(f"{number} of {search.n_splits_}" for number in scored)
    known = f", accuracy in these folds {100 * search.best_score_:.2f}%" if best else ""
    return f"the cross-validation of {FIRST_NAMES} was cut short, with scores of {folds} folds: {what} trained{known}"
