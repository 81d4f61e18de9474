"""What holds for data files of every format: compression, damage, files that are not there."""

import gzip

import numpy as np
import pytest
from data_files import COMPRESS, DENSE, LABELS, csv_text, fault, libsvm_text, parquet
from numpy.testing import assert_array_equal

import dimargin as dm
from dimargin.io.data import DataFileError, read_data


def test_compression_is_seen_in_the_bytes_not_the_name(written):
    path = written("rows", gzip.compress(b"1 1:2\n"))
    assert read_data(path).X.tolist() == [[2.0]]
    path = written("rows.gz", b"1 1:2\n")
    assert read_data(path).X.tolist() == [[2.0]]


@pytest.mark.parametrize("label", [0, "label"])
def test_libsvm_takes_no_label_column(label, written):
    assert "labels first" in fault(written("rows", "1 1:1\n"), label=label)


def damageable(name, tmp_path):
    if name.endswith("parquet"):
        columns = {"a": DENSE[:, 0], "b": np.arange(60) + 5, "y": [f"class {k % 3}" for k in range(60)]}
        return parquet(tmp_path / name, columns, row_group_size=40).read_bytes()
    text = csv_text(DENSE, LABELS).encode() if ".csv" in name else libsvm_text(DENSE, LABELS)
    return COMPRESS[name.removeprefix("rows.csv").removeprefix("rows.svm")](text)


KINDS = ["rows.svm", "rows.svm.gz", "rows.svm.bz2", "rows.svm.xz", "rows.csv", "rows.csv.gz", "rows.csv.bz2",
         "rows.csv.xz", "rows.parquet"]  # fmt: skip


def survives(path):
    return read(path) is not None


def read(path):
    """Return the data of a file; None where it is refused by its name."""
    try:
        return read_data(path)
    except DataFileError as error:
        assert str(path) in str(error)
        return None


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("name", KINDS)
def test_files_cut_short(name, tmp_path, written):
    whole = damageable(name, tmp_path)
    survivors = [n for n in range(0, len(whole), 10) if survives(written(name, whole[:n]))]
    if name not in ("rows.svm", "rows.csv"):  # plain text may end anywhere
        assert not survivors
    assert survives(written(name, whole))


@pytest.mark.parametrize("name", KINDS)
def test_files_with_flipped_bits(name, tmp_path, written):
    """Compressed data carry a checksum: what is read nevertheless is what was written."""
    whole = damageable(name, tmp_path)
    expected = read(written(name, whole))
    rng = np.random.default_rng(0)
    for index in rng.integers(len(whole), size=150):
        damaged = bytearray(whole)
        damaged[index] ^= 1 << rng.integers(8)
        found = read(written(name, bytes(damaged)))
        if found is not None and name.endswith((".gz", ".bz2", ".xz")):
            assert_array_equal(found.X, expected.X)
            assert_array_equal(found.y, expected.y)


@pytest.mark.parametrize("name", ["none.svm", "none.csv", "none.parquet"])
def test_a_file_that_cannot_be_opened(name, tmp_path):
    with pytest.raises(FileNotFoundError, match=name):
        read_data(tmp_path / name)
    (tmp_path / name).mkdir()
    with pytest.raises(IsADirectoryError, match=name):
        read_data(tmp_path / name)


@pytest.mark.parametrize("name", ["rows.svm", "rows.svm.gz", "wide.svm", "rows.csv", "rows.parquet"])
def test_rows_on_disk_are_those_in_memory(name, tmp_path, written):
    path = written(name, "1 1:0.5 90000:2\n-1 7:1e-300\n" * 40) if name == "wide.svm" else written(
        name, damageable(name, tmp_path)
    )  # fmt: skip
    (tmp_path / "disk").mkdir()
    found, expected = read_data(path, on_disk=tmp_path / "disk"), read_data(path)
    assert type(found.X) is type(expected.X) and found.X.dtype == expected.X.dtype
    assert_array_equal(found.y, expected.y)
    pairs = [(found.X, expected.X)]
    if name == "wide.svm":
        pairs = [(getattr(found.X, part), getattr(expected.X, part)) for part in ("data", "indices", "indptr")]
    for one, other in pairs:
        assert_array_equal(one, other)
        assert one.dtype == other.dtype and one.base is not None
    assert not list((tmp_path / "disk").iterdir())
    fitted = [dm.LinearSVMClassifier(tol=0.1, random_state=0).fit(some.X, some.y) for some in (found, expected)]
    assert_array_equal(fitted[0].coef_, fitted[1].coef_)


def test_a_folder_that_is_not_there(tmp_path, written):
    with pytest.raises(ValueError, match=r"on_disk must be a folder, got .*nowhere"):
        read_data(written("rows", "1 1:2\n"), on_disk=tmp_path / "nowhere")
