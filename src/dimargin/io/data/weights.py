"""Weights of rows in a separate file, as LIBSVM's extension for instance weights reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dimargin.io.data.chunks import CHUNK, WEIGHT_EXPECTED, DataFileError, short
from dimargin.io.data.labels import is_number
from dimargin.io.data.lines import blocks_of_lines
from dimargin.io.data.opening import explained, open_data
from dimargin.system.arrays import Floats


def read_weights(path: Path, n_rows: int) -> Floats:
    """Read weights from a file with one per line; raises DataFileError unless there are `n_rows`.

    Empty lines are skipped.
    """
    weights, n_lines = list[float](), 0
    with open_data(path) as stream, explained(path):
        for block in blocks_of_lines(stream, path, CHUNK):
            texts = block.decode(errors="replace").split("\n")
            for line, text in enumerate(map(str.strip, texts), n_lines + 1):
                weight = float(text) if is_number(text) else np.nan
                if text and not 0 <= weight < np.inf:
                    raise DataFileError(f"{path}, line {line}: {short(text)!r} is not a weight; {WEIGHT_EXPECTED}")
                weights += [weight] if text else []
            n_lines += len(texts) - 1
    if len(weights) != n_rows:
        raise DataFileError(f"{path} has {len(weights)} weights, one per line; expected {n_rows}, one per row")
    return np.array(weights)
