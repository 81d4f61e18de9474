"""Parquet files that claim what is not true, or change while they are read."""

import io
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data_files import fault, parquet
from fuzz import driver, fuzz_parquet
from fuzz.parquet_claims import Parquet, varint

from dimargin.io.data import DataFileError, read_data
from dimargin.io.data import parquet as parquet_reader
from dimargin.io.data import parquet_pages as pages

TABLE = {"a": 2.0 * np.arange(20), "b": np.arange(20) % 3, "label": ["x", "y"] * 10}
WRITTEN = {
    "plain": {"use_dictionary": False, "compression": "none"},
    "dictionaries": {},
    "pages of version 2": {"data_page_version": "2.0", "compression": "zstd"},
    "row groups": {"row_group_size": 7},
    "small pages": {"use_dictionary": False, "data_page_size": 16, "write_batch_size": 4, "compression": "gzip"},
    "deltas": {"use_dictionary": False, "column_encoding": {"label": "DELTA_BYTE_ARRAY"}, "compression": "lz4"},
    "delta lengths": {
        "use_dictionary": False,
        "column_encoding": {"b": "DELTA_BINARY_PACKED", "label": "DELTA_LENGTH_BYTE_ARRAY"},
        "data_page_version": "2.0",
        "compression": "brotli",
    },
}


def taken_apart(columns=TABLE, **options):
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream, **options)
    return Parquet(stream.getvalue())


@pytest.mark.parametrize("options", WRITTEN.values(), ids=WRITTEN)
def test_what_is_true_is_read(options, written):
    data = read_data(written("rows.parquet", taken_apart(**options).content()))
    assert data.X.T.tolist() == [TABLE["a"].tolist(), TABLE["b"].tolist()] and data.y.tolist() == TABLE["label"]


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("options", WRITTEN.values(), ids=WRITTEN)
def test_no_claim_costs_memory_or_time_or_rows(options, written):
    for place in taken_apart(**options).names():
        for number in (-1, 1, 2**29, 2**40):
            content = taken_apart(**options).content([(place, number)])
            assert driver.failure(fuzz_parquet, content) is None, (place, number)
            try:
                data = read_data(written("rows.parquet", content))
            except DataFileError:
                continue
            assert data.X.shape == (20, 2), (place, number)


CLAIMS = {
    "compressed": (("page", 0, 0, 3), 2**31 - 1, "column 'a': a page claims 2147483647 bytes, but"),
    "decompressed": (("page", 0, 0, 2), 2**30, "column 'a': a page claims 20 values and 1073741824 bytes"),
    "values": (("page", 0, 0, 5, 1), 10**6, "column 'a': a page claims 1000000 values and"),
    "fewer values": (("page", 0, 0, 5, 1), 19, "FILE is damaged: row group 0, column 'a': "),
    "no values": (("page", 0, 0, 5, 1), -5, "column 'a': a page claims -5 values"),
    "values of a column": (("footer", 4, 0, 1, 1, 3, 5), 2**40, "1099511627776 values claimed for 20 rows"),
    "rows of a group": (("footer", 4, 0, 3), 2**40, "20 values claimed for 1099511627776 rows"),
    "rows": (("footer", 3), 21, "its footer: it claims 21 rows, but 20 in its row groups"),
    "place": (("footer", 4, 0, 1, 0, 3, 9), 2**40, "column 'a': its pages hold 0 of 20 values"),
}


@pytest.mark.parametrize(("place", "number", "message"), CLAIMS.values(), ids=CLAIMS)
def test_a_claim_is_named(place, number, message, written):
    content = taken_apart(use_dictionary=False, compression="none").content([(place, number)])
    assert message in fault(written("rows.parquet", content))


@pytest.mark.parametrize(
    ("encoding", "true"), [("DELTA_LENGTH_BYTE_ARRAY", 0), ("DELTA_BYTE_ARRAY", 0), ("DELTA_BYTE_ARRAY", 1)]
)
def test_more_texts_than_values(encoding, true, written):
    """Of 1,200 bytes Arrow made 8 GB: lengths of no bits cost nothing in the file."""
    made = taken_apart(use_dictionary=False, compression="none", column_encoding={"label": encoding})
    few, many = (varint(2**27) + varint(4) + varint(n) + varint(0) + bytes(5) for n in (20, 2**26))
    levels = made.chunks[2][1][0][1][:6]
    made.replace_page(2, 0, levels + few * true + many)
    expected = "column 'label': a page of 20 values claims 67108864 texts"
    assert expected in fault(written("rows.parquet", made.content()))


