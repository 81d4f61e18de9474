"""Range files of svm-scale, and what they make of rows."""

import numpy as np
import scipy.sparse as sp

from dimargin.io.data import DataFileError
from dimargin.io.libsvm.ranges import FeatureRanges

from .inputs import SOME_NUMBERS, check_refusal, file, mutated

_ROWS = [np.array([[1.0, 2.0], [0.0, -3.0]]), sp.csr_array([[0.0, 1.0, 0.0], [2.0, 0.0, 0.0]])]


def _number(rng):
    return rng.choice(SOME_NUMBERS) if rng.random() < 0.05 else rng.choice(["-1", "0", "1", "2.5"])


def generate(rng):
    lines = ["y", f"{_number(rng)} {_number(rng)}", f"{_number(rng)} {_number(rng)}"] if rng.random() < 0.3 else []
    lines += ["x", f"{_number(rng)} {_number(rng)}"]
    for k in range(rng.choice([0, 1, 2, 4])):
        lines.append(f"{k + 1 if rng.random() < 0.9 else _number(rng)} {_number(rng)} {_number(rng)}")
    data = ("\n".join(lines) + rng.choice(["", "\n", "\r\n"])).encode()
    return mutated(rng, data) if rng.random() < 0.5 else data


def check(data):
    path = file("ranges", data)
    try:
        ranges = FeatureRanges.read(path)
    except DataFileError as error:
        return check_refusal(error, path)
    for X in _ROWS:
        ranges.unknown(X)
        for _ in ranges.lines(X, np.array([1, -1])):
            pass
    ranges.write(path)
