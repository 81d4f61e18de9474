"""Conversion of raw files: tiny files of the public form, encoded by pandas and numpy for comparison."""

import gzip
import io
import re
import tarfile

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from dimargin.io.data import DataFileError
from dimargin_bench.datasets import load
from dimargin_bench.datasets.catalogue import CATALOGUE, entry_of
from dimargin_bench.datasets.conversion import CONVERTERS, convert
from dimargin_bench.papers import printed


@pytest.fixture
def converted(cache, tmp_path):
    """Write raw files, convert them into the cache, and load the result as dense rows."""

    def run(name, *contents, **options):
        paths = [tmp_path / raw for raw in entry_of(name).raw]
        for path, content in zip(paths, contents, strict=True):
            content = content.encode() if isinstance(content, str) else content
            path.write_bytes(gzip.compress(content) if path.name.endswith(".csv.gz") else content)
        convert(entry_of(name), paths, cache)
        assert not [path for path in cache.iterdir() if path.suffix == ".part"]
        rows = load(name)
        dense = [X if X is None or isinstance(X, np.ndarray) else X.toarray() for X in (rows.X, rows.X_test)]
        return dense[0], rows.y, dense[1], rows.y_test

    return run


def table(rng, n, texts, n_columns):
    """Rows of a table with the texts of some columns, and numbers, a third of them zero, in the others."""
    numbers = np.where(rng.random((n, n_columns)) < 0.3, 0, rng.normal(size=(n, n_columns)).round(2))
    cells = {k: rng.choice(texts[k], n) if k in texts else numbers[:, k] for k in range(n_columns)}
    return pd.DataFrame(cells)


def lines(frame, label, separator=","):
    rows = frame.astype(str).agg(separator.join, axis=1)
    return "\n".join(separator.join((row, text)) for row, text in zip(rows, label, strict=True)) + "\n"


def one_hot(frame, texts, known):
    """What the encoding is by pandas: dummies of each column of texts in its place, and numbers."""
    parts = [
        pd.get_dummies(pd.Categorical(frame[k], sorted(known[k]))).to_numpy(float) if k in texts else frame[[k]]
        for k in frame.columns
    ]
    return np.hstack(parts).astype(float)


def test_connections_are_encoded_by_the_texts_of_the_training_rows(converted):
    rng = np.random.default_rng(0)
    flags = {k: ["0", "1"] for k in (6, 11, 20, 21)}
    texts = {1: ["tcp", "udp", "icmp"], 2: [f"service{k}" for k in range(70)], 3: list("ABCDEFGHIJK"), **flags}
    train, test = table(rng, 400, texts, 41), table(rng, 50, {**texts, 2: ["new", "service3"]}, 41)
    train[19] = test[19] = 0.0
    train.loc[:69, 2] = texts[2]  # every one of them occurs
    labels = [rng.choice(["normal.", "smurf.", "neptune."], len(frame)) for frame in (train, test)]
    X, y, X_test, y_test = converted("kddcup99", *map(lines, (train, test), labels))
    assert X.shape == (400, 125) == (400, CATALOGUE["kddcup99"].features)
    assert_array_equal(X, one_hot(train.drop(columns=19), texts, texts))
    assert_array_equal(X_test, one_hot(test.drop(columns=19), texts, texts))
    assert_array_equal(y, np.where(labels[0] == "normal.", -1, 1))
    assert_array_equal(y_test, np.where(labels[1] == "normal.", -1, 1))
    assert (X_test[:, 4:74].sum(axis=1) == 0).sum() == (test[2] == "new").sum() > 0


