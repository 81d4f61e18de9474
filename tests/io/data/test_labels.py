"""Labels as texts and numbers, and labels of files of different kinds."""

import re
from contextlib import nullcontext
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from data_files import grown, read_mixed

from dimargin.io.data import DataFileError, DataFileWarning, GrowingFile, read_data
from dimargin.io.data.labels import is_number, known_labels, label_values


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("9" * 100_000, True),
        ("9" * 100_000 + "x", False),
        (" 1.\t", True),
        (".", False),
        ("1\n", False),
        ("1\x0b", False),
        ("-.5e+07", True),
    ],
)
def test_numbers(text, is_one):
    """In time linear in the digits: in their square, it would take half an hour."""
    assert is_number(text) == is_one


@pytest.mark.parametrize(
    ("texts", "expected", "kind"),
    [
        ([], [], "O"),
        (["-0", "+1", "2.0", "3.e+0"], [0, 1, 2, 3], "i"),
        (["0.", "1.00", "2.000e+00"], [0, 1, 2], "f"),
        (["9007199254740993.0", "9007199254740992.0"], [2**53 + 1, 2**53], "i"),
        (["9223372036854775807", "-9223372036854775808"], [2**63 - 1, -(2**63)], "i"),
        (["0.5", "007", "1e3"], [0.5, 7, 1000], "f"),
        *((texts, texts, "O") for texts in (
            ["00", "1"], ["-01", "1"], ["01.0", "2.0"], ["1e3", "1000"], ["1E5", "2E5"], ["0x10", "1"], ["1,5", "2"],
            ["9223372036854775808", "1"], ["1e999", "1"], ["0." + "0" * 9 + "e9999", "1"], ["2024-01-31", "1"],
            ["1 000", "1"], ["1_000", "1"], ["\uff11", "1"], ["nan", "1"], ["-inf", "1"], ["True", "1"],
        )),
    ],
)  # fmt: skip
def test_texts_are_numbers_where_they_lose_nothing_by_it(texts, expected, kind):
    values = label_values(texts)
    assert values.tolist() == expected and values.dtype.kind == kind


@pytest.mark.parametrize(
    ("classes", "labels", "expected"),
    [
        ([0, 1], ["1.0", "+1", "01", "0e0"], [1, 1, 1, 0]),
        ([0.0, 1.0], [1, 0], [1.0, 0.0]),
        ([1, 2], np.array([1, 2], dtype=np.uint8), [1, 2]),
        ([2**53, 2**53 + 1], [str(2**53 + 1), f"{2**53}.0"], [2**53 + 1, 2**53]),
        (["007", "07", "7"], ["7", "007", "07"], ["7", "007", "07"]),
        (["007", "07", "7"], [7.0], ["7"]),
        (["007", "10"], [10], ["10"]),
        ([str(2**64), "1"], [1], ["1"]),
        ([str(2**63), "1"], np.array([2**63, 1], dtype=np.uint64), [str(2**63), "1"]),
        (["1", "unknown"], [1.0], ["1"]),
        (["1.0", "unknown"], ["1", "unknown"], ["1.0", "unknown"]),
        (["1e3", "2e3"], ["2e3"], ["2e3"]),
        (["False", "True"], [True, False], ["True", "False"]),
        ([False, True], ["TRUE", "false"], [True, False]),
        ([False, True], [1, 0], [True, False]),
        ([-1, 1], [True], [1]),
        (["no", "yes"], np.array(["yes", "no"], dtype=object), ["yes", "no"]),
    ],
)
def test_labels_stand_for_classes_of_other_kinds(classes, labels, expected):
    found, unknown = known_labels(np.array(labels), np.array(classes))
    assert not unknown and found.tolist() == expected and found.dtype == np.array(classes).dtype


@pytest.mark.parametrize(
    ("classes", "labels", "unknown"),
    [
        (["007", "10"], ["7", "10"], ["7"]),
        (["007", "10"], [7, 10], [7]),
        (["7", "10"], ["007"], ["007"]),
        (["1.0", "1", "x"], [2, 1], [1, 2]),
        (["+1", "1", "x"], [1], [1]),
        ([2**53, 1], [2**53 + 1], [2**53 + 1]),
        ([2**53, 1], [str(2**53 + 1)], [str(2**53 + 1)]),
        ([0, 1], ["1", "one", "1e99999999999999999999"], ["1e99999999999999999999", "one"]),
        (["no", "yes"], ["Yes"], ["Yes"]),
        (["no", "yes"], [1], [1]),
    ],
)
def test_labels_that_stand_for_no_class_are_returned(classes, labels, unknown):
    given = np.array(labels)
    found, names = known_labels(given, np.array(classes))
    assert names == unknown and found is given


