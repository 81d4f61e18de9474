"""Tables of numbers, texts and dates, beside pandas."""

import datetime
import re

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data_files import read_mixed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dimargin.io.data import DataFileError, csv_text
from dimargin.io.data.mixed import NOTHING, OddCellError

CSV = "age,job,since,y\n31,nurse,2020-01-31,in\nNA,,2021-02-28,out\n 1e1 ,?,null,in\n-nan,,,in\n"


def written(tmp_path, text, name="people.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("chunk", [8, 2**20])
def test_kinds_of_columns(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(csv_text, "CHUNK", chunk)
    data = read_mixed(written(tmp_path, CSV))
    assert data.X.to_pydict() == {
        "age": [31.0, None, 10.0, None], "job": ["nurse", *[None] * 3],
        "since": ["2020-01-31", "2021-02-28", None, None],
    }  # fmt: skip
    assert data.y.tolist() == ["in", "out", "in", "in"] and data.label == "y"


def test_wanted_kinds(tmp_path):
    path = written(tmp_path, "zip;size;y\n01067;1,5;a\n80331;2;b\n", "people.csv")
    data = read_mixed(path, texts=["zip"], numbers=["size"], decimal_comma=True)
    assert data.X.to_pydict() == {"zip": ["1067", "80331"], "size": [1.5, 2.0]}
    with pytest.raises(DataFileError, match=r"line 2: column 'size' is '1,5'; a finite number expected"):
        read_mixed(path, numbers=["size"])
    assert read_mixed(path, drop=["zip"]).X.column_names == ["size"]


def test_parquet(tmp_path):
    columns = {
        "flag": [True, False, None],
        "count": [1, 2, 3],
        "size": [0.5, float("nan"), None],
        "job": pa.array(["nurse", "NA", "smith"]).dictionary_encode(),
        "since": [datetime.date(2020, 1, 31), None, datetime.date(2021, 2, 28)],
        "label": ["a", "b", "a"],
    }
    pq.write_table(pa.table(columns), tmp_path / "people.parquet")
    data = read_mixed(tmp_path / "people.parquet", texts=["count"])
    assert data.X.to_pydict() == {
        "flag": [1.0, 0.0, None], "count": ["1", "2", "3"], "size": [0.5, None, None],
        "job": ["nurse", None, "smith"], "since": ["2020-01-31", None, "2021-02-28"],
    }  # fmt: skip
    assert data.y.tolist() == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("age,y\n", "has no rows"),
        ("y\na\n", "has no features"),
        ("age,y\n1,a\n2\n", "line 3: 1 field, expected 2: '2'"),
        ("age,y\n1,a\n2,\n", "line 3: the label in column 'y' is missing"),
        ("age,y\n1,a\ninf,b\n", "line 3: column 'age' is 'inf'; a finite number expected"),
        ('age,y\n1,a\n2,"b\n', "line 3: the label in column 'y' has a line break; is a quote not closed"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, text, message):
    with pytest.raises(DataFileError, match=message):
        read_mixed(written(tmp_path, text), label="y" if "y" in text else 1)


def test_libsvm_text_has_no_such_columns(tmp_path):
    with pytest.raises(DataFileError, match="column names"):
        read_mixed(written(tmp_path, "1 1:2\n", "rows.libsvm"))


texts = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=5)
values = st.one_of(st.none(), st.integers(-99, 99), texts.filter(lambda text: text.lower() not in NOTHING))


def spelt(text):
    """A text as all files spell it: 7 for 07, 7.0 and 7.e0."""
    if re.fullmatch("[0-9]+e[0-9]+", text, re.IGNORECASE | re.ASCII):
        return text
    if text.lower() in ("true", "false"):
        return text.lower()
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", text, re.IGNORECASE | re.ASCII):
        return text
    if re.fullmatch("[+-]?[0-9]+", text, re.ASCII):
        return str(int(text))
    number = float(text)
    return str(int(number)) if number % 1 == 0 and abs(number) < 1e300 else repr(number)


def test_keys_of_many_digits_are_not_one_category(tmp_path):
    keys = [2**53, 2**53 + 1, 10**18 + 1]
    path = written(tmp_path, "key,y\n" + "".join(f"{key},a\n" for key in keys))
    pq.write_table(pa.table({"key": keys, "y": ["a"] * 3}), tmp_path / "keys.parquet")
    decimals = pa.array(keys).cast(pa.decimal128(20, 1))
    pq.write_table(pa.table({"key": decimals, "y": ["a"] * 3}), tmp_path / "decimals.parquet")
    for file in (path, tmp_path / "keys.parquet", tmp_path / "decimals.parquet"):
        assert read_mixed(file, texts=["key"]).X["key"].to_pylist() == [str(key) for key in keys]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(values, values, values), min_size=1, max_size=8))
