"""``dimargin export --to onnx | c``."""

import shutil
import subprocess

import numpy as np
import pytest

import dimargin as dm


@pytest.fixture
def model(dimargin, tmp_path):
    """A model file, and the CSV file that it was trained on."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    names = np.where((X**2).sum(axis=1) > 1.4, "far", "near")
    rows = [f"{a},{b},{name}" for (a, b), name in zip(X.tolist(), names, strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["left,right,class", *rows]) + "\n")
    assert dimargin("train", tmp_path / "rows.csv", "--model", tmp_path / "ring-1.dimargin", "--quiet")[0] == 0
    return tmp_path / "ring-1.dimargin", tmp_path / "rows.csv", X


def test_an_onnx_model_is_written_beside_the_model(dimargin, model):
    pytest.importorskip("onnx", reason="onnx is not installed: pip install 'dimargin[onnx]'")
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    path, _, X = model
    assert dimargin("export", path, "--to", "onnx") == (0, "", "")
    session = onnxruntime.InferenceSession(path.with_suffix(".onnx").read_bytes())
    labels, values = session.run(["label", "decision_values"], {"X": X})
    trained = dm.load(path)
    assert labels.tolist() == trained.predict(X).tolist()
    np.testing.assert_allclose(values, trained.decision_function(X), rtol=1e-9, atol=1e-9)


def test_c_source_is_the_one_of_to_c(dimargin, model):
    path, data, X = model
    assert dimargin("export", path, "--to", "c")[0] == 0
    assert path.with_suffix(".c").read_text() == dm.to_c(dm.load(path), name="ring_1")
    fixed = path.with_name("2nd.c")
    assert dimargin("export", path, fixed, "--to", "c", "--numbers", "fixed", "--data", data)[0] == 0
    assert fixed.read_text() == dm.to_c(dm.load(path), name="m2nd", numbers="fixed", rows=X)
    assert fixed.stat().st_mode & 0o077 == 0  # It holds training rows.
    compiler = shutil.which("cc")
    if compiler:
        subprocess.run([compiler, "-std=c99", "-c", "-o", fixed.with_suffix(".o"), fixed], check=True)


def test_a_compressed_model_says_what_it_loses(dimargin, model):
    path, data, X = model
    trained, y = dm.load(path), np.loadtxt(data, str, delimiter=",", skiprows=1)[:, 2]
    small, report = dm.compress(trained, 4, X, y)
    status, out, err = dimargin("export", path, "--to", "c", "--compress", "4", "--data", data)
    assert (status, err) == (0, "")
    n, bound = report["support_vectors"], f"{report['bound']:.4g}"
    loss = report["accuracy_before"] - report["accuracy_after"]
    assert out.splitlines() == [
        f"4 of {n} support vectors are kept; decision values of a row x change by at most {bound} times the root of "
        "k(x, x)",
        f"accuracy on {data}: {report['accuracy_before']:.4g} before, {report['accuracy_after']:.4g} after, a loss of "
        f"{loss:.4g}",
    ]
    assert path.with_suffix(".c").read_text() == dm.to_c(small, name="ring_1", rows=X)
    status, out, _ = dimargin("export", path, "--to", "c", "--compress", "0.25")
    assert status == 0 and out.startswith(f"{-(-n // 4)} of {n} support vectors") and out.count("\n") == 1


def test_a_regressor_is_exported(dimargin, tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    machine = dm.SVMRegressor(10.0).fit(X, X[:, 0])
    dm.save(machine, tmp_path / "slope.dimargin")
    rows = [f"{a},{b},{a}" for a, b in X.tolist()]
    (tmp_path / "rows.csv").write_text("\n".join(["left,right,y", *rows]) + "\n")
    flags = ["--compress", "10", "--data", tmp_path / "rows.csv"]
    status, out, err = dimargin("export", tmp_path / "slope.dimargin", "--to", "c", *flags)
    assert (status, err) == (0, ""), err
    assert "r2 on" in out and "float slope_predict(const float *x)" in (tmp_path / "slope.c").read_text()


def test_what_is_wrong_is_said(dimargin, model):
    path, data, _ = model
    for flags, status, message in (
        (["--numbers", "fixed"], 2, "--numbers needs --to onnx or c"),
        (["--to", "c", "--numbers", "float16"], 1, "numbers must be 'float32' or 'fixed', got 'float16'"),
        (["--to", "onnx", "--data", data], 2, "--data needs --to c or --compress"),
        (["--to", "c", data, "--data", data], 2, "would replace an input file"),
        (["--compress", "1.5"], 2, "--compress must be a whole number"),
        (["--compress", "-1"], 2, "--compress must be a finite number"),
        (["--to", "pmml"], 2, "'pmml' is not one of"),
    ):
        found, out, err = dimargin("export", path, *flags)
        assert (found, out) == (status, "") and message in " ".join(err.replace("│", " ").split()), err
