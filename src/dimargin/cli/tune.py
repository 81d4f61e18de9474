"""``dimargin tune``: choice of parameters by cross-validation, from a data file to a model file."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from rich.table import Table
from sklearn.base import clone

from dimargin.cli.brief_help import Application
from dimargin.cli.column_flags import ColumnChoices, column_flags
from dimargin.cli.estimator_flags import (
    DEFAULT_LOSS,
    LOSSES,
    SEED,
    flags,
    make_machine,
    parameters,
    parsed_value,
    read_grid,
    values_of,
)
from dimargin.cli.file_flags import data_option
from dimargin.cli.flags import add_command, optional_flag, usage_checked
from dimargin.cli.probabilities import CalibrationOption, ProbabilitiesOption, chosen_method, with_probabilities
from dimargin.cli.row_columns import GroupOption, WeightOption
from dimargin.cli.searches import SearchDisplay
from dimargin.cli.shared import (
    NAMES,
    DataArgument,
    JsonOption,
    LabelOption,
    Output,
    QuietOption,
    Scale,
    Trained,
    check_output,
    check_plot,
    draw,
    fitted,
    leave_interrupted,
    plot_option,
    scaled,
)
from dimargin.cli.training_rows import Steps, fitted_steps, read_training_rows, say_training_rows, scaling_of
from dimargin.display import TuningDisplay
from dimargin.estimators.machines import machines_for
from dimargin.estimators.search import SVMClassifierCV, counted_entries
from dimargin.io.data import DataSet

_TUNED = ("gamma", "lam", "upsilon", "theta", "C")
_EXCLUDED = ("estimator", "param_grid", "verbose")  # The command line handles these parameters itself.


def _tune(
    data: DataArgument,
    model: Annotated[Path, typer.Option("--model", "-m", help="File for the tuned model.", dir_okay=False)],
    task: Annotated[
        Literal["classification", "regression"], typer.Option(help="Only classifiers can be tuned.", hidden=True)
    ] = "classification",
    loss: Annotated[
        str,
        typer.Option(help=f"Loss: {LOSSES}. --grid may hold loss, to try both hinges."),
    ] = DEFAULT_LOSS,
    grid: Annotated[
        str | None,
        typer.Option(
            help="Values to try, as JSON: an object, or a list of them, with lists of values for gamma, lam, upsilon, "
            "theta, C, loss, kernel, degree, coef0, class_weight and fit_intercept, as far as the machine has them. "
            'Example: {"gamma": [0.5, 2, 8], "lam": [1e4, 1e6]}',
            show_default="a grid around gamma=scale",
        ),
    ] = None,
    table: Annotated[int, typer.Option(min=0, help="Number of best candidates to print.")] = 10,
    plot: Annotated[Path | None, plot_option("Plot the candidates' scores")] = None,
    label: LabelOption = None,
    weight: WeightOption = None,
    group: GroupOption = None,
    scale: Annotated[
        list[Scale] | None,
        typer.Option(
            help="Scaling, fitted on the training rows and stored in the model; sparse rows are not centred. May be "
            "repeated: each scaling gets an equal part of --max-time, and the one with the best score is used.",
            show_default="minmax",
        ),
    ] = None,
    probabilities: ProbabilitiesOption = False,
    calibration: CalibrationOption = None,
    validate: Annotated[Path | None, data_option(help="Data to score the tuned model on.")] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    **given: Any,
) -> None:
    """Choose the parameters of a machine by cross-validation, train it with them and save it.

    Example: dimargin tune train.csv --label class --model spam.dimargin --max-time 600 --plot tried.png

    Ctrl-C ends the search and trains the best candidate so far; a second Ctrl-C quits immediately.
    """
    out = Output(as_json, quiet)
    with usage_checked():
        check_output("--model", model, data, validate)
        check_plot(plot, data, validate)
        if task == "regression" or loss in machines_for("regression"):
            raise ValueError(
                "tune chooses parameters of classifiers; for regression give --C, --epsilon and --gamma to train, or "
                "search in Python by GridSearchCV (docs/guide/regression.md)"
            )
        _refuse_tuned(given)
        columns = ColumnChoices.of(given)
        method = chosen_method(probabilities, calibration, None)
        own = {name: given.pop(name) for name in parameters(SVMClassifierCV, _EXCLUDED)}
        machine = make_machine(loss, given | {name: own[name] for name in ("n_jobs", "random_state")}, [])
        search = SVMClassifierCV(
            machine, None if grid is None else read_grid(grid), **{"random_state": SEED} | values_of(own)
        )
    rows, transformer = read_training_rows(data, columns, label, weight, group)
    scalings = [fitted_steps(rows, transformer, kind, seed=machine.random_state) for kind in scale or [Scale.minmax]]
    say_training_rows(data, rows, scalings[0], out)
    tried: list[tuple[str, SVMClassifierCV]] = []

    def fit() -> Trained:
        done = _best_of(scalings, search, rows, machine.tol, columns.notes, out, tried)
        return replace(done, machine=done.machine.best_estimator_)

    done = with_probabilities(method, search, None, rows, fit, out)
    search = next(one for _, one in tried if one.best_estimator_ is done.machine)
    tuned = done.save(model, out)
    draw(lambda: TuningDisplay.from_estimator(search), plot, out, "what was tried is")
    best = {name: _plain(value) for name, value in search.best_params_.items()}
    facts = {
        **done.facts(model),
        "search_seconds": sum(one.search_seconds_ for _, one in tried),
        "candidates": sum(len({str(params) for params in one.cv_results_["params"]}) for _, one in tried),
        "best": best,
        "edges": search.edges_,
        "cross_validated_score": float(search.best_score_) if best else None,
        **tuned.certificate(),
        **tuned.validation(validate, label, columns.reading, out.warn),
    }
    for name, end in search.edges_.items():
        side = "smaller" if end == "smallest" else "larger"
        out.say(f"the best {name} is the {end} that was tried: a {side} one may be better (--grid)")
    if table and not (as_json or quiet):
        out.console.print(_tried(tried, table))
        out.say("scores of earlier rounds are of fewer rows and folds: compare candidates within a round")
    out.result(facts, NAMES)
    if done.interrupted:
        lost = f" without probabilities; add them with: {columns.resuming(str(data), model, method)}" if method else ""
        leave_interrupted(out, f"the best machine so far is in {model}{lost}")


def _refuse_tuned(given: dict[str, Any]) -> None:
    """Remove the flags of parameters in the grid; raises ValueError, which names --grid, if one has a value."""
    for name in _TUNED:
        if (text := given.pop(name)) is not None:
            grid = json.dumps({name: [parsed_value(part.strip()) for part in text.strip("[]").split(",")]})
            raise ValueError(f"--{name} is for train; tune tries the values in --grid: --grid {shlex.quote(grid)}")


def _best_of(
    scalings: list[Steps],
    search: SVMClassifierCV,
    rows: DataSet,
    tol: float,
    columns: dict[str, Any],
    out: Output,
    tried: list[tuple[str, SVMClassifierCV]],
) -> Trained:
    """Search with each scaling of the rows, until interrupted, and return the best result.

    Appends the names of the scalings and the searches to `tried`; the seconds of the result are those of all.
    """
    found = list[Trained]()
    for steps in scalings:
        one, name = clone(search), scaling_of(steps).replace("none", "no scaling")
        if len(scalings) > 1:
            out.say(f"search with {name}")
        if search.max_time is not None:
            one.set_params(max_time=search.max_time / len(scalings))
        display = SearchDisplay(out.errors, tol, out.quiet)
        found.append(fitted(one, steps, rows, scaled(steps, rows.X), display, columns))
        tried.append((name, one))
        if found[-1].interrupted:
            break
    scores, n_rows = _comparable_scores([one for _, one in tried])
    for (name, _), score in zip(tried, scores, strict=True):
        if len(scalings) > 1:
            out.say(f"{name}: cross-validated score {score:.4f} on {n_rows} rows")
    seconds = sum(done.seconds for done in found)
    return replace(found[int(np.argmax(scores))], interrupted=found[-1].interrupted, seconds=seconds)


def _comparable_scores(searches: Sequence[SVMClassifierCV]) -> tuple[list[float], int]:
    """Return the best score of each search on the same rows and folds, and the number of rows.

    These are of the last round that all searches completed, since one that was cut short has scores of fewer rows;
    they are minus infinity for a search that has scored no candidate.
    """
    ends = [one.cv_results_["n_rows"][one.best_index_] for one in searches if one.best_index_ is not None]
    n_rows, scores = int(min(ends, default=0)), list[float]()
    for one in searches:
        results = one.cv_results_
        entries = (index for index in counted_entries(one) if results["n_rows"][index] == n_rows)
        scores.append(max((float(results["mean_test_score"][index]) for index in entries), default=-np.inf))
    return scores, n_rows


def _tried(searches: Sequence[tuple[str, SVMClassifierCV]], n: int) -> Table:
    """Return a table of the best candidates of searches with several scalings, those of later rounds first.

    Rounds that were cut short are left out, so that the chosen candidate has the score by which it was chosen.
    """
    names = [name for name in searches[0][1].cv_results_ if name.startswith("param_")]
    scaling = ["scaling"] if len(searches) > 1 else []
    heads = (*scaling, "round", "rows", *(name.removeprefix("param_") for name in names), "score", "std over folds")
    found: dict[str, list[Any]] = {}
    for scaler, search in searches:
        results = search.cv_results_
        n_folds = np.isfinite([values for name, values in results.items() if name.startswith("split")]).sum(axis=0)
        for index in counted_entries(search):
            round_number, score = int(results["round"][index]), float(results["mean_test_score"][index])
            params = results["params"][index]
            key, order = f"{scaler} {params}", (round_number, score)
            if key in found and found[key][0] > order:
                continue
            values = [params.get(name.removeprefix("param_"), "") for name in names]
            texts = (f"{value:.4g}" if isinstance(_plain(value), float) else str(value) for value in values)
            deviation = f"{results['std_test_score'][index]:.4f}" if n_folds[index] > 1 else "one fold"
            cells = (str(round_number), str(results["n_rows"][index]), *texts, f"{score:.4f}", deviation)
            found[key] = [order, ([scaler] if scaling else []) + list(cells)]
    table = Table(*heads, box=None, pad_edge=False)
    for _, cells in sorted(found.values(), key=lambda one: one[0], reverse=True)[:n]:
        table.add_row(*cells)
    return table


def _plain(value: Any) -> Any:
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if isinstance(value, dict):
        return {str(label): float(weight) for label, weight in value.items()}
    return float(value) if is_number else value


def register(app: Application) -> None:
    """Add the command, with flags for parameters of the search and untuned ones of the machine."""
    searched = flags([SVMClassifierCV], "Parameters of the search", exclude=_EXCLUDED)
    tuned = [optional_flag(name, str, "", "None", "", hidden=True) for name in _TUNED]
    excluded = {*_TUNED, *(flag.name for flag in searched)}
    machines = dict.fromkeys(machines_for("classification").values())
    others = [flag for flag in flags([*machines]) if flag.name not in excluded]
    common = (
        "model", "loss", "grid", "table", "plot", "label", "weight", "group", "scale", "probabilities", "calibration",
        "validate", "missing", "categories", "category", "dates", "decimal_comma", "thousands", "na", "drop",
        "skip_unlabelled", "encoding", "cv", "scoring", "max_time", "kernel", "class_weight", "n_jobs", "random_state",
        "as_json", "quiet",
    )  # fmt: skip
    add_command(app, "tune", _tune, [*column_flags(), *searched, *others, *tuned], common)
