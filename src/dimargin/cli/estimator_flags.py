"""Flags derived from the estimators: their names, types, defaults and help are those of the constructor.

A new machine needs an entry in `dimargin.estimators.MACHINES`; a new parameter of an estimator
needs nothing.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from dimargin.cli.flags import optional_flag
from dimargin.estimators import MACHINES, MarginRegressor
from dimargin.estimators.docstrings import parameter_texts
from dimargin.estimators.machines import machine_of, machines_for, name_of
from dimargin.io.data.labels import label_values
from dimargin.strategies import LINEAR_SOLVERS, STRATEGIES, Options

SEED = 0
"""Default of ``--random-state``: a command does the same every time, as LIBSVM's programs do."""
_OWN_DEFAULTS = {"random_state": str(SEED), "epsilon": "a tenth of the standard deviation of y"}
DEFAULT_LOSS = next(iter(MACHINES))
LOSSES = "squared_hinge, hinge, odm; linear_hinge etc. have no kernel"
REGRESSION_LOSSES = "epsilon_insensitive, squared_epsilon_insensitive; linear_epsilon_insensitive etc. have no kernel"
_WITH_OPTIONS: dict[str, type[Options]] = {**STRATEGIES, **LINEAR_SOLVERS}
_EXCLUDED = {"loss", "verbose", "warm_start"}  # The command line handles these parameters itself.


def parameters(machine: type[Any], exclude: Collection[str] = _EXCLUDED) -> dict[str, inspect.Parameter]:
    """Return the parameters of the constructor that are flags."""
    own = inspect.signature(machine).parameters
    return {name: parameter for name, parameter in own.items() if name not in exclude}


def flags(
    machines: Sequence[type[Any]] = tuple(dict.fromkeys(MACHINES.values())),
    panel: str = "Parameters of the machine",
    exclude: Collection[str] = _EXCLUDED,
) -> list[inspect.Parameter]:
    """Return one optional keyword, None by default, for every parameter of any of these classes."""
    undescribed = {
        "class_weight": """"balanced", or weights of classes, such as 0=1,1=3, or JSON such as '{"spam": 2}'.""",
        "random_state": "Seed of the random numbers.",
    }
    found: dict[str, inspect.Parameter] = {}
    for machine in machines:
        hints, texts = typing.get_type_hints(machine.__init__), parameter_texts(machine)
        for name in parameters(machine, exclude):
            kind = next((k for k in (bool, int, float) if hints[name] in (k, k | None)), str)
            default = _OWN_DEFAULTS.get(name) or _defaults(name, machines, exclude)
            text, metavar = _described(texts.get(name) or undescribed.get(name, ""))
            found.setdefault(name, optional_flag(name, kind, text, default, panel, metavar))
    return list(found.values())


def _described(text: str) -> tuple[str, str | None]:
    """Return the description of a parameter for the command line, and its choices as a metavar, if it has some.

    What begins with "In Python" is left out.
    """
    choices = None
    if text.startswith("{"):
        kind, _, text = text.partition(". ")
        choices = "|".join([*re.findall(r'"(\w+)"', kind), *(["number"] if "float" in kind else [])])
    text = text.partition(" In Python,")[0].replace("a ConvergenceWarning", "a warning")
    return re.sub(r"\bNone\b", "the default", text), choices


def _defaults(name: str, machines: Sequence[type[Any]], exclude: Collection[str]) -> str:
    """Return a text with the default of a parameter, and machines with another one."""
    having = [machine for machine in machines if name in parameters(machine, exclude)]
    defaults = {machine: parameters(machine, exclude)[name].default for machine in having}
    first, *others = dict.fromkeys(defaults.values())
    losses = {machine: " or ".join(loss for loss, own in MACHINES.items() if own is machine) for machine in having}
    differing = [f"; --loss {losses[machine]}: {value}" for machine, value in defaults.items() if value in others]
    if name == "C" and any(issubclass(machine, MarginRegressor) for machine in having):
        differing.append("; regression: spread of y")
    return f"{first}{''.join(differing)}"


def strategy_options() -> str:
    """Return the options that `--strategy-option` accepts, for its help."""
    options = {name: ", ".join(make().get_params(deep=False)) for name, make in _WITH_OPTIONS.items()}
    return " ".join(f"{name}: {text}." for name, text in options.items() if text)


