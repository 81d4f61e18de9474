"""CSV, plain and compressed, by the reader of whole files and the one of growing files."""

import zlib

from dimargin.data_files import DataFileError, GrowingFile, csv_text, growing, read_data

from .inputs import SOME_NUMBERS, check_refusal, compressed, file, mutated, same

_LABELS = ["x", "y", "ham", "1", "2", "0.5", "ä", "", " ", "nan", '"x"', '"x,y"', '"x""y"', 'x"', '"x', '"a\nb"', "'"]

growing._PAUSE = 0  # nobody else writes the file


def _field(rng):
    number = rng.choice(SOME_NUMBERS) if rng.random() < 0.02 else rng.choice(["1", "-2.5", "3e4", " 4 ", "0"])
    return f'"{number}"' if rng.random() < 0.1 else number


def generate(rng):
    width, index = rng.choice([1, 2, 2, 3, 5]), rng.randrange(3)
    names = [rng.choice("abcdefgh") + str(k) for k in range(width)]
    delimiter, end = rng.choice(",,,;\t"), rng.choice(["\n", "\n", "\n", "\r\n", "\n\n"])
    rows = [[_field(rng) for _ in range(width)] for _ in range(rng.choice([0, 1, 2, 3, 8]))]
    for row in [names, *rows]:
        label = "label" if row is names else rng.choice(_LABELS) if rng.random() < 0.1 else rng.choice(["x", "y", "1"])
        row.insert(index, label)
        if rng.random() < 0.03:
            row.append(_field(rng))
    text = end.join(delimiter.join(row) for row in ([names] if rng.random() < 0.8 else []) + rows)
    data = (text + rng.choice(["", end, end])).encode()
    data = mutated(rng, data) if rng.random() < 0.5 else data
    data = compressed(rng, data)
    return mutated(rng, data) if rng.random() < 0.1 else data


def check(data):
    digest = zlib.crc32(data)
    csv_text.CHUNK = growing.CHUNK = (24, 100, 2**20)[digest % 3]
    csv_text._WIDE = (2, 1000)[digest // 3 % 2]
    options = {"label": (None, None, 0, -1)[digest // 6 % 4], "needs_label": bool(digest // 24 % 4)}
    path, outcomes = file("rows.csv", data), []
    for read in (lambda: read_data(path, **options), lambda: GrowingFile(path, **options).read()):
        try:
            outcomes.append(read())
        except DataFileError as error:
            check_refusal(error, path)
            outcomes.append(None)
    if outcomes[1] is not None and not outcomes[1].X.shape[0]:
        outcomes[1] = None  # nothing to read yet, which is an error of a file that does not grow
    whole, growing_rows = outcomes
    # where labels are not read, one of several lines is no fault of a file that does not grow
    is_alike = options["needs_label"] or growing_rows is not None or whole is None
    if is_alike and b"\r" not in data:  # a file that grows has no ends of lines but \n
        assert same(whole, growing_rows), f"two readers, two outcomes: {outcomes}"
