"""Model files: round trips, damage, lies, crashes."""

import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from safetensors.numpy import save as to_safetensors
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, SplineTransformer, StandardScaler
from sklearn.svm import SVC
from tampering import refuse, tampered

import dimargin as dm
from dimargin.io.models import ModelFileError, load_with_header, model_format

KEPT = Path(__file__).parents[2] / "data"


def moons(n=120):
    return make_moons(n, noise=0.2, random_state=0)


@pytest.fixture
def saved(tmp_path):
    X, y = moons(40)
    path = tmp_path / "moons.dimargin"
    dm.save(make_pipeline(MinMaxScaler(), dm.ODMClassifier(lam=100.0)).fit(X, y), path)
    return path


LABELS = {
    "integers": [3, -7, 12],
    "text": ["spam", "ham", "eggs and ä"],
    "floats": [0.0, -1.0, 2.0**40],
    "objects": np.array(["a", "b", "c"], dtype=object),
    "truth": [False, True, True],
}

CASCADE = dm.Cascade(rounds=1, coefficients="global")
ROUTED = [
    dm.DivideAndConquer(),
    dm.DivideAndConquer(prediction="bcm"),
    dm.DivideAndConquer(sample_size=20, max_cluster_size=12),
]


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    kernel=st.sampled_from(["linear", "poly", "rbf", "laplacian"]),
    labels=st.sampled_from(sorted(LABELS)),
    n_classes=st.integers(2, 3),
    form=st.sampled_from(["dense", "float32", "sparse", "frame"]),
    scaler=st.sampled_from([None, MinMaxScaler((-1, 1)), StandardScaler(with_mean=False), MaxAbsScaler()]),
    strategy=st.sampled_from(["auto", "exact", dm.DiODM(early_stop=False, sample_size=50), CASCADE, *ROUTED]),
    gamma=st.one_of(st.just("scale"), st.floats(1e-3, 1e3)),
    lam=st.floats(1e-2, 1e6),
    tol=st.sampled_from([1e-2, 1e-6]),
    seed=st.integers(0, 2**31 - 1),
)
def test_a_round_trip_changes_nothing(
    tmp_path_factory, kernel, labels, n_classes, form, scaler, strategy, gamma, lam, tol, seed
):
    X, _ = moons()
    if form == "float32":
        X = X.astype(np.float32)
    if form == "sparse":
        X, scaler = sp.csr_array(X), None if isinstance(scaler, MinMaxScaler) else scaler
    if form == "frame":
        X = pd.DataFrame(X, columns=["left", "right"])
    y = np.asarray(LABELS[labels])[np.arange(120) % n_classes]
    machine = dm.ODMClassifier(kernel, gamma, lam=lam, strategy=strategy, tol=tol, random_state=seed, max_iter=20)
    machine.set_params(stop_level=int(strategy in ROUTED))
    model = machine if scaler is None else Pipeline([("scale", scaler), ("machine", machine)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    path = tmp_path_factory.mktemp("models") / "model"
    dm.save(model, path, notes={"zero_based": None})
    again = dm.load(path)
    assert type(again) is type(model)
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    assert np.array_equal(again.predict(X), model.predict(X)) and again.predict(X).dtype == model.predict(X).dtype
    assert repr(again) == repr(model)
    machine_again = again if scaler is None else again[-1]
    assert repr(machine_again.history_) == repr(machine.history_)
    assert machine_again.duality_gap_ == machine.duality_gap_ and machine_again.certificate_ == machine.certificate_
    if form == "frame":
        assert list(again.feature_names_in_ if scaler is None else again[0].feature_names_in_) == ["left", "right"]
    first = path.read_bytes()
    dm.save(again, path, notes={"zero_based": None})
    assert path.read_bytes() == first
    machine_again.certify(X if scaler is None else again[:-1].transform(X), y)


def test_a_loaded_machine_goes_on(tmp_path):
    X, y = moons(700)
    machine = dm.ODMClassifier(max_iter=1, tol=1e-5, random_state=0)
    with pytest.warns(UserWarning, match="max_iter"):
        machine.fit(X, y)
    dm.save(machine, tmp_path / "m")
    again = dm.load(tmp_path / "m").set_params(warm_start=True, max_iter=1000).fit(X, y)
    assert again.status_ == "converged" and again.history_[0]["relative_gap"] < 1


def test_notes_and_header(saved):
    header = load_with_header(saved)[1]
    assert header["format_version"] == 1 and header["dimargin_version"] == dm.__version__
    assert [step["class"] for step in header["steps"]] == ["MinMaxScaler", "ODMClassifier"]


def test_every_format_version_keeps_loading():
    """tests/data/model_format_1.dimargin was written once, by `tests/data/make_model.py`."""
    X, _ = moons(40)
    expected = json.loads((KEPT / "model_format_1.json").read_text())
    model = dm.load(KEPT / "model_format_1.dimargin")
    assert model.predict(X).tolist() == expected["predicted"]
    np.testing.assert_allclose(model.decision_function(X), expected["decision_values"], rtol=1e-6, atol=1e-6)
    assert sorted(path.name for path in KEPT.glob("model_format_*.dimargin")) == [
        f"model_format_{k}.dimargin" for k in range(1, model_format.FORMAT_VERSION + 1)
    ]


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (SVC, "SVC 'machine'"),
        (lambda: make_pipeline(SplineTransformer(), dm.ODMClassifier()), "SplineTransformer 'splinetransformer'"),
        (lambda: GridSearchCV(Pipeline([("far", SVC())]), {"far__C": [1.0]}), "SVC 'far'"),
    ],
)
def test_what_cannot_be_saved_is_named(make, named, tmp_path):
    X, y = moons(40)
    with pytest.raises(TypeError, match=rf"cannot save the {named}; model files hold (.+, )?ODMClassifier, .+ PCA, "):
        dm.save(make().fit(X, y), tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_parameters_that_cannot_be_stored_are_named(tmp_path):
    X, y = moons(40)
    machine = dm.ODMClassifier(random_state=np.random.RandomState(0)).fit(X, y)
    with pytest.raises(TypeError, match=r"machine.random_state cannot be stored in a model file: RandomState"):
        dm.save(machine, tmp_path / "m")
    with pytest.raises(NotFittedError):
        dm.save(dm.ODMClassifier(), tmp_path / "m")


def test_a_machine_is_the_last_step_only(tmp_path):
    X, y = moons(40)
    first, last = dm.ODMClassifier().fit(X, y), dm.SVMClassifier().fit(X, y)
    with pytest.raises(TypeError, match="the step 'first' is a machine, but not the last step"):
        dm.save(Pipeline([("first", first), ("last", last)]), tmp_path / "m")
    with pytest.raises(TypeError, match="the last step is not a machine"):
        dm.save(make_pipeline(MinMaxScaler()).fit(X), tmp_path / "m")
    assert not list(tmp_path.iterdir())


# ---- damage ----------------------------------------------------------------------------------------------------------


def test_a_file_cut_anywhere_is_refused(saved, tmp_path):
    whole = saved.read_bytes()
    for size in range(0, len(whole), 10):
        (tmp_path / "cut").write_bytes(whole[:size])
        with pytest.raises(ModelFileError, match="cut"):
            dm.load(tmp_path / "cut")


def test_a_flipped_bit_anywhere_is_refused(saved, tmp_path):
    whole = saved.read_bytes()
    rng = np.random.default_rng(0)
    for index in [*range(300), *rng.integers(0, len(whole), 500)]:
        content = bytearray(whole)
        content[index] ^= 1 << int(rng.integers(8))
        (tmp_path / "flipped").write_bytes(content)
        with pytest.raises(ModelFileError, match="flipped"):
            dm.load(tmp_path / "flipped")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"1 1:2\n", b"\xff" * 100, b"\x80\x04\x95."])
