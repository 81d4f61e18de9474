"""Files that grow: every row is read once, whatever is written to them and when, without more memory than rows need."""

import os
import subprocess
import sys

import numpy as np
import pytest
from data_files import (
    COMPRESS,
    DENSE,
    LABELS,
    append,
    as_dense,
    assert_same,
    csv_text,
    finite,
    libsvm_text,
    same_file,
)
from hypothesis import given
from hypothesis import strategies as st

from dimargin.io.data import DataFileError, GrowingFile, growing_file, read_data


def grown(path, parts, **options):
    """What is read each time a part has been appended to a file."""
    path.write_bytes(b"")
    reader = GrowingFile(path, **options)
    for part in parts:
        append(path, part)
        yield reader.read()


whole = finite.map(round).map(float)
rows_of_libsvm = st.lists(st.tuples(whole, st.dictionaries(st.integers(1, 12), finite, max_size=6)), max_size=4)


@same_file
@given(st.lists(rows_of_libsvm, min_size=1, max_size=4), st.integers(1, 100), st.sampled_from(["\n", "\r\n", " #\n\n"]))
def test_libsvm_that_grows(tmp_path, groups, size, end):
    parts = [
        "".join(f"{y!r} " + " ".join(f"{k}:{v!r}" for k, v in sorted(x.items())) + end for y, x in rows)
        for rows in groups
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing_file, "CHUNK", size)
        read = list(grown(tmp_path / "rows", parts, n_features=12, zero_based=False))
    for part, data in zip(parts, read, strict=True):
        assert data.X.shape[1] == 12
        if part:
            (tmp_path / "part").write_text(part, newline="")
            assert_same(data, read_data(tmp_path / "part", n_features=12, zero_based=False))
        else:
            assert data.X.shape[0] == 0 and data.y.shape == (0,)


texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zs", "Zl", "Zp"]), min_size=1, max_size=5)
rows_of_csv = st.lists(st.tuples(finite, texts.map(lambda text: "t" + text), finite), max_size=4)


@pytest.mark.slow
@same_file
@given(st.lists(rows_of_csv, min_size=1, max_size=4), st.integers(1, 100), st.sampled_from(["\n", "\r\n", "\n\n"]))
def test_csv_that_grows(tmp_path, groups, size, end):
    def quoted(text):
        return '"' + text.replace('"', '""') + '"'

    header = f"u,label,v{end}"
    parts = ["".join(f"{u!r},{quoted(label)},{v!r}{end}" for u, label, v in rows) for rows in groups]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing_file, "CHUNK", size)
        nothing, *read = grown(tmp_path / "rows.csv", [header, *parts])
    assert nothing.X.shape == (0, 2) and nothing.feature_names == ["u", "v"] and nothing.label == "label"
    for part, data in zip(parts, read, strict=True):
        if part:
            (tmp_path / "part.csv").write_text(header + part, newline="")
            assert_same(data, read_data(tmp_path / "part.csv"))
        else:
            assert data.X.shape == (0, 2) and data.y.shape == (0,)


@pytest.mark.parametrize("name", ["rows.svm", "rows.csv"])
def test_written_byte_by_byte(name, tmp_path):
    """However a writer's buffer cuts the file, every row is read once, and whole."""
    text = csv_text(DENSE[:4], ["ä", "b", "ä", "c"]).encode() if "csv" in name else libsvm_text(DENSE[:4], LABELS[:4])
    read = list(grown(tmp_path / name, [b"", *(text[k : k + 1] for k in range(len(text)))]))
    rows = [data for data in read if data.X.shape[0]]
    assert [data.X.shape[0] for data in rows] == [1] * 4
    expected = read_data(tmp_path / name)
    np.testing.assert_array_equal(np.concatenate([as_dense(data.X) for data in rows]), expected.X)
    np.testing.assert_array_equal(np.concatenate([data.y for data in rows]), expected.y)


def test_nothing_new(written):
    path = written("rows.csv", "a,y\n1,x\n")
    reader = GrowingFile(path)
    assert reader.read().X.shape == (1, 1) and reader.read().X.shape == (0, 1) and reader.read().y.shape == (0,)


