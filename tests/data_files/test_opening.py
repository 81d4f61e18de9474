"""Text in other encodings, kinds of files that are not read, and pipes."""

import gzip
import os
import threading
import zipfile

import pytest
from data_files import fault

from dimargin.data_files import DataFileError, GrowingFile, opening, read_data
from dimargin.data_files.mixed import read_mixed
from dimargin.data_files.opening import FileOptions, copied, regular

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
        grown = GrowingFile(path, encoding=encoding).read()
        assert grown.feature_names == data.feature_names and grown.y.tolist() == data.y.tolist()


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@pytest.mark.parametrize("text", ["a,b,y\n1,2,x\n3,4,z\n", "0 1:2 2:3\n1 1:4\n"])
def test_a_byte_order_mark_names_the_encoding(encoding, text, written):
    expected = read_data(written("plain", text))
    for content in (text.encode(encoding), b"\xef\xbb\xbf" + text.encode()):
        data = read_data(written("t", content))
        assert data.X.tolist() == expected.X.tolist() and data.y.tolist() == expected.y.tolist()
    with pytest.raises(DataFileError, match=f"text in {encoding} can be read as a whole on one computer only"):
        GrowingFile(written("t", text.encode(encoding))).read()
    assert GrowingFile(written("t", b"\xef\xbb\xbf" + text.encode())).read().X.tolist() == expected.X.tolist()
    with pytest.raises(DataFileError, match="can be read as a whole on one computer only"):
        GrowingFile(written("t", text), encoding=encoding)


def test_letters_of_another_encoding_are_named_with_what_helps(written):
    helps = "not UTF-8 text; name its encoding, such as cp1252, by --encoding, or encoding= in Python"
    path = written("t.csv", TEXT.encode("latin-1"))
    assert fault(path) == f"FILE, line 1: the name of a column, 'gr\ufffd\ufffde', is {helps}"
    path = written("t.csv", TEXT.replace("gr\u00f6\u00dfe", "a").encode("latin-1"))
    assert fault(path) == f"FILE, line 2: {helps}"
    with pytest.raises(DataFileError, match="line 2: not UTF-8 text; name its encoding"):
        read_mixed(path)


def test_an_encoding_that_does_not_fit_or_is_none(written):
    path = written("t.csv", "a,y\n1,\x81\n2,x\n".encode("latin-1"))
    assert "codec can't decode byte 0x81" in fault(path, encoding="cp1252")
    assert "--encoding, in Python encoding=, names the encoding" in fault(path, encoding="cp1252")
    for wrong in ("no-such", "rot13", "base64", "zlib"):
        with pytest.raises(ValueError, match=f"encoding must be the name of an encoding of text, .* got '{wrong}'"):
            read_data(path, encoding=wrong)


def test_utf16_that_is_cut_within_a_letter(written):
    path = written("t.csv", "a,y\n1,x\n2,z\n".encode("utf-16")[:-1])
    assert "truncated data" in fault(path)


# ---- other kinds of files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", opening._NOT_READ)
@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t"])
def test_kinds_that_are_not_read_are_named(start, name, written):
    path = written(name, start + bytes(60))
    said = fault(path)
    assert said.startswith("FILE is ") and ("; " in said or "expected" in said)
    with pytest.raises(DataFileError, match="is "):
        GrowingFile(path).read() if name != "t.parquet" else GrowingFile(path)


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
    monkeypatch.setattr("dimargin.data_files.lines.LONGEST_LINE", 50_000)
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