def make_machine(
    loss: str | None, given: dict[str, Any], options: Sequence[str], resumed: Any = None, task: str | None = None
) -> Any:
    """Make the machine that the flags describe; raises ValueError or TypeError, which name a parameter out of range.

    Without a `task`, `loss` decides it.
    """
    machines = machines_for(task)
    if loss is not None and loss not in machines:
        of_task = "" if task is None else f" with --task {task}"
        raise ValueError(f"--loss must be one of {', '.join(machines)}{of_task}, got {loss!r}")
    if resumed is None:
        machine = machine_of(loss or next(iter(machines)), random_state=SEED)
    elif loss is task is None or name_of(resumed) in ([*machines] if loss is None else [loss]):
        machine = resumed
    else:
        flag = f"--task {task}" if loss is None else f"--loss {loss}"
        raise ValueError(f"{flag} cannot be changed: the model to resume is a {type(resumed).__name__}")
    known = parameters(type(machine))
    for name, value in given.items():
        if value is None:
            continue
        if name not in known:
            owners = " or ".join(f"--loss {other}" for other, kind in MACHINES.items() if name in parameters(kind))
            raise ValueError(
                f"--{name.replace('_', '-')} is not a parameter of {type(machine).__name__}; {owners} has it"
            )
        machine.set_params(**{name: _value_of(name, value)})
    if options:
        parameter = "strategy" if "strategy" in known else "solver"
        names = STRATEGIES if parameter == "strategy" else type(machine).solvers
        machine.set_params(**{parameter: _with_options(parameter, names, getattr(machine, parameter), options)})
    machine.fit_plan()
    return machine


def _with_options(parameter: str, names: Iterable[str], name: Any, options: Sequence[str]) -> Options:
    if not isinstance(name, str) or name not in names:
        raise ValueError(f"--strategy-option needs --{parameter} {' or '.join(names)}, got {name!r}")
    strategy = _WITH_OPTIONS[name]()
    for option in options:
        key, equals, text = option.partition("=")
        key = key.replace("-", "_")
        if not equals or key not in strategy.get_params(deep=False):
            known = ", ".join(strategy.get_params(deep=False)) or "none"
            raise ValueError(f"--strategy-option {option!r}: expected NAME=VALUE with a NAME of {name}: {known}")
        strategy.set_params(**{key: parsed_value(text)})
    return strategy


def parsed_value(text: str) -> Any:
    """Parse a text as a number, True, False or None; return any other text unchanged."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _number_or_word(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _rounds(text: str) -> int | float:
    try:
        return float(text) if "." in text or "e" in text.lower() else int(text)
    except ValueError:
        raise ValueError(f"--gossip-rounds must be a number, got {text!r}") from None


def _class_weight(text: str) -> Any:
    """Parse weights by label, as LABEL=WEIGHT or as a JSON object; return "balanced" unchanged."""
    if text == "balanced":
        return text
    try:
        if text.lstrip().startswith("{"):
            return _by_label(json.loads(text, object_pairs_hook=list))
        pairs = (part.rpartition("=") for part in text.split(","))
        return _by_label([(label.strip(), weight) for label, _, weight in pairs])
    except (ValueError, TypeError) as error:
        raise ValueError(
            "--class-weight must be 'balanced', weights of different labels such as 0=1,1=3, or JSON such as "
            f"'{{\"spam\": 2}}', got {text!r}"
        ) from error


def _by_label(weights: Sequence[tuple[str, Any]]) -> dict[Any, float]:
    """Return weights by label; raises ValueError for a label that is empty or has two weights."""
    labels = label_values([label for label, _ in weights]).tolist()
    if "" in labels or len(set(labels)) < len(labels):
        raise ValueError("labels must be different texts")
    return dict(zip(labels, (float(weight) for _, weight in weights), strict=True))


def read_grid(text: str) -> Any:
    """Parse a grid of parameters from JSON; raises ValueError for other text."""
    try:
        grid = json.loads(text)
    except ValueError as error:
        raise ValueError(f"--grid must be JSON such as '{{\"gamma\": [0.5, 2]}}', got {text!r}: {error}") from error
    for part in grid if isinstance(grid, list) else [grid]:
        if isinstance(part, dict) and isinstance(part.get("class_weight"), list):
            part["class_weight"] = [_by_label([*w.items()]) if isinstance(w, dict) else w for w in part["class_weight"]]
    return grid


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"--{name.replace('_', '-')} must be a whole number, got {text!r}") from None


def _value_of(name: str, given: Any) -> Any:
    match name:
        case "gamma" | "lam" | "step_size":
            return _number_or_word(given)
        case "gossip_rounds":
            return _rounds(given)
        case "class_weight":
            return _class_weight(given)
        case "random_state" | "cv":
            return _whole(name, given)
    return given


def values_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the parameters whose flags were given."""
    return {name: _value_of(name, value) for name, value in given.items() if value is not None}