def test_other_files_are_refused(content, tmp_path):
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(ModelFileError, match="other"):
        dm.load(tmp_path / "other")


def test_another_safetensors_file_is_refused(tmp_path):
    (tmp_path / "other").write_bytes(to_safetensors({"weights": np.ones(3)}))
    with pytest.raises(ModelFileError, match="not a dimargin model file"):
        dm.load(tmp_path / "other")
    (tmp_path / "other").write_bytes(to_safetensors({"weights": np.ones(3)}, {"dimargin": "\n" + 5000 * "9"}))
    with pytest.raises(ModelFileError, match="damaged: Exceeds the limit"):
        dm.load(tmp_path / "other")


def test_a_missing_file_is_the_systems_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        dm.load(tmp_path / "none")


def attributes(header):
    return header["steps"][1]["attributes"]


LIES = {
    "short scaler": lambda h, a: a.update({"minmaxscaler.scale_": np.ones(1)}),
    "a method": lambda h, a: attributes(h).update({"predict": "x"}),
    "an unknown class": lambda h, a: h["steps"][1].update({"class": "Popen"}),
    "an unknown parameter": lambda h, a: h["steps"][1]["parameters"].update({"command": "x"}),
    "an unknown strategy": lambda h, a: h["steps"][1]["parameters"].update(
        {"strategy": {"strategy": "Popen", "parameters": {"dict": []}}}
    ),
    "an unknown value": lambda h, a: attributes(h).update({"classes_": {"pickle": "x"}}),
    "a missing array": lambda h, a: a.pop("odmclassifier.dual_coef_"),
    "no steps": lambda h, a: h.update({"steps": []}),
    "no machine": lambda h, a: h["steps"].pop(),
    "a machine before the last": lambda h, a: h["steps"].insert(0, h["steps"][1]),
    "steps of no pipeline": lambda h, a: h.update({"pipeline": False}),
    "a scaler of other rows": lambda h, a: (
        h["steps"][0]["attributes"].update({"n_features_in_": 3}),
        a.update({name: np.ones(3) for name in a if name.startswith("minmaxscaler.")}),
    ),
    "steps of text": lambda h, a: h.update({"steps": "abc"}),
    "no attributes": lambda h, a: attributes(h).clear(),
}


