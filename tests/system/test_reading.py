"""Files are read as far as they may be long."""

import json

import pytest

from dimargin.system import reading
from dimargin.system.reading import read_file, read_json, read_rest


def test_a_file_of_so_many_bytes(tmp_path):
    (tmp_path / "f").write_bytes(b"12345")
    assert read_file(tmp_path / "f", 5) == b"12345"
    with pytest.raises(ValueError, match="more than 4 bytes"):
        read_file(tmp_path / "f", 4)
    with pytest.raises(ValueError, match="more than 1000 bytes"):
        read_file("/dev/zero", 1000)


def test_the_rest_of_a_file_that_fits(tmp_path, monkeypatch):
    (tmp_path / "f").write_bytes(b"12345")
    monkeypatch.setattr(reading, "memory_of_process", lambda: 12)
    with open(tmp_path / "f", "rb") as file:
        assert file.read(1) == b"1" and read_rest(file, times=3) == b"2345" and read_rest(file, times=3) == b""
        file.seek(0)
        with pytest.raises(MemoryError):
            read_rest(file, times=3)
    with open("/dev/zero", "rb") as file:
        assert read_rest(file, times=3) == b""


def test_json(tmp_path):
    path = tmp_path / "f"
    path.write_text('{"a": [1, null]}')
    assert read_json(path) == {"a": [1, None]}
    for text, reason in (
        ("[" * 10**5, "nested too deeply"),
        ("{", "Expecting"),
        (b"\xff", "decode"),
        ("", "Expecting"),
    ):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(ValueError, match=reason):
            read_json(path)
    path.write_text(json.dumps([0] * 100))
    with pytest.raises(ValueError, match="more than 100 bytes"):
        read_json(path, max_bytes=100)
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none")
