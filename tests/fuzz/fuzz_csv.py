"""CSV, plain and compressed, by the readers of whole files and the one of growing files."""

import zlib

from dimargin.io.data import DataFileError, GrowingFile, csv_text, growing_file, sniffing
from dimargin.io.data.chunks import check_classes
from dimargin.io.data.mixed import read_mixed
from dimargin.io.data.named_columns import WantedColumns
from dimargin.io.data.opening import DataFile, FileOptions
from dimargin.io.data.whole_file import read_file

from .inputs import SOME_NUMBERS, check_refusal, compressed, file, mutated, same

_LABELS = [
    "x",
    "y",
    "ham",
    "1",
    "2",
    "0.5",
    "NA",
    "-",
    "ä",
    "",
    " ",
    "nan",
    '"x"',
    '"x,y"',
    '"x""y"',
    'x"',
    '"x',
    '"a\nb"',
    "'",
]

growing_file._QUIET_SECONDS = 0  # nobody else writes the file


def _field(rng):
    number = rng.choice(SOME_NUMBERS) if rng.random() < 0.02 else rng.choice(["1", "-2.5", "3e4", " 4 ", "0"])
    return f'"{number}"' if rng.random() < 0.1 else number


def generate(rng):
    width, index = rng.choice([1, 2, 2, 3, 5]), rng.randrange(3)
    first = rng.choice([0, 1, 2019])
    names = [rng.choice("abcdefgh") + str(k) if rng.random() < 0.9 else str(first + k) for k in range(width)]
    if rng.random() < 0.2:
        names[0] = rng.choice(["", "Unnamed: 0", " a", "ä", "0"])
    delimiter = rng.choice([",", ",", ",", ";", "\t", "|", " ", "  ", ", "])
    end = rng.choice(["\n", "\n", "\n", "\r\n", "\n\n"])
    rows = [[_field(rng) for _ in range(width)] for _ in range(rng.choice([0, 1, 2, 3, 8]))]
    for row in [names, *rows]:
        label = "label" if row is names else rng.choice(_LABELS) if rng.random() < 0.1 else rng.choice(["x", "y", "1"])
        row.insert(index, label)
        if rng.random() < 0.03:
            row.append(_field(rng))
    rows = ([names] if rng.random() < 0.8 else []) + rows + ([names] if rng.random() < 0.05 else [])
    text = rng.choice(["", "", "", "", "# a\n", "\n", "\ufeff"]) + end.join(delimiter.join(row) for row in rows)
    encoding = rng.choice(["utf-8"] * 8 + ["utf-16", "latin-1"])
    data = (text + rng.choice(["", end, end])).encode(encoding, errors="replace")
    data = mutated(rng, data) if rng.random() < 0.5 else data
    data = compressed(rng, data)
    return mutated(rng, data) if rng.random() < 0.1 else data


def check(data):
    digest = zlib.crc32(data)
    csv_text.CHUNK = growing_file.CHUNK = (24, 100, 2**20)[digest % 3]
    csv_text._WIDE_COLUMNS = (2, 1000)[digest // 3 % 2]
    sniffing.SAMPLE_BYTES = (10, 100, 2**18)[digest // 96 % 3]
    options = {"label": (None, None, 0, -1)[digest // 6 % 4], "needs_label": bool(digest // 24 % 4)}
    reading = {
        "format": (None, "csv")[digest // 288 % 2], "header": (None, None, None, True, False)[digest // 576 % 5],
        "encoding": (None, None, None, "latin-1")[digest // 2880 % 4],
        "quotes": (None, None, None, True, False)[digest // 23040 % 5],
    }  # fmt: skip
    path, outcomes = file(("rows.csv", "rows.txt")[digest // 11520 % 2], data), []
    data_file, wanted = DataFile(path, FileOptions(**reading)), WantedColumns(**options)
    for read in (
        lambda: read_file(data_file, wanted),
        lambda: GrowingFile(path, **options, **reading).read(),
        lambda: read_mixed(data_file, wanted, na=["n. d."]),
    ):
        try:
            rows = read()
            check_classes(rows.fraction)
            outcomes.append(rows)
        except DataFileError as error:
            check_refusal(error, path)
            outcomes.append(None)
    if outcomes[1] is not None and not outcomes[1].X.shape[0]:
        outcomes[1] = None  # nothing to read yet, which is an error of a file that does not grow
    whole, growing_rows, mixed = outcomes
    if whole is not None and whole.zero_based is None:  # what are numbers only is a table, too
        assert mixed is not None and mixed.X.num_columns == whole.X.shape[1], f"{whole} is not {mixed}"
        assert mixed.X.num_rows == whole.X.shape[0] and mixed.label == whole.label
    alone = growing_rows is None and data[:2] in (b"\xff\xfe", b"\xfe\xff")  # UTF-16 cannot grow
    # where labels are not read, one of several lines is no fault of a file that does not grow
    is_alike = options["needs_label"] or growing_rows is not None or whole is None
    # a file that grows has no ends of lines but \n
    if is_alike and b"\r" not in data and not alone:
        assert same(whole, growing_rows), f"two readers, two outcomes: {outcomes}"
