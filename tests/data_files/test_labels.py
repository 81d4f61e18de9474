"""Labels as texts and numbers, and labels of files of different kinds."""

import numpy as np
import pytest

from dimargin.data_files.labels import is_number, known_labels, label_values


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
