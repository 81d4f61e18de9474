"""Text in other encodings, kinds of files that are not read, and pipes."""

import bz2
import gzip
import os
import pickle
import tarfile
import threading
import zipfile
from functools import partial

import numpy as np
import pandas as pd
import pytest
from data_files import fault, grown, read_mixed

from dimargin.io.data import DataFileError, GrowingFile, opening, read_data
from dimargin.io.data.opening import FileOptions, copied, regular

TEXT = "gr\u00f6\u00dfe,b,label\n" + "1.5,2,caf\u00e9\n2.5,3,th\u00e9\n" * 200


# ---- encodings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-8", "utf-8-sig", "mac-roman", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_text_in_other_encodings(encoding, compress, written, chunk):
    path = written("t.csv", compress(TEXT.encode(encoding)))
    data = read_data(path, encoding=encoding)
    assert data.feature_names == ["gr\u00f6\u00dfe", "b"] and data.y[:2].tolist() == ["caf\u00e9", "th\u00e9"]
    assert data.X.shape == (400, 2)
    mixed = read_mixed(path, options=FileOptions(encoding=encoding))
    assert mixed.X.column_names == data.feature_names and mixed.y.tolist() == data.y.tolist()
    if "16" not in encoding:
        growing = grown(path, encoding=encoding)
        assert growing.feature_names == data.feature_names and growing.y.tolist() == data.y.tolist()


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@pytest.mark.parametrize("text", ["a,b,y\n1,2,x\n3,4,z\n", "0 1:2 2:3\n1 1:4\n"])
def test_a_byte_order_mark_names_the_encoding(encoding, text, written):
    expected = read_data(written("plain", text))
    for content in (text.encode(encoding), b"\xef\xbb\xbf" + text.encode()):
        data = read_data(written("t", content))
        assert data.X.tolist() == expected.X.tolist() and data.y.tolist() == expected.y.tolist()
    with pytest.raises(DataFileError, match=f"text in {encoding} can be read only as a whole on one computer"):
        grown(written("t", text.encode(encoding)))
    assert grown(written("t", b"\xef\xbb\xbf" + text.encode())).X.tolist() == expected.X.tolist()
    with pytest.raises(DataFileError, match="can be read only as a whole on one computer"):
        GrowingFile(written("t", text), encoding=encoding)


def test_letters_of_another_encoding_are_named_with_what_helps(written):
    helps = "not UTF-8 text; name its encoding, such as cp1252 ({!r}), by --encoding, or encoding= in Python".format
    path = written("t.csv", TEXT.encode("latin-1"))
    name, word = "gr\u00f6\u00dfe", "caf\u00e9"
    assert fault(path) == f"FILE, line 1: the name of a column, 'gr\ufffd\ufffde', is {helps(name)}"
    path = written("t.csv", TEXT.replace(name, "a").encode("latin-1"))
    assert fault(path) == f"FILE, line 2: {helps(word)}"
    with pytest.raises(DataFileError, match="line 2: not UTF-8 text; name its encoding"):
        read_mixed(path)


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    ("encoding", "odd"),
    [("cp1252", b"\x81"), ("shift-jis", b"\xff"), ("utf-16-le", b"\0\xd8\0\xd8"), ("utf-16-be", b"\xd8\0\xd8\0")],
)
def test_bytes_that_are_not_in_the_given_encoding_are_named_with_their_line(encoding, odd, ends, written):
    """Also far into a file, of which the beginning has been read before."""
    n, lines = 5000, [f"{k},x" for k in range(5000)]
    content = ends.join(["a,y", *lines, ""]).encode(encoding) + odd + f"{ends}7,z{ends}".encode(encoding)
    said = fault(written("t.csv", content), encoding=encoding)
    assert said.startswith(f"FILE, line {n + 2}: 0x") and f" is not {encoding} text (" in said
    assert said.endswith("; name another encoding by --encoding, or encoding= in Python")


@pytest.mark.parametrize(("encoding", "said"), [("utf-16-le", "utf-16-le"), ("utf-16-be", "utf-16-be")])
def test_utf_16_without_a_mark_is_recognised(encoding, said, written):
    path = written("t.csv", TEXT.encode(encoding))
    assert fault(path) == f"FILE, line 1: a NUL byte; expected text. For UTF-16, use --encoding {said}"
    assert read_data(path, encoding=said).X.shape == (400, 2)


