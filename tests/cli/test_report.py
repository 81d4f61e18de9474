"""``dimargin report``: files in, one page out."""

import json
import re
import sys

import numpy as np
import pytest
from report_page import Page, check_alone
from sklearn.datasets import dump_svmlight_file
from text_files import words_of, write_csv, write_moons

import dimargin as dm


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with a model, rows that it was trained on, and others."""
    folder = tmp_path_factory.mktemp("files")
    X, y = (np.loadtxt(write_moons(folder / f"{name}.csv", n, seed), delimiter=",", skiprows=1, dtype=str)[:, part]
            for name, n, seed in (("train", 200, 0),) for part in (slice(2), 2))  # fmt: skip
    machine = dm.SVMClassifier(random_state=0).fit(X.astype(float), y)
    machine.feature_names_in_ = np.array(["left", "right"], dtype=object)
    dm.save(machine, folder / "moons.dimargin", {"label": "class"})
    write_moons(folder / "test.csv", 150, seed=1)
    return folder


def test_a_page_of_what_evaluate_says(dimargin, files, tmp_path):
    model, test, path = files / "moons.dimargin", files / "test.csv", tmp_path / "page.html"
    status, out, err = dimargin("report", model, test, "--output", path)
    assert (status, out) == (0, "") and err.startswith(f"{test}: 150 rows, 2 features\n{path}: ") and " kB, in " in err
    page = Page(path)
    check_alone(page)
    scores = json.loads(dimargin("evaluate", model, test, "--json")[1])
    assert page.texts["accuracy"] == f"{100 * scores['accuracy']:.1f}%"
    assert page.texts["balanced-accuracy"] == f"{100 * scores['balanced_accuracy']:.1f}%"
    assert [[int(cell.split()[0]) for cell in row[1:]] for row in page.tables["confusion"][1:]] == scores["confusion"]
    assert "test.csv" in page.texts["data"] and "moons.dimargin" in page.texts["model"]
    assert f"dimargin {dm.__version__}, format" in page.texts["model"]
    assert {row[0] for row in page.tables["importance"][1:]} == {"left", "right"}
    assert "These are not the training rows" in page.texts["data"]
    assert dimargin("report", model, files / "train.csv", "-o", path, "--quiet") == (0, "", "")
    assert "was trained on these rows" in Page(path).texts["data"]


def test_data_as_people_have_it(dimargin, tmp_path):
    rng = np.random.default_rng(0)
    lines = ["age,job,class"]
    for k, age in enumerate(rng.integers(18, 90, 160)):
        job = ("nurse", "smith", "clerk")[k % 3]
        lines.append(f"{'NA' if k % 7 == 0 else age},{job},{'ill' if age + 30 * (job == 'nurse') > 60 else 'well'}")
    for name, part in (("train", lines[:101]), ("test", lines[:1] + lines[101:])):
        (tmp_path / f"{name}.csv").write_text("\n".join(part) + "\n")
    model, path = tmp_path / "m", tmp_path / "page.html"
    flags = ("--missing", "median", "--categories", "--model", model, "--quiet")
    status, _, err = dimargin("train", tmp_path / "train.csv", *flags)
    assert status == 0, err
    status, _, err = dimargin("report", model, tmp_path / "test.csv", "--output", path)
    assert status == 0, err
    page, scores = Page(path), json.loads(dimargin("evaluate", model, tmp_path / "test.csv", "--json")[1])
    check_alone(page)
    assert page.texts["accuracy"] == f"{100 * scores['accuracy']:.1f}%" and page.texts["n-features"] == "2"
    losses = {row[0]: float(row[2].split("%")[0]) for row in page.tables["importance"][1:]}
    assert losses.keys() == {"age", "job"} and min(losses.values()) > 5
    for place, true, _, _, values in page.tables["least-certain"][1:]:
        age, job, label = lines[100 + int(place)].split(",")
        assert true == label and f"job {job}" in values and f"age {'missing' if age == 'NA' else age}" in values
    assert "age missing" in page.texts["rows"]
    assert dimargin("report", model, tmp_path / "train.csv", "-o", path, "-q")[0] == 0
    assert "was trained on these rows" in Page(path).texts["data"]


@pytest.mark.parametrize("n_missing", [1, 5])
def test_rows_have_their_numbers_in_the_file_though_unlabelled_ones_are_left_out(dimargin, files, tmp_path, n_missing):
    lines = (files / "test.csv").read_text().splitlines()
    for k in (1, 2, 3, 60, 150)[:n_missing]:
        lines[k] = lines[k].rsplit(",", 1)[0] + ","
    (tmp_path / "some.csv").write_text("\n".join(lines))
    data, path = tmp_path / "some.csv", tmp_path / "page.html"
    status, _, err = dimargin("report", files / "moons.dimargin", data, "--skip-unlabelled", "-o", path)
    assert status == 0, err
    page = Page(path)
    left_out = "1 row without a label was" if n_missing == 1 else "5 rows without a label were"
    assert page.texts["n-rows"] == f"{150 - n_missing}; {left_out} left out"
    assert "first row of data in the file; rows that were left out are counted, too." in page.texts["rows"]
    shown = [*page.tables["least-certain"][1:], *page.tables["most-wrong"][1:]]
    assert len(shown) > 10
    for number, label, _, _, values in shown:
        left, right, true = lines[int(number)].split(",")
        assert true == label
        found = {name: float(value) for name, value in (part.split() for part in values.strip().split(" · "))}
        assert found == {"left": pytest.approx(float(left), rel=1e-3), "right": pytest.approx(float(right), rel=1e-3)}


@pytest.mark.parametrize("zero_based", [False, True])
def test_features_of_libsvm_text_are_counted_as_the_file_counts_them(dimargin, tmp_path, zero_based):
    X, y = np.random.default_rng(0).normal(size=(100, 3)), np.arange(100) % 2
    X[:, 1] += 3 * y
    dump_svmlight_file(X, y, str(tmp_path / "rows"), zero_based=zero_based)
    dm.save(dm.LinearODMClassifier().fit(X, y), tmp_path / "m", {"zero_based": zero_based})
    assert dimargin("report", tmp_path / "m", tmp_path / "rows", "-o", tmp_path / "page.html")[0] == 0
    assert Page(tmp_path / "page.html").tables["importance"][1][0] == f"feature {1 if zero_based else 2}"


def test_a_detector_needs_no_labels(dimargin, tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 2))
    dm.save(dm.OneClassCoreSetSVM(random_state=0).fit(X), tmp_path / "m")
    write_csv(tmp_path / "new.csv", 2 * X)
    assert dimargin("report", tmp_path / "m", tmp_path / "new.csv", "-o", tmp_path / "page.html")[0] == 0
    outliers = dimargin("predict", tmp_path / "m", tmp_path / "new.csv")[1].split().count("-1")
    assert Page(tmp_path / "page.html").texts["outliers"] == f"{outliers / 2:.1f}%"


def test_what_no_page_is_written_of(dimargin, files, tmp_path):
    (tmp_path / "bare.csv").write_text("left,right\n1,2\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("left,right,class\n")
    (tmp_path / "other.csv").write_text("left,right,class\n1,2,bread\n")
    path = tmp_path / "page.html"
    for name, words in (
        ("bare.csv", "class"),
        ("empty.csv", "is empty"),
        ("header.csv", "has no rows"),
        ("other.csv", "the model knows the classes ['ham', 'spam'], not ['bread']"),
    ):
        status, out, err = dimargin("report", files / "moons.dimargin", tmp_path / name, "--output", path)
        assert (status, out) == (1, "") and words in err and str(tmp_path / name) in err, err
        # as evaluate says it
        assert dimargin("evaluate", files / "moons.dimargin", tmp_path / name)[2] == err
    status, _, err = dimargin("report", files / "moons.dimargin", files / "test.csv", "-o", tmp_path / "no" / "p.html")
    assert status == 2 and "does not exist" in words_of(err)  # wherever a line ends
    assert dimargin("report", files / "moons.dimargin", files / "test.csv")[0] == 2
    assert not path.exists()


def test_without_matplotlib_all_but_the_pictures_is_there(dimargin, files, tmp_path, monkeypatch):
    line = ("report", files / "moons.dimargin", files / "test.csv", "--output")
    assert dimargin(*line, tmp_path / "with.html")[0] == 0
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, _, err = dimargin(*line, tmp_path / "without.html")
    assert status == 0 and 'without.html has no figures; they need the extra "report": pip install "dimargin' in err
    whole, bare = ((tmp_path / f"{name}.html").read_text() for name in ("with", "without"))
    assert "<svg" in whole and "<svg" not in bare
    assert bare.count("The picture is left out") == whole.count("<svg")
    tables = [re.findall(r"<table.*?</table>", page, re.DOTALL) for page in (whole, bare)]
    assert tables[0] == tables[1] and len(tables[0]) >= 4
