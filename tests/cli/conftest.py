import pytest


@pytest.fixture
def refusal(dimargin, tmp_path):
    """Train on a table, written as CSV, which is refused; returns the message."""

    def train(frame, *flags, **csv):
        frame.to_csv(tmp_path / "t.csv", index=False, **csv)
        status, out, err = dimargin("train", tmp_path / "t.csv", "--model", tmp_path / "refused", *flags)
        assert (status, out) == (1, "") and not (tmp_path / "refused").exists()
        return err

    return train