def test_persons_are_encoded_by_texts_and_numbers(converted):
    """Blanks follow the commas of the raw table, and "?" is a text like others."""
    rng = np.random.default_rng(1)
    numbers = (0, 2, 3, 5, 16, 17, 18, 24, 30, 36, 38, 39, 40)
    columns = [k for k in range(41) if k not in numbers]
    sizes = [9, 17, 3, 7, 24, 15, 5, 10, 2, 3, 6, 8, 6, 6, 51, 38, 8, 10, 9, 10, 3, 4, 5, 43, 43, 43, 5, 3]
    texts = {k: ["?", *(f"text {j}" for j in range(1, n))] for k, n in zip(columns, sizes, strict=True)}
    frame = table(rng, 300, texts, 41)
    for k, known in texts.items():
        frame.loc[: len(known) - 1, k] = known
    labels = rng.choice(["- 50000.", "50000+."], 300)
    X, y, *_ = converted("census", lines(frame, labels, ", "))
    assert X.shape == (300, 409) == (300, CATALOGUE["census"].features)
    assert_array_equal(X, one_hot(frame, texts, texts))
    assert_array_equal(y, np.where(labels == "50000+.", 1, -1))


def test_missing_values_of_particles_become_medians(converted):
    rng = np.random.default_rng(2)
    cells = rng.normal(size=(30, 80)).round(3)
    cells[:, 0], cells[:, 1] = np.arange(30), rng.integers(0, 2, 30)
    known = cells.copy()
    for column, absent in {**dict.fromkeys((21, 22, 23, 45, 46, 47), 999), 30: 9999, 56: 9999}.items():
        missing = rng.random(30) < 0.4
        cells[missing, column] = absent
        known[missing, column] = np.median(known[~missing, column])
    cells[3, 40] = known[3, 40] = 999.0  # a value, in another column
    text = "\n".join("\t".join(f"{value:g}" if value < 100 else f"{value:.0f}" for value in row) for row in cells)
    X, y, *_ = converted("quantum", text)
    assert_array_equal(X, known[:, 2:])
    assert_array_equal(y, np.where(known[:, 1] == 1, 1, -1))


def test_proteins_molecules_and_parts(converted):
    rng = np.random.default_rng(3)
    values, classes = rng.normal(size=(20, 74)).round(2), rng.integers(0, 2, 20)
    text = "\n".join(f"279 {k} {classes[k]} " + " ".join(map(str, values[k])) for k in range(20))
    X, y, *_ = converted("protein", text)
    assert_array_equal(X, values)
    assert_array_equal(y, 2 * classes - 1)
    bits = rng.integers(0, 2, size=(20, 4932))
    rows = "\n".join(" ".join(map(str, row)) for row in bits)
    X, y, *_ = converted("sido", rows, "\n".join(map(str, 2 * classes - 1)))
    assert_array_equal(X, bits)
    assert_array_equal(y, 2 * classes - 1)
    values = np.where(rng.random((20, 968)) < 0.8, np.nan, rng.normal(size=(20, 968)).round(3))
    frame = pd.DataFrame(values, columns=[f"L0_S0_F{k}" for k in range(968)])
    frame.insert(0, "Id", range(4, 24))
    frame["Response"] = classes
    X, y, *_ = converted("bosch", frame.to_csv(index=False))
    assert_array_equal(X, np.nan_to_num(values))
    assert_array_equal(y, 2 * classes - 1)


