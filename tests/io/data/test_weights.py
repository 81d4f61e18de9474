"""Weights of rows in files of their own."""

import pytest

from dimargin.io.data import DataFileError, libsvm
from dimargin.io.data.libsvm import read_weights


@pytest.mark.parametrize("end", ["", "\n", "\r\n\n"])
@pytest.mark.parametrize("size", [4, 2**20])
def test_weights_are_read_line_by_line(end, size, written, monkeypatch):
    monkeypatch.setattr(libsvm, "CHUNK", size)
    assert read_weights(written("w", "1\n 2.5\t\n\n0\n1e-3" + end), 4).tolist() == [1, 2.5, 0, 1e-3]
    assert read_weights(written("w.gz", "3\r\n4" + end), 2).tolist() == [3, 4]


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "1e999", "1_0", "1 2", "\u0661", "w", "\udcff"])
@pytest.mark.parametrize("size", [4, 2**20])
def test_what_is_not_a_weight_is_named_by_its_line(text, size, written, monkeypatch):
    monkeypatch.setattr(libsvm, "CHUNK", size)
    path = written("w", f"1\n\n2\n{text}\n3\n".encode(errors="surrogateescape"))
    with pytest.raises(DataFileError, match=f"{path}, line 4: .* is not a weight; a finite number of 0 or more"):
        read_weights(path, 4)


def test_there_must_be_one_for_each_row(written):
    with pytest.raises(DataFileError, match="has 2 weights, one per line; expected 3, one per row"):
        read_weights(written("w", "1\n2\n"), 3)
