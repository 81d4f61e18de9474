"""The command line without commands, and the modules from which they are loaded when called."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points, version
from typing import Annotated, NamedTuple

import typer

from dimargin.cli.brief_help import Application


class Command(NamedTuple):
    """A command that the function `register` of its module adds to the command line.

    `help`, the first sentence of its docstring, is listed before the module is loaded.
    """

    module: str
    help: str


COMMANDS = {
    "train": Command("dimargin.cli.train", "Train a machine and save it."),
    "predict": Command(
        "dimargin.cli.model_commands",
        "Write one predicted label or number per line; outlier detectors write 1 for inliers, -1 for outliers.",
    ),
    "evaluate": Command("dimargin.cli.model_commands", "Score a model on labelled data."),
    "report": Command("dimargin.cli.report", "Write an HTML page about a model and its results on labelled data."),
    "info": Command("dimargin.cli.model_commands", "Print the certificate and the parameters of a model file."),
    "tune": Command(
        "dimargin.cli.tune", "Choose the parameters of a machine by cross-validation, train it with them and save it."
    ),
    "simulate": Command("dimargin.cli.simulate", "Simulate sites that train together."),
    "site": Command("dimargin.cli.site", "Train with other sites; rows stay here unless --share-rows is given."),
    "svm-train": Command("dimargin.cli.svm_commands", "Train a machine of LIBSVM and write LIBSVM's text model."),
    "svm-predict": Command(
        "dimargin.cli.svm_commands", "Predict with a LIBSVM text model and compare with the labels of FILE."
    ),
    "svm-scale": Command("dimargin.cli.svm_commands", "Scale LIBSVM text and write it to standard output."),
    "liblinear-train": Command(
        "dimargin.cli.liblinear_commands",
        "Train LIBLINEAR's support vector classification or regression and write LIBLINEAR's text model.",
    ),
    "liblinear-predict": Command(
        "dimargin.cli.liblinear_commands", "Predict with a LIBLINEAR text model and compare with the labels of FILE."
    ),
    "export": Command("dimargin.cli.svm_commands", "Write a model for LIBSVM, LIBLINEAR or ONNX, or as C source."),
    "doctor": Command(
        "dimargin.cli.doctor", "Print versions, processor, threads, memory, extras and Java, for a bug report."
    ),
}
"""The library's commands, in the order in which they are listed."""


def all_commands() -> dict[str, Command]:
    """Return the library's commands, and those of entry points in the group "dimargin.commands"."""
    return COMMANDS | {entry.name: entry.load() for entry in entry_points(group="dimargin.commands")}


def new_app() -> typer.Typer:
    """Make the command line, still without commands."""
    app = Application(
        name="dimargin",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"token_normalize_func": lambda token: token.replace("_", "-")},
    )
    app.callback()(_root)
    return app


def register(app: typer.Typer, module: str) -> None:
    """Add the commands of a module."""
    import_module(module).register(app)


def overview() -> typer.Typer:
    """Make a command line that only lists the commands."""
    app = new_app()
    for name, command in all_commands().items():
        app.command(name, help=command.help)(lambda: None)
    return app


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"dimargin {version('dimargin')}")
        raise typer.Exit


def _root(
    show_version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Large-margin classifiers and regressors that carry a certificate.

    Install dimargin-bench for the commands that repeat the papers' experiments.
    """
