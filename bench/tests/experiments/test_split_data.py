"""Data sets by name, and files of one's own."""

import bz2

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file
from text_files import write_csv, write_moons

from dimargin.io.data import DataFileError
from dimargin_bench.datasets.access import DataRows
from dimargin_bench.experiments.split_data import MissingDataError, Split, load, load_file, split_rows


def test_features_are_scaled_by_the_ranges_of_the_training_rows(moons):
    split = load("svmguide1")
    for ours, name in ((split.X, "svmguide1"), (split.X_test, "svmguide1.t")):
        X = load_svmlight_file(str(moons / name))[0].toarray()
        low, high = (f(load_svmlight_file(str(moons / "svmguide1"))[0].toarray(), axis=0) for f in (np.min, np.max))
        np.testing.assert_allclose(ours, (X - low) / (high - low), rtol=1e-12, atol=1e-12)
    assert split.X.min() == 0 and split.X.max() == pytest.approx(1) and split.y_test.shape == (80,)


def test_without_test_rows_a_fifth_is_set_apart(moons):
    split = load("skin_nonskin")
    assert (len(split.y), len(split.y_test)) == (96, 24)
    assert np.mean(split.y_test == 1) == np.mean(split.y == 1) == 0.5  # stratified
    assert split.digest == load("skin_nonskin").digest
    assert len(load("skin_nonskin", 40).y) == 40 and len(load("skin_nonskin", 10).y_test) == 10


def test_rows_that_dense_would_not_fit_into_memory_stay_sparse():
    few = sp.random_array((1_200_000, 900), density=1e-6, format="csr", random_state=0)  # dense: 8.6 GB
    labels = np.arange(few.shape[0]) % 2
    split = load("webspam", read=lambda name: DataRows(few, labels, None, None))
    assert sp.issparse(split.X) and sp.issparse(split.X_test) and split.scaling == "[-1, 1]"
    assert split.X.shape == (960_000, 900)


def test_every_seed_has_a_split_and_rows_of_its_own(moons):
    assert len({load("skin_nonskin", seed=seed).digest for seed in (0, 1, 2)}) == 3
    drawn = [load("svmguide1", 40, seed=seed) for seed in (0, 1)]
    assert drawn[0].digest != drawn[1].digest
    assert load("svmguide1", seed=1).digest == load("svmguide1").digest  # all rows, and those of the test file
    points = [load("normal-8x3", seed=seed) for seed in (0, 1)]
    assert points[0].digest != points[1].digest and points[0].X.shape == (8, 3)


