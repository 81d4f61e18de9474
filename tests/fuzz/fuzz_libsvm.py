"""LIBSVM text, plain and compressed, with and without labels, by the readers of whole and of growing files."""

import zlib

from dimargin.io.data import DataFileError, GrowingFile, growing_file, libsvm
from dimargin.io.data.chunks import check_classes
from dimargin.io.data.named_columns import WantedColumns
from dimargin.io.data.opening import DataFile
from dimargin.io.data.whole_file import read_file

from .inputs import SOME_NUMBERS, check_refusal, compressed, file, mutated, same

growing_file._QUIET_SECONDS = 0  # nobody else writes the file


def _number(rng):
    return rng.choice(SOME_NUMBERS) if rng.random() < 0.02 else rng.choice(["1", "-1", "0.5", "2e-3", "7"])


def _line(rng):
    label, query = (
        _number(rng),
        rng.choice(["", "", "", " qid:1", " qid:", " qid", " qid:x"]) if rng.random() < 0.1 else "",
    )
    features, at = [], rng.choice([0, 1, 1])
    for _ in range(rng.choice([0, 1, 2, 2, 3, 6])):
        feature = at if rng.random() < 0.98 else rng.choice([_number(rng), 2**31, 3 * 10**9, 2**63])
        features.append(f"{feature}:{_number(rng)}")
        at += rng.choice([1, 1, 2, 2, 2, 30, 0, -1]) if rng.random() < 0.1 else rng.choice([1, 2])
    comment = rng.choice([" # x", "#", " #1:1"]) if rng.random() < 0.05 else ""
    label = rng.choice(["12345678901234567", "007", "1e20", "?", f"{label}:2", ""]) if rng.random() < 0.1 else label
    return f"{label}{query} {rng.choice([' ', ' ', '  ', chr(9)]).join(features)}{comment}"


def generate(rng):
    end = rng.choice(["\n", "\n", "\n", "\r\n", "\n\n"])
    text = end.join(_line(rng) for _ in range(rng.choice([0, 1, 2, 3, 5, 12])))
    data = (rng.choice(["", "", "", "", "\ufeff"]) + text + rng.choice(["", end])).encode()
    data = mutated(rng, data) if rng.random() < 0.5 else data
    data = compressed(rng, data)
    return mutated(rng, data) if rng.random() < 0.1 else data


def check(data):
    libsvm.CHUNK = growing_file.CHUNK = (24, 100, 2**20)[zlib.crc32(data) % 3]
    needs_label, weighted = zlib.crc32(data) % 7 > 1, zlib.crc32(data) % 11 == 0
    path, outcomes = file("rows.svm", data), []
    readers = (
        lambda: read_file(DataFile(path), WantedColumns(needs_label=needs_label), weighted=weighted),
        lambda: GrowingFile(path, needs_label=needs_label).read(),
    )
    for read in readers[: 1 if weighted else 2]:
        try:
            rows = read()
            check_classes(rows.fraction)
            outcomes.append(rows)
        except DataFileError as error:
            check_refusal(error, path)
            outcomes.append(None)
    if outcomes[-1] is not None and not outcomes[-1].X.shape[0]:
        outcomes[-1] = None  # nothing to read yet, which is an error of a file that does not grow
    if outcomes[-1] is None and outcomes[0] is not None and outcomes[0].X.shape[1] >= 2**31 - 1:
        outcomes[0] = None  # sites have features of 32 bits
    assert same(outcomes[0], outcomes[-1]), f"two readers, two outcomes: {outcomes}"