def test_csv_is_read_as_by_pandas(tmp_path, rows):
    frame = pd.DataFrame(rows, columns=["a", "b", "c"], dtype=object).assign(y="label")
    path = tmp_path / "rows.csv"
    frame.to_csv(path, index=False)
    data = read_mixed(path, texts=["a", "b", "c"])
    as_text = frame[["a", "b", "c"]].map(lambda value: None if value is None else spelt(str(value)))
    assert data.X.to_pydict() == as_text.to_dict("list")


def test_codes_are_no_numbers_with_an_exponent(tmp_path):
    cells = ["1E3", "1e3", "1000", "AB", "0e26", "00e1", "1e+3", "1.e3", "01"]
    path = written(tmp_path, "code,y\n" + "".join(f"{cell},a\n" for cell in cells))
    expected = ["1E3", "1e3", "1000", "AB", "0e26", "00e1", "1000", "1000", "1"]
    data = read_mixed(path)
    assert data.X["code"].to_pylist() == expected and data.written["code"].to_pylist() == cells


def test_text_as_it_is_written(tmp_path):
    path = written(tmp_path, "key,y\n 007,a\n7.0,a\nTrue,a\nNA,a\n")
    assert read_mixed(path, exact=["key"]).X["key"].to_pylist() == ["007", "7.0", "True", None]
    pq.write_table(pa.table({"key": [2**53 + 1, None], "y": ["a"] * 2}), tmp_path / "keys.parquet")
    assert read_mixed(tmp_path / "keys.parquet", exact=["key"]).X["key"].to_pylist() == [str(2**53 + 1), None]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("labels", "na", "kept"),
    [
        ([0, 1, None, 1, 0], (), [0, 1, 1, 0]),
        ([2**53 + 1, None, 7, 7, 7], (), [2**53 + 1, 7, 7, 7]),
        (["0", "NA", "?", "1", "0"], (), [0, 1, 0]),
        (["in", "out", "NA", None, "in"], (), ["in", "out", "NA", "in"]),
        (["in", "out", "NA", None, "in"], ("na",), ["in", "out", "in"]),
        ([1.0, -9.0, 2.0, -9.0, 1.0], ("-9",), [1, 2, 1]),
    ],
)
def test_rows_without_labels_can_be_left_out(labels, na, kept, kind, tmp_path):
    path, names = tmp_path / f"rows.{kind}", ["x0", "x1", "x2", "x3", "x4"]
    table = pa.table({"a": names, "y": labels})
    if kind == "csv":
        cells = ["" if label is None else label for label in labels]
        path.write_text("a,y\n" + "".join(f"{a},{y}\n" for a, y in zip(names, cells, strict=True)))
    else:
        pq.write_table(table, path)
    data = read_mixed(path, skip_unlabelled=True, na=na)
    assert data.y.tolist() == kept and data.labelled.sum() == len(kept)
    assert data.X["a"].to_pylist() == [name for name, has in zip(names, data.labelled, strict=True) if has]
    first, last = (2, 6) if kind == "csv" else (0, 4)
    assert [data.place(k).split()[1] for k in (0, len(kept) - 1)] == [str(first), str(last)]
    with pytest.raises(DataFileError, match=f"{5 - len(kept)} of 5 rows ha"):
        read_mixed(path, na=na)
    with pytest.raises(DataFileError, match="no row has a label in column 'y'"):
        read_mixed(path, skip_unlabelled=True, na=[str(label) for label in labels])


@pytest.mark.parametrize(("n_texts", "is_mark"), [(2, True), (20, False)])
def test_only_a_few_texts_among_numbers_may_mark_missing_values(n_texts, is_mark, tmp_path):
    cells = [*range(30), *(f"2020-01-{day:02}" for day in range(1, 1 + n_texts))]
    path = written(tmp_path, "\n".join(["a,y", *(f"{cell},{k % 2}" for k, cell in enumerate(cells))]))
    with pytest.raises(OddCellError, match=f"{n_texts} of {len(cells)} cells are not a number") as caught:
        read_mixed(path, numbers=["a"])
    assert caught.value.text == ("2020-01-01" if is_mark else None)