@pytest.mark.parametrize(("mark", "other"), [("utf-8-sig", "cp1252"), ("utf-16", "utf-8"), ("utf-32", "utf-16")])
def test_a_byte_order_mark_that_contradicts_the_given_encoding_is_refused(mark, other, written):
    path = written("t.csv", TEXT.encode(mark))
    said = f"begins with the byte order mark of {mark[:6].rstrip('-').upper()}, but encoding {other!r} was given"
    assert said in fault(path, encoding=other) and "leave --encoding out" in fault(path, encoding=other)
    if other != "utf-16":
        with pytest.raises(DataFileError, match=said):
            GrowingFile(path, encoding=other).read()


def test_what_is_not_an_encoding_is_named(written):
    path = written("t.csv", TEXT)
    for wrong in ("no-such", "rot13", "base64", "zlib"):
        with pytest.raises(ValueError, match=f"encoding must name a text encoding, .* got '{wrong}'"):
            read_data(path, encoding=wrong)


def test_utf16_that_is_cut_within_a_letter(written):
    path = written("t.csv", "a,y\n1,x\n2,z\n".encode("utf-16")[:-1])
    assert "FILE, line 3: 0x0a is not utf-16 text (truncated data)" in fault(path)


# ---- other kinds of files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", opening.UNREAD_KINDS)
@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t"])
def test_kinds_that_are_not_read_are_named(start, name, written):
    path = written(name, start + bytes(60))
    said = fault(path)
    assert said.startswith("FILE is ") and ("; " in said or "expected" in said)
    with pytest.raises(DataFileError, match="is "):
        grown(path) if name != "t.parquet" else GrowingFile(path)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress])
@pytest.mark.parametrize("name", ["t.parquet.gz", "t.csv", "t"])
def test_kinds_that_are_compressed_are_named_too(name, compress, written):
    assert fault(written(name, compress(b"PAR1\x15" + bytes(60)))) == "FILE, decompressed, is Parquet; unpack it"
    assert fault(written(name, compress(b"%PDF-1.7\n"))).startswith("FILE, decompressed, is PDF; ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a":1.5,"y":0}\n{"a":2.5,"y":1}\n', "JSON; "),
        ('[{"a":1.5,"y":0},{"a":2.5,"y":1}]', "JSON; "),
        ('{\n "a": {"0": 1.5}\n}', "JSON; "),
        ("[[1.5, 0],\n [2.5, 1]]\n", "JSON; "),
        ("\ufeff<!DOCTYPE html>\n<html><body>Not Found</body></html>\n", "HTML, "),
        ('<table border="1"><tr><td>1</td></tr></table>\n', "HTML, "),
        ("<?xml version='1.0'?>\n<data/>\n", "XML; "),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "a Git LFS pointer "),
        ("---\n- a: 1.5\n  y: 0\n- a: 2.5\n  y: 1\n", "YAML; "),
        ("{\\rtf1\\ansi a,y\\par\n}", "RTF; "),
        (
            "% 1. Title: x\n%\n\n@RELATION x\n@attribute a numeric\n@data\n1.5,0\n",
            "ARFF; read the lines below @data as CSV",
        ),
        ("@relation x\n", "ARFF; "),
        ("%\n" * 5000 + "@relation x\n", "ARFF; "),
    ],
)
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
@pytest.mark.parametrize("name", ["t.csv", "t"])
def test_text_that_is_not_read_is_named_unless_its_format_is_given(text, said, compress, name, written):
    path = written(name, compress(text.encode()))
    assert fault(path).startswith(f"FILE{', decompressed,' if compress is gzip.compress else ''} is {said}")
    with pytest.raises(DataFileError, match=f" is {said}"):
        grown(path)
    try:
        read_data(path, format="csv", header=False, label=0)
    except DataFileError as error:
        assert f" is {said}" not in str(error)