@pytest.mark.parametrize("claimed", [None, 2**30])
def test_texts_as_deltas_in_blocks_of_hadoop(claimed, written):
    """As Spark writes them, but Arrow does not."""
    made = taken_apart(use_dictionary=False, compression="none", column_encoding={"label": "DELTA_LENGTH_BYTE_ARRAY"})
    about, ((header, content),) = made.chunks[2]
    block = pa.Codec("lz4_raw").compress(content, asbytes=True)
    made.replace_page(2, 0, (claimed or len(content)).to_bytes(4, "big") + len(block).to_bytes(4, "big") + block)
    header[2], about[4] = (5, len(content)), (5, 5)
    path = written("rows.parquet", made.content())
    if claimed is None:
        assert read_data(path).y.tolist() == TABLE["label"]
    else:
        assert "column 'label': a page decompresses to more than it claims" in fault(path)


def test_a_bomb_of_many_columns_is_refused(written, monkeypatch):
    columns = {f"c{k}": ["x" * 10**5] * 10 for k in range(20)}
    path = written("rows.parquet", taken_apart({**columns, "y": [0] * 10}, use_dictionary=False).content())
    monkeypatch.setattr(pages, "memory_of_process", lambda: 10**7)
    columns = [f"c{k}" for k in range(20)]
    with pa.OSFile(str(path)) as source:
        footer, schema = pages.footer_of(path, source), pq.read_metadata(path).schema
        assert pages.check_pages(path, source, footer, schema, columns[:9]) == 10
        with pytest.raises(DataFileError, match="its content needs more memory than there is"):
            pages.check_pages(path, source, footer, schema, columns)


def test_a_footer_that_does_not_fit(tmp_path, monkeypatch):
    path = parquet(tmp_path / "rows.parquet", TABLE)
    monkeypatch.setattr(pages, "memory_of_process", lambda: 10**5)
    assert fault(path).startswith("FILE: its footer needs more memory than there is")


def test_columns_that_are_not_read_may_hold_anything(written):
    lists = {**TABLE, "lists": [[1, 2]] * 20, "c.d": np.zeros(20)}
    content = taken_apart(lists, use_dictionary=False).content([(("page", 4, 0, 5, 1), 10**6)])
    path = written("rows.parquet", content)
    assert read_data(path, columns=["b", "a"]).X.shape == (20, 2)
    assert "column 'c.d': a page claims 1000000 values" in fault(path, columns=["a", "c.d"])


def test_a_name_that_is_no_text(tmp_path):
    parquet(tmp_path / "rows.parquet", TABLE)
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.parquet")
    os.rename(tmp_path / "rows.parquet", name)
    assert read_data(name).X.shape == (20, 2)


# ---- files that change -----------------------------------------------------------------------------------------------


@pytest.fixture
def changing(tmp_path, monkeypatch):
    """Reads a file that is changed, in its place, when the first rows have been read."""
    plain = {"use_dictionary": False, "compression": "none"}
    path = parquet(tmp_path / "rows.parquet", {"a": np.arange(300_000.0), "y": np.arange(300_000) % 2}, **plain)

    def read(change):
        whole, numbers, left = path.read_bytes(), parquet_reader.matrix, [change]

        def matrix(*given):
            while left:
                left.pop()(path, whole)
            return numbers(*given)

        monkeypatch.setattr(parquet_reader, "matrix", matrix)
        return fault(path)

    return read


def test_a_file_that_is_cut_while_it_is_read(changing):
    assert "FILE was truncated or rewritten while it was read: got 80000 of 300000 rows" in changing(
        lambda path, whole: os.truncate(path, 0)
    )


def test_a_file_that_is_rewritten_while_it_is_read(changing):
    def rewrite(path, whole):
        with open(path, "rb+") as file:
            file.write(whole)
        os.utime(path, ns=(0, 0))

    assert "FILE was truncated or rewritten while it was read" in changing(rewrite)


def test_a_file_that_is_replaced_while_it_is_read_is_the_old_one(tmp_path, monkeypatch):
    path, numbers = parquet(tmp_path / "rows.parquet", TABLE), parquet_reader.matrix
    parquet(tmp_path / "new", {"a": [1.0], "label": [0]})

    def matrix(*given):
        os.replace(tmp_path / "new", path)
        return numbers(*given)

    monkeypatch.setattr(parquet_reader, "matrix", matrix)
    assert read_data(path).X.shape == (20, 2)


def test_a_file_that_is_replaced_before_its_rows_are_read(tmp_path, monkeypatch):
    path, check = parquet(tmp_path / "rows.parquet", TABLE), parquet_reader.is_numeric
    parquet(tmp_path / "new", {"a": [1.0], "b": [1], "label": ["x"]})

    def is_numeric(kind):
        if (tmp_path / "new").exists():
            os.replace(tmp_path / "new", path)
        return check(kind)

    monkeypatch.setattr(parquet_reader, "is_numeric", is_numeric)
    assert fault(path) == "FILE was rewritten while it was read"
