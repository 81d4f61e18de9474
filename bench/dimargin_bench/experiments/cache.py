"""Outcomes of cells, one file per cell, so that an interrupted run resumes and known cells are not run again."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dimargin.system.reading import read_json
from dimargin.system.writing import write_file
from dimargin_bench.experiments.declarations import Cell
from dimargin_bench.experiments.metrics import METRICS
from dimargin_bench.experiments.outcome import TIME_LIMIT, Outcome

_LONGEST = 10**6  # characters of an estimator: all of them


def described(cell: Cell) -> str:
    """Return the estimator of a cell as text, with all parameters that are not the default.

    It belongs to the key, so that a cell is run again when a method's function is changed.
    """
    try:
        estimator = cell.make()
    except Exception as error:  # which the process of the cell will run into as well, and report
        return f"{type(error).__name__}: {error}"
    # the space in front, which BaseEstimator's repr of many lines has, would differ with the width
    # of a terminal
    text = estimator.__repr__(N_CHAR_MAX=_LONGEST) if hasattr(estimator, "get_params") else type(estimator).__name__
    text = re.sub(r" at 0x[0-9a-f]+>", ">", text)  # A function's address is another one in every process.
    return f"{type(estimator).__module__}.{' '.join(text.split())}"


class Cache:
    """Folder of JSON files, one for each cell.

    The name of a file is a hash of all that its outcome depends on: estimator, parameters, seed,
    data, versions and machine. The file has it in full, beside the outcome.

    Parameters
    ----------
    folder : Path
        Made when the first outcome is stored.
    environment : mapping of str to str
        Versions and machine.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder, self._environment = folder, environment

    def find(self, cell: Cell, digest: str, limit: float, retry: bool = False) -> Outcome | None:
        """Return the outcome of a cell on the data of that digest, or None if it has to be run.

        That is also the case where it ended at a shorter limit, or has failed and there is to be a
        second try.

        Raises
        ------
        ValueError
            If its file is not one that `store` wrote.
        """
        path = self._path(cell, digest)
        if not path.exists():
            return None
        try:
            stored = read_json(path)
            outcome, its_limit = Outcome(**stored["outcome"]), float(stored["limit"])
            outcome.check()
            if not (set(outcome.metrics) <= set(METRICS) and _text(stored["cell"]) == _text(self._key(cell, digest))):
                raise ValueError("it is of another cell, or has other metrics")
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"{path} is not the outcome of a cell ({error}); delete it to run that again") from error
        outgrown = outcome.status == TIME_LIMIT and its_limit < limit
        return None if outgrown or (retry and outcome.failed) else outcome

    def store(self, cell: Cell, digest: str, limit: float, outcome: Outcome) -> None:
        """Write the outcome of a cell that had `limit` seconds."""
        self._folder.mkdir(parents=True, exist_ok=True)
        content = {"cell": self._key(cell, digest), "limit": limit, "outcome": outcome.as_json()}
        write_file(self._path(cell, digest), json.dumps(content, indent=1, allow_nan=False).encode())

    def _path(self, cell: Cell, digest: str) -> Path:
        return self._folder / f"{hashlib.sha256(_text(self._key(cell, digest)).encode()).hexdigest()[:32]}.json"

    def _key(self, cell: Cell, digest: str) -> dict[str, Any]:
        return {
            "method": cell.method.name,
            "estimator": described(cell),
            "parameters": dict(cell.parameters),
            "seed": cell.seed,
            "examined": "" if cell.examine is None else f"{cell.examine.__module__}.{cell.examine.__qualname__}",
            "data": digest,
            "environment": dict(self._environment),
        }


def _text(key: Any) -> str:
    return json.dumps(key, sort_keys=True, allow_nan=False)
