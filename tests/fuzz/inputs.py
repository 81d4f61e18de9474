"""What targets share: bytes that are nearly sound, files for them, and what a refusal has to say."""

import atexit
import bz2
import gzip
import lzma
import os
import re
import shutil
import tempfile
from pathlib import Path

import scipy.sparse as sp

SOME_NUMBERS = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "1.5",
    "-0.0",
    ".5",
    "5.",
    "1e3",
    "1e-400",
    "1e400",
    "nan",
    "-inf",
    "infinity",
    "0x10",
    "1_0",
    "\u0661",
    "+7",
    "--1",
    "1e",
    "e5",
    "",
    "1 2",
    "2147483646",
    "2147483647",
    "2147483648",
    "4294967296",
    "18446744073709551616",
    "9" * 40,
    "0" * 30 + "1",
    "1" * 400,
    "1" * 4400,
    "1.7976931348623157e308",
    "4.9e-324",
    "\x00",
    "1\x00",
    "\xa0",
    "1,5",
    "#",
    "'",
    '"',
    '""',
    '"1"',
    "true",
    "None",
]
_BYTES = [b"\0", b"\n", b"\r", b"\r\n", b'"', b",", b":", b" ", b"#", b"\xff", b"\xef\xbb\xbf", b"\x80", b"-", b"e"]
_PLACE = re.compile(
    r"line \d|row \d|column|is empty|no rows|no features?|expected|damaged|lacks|more than|memory|no model|no sound|"
    r"format version|no dimargin model|compressed by|not a valid|for CSV only|"
    r"labels first|longer than|has a feature|Parquet|no LIBSVM|is a state|is not the state|UTF|codec"
)
_MEMORY = Path("/dev/shm")  # where writing a file takes microseconds
folder = Path(tempfile.mkdtemp(prefix="dimargin-fuzz-", dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None))
atexit.register(shutil.rmtree, folder, ignore_errors=True)


def file(name, data):
    """A file of these bytes, the same for every input."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes(data)
    return path


def compressed(rng, data):
    """Data, mostly as they are."""
    return rng.choice(
        [bytes] * 7 + [lambda d: gzip.compress(d, 1), bz2.compress, lambda d: lzma.compress(d, preset=0)]
    )(data)


def mutated(rng, data):
    """Data with a few changes."""
    data = bytearray(data)
    for _ in range(rng.choice([0, 1, 1, 2, 3, 8])):
        at = rng.randrange(len(data) + 1)
        change = rng.randrange(7)
        if change == 0 and data:
            data[at - 1] ^= 1 << rng.randrange(8)
        elif change == 1:
            data[at:at] = rng.choice(_BYTES)
        elif change == 2:
            del data[at : at + rng.choice([1, 1, 2, 8, 64])]
        elif change == 3:
            data[at:at] = data[at : at + rng.choice([1, 4, 32])] * rng.choice([1, 2, 20])
        elif change == 4:
            data[at:at] = rng.choice(SOME_NUMBERS).encode()
        elif change == 5:
            data[at : at + 1] = rng.randbytes(rng.choice([1, 2, 4]))
        elif rng.random() < 0.2:
            del data[at:]
    return bytes(data)


def check_refusal(error, path, place=True):
    """Whether a message names the file, and the place or what was expected where it can, and is no page of text."""
    text = str(error)
    assert str(path) in text, f"a message that does not name the file: {text!r}"
    rest = text.replace(str(path), "")
    assert len(rest) < 1500 and (not place or _PLACE.search(rest)), (
        f"a message that says neither where nor what: {rest[:500]!r}"
    )


def same(one, other):
    """Whether two outcomes are alike: refused both, or the same rows."""
    if one is None or other is None:
        return one is other
    labels = [None if rows.y is None else rows.y.tolist() for rows in (one, other)]
    if one.X.shape != other.X.shape or labels[0] != labels[1]:
        return False
    different = one.X != other.X
    return not (different.nnz if sp.issparse(different) else different.any())
