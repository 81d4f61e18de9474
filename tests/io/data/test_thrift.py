"""Thrift's compact protocol, as Parquet's footers are written by Arrow, and anything else."""

import contextlib
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimargin.io.data.thrift import INT32, INT64, LIST, STRUCT, TRUE, Parser


def test_a_footer_is_parsed():
    stream = io.BytesIO()
    pq.write_table(pa.table({f"c{k}": [1.0, None] for k in range(20)}), stream, row_group_size=1)
    data = stream.getvalue()
    length = int.from_bytes(data[-8:-4], "little")
    parser = Parser(data[-8 - length : -8])
    footer, about = parser.struct(), pq.ParquetFile(stream).metadata
    assert parser.at == length and footer[3, INT64] == 2
    for k, group in enumerate(footer[4, LIST]):
        for j, chunk in enumerate(group[1, LIST]):
            own, expected = chunk[3, STRUCT], about.row_group(k).column(j)
            assert own[1, INT32] == 5 and own[5, INT64] == 1  # doubles, one of them
            assert own[9, INT64] == expected.data_page_offset
            assert own[7, INT64] == expected.total_compressed_size


@pytest.mark.parametrize(
    ("data", "fields"),
    [
        (b"\0", {}),
        (b"\x15\x01\x15\x02\0", {(1, INT32): -1, (2, INT32): 1}),
        (b"\x11\x12\0", {(1, TRUE): True, (2, TRUE): False}),
        (b"\x05\xc8\x01\x02\0", {(100, INT32): 1}),
        (b"\x15\x02\x06\x02\x04\0", {(1, INT32): 1, (1, INT64): 2}),  # of another type: another field
        (b"\x18\x03abc\x17\0\0\0\0\0\0\0\0\x13\xff\0", {}),
        (b"\x19\x25\x02\x04\0", {(1, LIST): [1, 2]}),
        (b"\x1c\x15\x02\0\0", {(1, STRUCT): {(1, INT32): 1}}),
    ],
)
def test_fields(data, fields):
    parser = Parser(data)
    assert parser.struct() == fields and parser.at == len(data)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"\x15", IndexError),
        (b"\x18\xff\xff\xff\xff\x07", IndexError),
        (b"\x19\xf5\xff\xff\xff\xff\x07", IndexError),
        (b"\x15" + b"\xff" * 11, ValueError),
        (b"\x1b\0\0", ValueError),
        (b"\x1c" * 10**5, RecursionError),
    ],
)
def test_what_no_file_has(data, error):
    with pytest.raises(error):
        Parser(data).struct()


@given(st.binary(max_size=200))
def test_anything(data):
    with contextlib.suppress(IndexError, ValueError, RecursionError):
        Parser(data).struct()
