"""The command line without its commands, and where these are: who asks for one waits for no other."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Annotated, NamedTuple

import typer


class Command(NamedTuple):
    """A command whose module has not been loaded."""

    module: str  # of dimargin.cli; its `register` adds the command
    help: str  # what the list of commands says: the first sentence of the command's docstring


COMMANDS = {
    "train": Command("train", "Train a machine and save it."),
    "predict": Command(
        "model_commands", "Predict a label a line; with an outlier detector, 1 for what is usual and -1 for an outlier."
    ),
    "evaluate": Command("model_commands", "Score a model on labelled data."),
    "report": Command("report", "Write a page of HTML about a model and how it does on labelled data."),
    "info": Command("model_commands", "Print what a model file says of itself: its certificate above all."),
    "tune": Command("tune", "Choose the parameters of a machine by cross-validation, train it with them and save it."),
    "datasets": Command("datasets", "List, find and fetch the data sets of the papers."),
    "bench": Command("bench", "Run an experiment and write a page of results, beside the figures of its paper."),
    "simulate": Command("simulate", "Let sites learn together that keep their rows, on a simulated network."),
    "site": Command("site", "Learn with other sites; the rows stay here, but for those that --share-rows lets go."),
    "svm-train": Command("svm_commands", "Train LIBSVM's C-SVC and write LIBSVM's text model."),
    "svm-predict": Command(
        "svm_commands", "Predict with a text model of LIBSVM's, and compare with the labels of FILE."
    ),
    "svm-scale": Command("svm_commands", "Scale LIBSVM text, to standard output."),
    "export": Command(
        "svm_commands", "Write a model as LIBSVM's text, whatever its loss: a kernel expansion of two classes."
    ),
}
"""All commands, in the order in which they are listed."""


def new_app() -> typer.Typer:
    """Make the command line, still without commands."""
    app = typer.Typer(
        name="dimargin",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"token_normalize_func": lambda token: token.replace("_", "-")},
    )
    app.callback()(_root)
    return app


def register(app: typer.Typer, module: str) -> None:
    """Add the commands of a module."""
    import_module(f"dimargin.cli.{module}").register(app)


def overview() -> typer.Typer:
    """Make a command line that lists all commands, and runs none."""
    app = new_app()
    for name, command in COMMANDS.items():
        app.command(name, help=command.help)(lambda: None)
    return app


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"dimargin {version('dimargin')}")
        raise typer.Exit


def _root(
    show_version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and end.")
    ] = False,
) -> None:
    """Large-margin classifiers that carry a certificate."""
