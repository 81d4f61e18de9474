"""Parquet: tables of all kinds, damaged files, and files whose headers or pages claim what is not true."""

import io

import pyarrow as pa
import pyarrow.parquet as pq

from dimargin.io.data import DataFileError, read_data

from .inputs import check_refusal, file, mutated
from .parquet_claims import Parquet, varint

_COLUMNS = [
    [1.0, 2.0, 3.0],
    [1.0, None, 3.0],
    [1, 2, 3],
    [True, False, True],
    ["a", "b", "a"],
    ["a", None, "b\nc"],
    [b"a", b"b", b"c"],
    [[1], [2], []],
    [{"a": 1}] * 3,
    [float("nan"), 1.0, 2.0],
    [2**62, 2**62 + 1, -1],
    ["1", "2.0", "x" * 300],
    [None] * 3,
]
_OPTIONS = [
    {},
    {"compression": "none"},
    {"compression": "zstd"},
    {"use_dictionary": False},
    {"row_group_size": 2},
    {"version": "1.0"},
    {"data_page_version": "2.0"},
    {"use_byte_stream_split": False},
    {"use_dictionary": False, "column_encoding": "DELTA_LENGTH_BYTE_ARRAY"},
    {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY", "compression": "none"},
    {"use_dictionary": False, "column_encoding": "DELTA_BINARY_PACKED", "compression": "none"},
]
_CLAIMS = [
    -1,
    0,
    1,
    2,
    3,
    4,
    100,
    2**16,
    2**20,
    2**26,
    2**29,
    2**30,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**62,
    -(2**31),
]


def generate(rng):
    names = rng.sample(["a", "b", "c", "label", "y", "class", "__index_level_0__", ""], rng.choice([1, 2, 2, 3, 4]))
    columns = [rng.choice(_COLUMNS[:3] if rng.random() < 0.7 else _COLUMNS) for _ in names]
    table = pa.table({name: pa.array(column) for name, column in zip(names, columns, strict=True)})
    options = dict(rng.choice(_OPTIONS))
    if encoding := options.get("column_encoding"):
        takes = pa.types.is_integer if encoding == "DELTA_BINARY_PACKED" else pa.types.is_string
        options["column_encoding"] = {name: encoding for name in names if takes(table.schema.field(name).type)}
    stream = io.BytesIO()
    pq.write_table(table, stream, **options)
    data, how = stream.getvalue(), rng.random()
    return mutated(rng, data) if how < 0.4 else _claiming(rng, data) if how < 0.8 else data


def _claiming(rng, data):
    """The file with untrue numbers in its headers, or at the beginning of a page."""
    parquet = Parquet(data)
    if rng.random() < 0.3:
        chunk = rng.randrange(len(parquet.chunks))
        page = rng.randrange(len(parquet.chunks[chunk][1]))
        content = parquet.chunks[chunk][1][page][1]
        at = rng.choice([0, 4, 6, 8, len(content)])
        parquet.replace_page(chunk, page, content[:at] + b"".join(varint(abs(rng.choice(_CLAIMS))) for _ in range(4)))
    names = list(parquet.names())
    return parquet.content([(rng.choice(names), rng.choice(_CLAIMS)) for _ in range(rng.choice([0, 1, 1, 2, 3]))])


def check(data):
    path = file("rows.parquet", data)
    try:
        read_data(path)
    except DataFileError as error:
        check_refusal(error, path, place=False)  # Arrow says what is wrong, but not where
