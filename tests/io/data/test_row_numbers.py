"""Features that number the rows, and the index that pandas writes."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from data_files import libsvm_text, read_file, read_mixed

from dimargin.io.data import DataFileWarning, GrowingFile, read_data

FRAME = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=["a", "b"]).assign(label=[0, 1] * 15)


def left_out(path):
    """What is said of columns that are left out, by each reader."""
    with pytest.warns(DataFileWarning) as caught:
        data = read_data(path)
    said = [str(warning.message) for warning in caught]
    assert said == list(data.remarks) == list(read_mixed(path).remarks)
    assert data.feature_names == ["a", "b"] == read_mixed(path).X.column_names
    return [remark.replace(str(path), "FILE") for remark in said]


@pytest.mark.parametrize("order", ["sorted", "shuffled"])
@pytest.mark.parametrize("sep", [",", "\t"])
def test_the_index_of_pandas_is_left_out(order, sep, tmp_path):
    frame, path = FRAME if order == "sorted" else FRAME.sample(frac=1, random_state=0), tmp_path / "t.csv"
    because = "is left out: it has the names or numbers of the rows, as pandas and R write them"
    frame.to_csv(path, sep=sep)
    assert left_out(path) == [f"FILE: the first column, which has no name, {because}"]
    assert GrowingFile(path).read().remarks == read_file(path).remarks
    pd.read_csv(path, sep=sep).to_csv(path, sep=sep)
    assert left_out(path)[1] == f"FILE: column 'Unnamed: 0' {because}"
    pd.read_csv(path, sep=sep).to_csv(path, sep=sep, index=False)
    assert [said.split(" is")[0] for said in left_out(path)] == [
        "FILE: column 'Unnamed: 0.1'",
        "FILE: column 'Unnamed: 0'",
    ]
    pd.read_csv(path, sep=sep).to_parquet(tmp_path / "t.parquet")
    assert len(left_out(tmp_path / "t.parquet")) == 2
    pd.read_csv(path, sep=sep)[["a", "Unnamed: 0", "b", "label"]].to_csv(path, sep=sep, index=False)
    assert left_out(path) == [f"FILE: column 'Unnamed: 0' {because}"]


def test_names_of_rows_are_left_out(tmp_path):
    """As R writes them: without a name, quoted or not; by write.table the line of names is shorter."""
    path = tmp_path / "t.csv"
    FRAME.set_index(np.array([f"car {k}" for k in range(30)])).to_csv(path, index_label="")
    assert "the first column, which has no name, is left out" in left_out(path)[0]
    lines = FRAME.set_index(np.arange(1, 31)).to_csv(sep=" ", header=False)
    path.write_text('"a" "b" "label"\n' + lines)
    assert "the first column, which has no name, is left out" in left_out(path)[0]


def test_an_index_that_is_asked_for_is_taken(tmp_path):
    path = tmp_path / "t.csv"
    FRAME.to_csv(path)
    assert read_data(path, columns=["", "b"]).X[:, 0].tolist() == list(range(30))  # of a model that was trained on it
    assert read_data(path, label=0).feature_names == ["a", "b", "label"]


@pytest.mark.parametrize("rows", ["1,2,x,\n", "1,2,x, \n", "1,2,x\n"])
@pytest.mark.parametrize("names", ["a,b,label,\n", "a,b,label\n", "2019,2020,label,\n", "2019,2020,label\n"])
def test_empty_columns_at_the_end(names, rows, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(names + rows * 5)
    data = read_file(path)
    assert data.feature_names == names.split(",")[:2] and data.X.tolist() == [[1, 2]] * 5
    grown = GrowingFile(path).read()
    assert grown.X.tolist() == data.X.tolist() and grown.remarks == data.remarks
    assert len(data.remarks) == (rows.count(",") > 2)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("kind", ["csv", "parquet", "libsvm", "sparse"])
def test_a_feature_that_numbers_the_rows_is_warned_of(first, kind, tmp_path):
    path, numbers = tmp_path / f"t.{kind}", np.arange(first, first + 30)
    if kind in ("csv", "parquet"):
        frame = FRAME.assign(id=numbers, other=numbers[::-1])
        frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path, index=False)
    else:
        X = np.zeros((30, 4 if kind == "libsvm" else 40)) + 0.5 * (kind == "libsvm")
        X[:, 1], X[:, 3], X[0, -1] = numbers, numbers[::-1], 1
        path.write_bytes(libsvm_text(X, FRAME["label"]))
    name = "'id'" if kind in ("csv", "parquet") else "2"
    said = f"{path}: feature {name} numbers the rows from {first}"
    with pytest.warns(DataFileWarning) as caught:
        data = read_data(path)
    assert len(caught) == len(data.remarks) == 1 and data.remarks[0].startswith(said)
    assert sp.issparse(data.X) == (kind == "sparse")
    assert not read_data(path, n_features=data.X.shape[1], columns=data.feature_names).remarks  # for a model
    if kind in ("csv", "parquet"):
        assert read_mixed(path).remarks == data.remarks
        assert not read_data(path, drop=["id"]).remarks
    if kind != "parquet":
        grown = GrowingFile(path)
        assert grown.read().remarks == data.remarks and not grown.read().remarks


def test_a_few_rows_may_be_in_order(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "".join(f"{k},{k % 2}\n" for k in range(9)))
    assert not read_data(path).remarks
