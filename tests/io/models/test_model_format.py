"""Model files of plain values: written without scikit-learn, read with it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import bounded
import numpy as np
import pytest
from sklearn.datasets import make_moons

import dimargin as dm
from dimargin.io.models import ModelFileError, model_format
from dimargin.io.models.model_format import Step, read_raw, write_model

WRITE = """
import sys
import numpy as np
from dimargin.io.models.model_format import Step, write_model

fitted = {attributes}
write_model(sys.argv[1], [Step("machine", "LinearODMClassifier", {parameters}, fitted)], {{"site": 3}})
print(sorted({{"sklearn", "scipy", "pyarrow", "pandas", "matplotlib", "rich"}} & set(sys.modules)))
"""


ENOUGH = ("classes_", "coef_", "intercept_", "_partial", "n_features_in_")  # for predictions


def machine(labels=("ham", "spam", "eggs")):
    X, y = make_moons(90, noise=0.2, random_state=0)
    classes = np.arange(90) % len(labels) * (y + X[:, 0] > 0)
    return dm.LinearODMClassifier(lam=10.0).fit(X, np.array(labels)[classes]), X


def source(values):
    """Values as Python text."""
    return repr(values).replace("array(", "np.array(")


@pytest.mark.parametrize("labels", [(-1, 1), ("ham", "spam", "eggs")], ids=["integers", "text"])
def test_a_process_without_scikit_learn_writes_a_model(labels, tmp_path):
    fitted, X = machine(labels)
    dm.save(fitted, tmp_path / "heavy", {"site": 3})
    names = read_raw(tmp_path / "heavy")[0]["steps"][0]["attributes"]
    with np.printoptions(floatmode="unique", threshold=sys.maxsize):
        attributes = source({name: getattr(fitted, name) for name in names})
        script = WRITE.format(attributes=attributes, parameters=source(fitted.get_params(deep=False)))
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "light"], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
    loaded = dm.load(tmp_path / "light")
    np.testing.assert_array_equal(loaded.decision_function(X), fitted.decision_function(X))
    assert loaded.predict(X).tolist() == fitted.predict(X).tolist() and repr(loaded) == repr(fitted)
    assert (tmp_path / "light").read_bytes() == (tmp_path / "heavy").read_bytes()


def test_what_predictions_need_is_enough(tmp_path):
    fitted, X = machine()
    write_model(tmp_path / "m", [Step("machine", "LinearODMClassifier", {}, {k: getattr(fitted, k) for k in ENOUGH})])
    assert dm.load(tmp_path / "m").predict(X).tolist() == fitted.predict(X).tolist()


def test_a_pipeline_is_written(tmp_path):
    fitted, X = machine()
    scale = {
        "scale_": np.array([2.0, 1.0]),
        "max_abs_": np.array([0.5, 1.0]),
        "n_samples_seen_": 9,
        "n_features_in_": 2,
    }
    steps = [
        Step("scale", "MaxAbsScaler", {}, scale),
        Step("machine", "LinearODMClassifier", {"lam": 3.0}, {name: getattr(fitted, name) for name in ENOUGH}),
    ]
    write_model(tmp_path / "m", steps)
    loaded = dm.load(tmp_path / "m")
    expected = fitted.decision_function(X / scale["scale_"])
    np.testing.assert_array_equal(loaded.decision_function(X), expected)
    assert [name for name, _ in loaded.steps] == ["scale", "machine"] and loaded[-1].lam == 3.0


def test_raw_files(tmp_path):
    path = tmp_path / "m"
    write_model(path, [Step("machine", "Unknown", {"a": 1}, {"b": np.ones(2)})], {"of": "site 3"})
    header, arrays = read_raw(path)
    assert header["notes"] == {"of": "site 3"} and header["steps"][0]["class"] == "Unknown"
    assert header["dimargin_version"] == dm.__version__ and header["pipeline"] is False
    assert arrays["machine.b"].tolist() == [1, 1]
    content = path.read_bytes()
    assert content == model_format.file_content(header, arrays)
    path.write_bytes(content[:-1] + b"\x01")
    with pytest.raises(ModelFileError, match="checksum does not match"):
        read_raw(path)
    path.write_bytes(content)
    with pytest.raises(
        ModelFileError, match="not a valid model: step 'machine': 'Unknown' is not a class of model files; register"
    ):
        dm.load(path)
    before = path.read_bytes()
    with pytest.raises(TypeError, match=r"machine\.a cannot be stored"):
        write_model(path, [Step("machine", "Unknown", {"a": {1}}, {})])
    assert path.read_bytes() == before


def test_a_new_model_is_its_owners_and_an_old_one_keeps_its_mode(tmp_path):
    fitted, _ = machine()
    before = os.umask(0o022)
    try:
        dm.save(fitted, tmp_path / "m")
        assert (tmp_path / "m").stat().st_mode & 0o777 == 0o600
        (tmp_path / "m").chmod(0o640)
        dm.save(fitted, tmp_path / "m")
        assert (tmp_path / "m").stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)


def test_the_kept_file_is_written_again_with_the_same_bytes(tmp_path):
    kept = Path(__file__).parents[2] / "data" / "model_format_1.dimargin"
    assert model_format.file_content(*read_raw(kept)) == kept.read_bytes()


CUT = """
import json, os, sys
from dimargin.io.models import ModelFileError, load, model_format