def test_rows_of_a_test_file_may_be_joined_with_the_others(moons):
    apart, joined = load("svmguide1"), load("svmguide1", joined=True)
    n = len(apart.y) + len(apart.y_test)
    assert (len(joined.y), len(joined.y_test)) == (n * 4 // 5, n // 5)
    given = [load_svmlight_file(str(moons / name))[0].toarray() for name in ("svmguide1", "svmguide1.t")]
    rows = np.concatenate(given)
    back = np.concatenate([joined.X, joined.X_test])  # scaled by the ranges of the training rows
    assert len(np.unique(back, axis=0)) == len(np.unique(rows, axis=0)) and joined.X.max() == pytest.approx(1)


def test_so_many_rows_of_the_training_file_may_be_for_training(moons):
    split = load("svmguide1", train_rows=90)
    assert (len(split.y), len(split.y_test)) == (90, 30)  # of the file's 120, and none of the test file's 80
    assert abs(np.mean(split.y == 1) - np.mean(split.y_test == 1)) < 0.02
    assert len(load("skin_nonskin", 40, train_rows=90).y) == 40
    assert load("svmguide1", train_rows=90, seed=1).digest != split.digest


def test_the_digest_is_that_of_every_number():
    X, y = np.arange(6.0).reshape(3, 2), np.array([0, 1, 0])
    first = Split(X, y, X, y).digest
    assert Split(X.copy(), y, X, y.copy()).digest == first
    others = [Split(X + 1e-12, y, X, y), Split(X, y, X + 1e-12, y), Split(X, 1 - y, X, y), Split(X, y, X, 1 - y),
              Split(X.reshape(2, 3), y, X, y), Split(sp.csr_array(X), y, X, y)]  # fmt: skip
    assert len({first, *(other.digest for other in others)}) == 7


def test_compressed_and_missing_data(moons, monkeypatch):
    (moons / "cod-rna.bz2").write_bytes(bz2.compress((moons / "skin_nonskin").read_bytes()))
    assert len(load("cod-rna").y) == 96
    with pytest.raises(MissingDataError, match=r"^phishing is missing\. .*datasets fetch phishing"):
        load("phishing")
    (moons / "svmguide1.t").unlink()
    with pytest.raises(MissingDataError, match=r"^svmguide1\.t is missing"):
        load("svmguide1")
    monkeypatch.delenv("DIMARGIN_DATA")
    with pytest.raises(MissingDataError, match="a folder that DIMARGIN_DATA names"):
        load("skin_nonskin")


def test_a7a_is_the_training_file_of_a9a_where_its_own_are_missing(moons):
    (moons / "a9a").write_bytes((moons / "skin_nonskin").read_bytes())
    with pytest.raises(MissingDataError, match="a7a and a7a"):
        load("a7a")
    (moons / "a9a.t").write_bytes((moons / "skin_nonskin").read_bytes())
    split = load("a7a", 50)
    assert (len(split.y), len(split.y_test), split.n_rows) == (50, 24, 120)


def test_a_file_of_ones_own(tmp_path):
    split = split_rows(*load_file(write_moons(tmp_path / "mine.csv", 100)))
    assert (len(split.y), len(split.y_test)) == (80, 20) and set(split.y) == {"ham", "spam"}
    for labels, said in (([0] * 9, r"two classes or more, got those of \[0\] only"), ([0] * 8 + [1], "got one of 1")):
        write_csv(tmp_path / "odd.csv", np.arange(9.0)[:, None], labels)
        with pytest.raises(DataFileError, match=f"odd.csv: expected .*{said}"):
            load_file(tmp_path / "odd.csv")


def test_what_was_scaled_before_is_left_as_it_is(moons):
    for ending in ("", ".t"):
        (moons / f"ijcnn1{ending}").write_bytes((moons / f"svmguide1{ending}").read_bytes())
    split = load("ijcnn1")
    given = load_svmlight_file(str(moons / "svmguide1"))[0].toarray()
    np.testing.assert_array_equal(split.X[:, : given.shape[1]], given)
    assert given.min() > 1


@pytest.mark.parametrize("first", [0.0, 1.0])  # the digits, and as LIBSVM's page has them
def test_two_of_ten_digits(first):
    y = np.arange(200) % 10 + first
    digits = DataRows(np.arange(200.0)[:, None], y, np.arange(100.0)[:, None], y[:100])
    found = load("usps, 4 or 9", read={"usps": digits}.__getitem__)
    assert sorted(set(found.y)) == sorted(set(found.y_test)) == [4 + first, 9 + first]
    assert (len(found.y), len(found.y_test)) == (40, 20)


def test_the_digits_of_real_data(data_folder):
    found = load("usps, 4 or 9")
    assert np.unique(found.y, return_counts=True)[1].tolist() == [652, 644]
    assert len(set(found.y_test)) == 2


def test_a_class_of_which_few_rows_are_left():
    rare = DataRows(np.arange(12_000.0)[:, None], np.repeat([-1.0, 1.0], [9940, 2060]), None, None)
    found = load("cod-rna, 0.6% positive", read={"cod-rna": rare}.__getitem__)
    labels = np.concatenate([found.y, found.y_test])
    assert (len(labels), (labels == 1).sum()) == (10_000, 60) and (found.y_test == 1).sum() == 12


def test_what_is_missing_is_the_data_set_of_which_it_is_made(monkeypatch, tmp_path):
    monkeypatch.setenv("DIMARGIN_DATA", str(tmp_path))
    monkeypatch.setenv("DIMARGIN_CACHE", str(tmp_path))
    with pytest.raises(MissingDataError, match="usps"):
        load("usps, 4 or 9")


def test_pictures_keep_their_pixels_and_digits_are_round_or_not():
    pixels, digits = np.random.default_rng(0).integers(0, 256, size=(100, 784)).astype(float), np.arange(100) % 10
    split = load("mnist8m", read=lambda name: DataRows(pixels, digits, None, None))
    assert split.X.max() == 255 and split.y.tolist().count(1) == 40 and split.X.shape == (80, 784)
    rows = {tuple(row): label for row, label in zip(split.X, split.y, strict=True)}
    expected = {tuple(row): 1 if digit in (0, 3, 6, 8, 9) else -1 for row, digit in zip(pixels, digits, strict=True)}
    assert rows.items() <= expected.items()
    assert load("cifar", read=lambda name: DataRows(pixels, digits, pixels, digits)).X.max() == 255
