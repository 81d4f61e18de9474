"""Values of Params: checked when they are set, and stored in JSON types, for saving and search."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from pyspark.ml.param import TypeConverters

from dimargin.kernels.functions import KERNEL_NAMES
from dimargin.strategies import OPTION_CLASSES, Options


def converter(name: str, param: str, hint: Any) -> Callable[[Any], Any]:
    """Return a function that converts a value of a machine's parameter, of this name and type hint, to that of a Param.

    The function raises TypeError or ValueError for an invalid value.
    """
    if name in _SPECIAL_CONVERTERS:
        special = _SPECIAL_CONVERTERS[name]
        return lambda value: special(param, value)
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    simple: dict[type, Callable[[Any], Any]] = {
        bool: TypeConverters.toBoolean,
        int: TypeConverters.toInt,
        float: TypeConverters.toFloat,
        str: TypeConverters.toString,
    }
    steps = [simple[kind] for kind in kinds if kind is not types.NoneType]
    optional = len(steps) < len(kinds)

    def convert(value: Any) -> Any:
        if value is None and optional:
            return None
        if len(steps) > 1:  # The parameter is a string or a number.
            return value if isinstance(value, str) else steps[1](value)
        return steps[0](value)

    return convert


def as_object(name: str, value: Any) -> Any:
    """Return the machine's value for that of a Param: a strategy or solver with options becomes an object."""
    if name in ("strategy", "solver") and isinstance(value, dict):
        ((kind, options),) = value.items()
        return OPTION_CLASSES[kind].from_saved(options)
    return value


def _kernel(param: str, value: Any) -> str:
    if callable(value):
        raise TypeError(f"{param} must be one of {_names(KERNEL_NAMES)}: functions are not sent to executors")
    if value == "precomputed":
        raise ValueError(f"{param} must be one of {_names(KERNEL_NAMES)}: rows of a DataFrame hold no kernel values")
    return str(TypeConverters.toString(value))


def _strategy_or_solver(param: str, value: Any) -> str | dict[str, dict[str, Any]]:
    """Return a name unchanged, and a strategy or solver, or its saved form, as a dict from its class to its options."""
    if isinstance(value, Options) and OPTION_CLASSES.get(type(value).__name__) is type(value):
        value = {type(value).__name__: value.get_params(deep=False)}
    elif isinstance(value, str):
        return value
    if not isinstance(value, Mapping) or len(value) != 1 or not isinstance(next(iter(value.values())), Mapping):
        raise TypeError(f"{param} must be a name or a strategy or solver of dimargin, got {value!r}")
    ((kind, options),) = value.items()
    if kind not in OPTION_CLASSES:
        raise TypeError(f"{param} must be a name or an object of one of {', '.join(OPTION_CLASSES)}, got a {kind}")
    plain = {key: option.item() if isinstance(option, np.generic) else option for key, option in options.items()}
    try:
        OPTION_CLASSES[kind](**plain)
    except TypeError as error:
        raise TypeError(f"{param}: {error}") from error
    return {kind: plain}


def _class_weight(param: str, value: Any) -> str | dict[float, float] | None:
    if value is None or isinstance(value, str):
        return value
    try:
        return {float(label): float(weight) for label, weight in value.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise TypeError(f"{param} must be 'balanced', None or a dict from labels to weights, got {value!r}") from error


def _seed(param: str, value: Any) -> int | None:
    if value is None:
        return None
    seed = int(TypeConverters.toInt(value))
    if not 0 <= seed < 2**32:
        raise ValueError(f"{param} must be a whole number in [0, 2**32), got {value!r}")
    return seed


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names))


_SPECIAL_CONVERTERS: dict[str, Callable[[str, Any], Any]] = {
    "kernel": _kernel,
    "strategy": _strategy_or_solver,
    "solver": _strategy_or_solver,
    "class_weight": _class_weight,
    "random_state": _seed,
}