@pytest.mark.parametrize("lie", sorted(LIES))
def test_a_file_that_lies_is_refused(saved, lie):
    refuse(saved, LIES[lie])


@pytest.mark.parametrize("version", [2, 0, -1, 10**9])
def test_unknown_format_versions_are_refused(saved, version):
    tampered(saved, lambda h, a: h.update({"format_version": version, "dimargin_version": "9.9"}))
    with pytest.raises(ModelFileError, match=rf"format version {version}, written by dimargin 9.9; .* reads version 1"):
        dm.load(saved)


def test_headers_that_lie_about_sizes_are_refused(saved, tmp_path):
    whole = saved.read_bytes()
    size = int.from_bytes(whole[:8], "little")
    header = whole[8 : 8 + size].decode()
    for wrong in (size - 1, size + 1, 2**40, 2**64 - 1, 0):
        (tmp_path / "lying").write_bytes(wrong.to_bytes(8, "little") + whole[8:])
        with pytest.raises(ModelFileError, match="lying"):
            dm.load(tmp_path / "lying")
    offsets = header[header.index('"data_offsets":[') :][: len('"data_offsets":[') + 6]
    (tmp_path / "lying").write_bytes(whole[:8] + header.replace(offsets, offsets.replace("0", "9"), 1).encode())
    with pytest.raises(ModelFileError, match="lying"):
        dm.load(tmp_path / "lying")


# ---- crashes ---------------------------------------------------------------------------------------------------------


def test_a_failed_save_leaves_the_old_model(saved, monkeypatch):
    before = saved.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        dm.save(dm.load(saved), saved)
    assert saved.read_bytes() == before and [p.name for p in saved.parent.iterdir()] == [saved.name]


FULL = """
import resource, sys, dimargin as dm
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
dm.save(dm.load(sys.argv[1]), sys.argv[1])
"""


@pytest.mark.slow
def test_a_disk_that_is_really_full_leaves_the_old_model(saved):
    before = saved.read_bytes()
    done = subprocess.run([sys.executable, "-c", FULL, str(saved)], capture_output=True, text=True)
    assert done.returncode != 0 and "File too large" in done.stderr
    assert saved.read_bytes() == before and [p.name for p in saved.parent.iterdir()] == [saved.name]


SAVING = """
import os, sys, time, dimargin as dm

def stop(descriptor):
    print("written, not yet in place", flush=True)
    time.sleep(60)

os.fsync = stop
dm.save(dm.load(sys.argv[1]), sys.argv[1], notes={"new": True})
"""


@pytest.mark.slow
def test_a_kill_in_the_middle_of_a_save_leaves_the_old_model(saved):
    before = saved.read_bytes()
    with subprocess.Popen([sys.executable, "-c", SAVING, str(saved)], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline().startswith(b"written")
        process.send_signal(signal.SIGKILL)
    assert saved.read_bytes() == before
    dm.save(dm.load(saved), saved, notes={"new": True})
    assert load_with_header(saved)[1]["notes"] == {"new": True}


def test_a_link_keeps_pointing_to_the_model(saved, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(saved)
    dm.save(dm.load(saved), link)
    assert link.is_symlink() and not saved.is_symlink()


def test_a_device_is_written_to_and_stays_one():
    X, y = moons(40)
    dm.save(dm.ODMClassifier().fit(X, y), "/dev/null")
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize(("value", "is_known"), [(False, True), (None, True), (True, False)])
def test_a_scaler_of_a_newer_scikit_learn_loads_where_what_is_new_is_switched_off(tmp_path, value, is_known):
    X, y = make_moons(60, random_state=0)
    path = tmp_path / "m"
    dm.save(make_pipeline(MinMaxScaler(), dm.LinearODMClassifier()).fit(X, y), path)
    header, arrays = model_format.read_raw(path)
    header["steps"][0]["parameters"]["sharpen"] = value
    path.write_bytes(model_format.file_content(header, arrays))
    if is_known:
        assert dm.load(path).score(X, y) > 0.8
        return
    with pytest.raises(ModelFileError, match=r"MinMaxScaler has sharpen=True, which scikit-learn .* does not know"):
        dm.load(path)


def test_pairs_of_classes_saved_without_a_rule_count_votes(tmp_path):
    """Votes were the only rule before `pair_scores` came."""
    X, y = make_blobs(90, centers=[[0, 0], [1, 0], [0, 1]], random_state=0)
    machine, path = dm.SVMClassifier(pair_scores="votes").fit(X, y), tmp_path / "m"
    dm.save(machine, path)
    header, arrays = model_format.read_raw(path)
    del header["steps"][0]["parameters"]["pair_scores"]
    path.write_bytes(model_format.file_content(header, arrays))
    assert_array_equal(dm.load(path).decision_function(X), machine.decision_function(X))