NUMBERS, TEXTS, ODD = ["0", "1"] * 10, ["no", "yes"] * 10, ("NA", "n/a", "NULL", "None", "?", "-")


def labelled(folder, labels, suffix=".csv"):
    """File whose line 8, or row 6, is the first of several with another label than the others."""
    columns = pd.DataFrame({"a": np.arange(len(labels)) % 7 + 0.5, "y": labels})
    path = folder / f"rows{suffix}"
    columns.to_csv(path, index=False) if suffix == ".csv" else columns.to_parquet(path)
    return path


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(("suffix", "place"), [(".csv", "line 8"), (".parquet", "row 6")])
def test_a_label_that_says_it_is_missing_is_refused_among_numbers(odd, suffix, place, tmp_path):
    path = labelled(tmp_path, [*NUMBERS[:6], odd, *NUMBERS, odd], suffix)
    message = f"{path}, {place}: the label in column 'y' is '{odd}', which is not a label"
    readers = [read_data, read_mixed, *([grown] if suffix == ".csv" else [])]
    for read in readers:
        with pytest.raises(DataFileError, match=re.escape(message)):
            read(path)
    assert read_data(path, label="y", needs_label=False).X.shape == (28, 1)


def test_all_labels_that_may_be_missing_are_in_one_warning(tmp_path):
    path = labelled(tmp_path, [*TEXTS[:6], "?", *TEXTS, "NA"])
    message = "the labels '?', 'NA' in column 'y' are read as classes"
    with pytest.warns(DataFileWarning, match=rf"line 8: {re.escape(message)}.* --na '\?' --na NA --skip-unlabelled$"):
        read_data(path)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(("suffix", "place"), [(".csv", "line 8"), (".parquet", "row 6")])
def test_a_label_that_may_be_missing_is_a_class_among_texts_with_one_warning(odd, suffix, place, tmp_path):
    path = labelled(tmp_path, [*TEXTS[:6], odd, *TEXTS, odd], suffix)
    message = f"{path}, {place}: the label '{odd}' in column 'y' is read as a class"
    with pytest.warns(DataFileWarning) as caught:
        data = read_data(path)
    assert sorted(set(data.y.tolist())) == sorted({"no", "yes", odd})
    assert [str(warning.message).startswith(message) for warning in caught] == [True]
    assert [remark.startswith(message) for remark in read_mixed(path).remarks] == [True]
    if suffix == ".csv":
        assert [remark.startswith(message) for remark in grown(path).remarks] == [True]


@pytest.mark.parametrize(("suffix", "place"), [(".csv", "line 8"), (".parquet", "row 6")])
@pytest.mark.parametrize(
    ("others", "odd", "na"),
    [(TEXTS, "na", "NA"), (TEXTS, ".", "."), ([0, 1] * 10, -999, "-999.0"), (NUMBERS, ".", ".")],
)
def test_a_label_that_is_named_as_missing_is_refused(others, odd, na, suffix, place, tmp_path):
    path = labelled(tmp_path, [*others[:6], odd, *others], suffix)
    with pytest.raises(DataFileError, match=re.escape(f"{path}, {place}: the label in column 'y' is '{odd}', which")):
        read_mixed(path, na=[na])


@pytest.mark.parametrize(("before", "refused"), [("1,0\n2,1\n", True), ("1,no\n2,yes\n", False)])
def test_a_label_that_is_appended_is_missing_where_all_before_were_numbers(before, refused, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,y\n" + before)
    growing = GrowingFile(path)
    growing.read()
    with open(path, "a") as file:
        file.write("3,NA\n")
    with pytest.raises(DataFileError, match="line 4: the label") if refused else nullcontext():
        assert growing.read().y.tolist() == ["NA"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("rows.csv", "a,y\n1,0\n2,0.5\n3,1\n4,2.5\n", "line 3: the label in column 'y' is 0.5"),
        ("rows", "0 1:1\n\n0.5 1:2 # 1\n1 1:3\n", "line 3: the label is 0.5"),
    ],
)
def test_a_fraction_is_no_class_and_its_place_is_known(name, content, said, written, chunk):
    path = written(name, content)
    said = f"{path}, {said}; classes must be whole numbers or texts; dimargin train --task regression predicts numbers"
    assert read_data(path).fraction == said
    with pytest.raises(DataFileError, match=re.escape(said)):
        grown(path)


@pytest.mark.parametrize("labels", [[0, 0.5], [Decimal("0.0"), Decimal("0.5")], ["0", "0.5"]])
def test_a_fraction_of_parquet_is_no_class(labels, tmp_path):
    path = labelled(tmp_path, [labels[0]] * 6 + [labels[1]], ".parquet")
    said = f"{path}, row 6: the label in column 'y' is 0.5; classes must be whole numbers or texts"
    assert read_data(path).fraction.startswith(said) and read_mixed(path).fraction.startswith(said)
