"""Parquet: tables of all kinds, and damaged files."""

import io

import pyarrow as pa
import pyarrow.parquet as pq

from dimargin.data_files import DataFileError, read_data

from .inputs import check_refusal, file, mutated

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
]


def generate(rng):
    names = rng.sample(["a", "b", "c", "label", "y", "class", "__index_level_0__", ""], rng.choice([1, 2, 2, 3, 4]))
    columns = [rng.choice(_COLUMNS[:3] if rng.random() < 0.7 else _COLUMNS) for _ in names]
    table = pa.table({name: pa.array(column) for name, column in zip(names, columns, strict=True)})
    stream = io.BytesIO()
    pq.write_table(table, stream, **rng.choice(_OPTIONS))
    data = stream.getvalue()
    return mutated(rng, data) if rng.random() < 0.7 else data


def check(data):
    path = file("rows.parquet", data)
    try:
        read_data(path)
    except DataFileError as error:
        check_refusal(error, path, place=False)  # Arrow says what is wrong, but not where
