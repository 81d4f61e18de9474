"""``dimargin simulate``: sites that train together, on a network simulated in one process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy as np
import typer
from rich.console import Console
from rich.filesize import decimal

from dimargin.cli.brief_help import Application
from dimargin.cli.column_flags import Reading
from dimargin.cli.config_file import config_flag
from dimargin.cli.estimator_flags import SEED, flags, values_of
from dimargin.cli.file_flags import data_option, file_options
from dimargin.cli.flags import add_command, flags_of, parameter_flags, usage_checked, values_taken
from dimargin.cli.network_conditions import conditions_of, say_what_did_not_happen
from dimargin.cli.open_model import ModelColumns, how_read
from dimargin.cli.shared import (
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
    fitted_scalers,
    leave_interrupted,
    plot_option,
    scaled,
)
from dimargin.cli.simulate_core_set import simulate_core_set
from dimargin.cli.terminal import FitDisplay
from dimargin.display import PerformanceProfileDisplay
from dimargin.display.site_accuracies import accuracies_of_sites
from dimargin.estimators import GossipSVMClassifier
from dimargin.estimators.fit_progress import observed
from dimargin.estimators.sites import PACKAGES
from dimargin.gossip.programs.learner_parameters import ADMMParameters
from dimargin.io.data import DataFileError, DataSet
from dimargin.io.data.chunks import check_classes
from dimargin.io.data.named_columns import WantedColumns
from dimargin.io.data.opening import DataFile
from dimargin.io.data.whole_file import read_file
from dimargin.system.extras import require

_ADMM_FLAGS = "rho", "over_relaxation", "levels", "liars", "epsilon", "delta", "rounds", "clip"


class RunDisplay(FitDisplay):
    """Display of the finished rounds, the worst site's objective, and the gap."""

    def __init__(self, console: Console, max_rounds: int, quiet: bool) -> None:
        super().__init__(console, 1.0, quiet)
        self._max_rounds = max_rounds

    def level_begin(self, level: int, n_tasks: int | None) -> None:
        """Start the bar when the rows are assigned to sites."""
        self._progress.reset(self._task, total=self._max_rounds, description="round 0", state="")

    def check(self, entry: dict[str, Any]) -> bool:
        """Move the bar to the round."""
        done = min(entry["round"], self._max_rounds)
        description = f"round {done} of {self._max_rounds}"
        self._progress.update(self._task, completed=done, description=description, state=self._state(entry))
        return False

    def level_end(self, entry: dict[str, Any], found: Callable[[], Any]) -> bool:
        """Print a line about the run."""
        self.say(f"{entry['partitions']} sites, round {entry['round']}: {self._state(entry)}")
        return False

    @staticmethod
    def _state(entry: dict[str, Any]) -> str:
        return f"worst objective {np.sum(entry['worst_objective']):.4g}, gap {entry['relative_gap']:.1e}"


def _gossip(
    data: DataArgument,
    validate: Annotated[Path | None, data_option(help="Data to score all sites on while they learn.")] = None,
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="File for the consensus model.", dir_okay=False)
    ] = None,
    plot: Annotated[Path | None, plot_option("Plot the sites' accuracies against rounds")] = None,
    label: LabelOption = None,
    scale: Annotated[
        Scale, typer.Option(help="Scaling, fitted on all rows and stored in the model; sparse rows are not centred.")
    ] = Scale.minmax,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    **given: Any,
) -> None:
    """Simulate sites that train a linear SVM by gossip, and report their accuracies.

    Example: dimargin simulate gossip train.csv --topology ring --shards sorted --loss 0.2 --plot profile.png

    Ctrl-C ends the run with the models reached so far and exits with status 1; a second Ctrl-C
    quits immediately.
    """
    out = Output(as_json, quiet)
    require("dimargin simulate gossip", *PACKAGES)
    with usage_checked():
        if model is not None:
            check_output("--model", model, data, validate)
        check_plot(plot, data, validate)
        options = file_options(**values_taken(file_options, given))
        weather = values_taken(conditions_of, given)
        own = {name: value for name in _ADMM_FLAGS if (value := given.pop(name)) is not None}
        machine = GossipSVMClassifier(**{"random_state": SEED} | values_of(given))
        _set_parameters(machine, own)
        machine.fit_plan()
        conditions = conditions_of(int(machine.n_sites), int(machine.max_iter), machine.random_state, **weather)
        machine.set_params(conditions=conditions)
    rows = read_file(DataFile(data, options), WantedColumns(label))
    check_classes(rows.fraction)
    out.warn(rows.remarks)
    judges = None
    if validate is not None:
        columns = ModelColumns(how_read(rows), rows.feature_names, rows.X.shape[1])
        judges = columns.read(validate, Reading(options))
    out.say(f"{data}: {rows.X.shape[0]} rows, {rows.X.shape[1]} features, on {machine.n_sites} sites")
    done = _run(machine, rows, judges, validate or data, scale, out)
    _finish(done, rows, judges, model, out)
    draw(lambda: PerformanceProfileDisplay.from_history(machine.history_), plot, out, "the performance profile is")
    last = machine.history_[-1]["round"]
    say_what_did_not_happen(out, conditions, last, f" because the run ended in round {last}")
    if done.interrupted:
        leave_interrupted(out, "these are the results so far")


