"""Files of every class, written once by the programs in `tests/data`.

They load and predict the same for ever.
"""

import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import storable_models
from sklearn.base import is_regressor

import dimargin as dm
from dimargin.io.models.storable_classes import STORABLE_CLASSES

DATA = Path(__file__).parents[2] / "data"
OLD = DATA / "old_models"
EXPECTED = np.load(OLD / "expected.npz", allow_pickle=False)
WRAPPED = sorted(path.stem for path in (DATA / "storable_models").glob("*.dimargin"))
NAMES = sorted(path.name for path in OLD.glob("*.dimargin"))


def known(name):
    """Rows, and the labels and decision values that were computed when the file was written."""
    rows = str(EXPECTED[f"{name} rows"])
    X = EXPECTED["two"] @ EXPECTED["two"].T + 1.0 if rows == "values" else EXPECTED[rows]
    return sp.csr_array(X) if rows == "sparse" else X, EXPECTED[f"{name} labels"], EXPECTED[f"{name} values"]


def check(machine, name):
    X, labels, values = known(name)
    assert machine.predict(X).tolist() == labels.tolist()
    np.testing.assert_allclose(machine.decision_function(X), values, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_an_old_model_predicts_the_same(name, tmp_path):
    machine = dm.load(OLD / name)
    check(machine, Path(name).stem)
    dm.save(machine, tmp_path / "again")
    again = dm.load(tmp_path / "again")
    check(again, Path(name).stem)
    assert repr(again) == repr(machine)


def test_there_is_an_old_model_of_every_class_that_there_was():
    steps = [getattr(machine, "steps", [("", machine)]) for machine in (dm.load(OLD / name) for name in NAMES)]
    table = dm.load(DATA / "people.dimargin")
    kinds = {type(step).__name__ for own in (*steps, table.steps, table[0].transformers) for _, step, *_ in own}
    assert kinds.isdisjoint(WRAPPED) and kinds | set(WRAPPED) == set(STORABLE_CLASSES)


def shown(model):
    """Representation of a model, without the addresses of distributions."""
    return re.sub(" at 0x[0-9a-f]+", "", repr(model))


@pytest.mark.parametrize("name", WRAPPED)
def test_an_old_model_with_other_steps_predicts_the_same(name, tmp_path):
    with np.load(DATA / "storable_models" / f"{name}.npz") as known:
        X = sp.csr_array(known["rows"]) if known["kind"] == "sparse" else known["rows"]
        model = dm.load(DATA / "storable_models" / f"{name}.dimargin")
        assert is_regressor(model) or model.predict(X).tolist() == known["labels"].tolist()
        np.testing.assert_allclose(storable_models.values(model, X), known["values"], rtol=1e-6, atol=1e-6)
    dm.save(model, tmp_path / "again")
    assert shown(dm.load(tmp_path / "again")) == shown(model)


@pytest.mark.parametrize("name", ["people", "people_calibrated"])
def test_an_old_model_of_tables_predicts_the_same(name):
    people, known = pd.read_csv(DATA / "people.csv"), json.loads((DATA / f"{name}.json").read_text())
    model = dm.load(DATA / f"{name}.dimargin")
    assert model.predict(people).tolist() == known["labels"]
    np.testing.assert_allclose(storable_models.values(model, people), known["values"], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["libsvm_two", "libsvm_three"])
def test_an_old_text_model_predicts_the_same(name):
    X, labels, values = known(name)
    read = dm.from_libsvm(OLD / f"{name}.model")
    assert read.predict(X).tolist() == labels.tolist()
    np.testing.assert_allclose(read.decision_values(X), values, rtol=1e-6, atol=1e-6)


def test_old_packed_values_come_back():
    pytest.importorskip("pyspark", reason="values of Spark's checkpoints")
    spec = importlib.util.spec_from_file_location("make_old_models", DATA / "make_old_models.py")
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    expected = make.packed_values()
    data = (OLD / "packed.npz").read_bytes()
    for found in (make.PACKING.unpack(data), make.PACKING.unpack(make.PACKING.pack(expected))):
        assert repr(found) == repr(expected) and found.keys() == expected.keys()
        assert (found["rows"].toarray() == expected["rows"].toarray()).all()
        assert [type(value) for value in found["scalars"]] == [type(value) for value in expected["scalars"]]
