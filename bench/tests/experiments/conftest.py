import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, make_moons


@pytest.fixture
def moons(tmp_path, monkeypatch):
    """The folder of data sets, in which two moons have the name of one with test rows, and of one without."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name, n, seed in (("svmguide1", 120, 0), ("svmguide1.t", 80, 1), ("skin_nonskin", 120, 0)):
        X, y = make_moons(n, noise=0.2, random_state=seed)
        columns = [X, X[:, :1] * X[:, 1:]] + [X[:, :1] ** 2] * name.startswith("svmguide1")
        dump_svmlight_file(3 + np.hstack(columns), 2 * y - 1, str(folder / name), zero_based=False)
    monkeypatch.setenv("DIMARGIN_DATA", str(folder))
    monkeypatch.setenv("DIMARGIN_CACHE", str(tmp_path / "cache"))
    return folder