def _set_parameters(machine: GossipSVMClassifier, own: dict[str, Any]) -> None:
    """Set the parameters of consensus ADMM; raise ValueError if another algorithm was chosen."""
    if not own:
        return
    if machine.algorithm != "admm":
        raise ValueError(f"--{next(iter(own)).replace('_', '-')} is not a parameter of --algorithm {machine.algorithm}")
    from dimargin.gossip.rounds import ConsensusADMM, Logarithmic
    from dimargin.gossip.rounds.privacy import budget_of
    from dimargin.gossip.rounds.private_admm import with_privacy

    values = ADMMParameters(**own)
    algorithm = ConsensusADMM(
        "auto" if values.rho is None else values.rho, values.over_relaxation, liars=values.liars,
        compression=Logarithmic(values.levels) if values.levels else None,
    )  # fmt: skip
    machine.algorithm = with_privacy(algorithm, budget_of(values, secret=False))


def _run(
    machine: GossipSVMClassifier, rows: DataSet, judges: DataSet | None, judged_on: Path, scale: Scale, out: Output
) -> Trained:
    scalers = fitted_scalers(scale, rows.X)
    X = scaled(scalers, rows.X)
    judging = (X, rows.y) if judges is None else (scaled(scalers, judges.X), judges.y)
    try:
        evaluate = accuracies_of_sites(*judging, np.unique(np.asarray(rows.y)))
    except ValueError as error:
        raise DataFileError(f"{judged_on}: {error}") from error
    with observed(machine, evaluate_sites=evaluate):
        return fitted(machine, scalers, rows, X, RunDisplay(out.errors, int(machine.max_iter), out.quiet))


def _finish(done: Trained, rows: DataSet, judges: DataSet | None, model: Path | None, out: Output) -> None:
    """Save the consensus, and print the facts about it."""
    machine, last = done.machine, done.machine.history_[-1]
    machine.set_params(conditions=None)  # Model files do not store the conditions of the network.
    trained = done.save(model, out)
    sizes = np.bincount(machine.site_of_rows_, minlength=machine.n_sites)
    judging = rows if judges is None else judges
    accuracy = {name: last[f"accuracy_{name}"] for name in ("min", "mean", "max")}
    facts: dict[str, Any] = {
        **({} if model is None else {"model": str(model)}),
        "topology": machine.topology, "sites": machine.n_sites,
        "rows_per_site": {"least": int(sizes.min()), "most": int(sizes.max())},
        "rows": done.shape[0], "features": done.shape[1], "classes": machine.classes_.tolist(),
        "status": machine.status_, "rounds": machine.n_iter_,
        "objective_of_consensus": _plain(last["objective"]), "objective_of_worst_site": _plain(last["worst_objective"]),
        "objective_of_averages": _plain(last["average_objective"]),
        "relative_duality_gap": machine.duality_gap_, "certificate": machine.certificate_,
        **({"epsilon": machine.epsilon_, "delta": machine.delta_} if hasattr(machine, "epsilon_") else {}),
        "consensus_spread": last["consensus_spread"],
        f"{'training' if judges is None else 'validation'}_accuracy": {
            **accuracy, "consensus": float(trained.estimator.score(judging.X, judging.y))
        },
        "messages": last["messages"], "bytes": last["bytes"], "seconds": done.seconds,
    }  # fmt: skip
    out.result(facts if out.as_json else facts | {"bytes": f"{last['bytes']} ({decimal(last['bytes'])})"})


def _plain(value: Any) -> Any:
    """Convert a value for JSON, to a number or a list with one number per class."""
    return np.asarray(value).tolist()


def register(app: Application) -> None:
    """Add the commands; the flags of ``gossip`` include the parameters of its machine."""
    simulate = Application(name="simulate", help="Simulate sites that train together.", no_args_is_help=True)
    # The command line handles the first two parameters itself; no algorithm that it has shares rows.
    machine = flags([GossipSVMClassifier], exclude=("conditions", "verbose", "share_rows"))
    machine += parameter_flags(ADMMParameters, lambda name, text: ("Consensus ADMM", text), only=_ADMM_FLAGS)
    for flag in machine:
        option = get_args(flag.annotation)[1]
        for in_python_only in (
            ", or a graph of n_sites nodes, directed or not",
            " or array-like of shape (n_samples,)",
            "; or the number of every row's site",
        ):
            option.help = option.help.replace(in_python_only, "")
    common = (
        "model", "validate", "plot", "label", "scale", "algorithm", "n_sites", "topology", "alpha",
        "loss_function", "shards", "compression", "loss", "delay", "crash", "asynchronous", "tol",
        "max_iter", "max_time", "random_state", "as_json", "quiet", "config",
    )  # fmt: skip
    conditions = flags_of(conditions_of)
    add_command(simulate, "gossip", _gossip, [config_flag(), *flags_of(file_options), *conditions, *machine], common)
    add_command(simulate, "coreset", simulate_core_set, conditions)
    app.add_typer(simulate)
