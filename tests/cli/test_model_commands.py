"""What the commands on model files make of labels: kept as they are, known in files of other kinds, not needed."""

import json
from datetime import date
from decimal import Decimal
from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import precision_recall_fscore_support, roc_auc_score

from dimargin import load, save

N = 40
LABELS = {
    "ids": [12345678901234567, 12345678901234568, 12345678901234569],
    "codes": ["007", "07", "7"],
    "points": [0.0, 1.0, 2.0],
    "truths": [True, False, True],
    "words": ["no", "yes", "maybe"],
    "exponents": ["1e3", "1000", "10e2"],
    "long": [str(2**64), str(2**64 + 1), "1"],
    "decimals": [Decimal(2**53), Decimal(2**53 + 1), Decimal(7)],
    "dates": [date(2024, 1, 31), date(2024, 2, 1), date(2025, 1, 1)],
}


def table(labels, n=N):
    rng = np.random.default_rng(0)
    codes = np.arange(n) % len(labels)
    return pd.DataFrame(
        rng.normal(size=(n, 2)) + 5 * np.array([[0, 0], [0, 1], [1, 0]])[codes], columns=["a", "b"]
    ).assign(label=[labels[code] for code in codes])


def written(rows, path):
    """Write rows in the format of the path's suffix."""
    if path.suffix == ".csv":
        rows.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        rows.to_parquet(path)
    else:
        path.write_text("".join(f"{label} 1:{a!r} 2:{b!r}\n" for a, b, label in rows.itertuples(index=False)))
    return path


def trained(dimargin, folder, data, *flags):
    status, _, error = dimargin("train", data, "--loss", "hinge", "--model", folder / "m", "-q", *flags)
    assert status == 0, error
    return folder / "m"


def evaluated(dimargin, model, data):
    status, out, error = dimargin("evaluate", model, data, "--json")
    assert status == 0, error
    return json.loads(out)


@pytest.mark.slow_after(3)
@pytest.mark.parametrize(("kind", "suffix"), [*product(LABELS, ["csv", "parquet"]), ("ids", "libsvm")])
def test_labels_are_written_as_they_were_read(kind, suffix, dimargin, tmp_path):
    rows = table(LABELS[kind])
    data = written(rows, tmp_path / f"rows.{suffix}")
    model = trained(dimargin, tmp_path, data)
    status, out, error = dimargin("predict", model, data, "-q")
    assert status == 0 and out.splitlines() == [str(label) for label in rows["label"]], error
    assert evaluated(dimargin, model, data)["accuracy"] == 1


@pytest.mark.slow_after(2)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("csv", [0, 1]), ("csv", ["0.0", "1.0"])),
        (("csv", [0, 1]), ("parquet", [0.0, 1.0])),
        (("csv", ["+1", "-1"]), ("libsvm", [1, -1])),
        (("csv", ["0.0", "1.0"]), ("libsvm", [0, 1])),
        (("csv", ["007", "10"]), ("parquet", ["007", "10"])),
        (("csv", ["True", "False"]), ("parquet", [True, False])),
        (("parquet", [True, False]), ("csv", ["true", "FALSE"])),
        (("parquet", [1, 2]), ("parquet", ["1", "2"])),
        (("parquet", ["1", "2", "other"]), ("csv", [1, 2, "other"])),
        (("parquet", [Decimal(1), Decimal(2)]), ("csv", [1, 2])),
    ],
)
def test_labels_of_another_kind_of_file_are_known(first, second, dimargin, tmp_path):
    """By evaluate, report, --validate, --resume, --certify and --class-weight."""
    (suffix, labels), (other_suffix, others) = first, second
    data, other = (
        written(table(those), tmp_path / f"{name}.{kind}")
        for name, those, kind in (("one", labels, suffix), ("other", others, other_suffix))
    )
    weights = json.dumps({str(others[0]): 2})
    model = trained(dimargin, tmp_path, data, "--class-weight", weights, "--validate", other, "--scale", "none")
    classes = load(model).classes_.tolist()
    assert [*load(model).class_weight] == [classes[0]] or [*load(model).class_weight] == [classes[1]]
    found = evaluated(dimargin, model, other)
    assert found["accuracy"] == 1 and found["classes"] == classes
    assert dimargin("report", model, other, "-o", tmp_path / "page.html", "-q")[0] == 0
    assert dimargin("info", model, "--certify", other)[0] == 0
    assert trained(dimargin, tmp_path, other, "--resume", model) == model
    assert load(model).classes_.tolist() == classes


def test_labels_that_the_model_does_not_know_are_named(dimargin, tmp_path):
    model = trained(dimargin, tmp_path, written(table(["007", "10"]), tmp_path / "one.csv"))
    for labels, named in ((["7", "10"], "[7]"), (["007", "x"], "['x']")):
        other = written(table(labels), tmp_path / "other.csv")
        for command in (("evaluate", model, other), ("info", model, "--certify", other)):
            status, _, error = dimargin(*command)
            assert status == 1 and f"the model knows the classes ['007', '10'], not {named}" in error.replace("\n", " ")


