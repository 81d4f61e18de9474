"""The command line with model files of outlier detectors."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from text_files import words_of

import dimargin as dm

NAMES = ["length", "width"]
DETECTORS = {"ball": dm.CoreSetSVDD(C=5.0, random_state=0), "plane": dm.OneClassCoreSetSVM(random_state=0)}


def frame(n, seed=0, scale=1.0):
    return pd.DataFrame(scale * np.random.default_rng(seed).normal(size=(n, 2)), columns=NAMES)


@pytest.fixture(params=DETECTORS)
def trained(request, tmp_path):
    """A pipeline in a file, and itself."""
    model = make_pipeline(StandardScaler(), DETECTORS[request.param]).fit(frame(300))
    dm.save(model, tmp_path / "usual.dimargin")
    return tmp_path / "usual.dimargin", model


def test_outliers_of_a_table_without_labels(dimargin, trained, tmp_path):
    path, model = trained
    rows = frame(200, seed=1, scale=2.0)
    rows.to_csv(tmp_path / "new.csv", index=False)
    expected = model.predict(rows).tolist()
    status, out, err = dimargin("predict", path, tmp_path / "new.csv")
    assert status == 0 and [int(line) for line in out.splitlines()] == expected and "200 rows" in err
    assert {*expected} == {1, -1}
    status, out, _ = dimargin(
        "predict", path, tmp_path / "new.csv", "--output", tmp_path / "found", "--decision-values"
    )
    lines = [line.split("\t") for line in (tmp_path / "found").read_text().splitlines()]
    assert status == 0 and not out and [int(line[0]) for line in lines] == expected
    np.testing.assert_allclose([float(line[1]) for line in lines], model.decision_function(rows), rtol=1e-8, atol=1e-12)
    # the features are found by name, whatever stands beside them
    rows.assign(kind="new", label="?")[["kind", "width", "label", "length"]].to_csv(tmp_path / "wide.csv", index=False)
    assert [int(line) for line in dimargin("predict", path, tmp_path / "wide.csv")[1].splitlines()] == expected


def test_outliers_of_a_table_whose_columns_had_no_names(dimargin, tmp_path):
    detector, rows = dm.CoreSetSVDD(C=5.0).fit(frame(300).to_numpy()), frame(100, seed=1, scale=2.0)
    dm.save(detector, tmp_path / "m")
    rows.to_csv(tmp_path / "bare.csv", index=False)
    rows.assign(label="?").to_csv(tmp_path / "labelled.csv", index=False)
    for name in ("bare.csv", "labelled.csv"):
        status, out, _ = dimargin("predict", tmp_path / "m", tmp_path / name)
        assert status == 0 and [int(line) for line in out.splitlines()] == detector.predict(rows.to_numpy()).tolist()
    (tmp_path / "narrow.csv").write_text("length\n1\n")
    status, out, err = dimargin("predict", tmp_path / "m", tmp_path / "narrow.csv")
    assert status == 1 and not out and "1 feature columns, expected 2" in err


@pytest.mark.parametrize("detector", DETECTORS.values(), ids=DETECTORS)
def test_outliers_of_libsvm_text(dimargin, tmp_path, detector):
    rng = np.random.default_rng(0)
    X = sp.random_array(
        (300, 40), density=0.1, rng=rng, data_sampler=lambda size: rng.uniform(1, 2, size), format="csr"
    )
    Z = sp.csr_array(3 * X[:50])
    model = make_pipeline(MaxAbsScaler(), detector).fit(X)
    dm.save(model, tmp_path / "m", notes={"zero_based": False})
    dump_svmlight_file(Z, np.zeros(50), str(tmp_path / "rows"), zero_based=False)
    status, out, _ = dimargin("predict", tmp_path / "m", tmp_path / "rows", "--quiet")
    assert status == 0 and [int(line) for line in out.splitlines()] == model.predict(Z).tolist()
    assert sp.issparse(dm.load(tmp_path / "m")[-1].support_vectors_)


def test_what_a_detector_is(dimargin, trained):
    path, model = trained
    detector = model[-1]
    facts = json.loads(dimargin("info", path, "--json")[1])
    assert facts["machine"] == type(detector).__name__ and facts["certificate"] == "global"
    assert facts["support_vectors"] == len(detector.support_) and facts["offset"] == detector.offset_
    assert facts.get("radius") == getattr(detector, "radius_", None)
    assert facts["parameters"]["kernel"] == "rbf" and facts["parameters"]["C"] == detector.C
    assert facts["scaling"] == "StandardScaler" and facts["features"] == 2 and "classes" not in facts
    assert "training rows" in facts["privacy"]
    status, out, _ = dimargin("info", path)
    assert status == 0 and "offset" in out and "relative duality gap" in out


REFUSED = {
    "evaluate": (["evaluate", "MODEL", "DATA"], 1, "has no accuracy; dimargin predict finds the outliers"),
    "certify": (["info", "MODEL", "--certify", "DATA"], 1, "only classifiers can be certified"),
    "resume": (["train", "DATA", "--model", "m", "--resume", "MODEL"], 2, "which dimargin train cannot resume"),
    "export": (["export", "MODEL", "m"], 1, "cannot be exported as a classifier"),
    "svm-predict": (
        ["svm-predict", "TEXT", "MODEL", "m"],
        1,
        "is not a LIBSVM text model, but a dimargin model file",
    ),
}


@pytest.mark.parametrize("command", REFUSED)
def test_what_a_detector_is_not_for(dimargin, trained, tmp_path, monkeypatch, command):
    path, model = trained
    monkeypatch.chdir(tmp_path)
    frame(20).assign(label=1).to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "rows.libsvm").write_text("1 1:2 2:3\n")
    indices = {"MODEL": path, "DATA": tmp_path / "rows.csv", "TEXT": tmp_path / "rows.libsvm"}
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    arguments, expected_status, words = REFUSED[command]
    status, out, err = dimargin(*(indices.get(word, word) for word in arguments))
    said = words_of(err)
    assert status == expected_status and not out and words in said
    if command != "svm-predict":
        assert f"holds a {type(model[-1]).__name__}, an outlier detector" in said
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