def test_a_file_that_is_not_there_yet(tmp_path):
    reader = GrowingFile(tmp_path / "rows")
    with pytest.raises(FileNotFoundError):
        reader.read()
    append(tmp_path / "rows", "")
    assert reader.read().X.shape == (0, 0)
    append(tmp_path / "rows", "1 2:1\n")
    assert reader.read().X.tolist() == [[0.0, 1.0]]


def test_libsvm_may_get_wider_but_not_count_anew(written):
    path = written("rows", "1 1:5 3:1\n")
    reader = GrowingFile(path)
    assert reader.read().X.shape == (1, 3)
    append(path, "1 1:2\n")
    assert as_dense(reader.read().X).tolist() == [[2, 0, 0]]
    append(path, "1 4:2\n")
    assert as_dense(reader.read().X).tolist() == [[0, 0, 0, 2]]
    append(path, "1 0:2\n")
    with pytest.raises(DataFileError, match=f"{path} has a feature 0; expected features counted from 1"):
        reader.read()


def test_an_unfinished_line_counts_at_the_first_read_only(written):
    path = written("rows", "1 1:5\n2 1:7")
    reader = GrowingFile(path)
    assert reader.read().y.tolist() == [1, 2]
    append(path, "\n3 1:8\n4 1:")
    assert reader.read().y.tolist() == [3]
    append(path, "9")
    assert reader.read().y.shape == (0,)
    append(path, "0\n")
    assert reader.read().X.tolist() == [[90]]


def test_an_unfinished_line_of_a_file_being_written_is_left(written, monkeypatch):
    path = written("rows", "1 1:5\n2 1:7")
    monkeypatch.setattr(growing_file.time, "sleep", lambda seconds: append(path, "0\n"))
    reader = GrowingFile(path)
    assert reader.read().X.tolist() == [[5]] and reader.read().X.tolist() == [[70]]


@pytest.mark.parametrize(("name", "start"), [("rows", "1 1:5\n2 1:7"), ("rows.csv", "y,a\n1,5\n2,7")])
def test_a_line_that_goes_on_after_it_was_read_is_an_error(name, start, written):
    path = written(name, start)
    reader = GrowingFile(path)
    assert reader.read().y.tolist() == [1, 2]
    append(path, "0\n")
    line = start.count("\n") + 1
    for _ in range(2):
        with pytest.raises(
            DataFileError, match=rf"{path}, line {line}: it was continued after it had been read without"
        ):
            reader.read()


@pytest.mark.parametrize(
    ("name", "start", "bad", "message"),
    [
        ("rows", "1 1:5\n\n", "2 1:6\n1 1:x\n", "line 4: '1 1:x' is not LIBSVM text"),
        ("rows.csv", "a,y\n5,1\n\n", "6,2\nx,1\n", "line 5: column 'a' is 'x'; a finite number expected"),
    ],
)
def test_lines_are_counted_from_the_beginning_of_the_file(name, start, bad, message, written, chunk):
    path = written(name, start)
    reader = GrowingFile(path)
    reader.read()
    append(path, bad)
    for _ in range(2):  # what could not be read is not passed over
        with pytest.raises(DataFileError, match=rf"{path}, {message}"):
            reader.read()


def shrunk(path):
    os.truncate(path, 10)


def rewritten(path):
    path.write_bytes(path.read_bytes().replace(b"5", b"6"))


def replaced(path):
    new = path.with_name("new")
    new.write_bytes(path.read_bytes())
    os.replace(new, path)


