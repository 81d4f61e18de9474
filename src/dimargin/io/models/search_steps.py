"""Searches in model files, with their best estimator and its scores, and pipelines inside of them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline

from dimargin.io.models.declared_values import Declared, is_whole

_FOUND: dict[str, Declared] = {
    "best_estimator_": BaseEstimator, "best_params_": object, "best_score_": float, "cv_results_": object,
    "n_splits_": int,
}  # fmt: skip
GRID_SEARCH: dict[str, Declared] = _FOUND | {"best_index_": int, "refit_time_": float, "multimetric_": bool}
HALVING: dict[str, Declared] = GRID_SEARCH | {
    "n_resources_": object, "n_candidates_": object, "n_remaining_candidates_": int, "n_iterations_": int,
    "n_required_iterations_": int, "n_possible_iterations_": int, "min_resources_": int, "max_resources_": int,
}  # fmt: skip
MACHINE_SEARCH: dict[str, Declared] = _FOUND | {
    "best_index_": (int, None), "rounds_": object, "edges_": object, "search_seconds_": float,
    "refit_seconds_": float,
}  # fmt: skip


def stored_parameters(search: Any) -> dict[str, Any]:
    """Return the parameters of a search; raises ValueError for a search that files cannot store."""
    check_search(search)
    parameters = search.get_params(deep=False)
    if parameters["estimator"] is not None:
        parameters["estimator"] = clone(parameters["estimator"])  # It may be fitted.
    return dict(parameters)


def check_search(search: Any) -> None:
    """Raise ValueError for a search without a best estimator, with invalid results, or with scores without a name."""
    kind, scoring = type(search).__name__, search.scoring
    if not hasattr(search, "best_estimator_") or callable(vars(search).get("refit")):
        raise ValueError(f"the {kind} has no best estimator, or chose it by a function; fit it with refit=True")
    names = {scoring} if isinstance(scoring, str) else set(_scorers_by_name(scoring).values())
    if scoring is not None and not (names and names <= set(get_scorer_names())):
        raise ValueError(f"scoring of the {kind} must be None or names of scikit-learn's scorers, got {scoring!r}")
    results, best, grid = search.cv_results_, search.best_params_, _grid_of(search)
    sound = (
        isinstance(best, dict)
        and isinstance(results, dict)
        and all(isinstance(name, str) for name in (*best, *results))
        and all(isinstance(column, (list, np.ndarray)) for column in results.values())
        and len({len(column) for column in results.values()}) == 1
        and all(isinstance(given, dict) for given in results["params"])
        and isinstance(grid, (dict, list, type(None)))
    )
    if not sound:
        raise ValueError(f"best_params_, cv_results_ or the grid of the {kind} are invalid")
    grids = grid if isinstance(grid, list) else [grid or {}]
    if any(str(name).endswith("memory") for given in (best, *results["params"], *grids) for name in given):
        # A pipeline would unpickle what is in this folder.
        raise ValueError(f"the {kind} chooses the memory of a pipeline, which model files do not hold")


def _grid_of(search: Any) -> Any:
    return search.param_distributions if isinstance(search, RandomizedSearchCV) else search.param_grid


def _scorers_by_name(scoring: Any) -> dict[str, str]:
    """Return the names of scorers by the names of their scores; empty for anything but a collection of texts."""
    if isinstance(scoring, (list, tuple)):
        scoring = {name: name for name in scoring if isinstance(name, str)}
    is_known = isinstance(scoring, dict) and all(isinstance(text, str) for pair in scoring.items() for text in pair)
    return dict(scoring) if is_known else {}


def check_machine_search(search: Any) -> None:
    """Raise ValueError for invalid parameters or attributes of an ODMClassifierCV or SVMClassifierCV."""
    check_search(search)
    if not isinstance(search.edges_, dict) or not _is_list(search.rounds_, lambda entry: isinstance(entry, dict)):
        raise ValueError(f"edges_ or rounds_ of the {type(search).__name__} are invalid")
    best = vars(search).get("best_index_")
    if best is not None and not 0 <= best < len(search.cv_results_["params"]):
        raise ValueError(f"best_index_ of the {type(search).__name__} is not an entry of cv_results_")


def check_grid_search(search: GridSearchCV | RandomizedSearchCV | HalvingGridSearchCV) -> None:
    """Raise ValueError for invalid parameters or attributes of a search of scikit-learn."""
    check_search(search)
    search._validate_params()
    kind, names = type(search).__name__, _scorers_by_name(search.scoring)
    if search.multimetric_ != bool(names) or (names and search.refit not in names):
        raise ValueError(f"scoring, refit and multimetric_ of the {kind} do not fit together")
    if not re.fullmatch(r"all|[0-9]+|([0-9]{1,4} ?\* ?)?n_jobs", str(search.pre_dispatch)):
        raise ValueError(f"pre_dispatch of the {kind} must be 'all', a number or a multiple of 'n_jobs'")
    if isinstance(search, HalvingGridSearchCV) and not all(
        _is_list(given, is_whole) for given in (search.n_resources_, search.n_candidates_)
    ):
        raise ValueError(f"n_resources_ or n_candidates_ of the {kind} are not integers")


def _is_list(value: Any, of: Any) -> bool:
    return isinstance(value, list) and all(map(of, value))


def set_scorer(search: GridSearchCV | RandomizedSearchCV | HalvingGridSearchCV) -> None:
    """Set the scorer of a checked search by its name."""
    best, names = search.best_estimator_, _scorers_by_name(search.scoring)
    scorers = {name: check_scoring(best, scorer) for name, scorer in names.items()}
    search.scorer_ = scorers or check_scoring(best, search.scoring)


def stored_pipeline(pipeline: Pipeline) -> dict[str, Any]:
    """Return the steps of a pipeline as its only parameter: a file neither chooses nor knows its `memory`."""
    return {"steps": [(name, "passthrough" if step is None else step) for name, step in pipeline.steps]}


def check_pipeline(pipeline: Pipeline) -> None:
    """Raise ValueError for steps of a pipeline that are not estimators with names."""
    steps = pipeline.steps
    sound = (
        _is_list(steps, lambda pair: isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str))
        and len(steps) > 0
        and all(isinstance(step, BaseEstimator) or step == "passthrough" for _, step in steps)
        and pipeline.memory is None
    )
    if not sound:
        raise ValueError("the steps of a pipeline are not estimators with names")
