import numpy as np
import pytest
from site_processes import Site
from sklearn.datasets import load_breast_cancer
from waiting import free_port


@pytest.fixture
def refusal(dimargin, tmp_path):
    """Train on a table, written as CSV, which is refused; returns the message."""

    def train(frame, *flags, **csv):
        frame.to_csv(tmp_path / "t.csv", index=False, **csv)
        status, out, err = dimargin("train", tmp_path / "t.csv", "--model", tmp_path / "refused", *flags)
        assert (status, out) == (1, "") and not (tmp_path / "refused").exists()
        return err

    return train


@pytest.fixture
def rows():
    """Rows of two classes, with texts for labels."""
    X, y = load_breast_cancer(return_X_y=True)
    return X, np.array(["malignant", "benign"])[y]


@pytest.fixture
def started(tmp_path):
    """Start processes of sites by their names; they are gone when the test is."""
    port, running = free_port(), []

    def start(name, *flags, **options):
        running.append(Site(tmp_path, name, port, *flags, **options))
        return running[-1]

    start.port = port
    yield start
    for site in running:
        if site.process.poll() is None:
            site.process.kill()
            site.process.wait()
        site.process.stderr.close()