@pytest.mark.parametrize(
    ("harm", "message"),
    [(shrunk, "shrank to 10 bytes after 12"), (rewritten, "replaced or rewritten"), (replaced, "replaced or rew")],
)
@pytest.mark.parametrize("then", ["", "3 1:9\n"])
def test_a_file_that_does_not_just_grow(harm, message, then, written):
    path = written("rows", "1 1:5\n2 1:7\n")
    reader = GrowingFile(path)
    reader.read()
    harm(path)
    if harm is not shrunk:
        append(path, then)
    with pytest.raises(DataFileError, match=f"{path} .*{message}"):
        reader.read()


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_compressed_files_do_not_grow(suffix, written):
    content = COMPRESS[suffix](b"1 1:5\n2 1:7")
    path = written("rows" + suffix, content)
    reader = GrowingFile(path)
    assert reader.read().y.tolist() == [1, 2] and reader.read().X.shape == (0, 1)
    append(path, content)
    with pytest.raises(DataFileError, match=f"{path} grew although it is compressed"):
        reader.read()
    path.write_bytes(content[:-4])
    with pytest.raises(DataFileError, match=f"{path} is damaged or truncated"):
        GrowingFile(path).read()


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "a,y\n1,2\n", "1,2\n3,4\n"])
def test_csv_that_needs_no_label(text, written, chunk):
    """Its rows have none, from one read to the next, whatever a column that is called so holds."""
    path = written("rows.csv", text)
    growing_file = GrowingFile(path, needs_label=False)
    first, expected = growing_file.read(), read_data(path, needs_label=False)
    np.testing.assert_array_equal(first.X, expected.X)
    assert (first.y is None) == (expected.y is None) and first.label == expected.label
    assert first.y is None or first.y.tolist() == expected.y.tolist()
    assert first.feature_names == expected.feature_names and growing_file.read().X.shape == (0, first.X.shape[1])
    append(path, "5,6\n")
    second = growing_file.read()
    assert second.X[:, 0].tolist() == [5.0] and (second.y is None) == (first.y is None)
    assert first.y is None
    append(path, "7,oops\n")
    if "y" in text:
        assert growing_file.read().X.tolist() == [[7.0]]
    else:
        with pytest.raises(DataFileError, match="oops"):
            growing_file.read()
        with pytest.raises(DataFileError, match="which column holds the labels"):
            GrowingFile(path).read()


def test_labels_that_were_texts_stay_so(written):
    """Whatever the labels of later rows are: 10 beside 007 is a text, and so it is by itself."""
    path = written("rows.csv", "a,y\n1,007\n2,10\n")
    growing_file = GrowingFile(path)
    assert growing_file.read().y.tolist() == ["007", "10"]
    append(path, "3,10\n")
    assert growing_file.read().y.tolist() == ["10"]
    append(path, "4,7,8\n")
    with pytest.raises(DataFileError, match="line 5: 3 fields"):
        growing_file.read()
    numbers = GrowingFile(written("numbers.csv", "a,y\n1,7\n2,10\n"))
    assert numbers.read().y.tolist() == [7, 10]


# ---- memory ----------------------------------------------------------------------------------------------------------

READ = """
import sys
from dimargin.io.data import GrowingFile, growing_file

def memory(which):
    return next(int(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith(which))

growing_file.CHUNK = 2**16
GrowingFile(sys.argv[2]).read()
before = memory("VmRSS")
X = GrowingFile(sys.argv[1]).read().X
print(memory("VmHWM") - before, X.nbytes / 2**20)
print(sorted({"sklearn", "pyarrow", "pandas", "matplotlib"} & set(sys.modules)))
"""


@pytest.mark.slow_after(1)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("name", ["rows.svm", "rows.csv"])
def test_memory_is_that_of_the_rows(name, tmp_path):
    X = np.tile(DENSE, (800, 1))
    line = " ".join("{}:{}".format(k, "{}") for k in range(1, 6)) if "svm" in name else "{},{},{},{},{}"
    lines = [("1 " if "svm" in name else "1,") + line.format(*row) for row in X.tolist()]
    header = "" if "svm" in name else "y,a,b,c,d,e\n"
    path, small = tmp_path / name, tmp_path / f"small-{name}"
    path.write_text(header + "\n".join(lines) + "\n")
    small.write_text(header + "\n".join(lines[:60]) + "\n")
    done = subprocess.run([sys.executable, "-c", READ, path, small], capture_output=True, text=True, check=True)
    numbers, heavy = done.stdout.splitlines()
    peak, own = map(float, numbers.split())
    assert heavy == "[]" and peak < 2 * own + 4  # 4: a block of text as objects
