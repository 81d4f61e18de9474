"""Lines of text: how long they may be, and bombs, which are small files that would fill the memory."""

import bz2
import gzip
import io
import lzma
import os
import sys

import bounded
import numpy as np
import pytest
from data_files import fault, fault_of_all, small_chunks
from hypothesis import given
from hypothesis import strategies as st

from dimargin.io.data import DataFileError, GrowingFile, chunks, csv_text, libsvm, lines, read_data
from dimargin.io.libsvm import from_libsvm
from dimargin.io.models import ModelFileError

needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@given(
    st.binary(max_size=60).map(lambda b: b.translate(b"\n\r" * 128)),
    st.integers(1, 20),
    st.sampled_from([b"\n", b"\r\n"]),
)
def test_blocks_are_whole_lines(text, size, ends):
    text = text[:30] + b"abc" + text[30:]
    blocks = list(lines.blocks_of_lines(io.BytesIO(text), "x", size, ends))
    assert b"".join(blocks) == text
    assert all(block[-1:] in [ends[k : k + 1] for k in range(len(ends))] for block in blocks[:-1])
    kept = lines.blocks_of_lines(io.BytesIO(text), "x", size, whole=False)
    assert b"".join(kept) == text[: text.rfind(b"\n") + 1]
    assert b"".join(lines.blocks_of_lines(io.BytesIO(text), "x", size, most=4)) == text[:4]


@pytest.mark.parametrize("name", ["rows.svm", "rows.csv"])
def test_a_line_that_is_too_long_is_named(name, written, monkeypatch):
    monkeypatch.setattr(lines, "LONGEST_LINE", 2000)
    start = "1 1:1\n" * 5 if "svm" in name else "a,y\n" + "1,1\n" * 4
    path = written(name, start + "1" + " " * 2_000_000)
    message = "FILE, line 6: longer than 2000 bytes, the limit for a line"
    assert fault_of_all(path).startswith(message)
    growing = GrowingFile(written(name, start))
    growing.read()
    with open(growing.path, "ab") as file:
        file.write(b"1" * 2_000_000)
    with pytest.raises(DataFileError, match="line 6: longer than 2000 bytes"):
        growing.read()


@pytest.mark.parametrize("name", ["rows.svm", "rows.csv"])
def test_a_file_that_is_cut_while_it_is_read(name, written, monkeypatch):
    row = "1 1:1 2:2\n" if "svm" in name else "1,2,3\n"
    path, rows = written(name, row * 300_000), chunks.Chunk
    small_chunks(monkeypatch, 10_000)

    def cut(*given):
        os.truncate(path, 300_000)
        return rows(*given)

    monkeypatch.setattr(libsvm if "svm" in name else csv_text, "Chunk", cut)
    message = fault(path, None if "svm" in name else 0)
    assert f"FILE was truncated while it was read, from {300_000 * len(row)} to 300000 bytes" == message


def test_what_is_ordinary_is_read_however_well_it_is_compressed(written):
    """A thousand to one."""
    data = read_data(written("rows.svm.xz", lzma.compress(b"1 1:1 2:1\n" * 500_000)))
    assert data.X.shape == (500_000, 2) and (data.X == 1).all()


@pytest.mark.slow
@pytest.mark.nightly_after(2)
@needs_proc
@pytest.mark.parametrize("name", ["bomb.svm.gz", "bomb.csv.gz", "bomb.svm.bz2", "bomb.csv.xz"])
@pytest.mark.parametrize("read", ["read_data(sys.argv[0])", "GrowingFile(sys.argv[0]).read()"])
def test_gigabytes_of_zeros_do_not_fill_the_memory(name, read, written):
    compress = {"gz": gzip.compress, "z2": bz2.compress, "xz": lzma.compress}[name[-2:]]
    path = written(name, b"1,1\n"[:0] + compress(bytes(2**24)) * 64)
    imports = (
        "import dimargin.io.data.libsvm, sklearn.datasets, pyarrow.csv\n"
        "from dimargin.io.data import GrowingFile, read_data"
    )
    said = bounded.run(imports, read.replace("sys.argv[0]", repr(str(path))), megabytes=400)
    assert said.startswith("DataFileError") and str(path) in said
    assert "line 1" in said and ("longer than 67108864 bytes" in said or "NUL" in said or "is empty" in said), said


@pytest.mark.slow
@needs_proc
@pytest.mark.parametrize("name", ["rows.svm", "rows.csv", "rows.parquet"])
def test_a_file_that_does_not_fit_is_an_error_with_the_reason(name, written, tmp_path):
    if name.endswith("parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"a": np.zeros(2 * 10**7), "y": np.zeros(2 * 10**7)}), tmp_path / name)
        path = tmp_path / name
    else:
        path = written(name, gzip.compress(b"1 1:1\n" * 10**7 if "svm" in name else b"1,1\n" * 10**7, 1))
    imports = "import sklearn.datasets, pyarrow.csv, pyarrow.parquet\nfrom dimargin.io.data import read_data"
    call = f"read_data({str(path)!r}, {None if 'svm' in name else 0!r})"
    said = bounded.run(imports, call, megabytes=100)
    assert said.startswith("DataFileError") and str(path) in said, said
    assert "needs more memory than there is; this process may use" in said, said


def test_a_text_model_has_no_longer_lines_either(written, monkeypatch):
    monkeypatch.setattr(lines, "LONGEST_LINE", 2000)
    text = "svm_type c_svc\nkernel_type linear\nnr_class 2\ntotal_sv 1\nrho 0\nlabel 1 2\nnr_sv 1 0\nSV\n"
    path = written("model", text + "1 1:1" + " " * 2_000_000 + "\n")
    with pytest.raises(ModelFileError, match="line 9: longer than 2000 bytes"):
        from_libsvm(path)


@pytest.mark.slow
@pytest.mark.nightly_after(1)
@needs_proc
@pytest.mark.parametrize(("name", "row"), [("rows.svm", b"1\n"), ("rows.svm", b"1 1:1\n"), ("rows.csv", b"1,x\n")])
def test_reading_takes_ten_times_the_text_at_most(name, row, written):
    path = written(name, (b"1 1:1\n" if "svm" in name else b"a,y\n") + row * (40 * 2**20 // len(row)))
    imports = "import sklearn.datasets, pyarrow.csv\nfrom dimargin.io.data import read_data"
    peak = "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024"
    code = (
        f"before = {peak}; data = read_data({str(path)!r}); assert {peak} - before < 10 * 40 * 2**20, {peak} - before"
    )
    assert bounded.run(imports, code, megabytes=4000) == "done\n"


@pytest.mark.parametrize("name", ["rows.svm", "rows.csv"])
def test_rows_beyond_the_memory_are_refused_before_they_fill_it(name, written, monkeypatch):
    text = "1 1:1 2:2\n" * 100_000 if "svm" in name else "1,2,3.5\n" * 100_000
    path = written(name, text)
    monkeypatch.setattr(chunks, "memory_of_process", lambda: 10**6)
    assert "its content needs more memory than there is" in fault(path, None if "svm" in name else 0)
