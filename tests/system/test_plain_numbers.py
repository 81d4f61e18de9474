"""Numbers of numpy as parameters: their value counts, and not their type."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_moons

import dimargin as dm

X, Y = make_moons(700, noise=0.2, random_state=0)
INTEGERS = np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64
FITS = {
    "SVMClassifier": (dm.SVMClassifier, {"C": 100, "gamma": 20, "max_iter": 100, "n_jobs": 1}),
    "dc": (dm.SVMClassifier, {"strategy": "dc", "n_levels": 2, "branching": 3, "stop_level": 0, "max_iter": 100}),
    "landmark": (dm.ODMClassifier, {"strategy": "landmark", "n_landmarks": 100, "lam": 100}),
    "LinearODMClassifier": (dm.LinearODMClassifier, {"lam": 100, "max_iter": 100}),
    "CoreSetSVMClassifier": (dm.CoreSetSVMClassifier, {"C": 100, "max_iter": 100}),
    "CoreSetSVDD": (dm.CoreSetSVDD, {"C": 100, "max_iter": 100}),
    "OneClassCoreSetSVM": (dm.OneClassCoreSetSVM, {"C": 100, "max_iter": 100}),
    "GossipSVMClassifier": (dm.GossipSVMClassifier, {"n_sites": 4, "batch_size": 2, "max_iter": 20}),
}  # fmt: skip


def fitted(name, number):
    kind, parameters = FITS[name]
    given = {key: number(value) if isinstance(value, int) else value for key, value in parameters.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)
        return clone(kind(random_state=0).set_params(**given)).fit(*((X, Y) if hasattr(kind, "predict") else (X,)))


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("number", INTEGERS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", FITS)
def test_whole_numbers(name, number):
    """Products of small types wrapped round: of max_iter and the number of rows, the fit ended at once."""
    expected, found = fitted(name, int), fitted(name, number)
    assert_array_equal(found.decision_function(X), expected.decision_function(X))
    assert found.status_ == expected.status_


@pytest.mark.parametrize("number", [np.float16, np.float32, np.float64, np.longdouble], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("machine", [dm.SVMClassifier, dm.CoreSetSVMClassifier, dm.CoreSetSVDD])
def test_floating_point_numbers(machine, number):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found, expected = (machine(C=C, random_state=0).fit(X, Y) for C in (number(0.5), 0.5))
    assert_array_equal(found.decision_function(X), expected.decision_function(X))
    assert type(found.C) is float


def test_options_of_strategies_and_searches():
    assert type(dm.Exact(working_set=np.int16(300)).working_set) is int
    assert type(dm.ODMClassifierCV(max_rows=np.int32(10**9)).max_rows) is int
    machine = dm.SVMClassifier(verbose=np.True_, class_weight={0: np.float32(2)}, C=np.complex128(1))
    assert machine.verbose is np.True_ and type(machine.class_weight[0]) is np.float32
    with pytest.raises(TypeError, match="C must be a finite number"):
        machine.fit(X, Y)