def test_an_archive_within_a_compressed_file_is_named(tmp_path):
    (tmp_path / "t.csv").write_text(TEXT)
    with tarfile.open(tmp_path / "t.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "t.csv", "t.csv")
    assert fault(tmp_path / "t.tar.gz").startswith("FILE, decompressed, is a tar archive; unpack it, or read its rows")


@pytest.mark.parametrize(
    "text",
    [
        "{a},[1],y\n1,2,x\n3,4,z\n",
        "<LOQ,b,y\n1,2,x\n3,4,z\n",
        "-,% b,y\n1,2,x\n3,4,z\n",
        "@relations,b,y\n1,2,x\n3,4,z\n",
    ],
)
def test_names_of_columns_are_no_kinds_of_text(text, written):
    assert read_data(written("t.csv", text)).X.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("make", [partial(pickle.dumps, protocol=k) for k in range(2, 6)])
def test_a_pickle_is_named(make, written):
    assert "is a Python pickle; write its table as CSV" in fault(written("t.csv", make(np.ones(9))))


def test_a_file_of_stata_is_named(tmp_path):
    for version in (114, 117, 118):
        pd.DataFrame({"a": [1.5, 2.5], "y": [0, 1]}).to_stata(tmp_path / "t.dta", version=version)
        assert fault(tmp_path / "t.dta").startswith("FILE is a Stata file; write its table as CSV")


@pytest.mark.parametrize("name", ["PAR1", "ARROW1", "FEA", "SQLite format 3", "PK"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_names_of_columns_are_no_kinds(name, compress, written):
    path = written("t.csv", compress(f"{name},b,y\n1,2,x\n3,4,z\n".encode()))
    assert read_data(path).feature_names == grown(path).feature_names == [name, "b"]


def test_an_archive_names_the_command_that_helps(tmp_path):
    path = tmp_path / "t.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("t.csv", "a,y\n1,2\n")
    assert fault(path).endswith("or read its rows from a pipe: unzip -p FILE | dimargin ... -")


# ---- pipes -----------------------------------------------------------------------------------------------------------


def piped(path, content):
    """A named pipe into which a thread writes."""
    os.mkfifo(path)
    thread = threading.Thread(target=lambda: path.write_bytes(content), daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("content", ["csv", "libsvm", "gz", "mixed"])
def test_a_pipe_is_read_as_a_file(content, tmp_path):
    text = {"libsvm": "1 1:2 2:3\n2 1:4 2:1\n", "mixed": "a,job,y\n1,smith,0\n2,,1\n"}.get(content, TEXT).encode()
    text = gzip.compress(text) if content == "gz" else text
    (tmp_path / "file").write_bytes(text)
    thread = piped(tmp_path / "pipe", text)
    read = read_mixed if content == "mixed" else read_data
    found, expected = read(tmp_path / "pipe"), read(tmp_path / "file")
    thread.join()
    assert found.y.tolist() == expected.y.tolist()
    assert (
        found.X.to_pydict() == expected.X.to_pydict() if content == "mixed" else found.X.tolist() == expected.X.tolist()
    )


def test_errors_name_the_pipe_and_nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    thread = piped(tmp_path / "pipe", b"a,y\n1,x\nham,z\n")
    assert fault(tmp_path / "pipe") == "FILE, line 3: column 'a' is 'ham'; a finite number expected"
    thread.join()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_pipe_cannot_grow(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataFileError, match="is a pipe or a device, not a file that can grow"):
        GrowingFile(tmp_path / "pipe").read()


class Endless:
    """A stream that never ends."""

    def __init__(self, block):
        self.block, self.n_reads = block, 0

    def read(self, size):
        self.n_reads += 1
        assert self.n_reads < 1000
        return self.block


@pytest.mark.parametrize(
    ("block", "fault"), [(bytes(2**10), "line 1: longer than 50000"), (b"1,2\n" * 256, "more than 100000 bytes")]
)
def test_a_pipe_that_never_ends(block, fault, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(opening, "LONGEST_LINE", 50_000)
    monkeypatch.setattr(opening, "memory_of_process", lambda: 100_000)
    monkeypatch.setattr("dimargin.io.data.lines.LONGEST_LINE", 50_000)
    with (
        pytest.raises(DataFileError, match=f"standard input.* {fault}"),
        copied(Endless(block), "standard input", "stdin"),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_a_copy_has_the_name_of_the_stream_but_is_a_file(tmp_path):
    with open(os.devnull, "rb") as stream, copied(stream, "standard input", "stdin") as path:
        assert str(path) == "standard input" and path.name == "stdin" and path.read_bytes() == b""
        assert os.stat(path).st_size == 0 and path.parent.is_dir() and str(path.parent) != ""
    with regular(tmp_path / "none") as path:
        assert path == tmp_path / "none"
    with pytest.raises(DataFileError, match=f"{os.devnull} is empty"):
        read_data(os.devnull)