path, moment = sys.argv[1:]
module, name = {"opened": (os, "fstat"), "read": (json, "loads")}[moment]
original = getattr(module, name)

def cut(*given, **options):
    result = original(*given, **options)
    os.truncate(path, 5000)
    return result

setattr(module, name, cut)
try:
    load(path)
except ModelFileError as error:
    print(error)
else:
    print("loaded")
"""


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(("moment", "said"), [("opened", "damaged: "), ("read", "loaded")])
def test_a_file_that_is_cut_while_it_is_loaded_ends_no_process(moment, said, tmp_path):
    fitted, _ = machine()
    path = tmp_path / "m"
    vectors = {"n_features_in_": 2 * 10**5, "coef_": np.zeros((3, 2 * 10**5)), "_partial": (np.zeros((3, 200001)), 0)}
    attributes = {**{name: getattr(fitted, name) for name in ENOUGH}, **vectors}
    write_model(path, [Step("machine", "LinearODMClassifier", {}, attributes)])
    done = subprocess.run([sys.executable, "-c", CUT, path, moment], capture_output=True, text=True)
    assert done.returncode == 0 and said in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("content", ["zeros without an end", "8 GiB of zeros", "a model and 8 GiB of zeros"])
def test_a_file_without_an_end_or_larger_than_memory_is_refused(content, tmp_path):
    path = tmp_path / "m"
    if content == "zeros without an end":
        path.symlink_to("/dev/zero")
    else:
        fitted, _ = machine()
        if content.startswith("a model"):
            dm.save(fitted, path)
        with open(path, "ab") as file:
            file.truncate(2**33)
    said = bounded.run("from dimargin.io.models import load", f"load({str(path)!r})", megabytes=500)
    expected = "needs more memory than there is" if content.startswith("a model") else "not a dimargin model file"
    assert said.startswith(f"ModelFileError {path}") and expected in said, said


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_small_file_that_claims_long_labels(tmp_path):
    fitted, _ = machine()
    path = tmp_path / "m"
    write_model(path, [Step("machine", "LinearODMClassifier", {}, {k: getattr(fitted, k) for k in ENOUGH})])
    header, arrays = read_raw(path)
    header["steps"][0]["attributes"]["classes_"]["dtype"] = "<U500000000"
    path.write_bytes(model_format.file_content(header, arrays))
    said = bounded.run("from dimargin.io.models import load", f"load({str(path)!r})", megabytes=300)
    assert said.startswith(
        f"ModelFileError {path} is not a valid model: step 'machine': 3 labels of type <U500000000"
    ), said


def test_a_header_is_not_too_long(tmp_path, monkeypatch):
    path = tmp_path / "m"
    write_model(path, [Step("machine", "Unknown", {"a": 1}, {})], {"note": "x" * 1000})
    monkeypatch.setattr(model_format, "_MAX_HEADER_LENGTH", 1000)
    with pytest.raises(ModelFileError, match=f"{path} has a header of 1[0-9]{{3}} characters; the limit is 1000"):
        read_raw(path)
    with pytest.raises(TypeError, match=r"the header of this model has 1\d{3} characters; the limit is 1000"):
        write_model(path, [Step("machine", "Unknown", {"a": 1}, {})], {"note": "x" * 1000})


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_model_that_does_not_fit_is_an_error_with_the_reason(tmp_path):
    path = tmp_path / "m"
    write_model(path, [Step("machine", "LinearODMClassifier", {}, {"coef_": np.zeros((1, 3 * 10**7))})])
    said = bounded.run("from dimargin.io.models import load", f"load({str(path)!r})", megabytes=300)
    assert said.startswith(f"ModelFileError {path}") and "needs more memory than there is" in said, said


@pytest.mark.slow
def test_info_tells_what_a_file_says(tmp_path):
    fitted, _ = machine()
    path = tmp_path / "m"
    write_model(path, [Step("machine", "LinearODMClassifier", {}, {k: getattr(fitted, k) for k in ENOUGH})])
    done = subprocess.run(
        [sys.executable, "-m", "dimargin", "info", path, "--json"], capture_output=True, text=True, check=True
    )
    facts = json.loads(done.stdout)
    assert facts["classes"] == ["eggs", "ham", "spam"] and not {"status", "relative_duality_gap"} & set(facts)
