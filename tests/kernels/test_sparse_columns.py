"""Columns of sparse rows that do not occur cost nothing; where they do, memory is checked before."""

import sys

import bounded
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import dimargin as dm
from dimargin.estimators.training_data import gamma_value
from dimargin.kernels.column_statistics import narrowed
from dimargin.system import memory

ROWS = arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 12)), elements=st.sampled_from([0, 0, 0, 1, 2.5]))
needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@given(ROWS)
def test_nothing_but_empty_columns_is_left_out(X):
    rows, columns = narrowed(sp.csr_array(X))
    assert rows.shape == (len(X), len(columns)) and (np.diff(columns) > 0).all()
    back = np.zeros_like(X)
    back[:, columns] = rows.toarray()
    np.testing.assert_array_equal(back, X)
    assert rows.shape[1] == X.shape[1] or rows.shape[1] == max(1, np.count_nonzero(X.any(axis=0)))
    same, indices = narrowed(X)
    assert same is X and indices.tolist() == list(range(X.shape[1]))


@given(ROWS, st.integers(0, 5))
def test_gamma_is_that_of_dense_rows(X, seed):
    assume(X.var() > 0.01 * X.mean() ** 2)  # else digits cancel in sparse rows
    weights = np.random.default_rng(seed).uniform(0.5, 2, size=len(X))
    for gamma in ("scale", "auto"):
        expected = gamma_value(gamma, X, weights)
        assert gamma_value(gamma, sp.csr_array(X), weights) == pytest.approx(expected, rel=1e-9)


# ---- 40 bytes that name feature 2,000,000,000 ------------------------------------------------------------------------

WIDE = "1 1:1 2000000000:2\n-1 1:-1 3:2\n1 2:3\n-1 5:1\n"
IMPORTS = "import dimargin as dm, sklearn.datasets\nfrom dimargin.io.data import read_data"


@pytest.fixture
def wide(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text(WIDE)
    return path


FITS = [
    "dm.SVMClassifier(memory_limit=10**8)",
    "dm.SVMClassifier(kernel='linear', fit_intercept=True, memory_limit=10**8)",
    "dm.ODMClassifier(kernel='laplacian', memory_limit=10**8)",
    "dm.ODMClassifier(gamma=1.0, strategy='landmark')",
    "dm.SVMClassifier(gamma=1.0, strategy='dc', n_levels=1)",
    "dm.SVMClassifier(gamma=1.0, strategy='diodm', n_levels=1)",
    "dm.SVMClassifier(gamma=1.0, strategy='dip', n_levels=1, memory_limit=10**8)",
    "dm.CoreSetSVMClassifier()",
    "dm.LinearODMClassifier()",
    "dm.GossipSVMClassifier(n_sites=2, max_iter=50, tol=1.0)",
    "dm.CoreSetSVDD(kernel='linear')",
]


@pytest.mark.slow
@needs_proc
@pytest.mark.parametrize("machine", FITS)
def test_wide_rows_are_trained_on_in_little_memory(machine, wide):
    code = f"data = read_data({str(wide)!r}); m = {machine}.fit(data.X, data.y); m.predict(data.X)"
    assert bounded.run(IMPORTS, code, megabytes=1000) == "done\n"


def test_dip_counts_its_centres(monkeypatch):
    X = sp.csr_array(([1.0, 2.0, -1.0, 1.0], ([0, 1, 2, 3], [0, 10**6, 1, 2])), shape=(4, 10**6 + 1))
    with pytest.raises(MemoryError, match="memory_limit=30000000 bytes is too small: this fit needs about 651"):
        dm.SVMClassifier(strategy="dip", n_levels=1, memory_limit=3 * 10**7).fit(X, [1, 1, -1, -1])
    linear = dm.LinearODMClassifier().fit(X, [1, 1, -1, -1])
    assert linear.coef_.shape == (1, 10**6 + 1)
    monkeypatch.setattr(memory, "memory_of_process", lambda: 10**6)
    assert not hasattr(linear, "coef_")
    with pytest.raises(AttributeError, match="needs about 8000008 bytes in addition to the data, and this"):
        linear.coef_  # noqa: B018
    dense = np.zeros((4, 10**5))
    with pytest.raises(MemoryError, match=r"needs about \d+ bytes in addition .*, and this process may use 1000000"):
        dm.LinearODMClassifier().fit(dense, [1, 1, -1, -1])


STEPS = [
    "_wide_gamma(data.X, Kernel('rbf', gamma=1.0), np.ones(4))",
    "_wide_gamma(data.X, Kernel('laplacian', gamma=1.0), np.ones(4))",
    "assert indices_of_vectors(data.X[[2, 0]], np.ones((1, 2)), data.X, np.ones((1, 4))).tolist() == [2, 0]",
]


@pytest.mark.slow
@needs_proc
@pytest.mark.parametrize("step", STEPS)
def test_steps_that_need_no_number_for_a_column_have_none(step, wide):
    imports = f"""{IMPORTS}
import numpy as np
from dimargin.kernels.functions import Kernel
from dimargin.estimators.certificate import indices_of_vectors
from dimargin.shards.partition.clusters import _wide_gamma"""
    assert bounded.run(imports, f"data = read_data({str(wide)!r}); {step}", megabytes=500) == "done\n"


CLI = "from dimargin.cli import dispatch\nimport dimargin.cli.app, sys, sklearn.datasets"


def command(*words):
    """A line of code that runs a command, and fails unless it ends well."""
    ended = "try: dispatch.main()\nexcept SystemExit as end: assert end.code == 0, end.code"
    return f"sys.argv = ['dimargin', *{list(map(str, words))!r}]; exec({ended!r})"


@pytest.mark.nightly
@needs_proc
def test_commands_take_wide_rows(wide, tmp_path):
    machine, text, scaled = tmp_path / "m", tmp_path / "text.model", tmp_path / "ranges"
    narrow = tmp_path / "narrow.svm"
    narrow.write_text("1 1:1 2:1\n-1 1:2 2:1\n")
    for words in (
        ("train", wide, "--model", machine, "--loss", "linear_odm", "--scale", "standard"),
        ("predict", machine, wide),
        ("train", wide, "--model", machine, "--loss", "hinge", "--memory-limit", 10**8, "--quiet"),
        ("info", machine, "--certify", wide),
        ("predict", machine, wide),
        ("predict", machine, narrow),
        ("svm-train", "-q", wide, text),
        ("svm-predict", "-q", narrow, text, tmp_path / "labels"),
        ("svm-scale", "-s", scaled, wide),
        ("svm-scale", "-r", scaled, wide),
    ):
        assert bounded.run(CLI, command(*words), megabytes=1000).endswith("done\n"), words
    assert machine.stat().st_size < 10**4
