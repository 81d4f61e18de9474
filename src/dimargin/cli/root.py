"""The command line without its commands, and where these are: who asks for one waits for no other."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points, version
from typing import Annotated, NamedTuple

import typer

from dimargin.cli.brief_help import Application


class Command(NamedTuple):
    """A command whose module has not been loaded."""

    module: str  # its `register` adds the command
    help: str  # what the list of commands says: the first sentence of the command's docstring


COMMANDS = {
    "train": Command("dimargin.cli.train", "Train a machine and save it."),
    "predict": Command(
        "dimargin.cli.model_commands",
        "Predict a label a line; with an outlier detector, 1 for what is usual and -1 for an outlier.",
    ),
    "evaluate": Command("dimargin.cli.model_commands", "Score a model on labelled data."),
    "report": Command("dimargin.cli.report", "Write a page of HTML about a model and how it does on labelled data."),
    "info": Command(
        "dimargin.cli.model_commands", "Print what a model file says of itself: its certificate above all."
    ),
    "tune": Command(
        "dimargin.cli.tune", "Choose the parameters of a machine by cross-validation, train it with them and save it."
    ),
    "simulate": Command(
        "dimargin.cli.simulate", "Let sites learn together that keep their rows, on a simulated network."
    ),
    "site": Command(
        "dimargin.cli.site", "Learn with other sites; the rows stay here, but for those that --share-rows lets go."
    ),
    "svm-train": Command("dimargin.cli.svm_commands", "Train LIBSVM's C-SVC and write LIBSVM's text model."),
    "svm-predict": Command(
        "dimargin.cli.svm_commands", "Predict with a text model of LIBSVM's, and compare with the labels of FILE."
    ),
    "svm-scale": Command("dimargin.cli.svm_commands", "Scale LIBSVM text, to standard output."),
    "export": Command(
        "dimargin.cli.svm_commands",
        "Write a model as LIBSVM's text, whatever its loss: a kernel expansion of two classes.",
    ),
}
"""The library's commands, in the order in which they are listed."""


def all_commands() -> dict[str, Command]:
    """Return the library's commands, and those that other distributions register.

    A distribution registers a `Command` by an entry point of the group "dimargin.commands".
    """
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
    """Make a command line that lists all commands, and runs none."""
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
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and end.")
    ] = False,
) -> None:
    """Large-margin classifiers that carry a certificate.

    The commands that repeat the experiments of the papers come with the distribution dimargin-bench.
    """