def test_some_of_the_training_rows_give_no_certificate(dimargin, tmp_path):
    """A linear machine holds no rows: by the number of rows in the file, or at all sites."""
    rows = table(["no", "yes"])
    whole, part = written(rows, tmp_path / "whole.csv"), written(rows[:10], tmp_path / "part.csv")
    model = trained(dimargin, tmp_path, whole, "--loss", "linear_odm")
    before = model.read_bytes()
    status, _, error = dimargin("info", model, "--certify", part)
    assert status == 1 and "part.csv has 10 rows" in error and "a certificate needs all 40 rows" in error
    assert model.read_bytes() == before and dimargin("info", model, "--certify", whole)[0] == 0
    of_site, counts = tmp_path / "site", {"north": 30, "south": 10}
    save(load(model), of_site, {"label": "label", "schema": {"sites": counts}})
    status, _, error = dimargin("info", of_site, "--certify", part)
    assert status == 1 and "a certificate needs all 40 rows of 2 sites together" in error.replace("\n", " ")
    assert dimargin("info", of_site, "--certify", whole)[0] == 0
    save(load(model), of_site, {"label": "label", "schema": "of another program", "rows": "40"})
    assert dimargin("info", of_site, "--certify", whole)[0] == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("empty.csv", "a,b,label\n5,0,\n0,5,\n"),
        ("unknown.csv", "a,b,label\n5,0,?\n0,5,nan\n"),
        ("absent.csv", "a,b\n5,0\n0,5\n"),
        ("absent", "1:5\n2:5\n"),
        ("some", "? 1:5 # x\n1:0 2:5\n"),
        ("null.parquet", None),
    ],
)
def test_predictions_need_no_labels_and_scores_do(name, text, dimargin, tmp_path):
    model, data = trained(dimargin, tmp_path, written(table(["n", "y", "x"]), tmp_path / "t.csv")), tmp_path / name
    if text is None:
        pd.DataFrame({"a": [5.0, 0.0], "b": [0.0, 5.0], "label": [None, None]}).to_parquet(data)
    else:
        data.write_text(text)
    assert dimargin("predict", model, data, "-q")[:2] == (0, "x\ny\n")
    for command in (("evaluate", model, data), ("report", model, data, "-o", tmp_path / "p.html")):
        status, _, error = dimargin(*command)
        places = (
            f"{name}, line ",
            f"{name}, row 0: ",
            "which column holds the labels",
            "no label column 'label'",
            "no row has a label",
        )
        assert status == 1 and any(place in error.replace("\n", " ") for place in places), error


@pytest.mark.parametrize("labels", [["ham", "spam"], [0, 1, 2]])
def test_scores_by_class(labels, dimargin, tmp_path):
    rng = np.random.default_rng(1)
    rows = table(labels, 90).assign(w=rng.integers(0, 3, 90))
    rows[["a", "b"]] += rng.normal(0, 3, (90, 2))
    data = written(rows, tmp_path / "rows.csv")
    model = trained(dimargin, tmp_path, data, "--C", 1, "--weight", "w")
    status, out, error = dimargin("evaluate", model, data, "--weight", "w", "--json")
    assert status == 0, error
    found, machine = json.loads(out), load(model)
    predicted, values = machine.predict(rows[["a", "b"]]), machine.decision_function(rows[["a", "b"]])
    given = {"sample_weight": rows["w"]}
    expected = precision_recall_fscore_support(rows["label"], predicted, labels=labels, **given)
    for name, scores in zip(("precision", "recall", "f1"), expected, strict=False):
        np.testing.assert_allclose(found[name], scores)
    last = values if values.ndim == 1 else values[:, -1]
    assert found["auc"][-1] == pytest.approx(roc_auc_score(rows["label"] == labels[-1], last, **given))
    shown = dimargin("evaluate", model, data, "--weight", "w")[1]
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines()]
    weights = rows["w"].groupby(rows["label"]).sum()
    for k, label in enumerate(labels):
        scores = [f"{found[name][k]:.4g}" for name in ("precision", "recall", "f1", "auc")]
        assert [str(label), str(weights[label]), *scores] in cells
    written(rows[rows["label"] == labels[0]], tmp_path / "one.csv")
    one = evaluated(dimargin, model, tmp_path / "one.csv")
    assert one["recall"][1:] == [None] * (len(labels) - 1) and one["auc"] == [None] * len(labels)
    assert dimargin("evaluate", model, tmp_path / "one.csv")[1].count("-") >= len(labels)
    status, out, _ = dimargin("train", data, "--model", model, "--C", 1, "--validate", data, "--json")
    assert [*json.loads(out)["validation"]] == ["rows", "accuracy", "balanced_accuracy", "rows_per_second"]


@pytest.mark.parametrize("names", [["ham", "spam"], [0, 1, 2]])
def test_predictions_are_written_in_the_format_of_the_file_name(names, dimargin, tmp_path):
    data = written(table(names), tmp_path / "t.csv")
    model = trained(dimargin, tmp_path, data)
    predict = ("predict", model, data, "--quiet", "-o")
    assert dimargin(*predict, tmp_path / "labels.txt")[0] == 0
    lines = (tmp_path / "labels.txt").read_text().split()
    values = load(model).decision_function(pd.read_csv(data)[["a", "b"]]).reshape(N, -1)
    columns = ["decision value"] if len(names) == 2 else [f"decision value {name}" for name in names]
    for suffix, read in ((".csv", pd.read_csv), (".parquet", pd.read_parquet)):
        path = tmp_path / f"found{suffix}"
        assert dimargin(*predict, path)[0] == 0
        assert list(read(path).columns) == ["label"] and read(path).label.astype(str).tolist() == lines
        assert dimargin(*predict, path, "--decision-values")[0] == 0
        assert list(read(path).columns) == ["label", *columns] and read(path).label.astype(str).tolist() == lines
        assert np.allclose(read(path)[columns], values, rtol=1e-12)
