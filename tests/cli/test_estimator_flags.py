"""Values of parameters of the estimators, as flags give them."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from text_files import words_of, write_moons

import dimargin as dm

SVM = ("--loss", "hinge", "--C", 1, "--scale", "none", "--random-state", 0)
LABELS = {  # Texts of the file, their classes, the flag, and its value.
    "numbers": (["0", "1"], [0, 1], "0=1,1=3", {0: 1.0, 1: 3.0}),
    "signed": (["+1", "-1"], [1, -1], " -1 = 2.5 ", {-1: 2.5}),
    "texts": (["ham", "a=b"], ["ham", "a=b"], "a=b=3", {"a=b": 3.0}),
    "codes": (["007", "10"], ["007", "10"], "10=3,007=2", {"10": 3.0, "007": 2.0}),
    "commas": (["a,b", "c"], ["a,b", "c"], '{"a,b": 3}', {"a,b": 3.0}),
}
UNREADABLE = ["ham", "ham=", "=2", "ham=2,", "ham=2,ham=3", '{"ham": 2, "ham": 3}', "1=2,1.0=3", "{1}"]


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)).round(3)
    return pd.DataFrame(X, columns=["u", "v"]), (X.sum(axis=1) + rng.normal(0, 0.5, 60) > 0).astype(int)


@pytest.mark.parametrize("kind", LABELS)
def test_class_weights_by_label(kind, dimargin, table, tmp_path):
    (X, codes), (texts, labels, flag, weights) = table, LABELS[kind]
    X.assign(label=np.array(texts)[codes]).to_csv(tmp_path / "t.csv", index=False)
    done = dimargin("train", tmp_path / "t.csv", "--model", tmp_path / "m", *SVM, "--class-weight", flag)
    assert done[0] == 0, done
    found = dm.load(tmp_path / "m")
    assert found.class_weight == weights
    expected = dm.SVMClassifier(C=1.0, class_weight=weights, random_state=0).fit(X, np.array(labels)[codes])
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-9)
    shown = json.loads(dimargin("info", tmp_path / "m", "--json")[1])["parameters"]["class_weight"]
    assert shown == str(weights)


@pytest.mark.parametrize(
    "text", ["ham", "ham=", "=2", "ham=2,", "ham=2,ham=3", '{"ham": 2, "ham": 3}', "1=2,1.0=3", "{1}"]
)
def test_class_weights_that_cannot_be_read(text, dimargin, tmp_path):
    (tmp_path / "t.csv").write_text("u,label\n1,ham\n2,spam\n")
    status, _, err = dimargin("train", tmp_path / "t.csv", "--model", tmp_path / "m", "--class-weight", text)
    assert status == 2 and "must be 'balanced', weights of different labels such as 0=1,1=3, or JSON" in words_of(err)
    assert f"got {text!r}" in words_of(err)


@pytest.mark.parametrize("command", ["train", "tune"])
def test_class_weights_of_labels_that_are_no_classes(command, dimargin, table, tmp_path):
    X, codes = table
    X.assign(label=np.array(["ham", "spam"])[codes]).to_csv(tmp_path / "t.csv", index=False)
    flags = {"train": ("--class-weight", "ham=1,eggs=3"), "tune": ("--grid", '{"class_weight": [{"eggs": 3}]}')}
    status, _, err = dimargin(command, tmp_path / "t.csv", "--model", tmp_path / "m", *flags[command])
    assert status == 1 and "--class-weight has ['eggs'], but the classes are ['ham', 'spam']" in err
    assert not (tmp_path / "m").exists()


def test_two_class_weights_of_one_class(dimargin, table, tmp_path):
    X, codes = table
    X.assign(label=codes).to_parquet(tmp_path / "t.parquet")
    weights = ("--class-weight", "1=2,true=3")
    status, _, err = dimargin("train", tmp_path / "t.parquet", "--model", tmp_path / "m", *weights)
    assert status == 1 and "--class-weight has two weights for one class: {'1': 2.0, 'true': 3.0}" in err


def test_the_same_command_trains_the_same_model(dimargin, tmp_path):
    rows = write_moons(tmp_path / "rows.csv", 1500)  # Blocks are chosen at random where there are more than 512 rows.
    for name in "ab":
        dimargin("train", rows, "--loss", "odm", "--model", tmp_path / name, "--quiet")
    first, second = (dm.load(tmp_path / name)[-1] for name in "ab")
    assert_array_equal(first.dual_coef_, second.dual_coef_)


def test_a_regularised_intercept(dimargin, tmp_path):
    csv = write_moons(tmp_path / "train.csv", 300)
    flags = ["--loss", "linear_hinge", "--intercept-scaling", 2, "--resume", tmp_path / "first.dimargin"]
    for model, given in (("first", flags[:-2]), ("second", flags)):
        status, out, _ = dimargin("train", csv, "--model", tmp_path / f"{model}.dimargin", "--json", *given)
        assert status == 0 and json.loads(out)["status"] == "converged"
    machine = dm.load(tmp_path / "second.dimargin")[-1]
    assert machine.intercept_scaling == 2.0 and not machine.fit_plan().fit_intercept
    status, out, _ = dimargin("info", tmp_path / "second.dimargin", "--certify", csv, "--json")
    assert status == 0 and json.loads(out)["objective"] == pytest.approx(machine.objective_, rel=1e-6)
