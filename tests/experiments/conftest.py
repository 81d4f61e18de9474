import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, make_moons


@pytest.fixture
def moons(tmp_path, monkeypatch):
    """The folder of data sets, with one that is named moons."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name, n, seed in (("moons", 120, 0), ("moons.t", 80, 1)):
        X, y = make_moons(n, noise=0.2, random_state=seed)
        dump_svmlight_file(3 + np.hstack([X, X[:, :1] * X[:, 1:]]), 2 * y - 1, str(folder / name))
    monkeypatch.setenv("DIMARGIN_DATA", str(folder))
    return folder