def archive(contents):
    """A tar file with so named members."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, content in contents.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def test_animals_are_told_from_vehicles(converted):
    rng = np.random.default_rng(4)
    names = [*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin"]
    pictures = rng.integers(0, 256, size=(6, 10, 3073), dtype=np.uint8)
    pictures[:, :, 0] = np.arange(10)
    content = {name: batch.tobytes() for name, batch in zip(names, pictures, strict=True)}
    X, y, X_test, y_test = converted("cifar", archive(dict(reversed(content.items())) | {"readme.html": b"x"}))
    assert_array_equal(X, pictures[:5].reshape(50, 3073)[:, 1:])
    assert_array_equal(X_test, pictures[5, :, 1:])
    animals = [-1, -1, 1, 1, 1, 1, 1, 1, -1, -1]  # airplane, automobile, bird, ..., horse, ship, truck
    assert y.tolist() == 5 * animals and y_test.tolist() == animals


@pytest.mark.parametrize(
    ("name", "contents", "words"),
    [
        ("protein", ["1 2 3\n"], "line 1: expected 77 cells, got 3"),
        ("protein", ["1 2 0 " + "x " * 74], "expected a number, got 'x'"),
        ("sido", ["1 " * 4932, "1\n-1\n"], "has more rows than"),
        ("sido", ["1 " * 4932 + "\n" + "0 " * 4932, "1\n"], "expected a number, got ''"),
        ("cifar", [b"no archive"], "is not a tar archive"),
        ("cifar", [archive({"data_batch_1.bin": b"x"})], "data_batch_1.bin is not of pictures of 3073 bytes"),
        ("cifar", [archive({})], "data_batch_1.bin is missing"),
        ("kddcup99", [",".join(["0"] * 41 + ["normal."]), "1,2\n"], "line 1: expected 42 cells, got 2"),
    ],
)  # fmt: skip
def test_files_of_another_form_are_refused(converted, cache, name, contents, words):
    with pytest.raises(DataFileError, match=re.escape(words)):
        converted(name, *contents)
    assert not (cache / f"{name}.t").exists() and not list(cache.glob("*.part"))


def test_more_features_than_the_catalogue_has_are_refused(converted):
    rows = [[str(k)] * 41 + ["normal."] for k in range(99)]
    text = "\n".join(",".join(row) for row in rows)
    with pytest.raises(DataFileError, match="kddcup99 would have 338 features, expected 125"):
        converted("kddcup99", text, text)


def test_converters_are_those_of_the_catalogue(cache):
    assert {entry.name for entry in CATALOGUE.values() if entry.raw} == set(CONVERTERS)
    with pytest.raises(ValueError, match=r"census is made of census-income\.data\.gz, in this order; got 0 files"):
        convert(entry_of("census"), [], cache)
    with pytest.raises(ValueError, match="ijcnn1 has no raw files to convert: `dimargin datasets fetch ijcnn1`"):
        convert(entry_of("ijcnn1"), [], cache)
    with pytest.raises(FileNotFoundError, match=r"`dimargin datasets convert census census-income.data.gz` makes it"):
        load("census")


_DIFFERENT = {
    ("gadget", "gisette", "rows"): (6000, 7000),  # with those of the test file
    ("gadget", "adult", "rows"): (32_562, 32_561 + 16_281),  # one more than the training rows
    ("diodm", "a7a", "rows"): (32_561, 32_561),
    ("gadget", "bosch", "rows"): (1_000_000, 1_183_747),  # those that the paper takes
    ("gadget", "bosch", "features"): (969, 968),
}
"""What the papers print, and what the catalogue has, where the two differ."""


@pytest.mark.parametrize("paper", ["dcsvm", "diodm", "gadget"])
def test_the_catalogue_has_the_rows_and_features_that_the_papers_print(paper):
    """Every data set with a number of rows, features, training or testing samples is known by its printed name."""
    found = [one for one in printed(paper) if one.data and not one.method and one.metric in ("rows", "features")]
    for one in found:
        if one.table in ("Abstract", "Section 1"):  # rounded
            continue
        entry = entry_of(one.data)
        ours = entry.features if one.metric == "features" else sum(file.rows for file in entry.files)
        assert _DIFFERENT.get((paper, one.data, one.metric), (one.number, one.number)) == (one.number, ours)
    assert len(found) > 5


def test_training_and_testing_rows_of_dcsvm_are_all_rows():
    """mnist8m is rounded in no other way: 8,000,000 and 100,000 of 8,100,000."""
    for name in {one.data for one in printed("dcsvm", "Table 3")}:
        counts = [one.number for one in printed("dcsvm", "Table 3") if one.data == name and "rows" in one.metric]
        assert sum(counts) == sum(file.rows for file in entry_of(name).files)
