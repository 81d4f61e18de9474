"""Messages of estimators in the words of the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from dimargin.cli.estimator_flags import parameters
from dimargin.estimators import MACHINES

_NAMES = {"loss", *(name for machine in MACHINES.values() for name in parameters(machine))}


def in_flags(text: str) -> str:
    """Return the message of an estimator with flags in place of Python's names.

    Examples
    --------
    >>> in_flags("SVMClassifier stopped. With fit_intercept=False, strategy='landmark', it is faster.")
    'training stopped. With --no-fit-intercept, --strategy landmark, it is faster.'
    >>> in_flags("class_weight has ['late']")
    "--class-weight has ['late']"
    """
    if "param_grid" in text:  # Its keys are Python's names on the command line, too.
        return text.replace("param_grid", "--grid")
    text = re.sub(r"\b\w+(?:Classifier|Regressor)(?= (?:stopped|needs)\b)", "training", text)
    text = re.sub(rf"\b({'|'.join(_NAMES)})=(?:'([^']*)'|([\w.+-]*\w))", _flag, text)
    long_names = "|".join(name for name in _NAMES if "_" in name)
    text = re.sub(rf"(?<![\w.-])({long_names})\b", lambda found: f"--{found[1].replace('_', '-')}", text)
    return text


def _flag(found: re.Match[str]) -> str:
    """Return ``name=value`` as a flag."""
    flag, value = found[1].replace("_", "-"), found[2] or found[3]
    return {"True": f"--{flag}", "False": f"--no-{flag}"}.get(value, f"--{flag} {value}")


@contextmanager
def errors_in_flags() -> Iterator[None]:
    """Rewrite the messages of errors by `in_flags`."""
    try:
        yield
    except (ValueError, TypeError, MemoryError) as error:
        error.args = (in_flags(str(error)), *error.args[1:])
        raise
