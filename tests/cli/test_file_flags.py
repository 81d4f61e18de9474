"""How files are read is said by flags, and files may be pipes: every command that reads tables."""

import io
import json
import os
import sys
import threading

import numpy as np
import pandas as pd
import pytest
from text_files import words_of

import dimargin as dm

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(60, 2)).round(3), columns=["größe", "b"])
FRAME["label"] = np.where(FRAME["größe"] + FRAME["b"] > 0, "ja", "für")
HINGE = ("--loss", "hinge")


@pytest.fixture
def stdin(monkeypatch):
    def give(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return give


def commands(folder, data, *flags):
    """Commands that read tables, on a model that is there."""
    model = folder / "m"
    return [
        ("train", data, "--model", folder / "new", *HINGE, *flags),
        ("train", data, "--model", folder / "new", "--resume", model, *flags),
        ("tune", data, "--model", folder / "new", "--grid", '{"gamma": [0.5], "C": [10]}', "--cv", 2, *flags),
        ("predict", model, data, "-o", folder / "labels", *flags),
        ("evaluate", model, data, *flags),
        ("report", model, data, "-o", folder / "page.html", *flags),
        ("info", model, "--certify", data, *flags),
        ("simulate", "gossip", data, "--n-sites", 2, "--max-iter", 3, *flags),
    ]


def test_every_command_reads_other_encodings_and_formats(dimargin, tmp_path):
    plain, other = tmp_path / "plain.csv", tmp_path / "other.txt"
    FRAME.to_csv(plain, index=False)
    other.write_bytes(FRAME.to_csv(index=False, sep="\t").encode("cp1252"))
    assert dimargin("train", plain, "--model", tmp_path / "m", *HINGE)[0] == 0
    for command in commands(tmp_path, other):
        status, _, err = dimargin(*command)
        assert status == 1 and "not UTF-8 text; name its encoding, such as cp1252 ('größe'), by --encoding" in err, (
            command
        )
    for command in commands(tmp_path, other, "--encoding", "cp1252", "--format", "csv"):
        done = dimargin(*command)
        assert done[0] == 0, (command, done)
    assert dm.load(tmp_path / "new").feature_names_in_.tolist() == ["größe", "b"]
    for command in commands(tmp_path, other, "--format", "libsvm"):
        status, _, err = dimargin(*command)
        assert status == 1 and "not LIBSVM text" in err, command
    for command in commands(tmp_path, other, "--encoding", "no-such"):
        status, _, err = dimargin(*command)
        assert status == 2 and "encoding must name a text encoding" in err, command


def test_every_command_is_told_whether_there_are_names(dimargin, tmp_path):
    data, names = tmp_path / "t.csv", tmp_path / "names.csv"
    ambiguous = pd.DataFrame({0: [0, 0, 1, 1, 2] * 12, 1: [2, 1, 0, 0, 2] * 12, 2: [0, 11, 10, 18, 10] * 12})
    ambiguous = ambiguous.sort_values(2)
    ambiguous.to_csv(data, index=False)
    ambiguous.to_csv(names, index=False, header=["a", "b", "class"])
    assert dimargin("train", names, "--model", tmp_path / "m", *HINGE)[0] == 0
    for command in commands(tmp_path, data, "--label", "-1"):
        if command[0] in ("train", "tune", "simulate") and "--resume" not in command:
            status, _, err = dimargin(*command)
            assert status == 1 and "line 1: '0, 1, 2' may be column names or values; choose --header" in err
            assert dimargin(*command, "--header")[0] == 0
    model = ("--model", tmp_path / "m", *HINGE)
    assert dimargin("train", data, *model, "--label", "-1", "--header")[0] == 0
    for command in commands(tmp_path, data, "--label", "-1"):
        done = dimargin(*command, "--header")
        assert done[0] == 0, (command, done)
    assert dimargin("predict", tmp_path / "m", data, "-o", tmp_path / "labels")[0] == 0  # its names are the model's
    assert len((tmp_path / "labels").read_text().split()) == 60
    status, out, _ = dimargin("train", data, *model, "--label", "-1", "--no-header", "--json")
    assert status == 0 and json.loads(out)["rows"] == 61


def test_every_command_is_told_that_quotes_are_letters(dimargin, tmp_path):
    lines = FRAME.assign(label=FRAME.label.where(FRAME.label == "ja", '"für')).to_csv(index=False, sep="\t", quoting=3)
    (tmp_path / "t.tsv").write_text(lines)
    assert dimargin("train", tmp_path / "t.tsv", "--model", tmp_path / "m", *HINGE, "--no-quotes")[0] == 0
    assert dm.load(tmp_path / "m").classes_.tolist() == ['"für', "ja"]
    for command in commands(tmp_path, tmp_path / "t.tsv"):
        status, _, err = dimargin(*command)
        assert (status == 1 and "not closed" in err) or command[0] == "predict", (command, err)
        done = dimargin(*command, "--no-quotes")
        assert done[0] == 0, (command, done)
    assert len((tmp_path / "labels").read_text().split()) == 60


@pytest.mark.parametrize("index", ["", "Unnamed: 0"])
def test_the_index_of_pandas_is_left_out_and_that_is_said(dimargin, tmp_path, index):
    frame = FRAME.rename(columns={"größe": "a"}).sort_values("label", ignore_index=True)
    with_index, without = tmp_path / "index.csv", tmp_path / "plain.csv"
    frame.to_csv(with_index, index_label=index)
    frame.to_csv(without, index=False)
    for data in (with_index, without):
        status, _, err = dimargin("train", data, "--model", tmp_path / "m", *HINGE)
        assert status == 0 and ("is left out: it has the names or numbers of the rows" in err) == (data == with_index)
        assert dm.load(tmp_path / "m").feature_names_in_.tolist() == ["a", "b"]
        for other in (with_index, without):
            assert dimargin("predict", tmp_path / "m", other, "-o", tmp_path / "labels")[0] == 0
            assert len((tmp_path / "labels").read_text().split()) == 60
    assert dimargin("train", with_index, "--model", tmp_path / "m", *HINGE, "-q")[2] == ""
    for command in (
        ("simulate", "gossip", with_index, "--n-sites", 2, "--max-iter", 3),
        commands(tmp_path, with_index)[2],
    ):
        assert "is left out: it has the names or numbers of the rows" in dimargin(*command)[2]
    frame.to_csv(with_index, index_label="id")
    for flags in ((), ("--missing", "median")):
        status, _, err = dimargin("train", with_index, "--model", tmp_path / "m", *HINGE, *flags)
        assert status == 0 and "warning: " in err and "feature 'id' numbers the rows from 0" in err


def test_rows_from_standard_input(dimargin, tmp_path, stdin):
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    content = (tmp_path / "t.csv").read_bytes()
    stdin(content)
    assert dimargin("train", "-", "--model", tmp_path / "m", *HINGE)[0] == 0
    dimargin("predict", tmp_path / "m", tmp_path / "t.csv", "-o", tmp_path / "expected")
    for command in commands(tmp_path, "-"):
        stdin(content)
        done = dimargin(*command)
        assert done[0] == 0, (command, done)
    assert (tmp_path / "labels").read_bytes() == (tmp_path / "expected").read_bytes()
    stdin(content)
    assert dimargin("train", tmp_path / "t.csv", "--model", tmp_path / "new", *HINGE, "--validate", "-")[0] == 0
    stdin(content.replace(b"ja\n", b"ja,\n"))
    status, _, err = dimargin("evaluate", tmp_path / "m", "-")
    assert status == 1 and "standard input, line " in err and "4 fields, expected 3" in err
    stdin(b"")
    assert "standard input is empty" in dimargin("predict", tmp_path / "m", "-")[2]


def test_without_standard_input(dimargin, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    status, _, err = dimargin("train", "-", "--model", tmp_path / "m")
    assert status == 1 and "standard input is empty" in err


def test_rows_from_a_pipe(dimargin, tmp_path):
    """As /dev/stdin and <(zcat rows.gz) are."""
    text = "".join(f"{(-1) ** k} 1:{k % 2 + 0.1 * (k % 7):.2f} 2:{k % 5}\n" for k in range(60)).encode()
    (tmp_path / "t").write_bytes(text)
    assert dimargin("train", tmp_path / "t", "--model", tmp_path / "m", *HINGE)[0] == 0
    os.mkfifo(tmp_path / "pipe")
    for command in commands(tmp_path, tmp_path / "pipe"):
        thread = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(text,))
        thread.start()
        done = dimargin(*command)
        thread.join()
        assert done[0] == 0, (command, done)
    status, _, err = dimargin("train", tmp_path / "pipe", "--model", tmp_path / "m", "--engine", "spark")
    assert status == 2 and "DATA cannot be a pipe with --engine spark" in words_of(err)


def test_libsvm_s_programs_read_standard_input(dimargin, tmp_path, stdin, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "".join(f"{(-1) ** k} 1:{k % 2 + 0.1 * (k % 7):.2f} 2:{k % 5}\n" for k in range(60)).encode()
    (tmp_path / "t").write_bytes(text)
    assert dimargin("svm-train", "-q", "t")[0] == 0
    scaled = dimargin("svm-scale", "t")[1]
    stdin(text)
    assert dimargin("svm-train", "-q", "-")[0] == 0
    assert (tmp_path / "stdin.model").read_bytes() == (tmp_path / "t.model").read_bytes()
    stdin(text)
    assert dimargin("svm-scale", "-")[1] == scaled
    stdin(text)
    assert dimargin("svm-predict", "-", "t.model", "labels")[1].startswith("Accuracy = ")
    stdin(b"a,b\n1,2\n")
    status, _, err = dimargin("svm-train", "-q", "-")
    assert status == 1 and "standard input: expected LIBSVM text; `dimargin train` reads CSV and Parquet" in err


def test_a_file_that_is_not_there(dimargin, tmp_path):
    status, _, err = dimargin("predict", tmp_path / "m", "nowhere.csv")
    assert status == 2
    (tmp_path / "m").write_bytes(b"")
    status, _, err = dimargin("predict", tmp_path / "m", "nowhere.csv")
    assert status == 2 and "file 'nowhere.csv' does not exist" in err


@pytest.mark.parametrize("name", ["t.csv", "t.libsvm"])
def test_rows_on_disk(dimargin, tmp_path, name):
    if name == "t.csv":
        FRAME.to_csv(tmp_path / name, index=False)
    else:
        (tmp_path / name).write_text(
            "".join(f"{(-1) ** k} 1:{k % 2 + 0.1 * (k % 7):.2f} 2:{k % 5}\n" for k in range(60))
        )
    (tmp_path / "disk").mkdir()
    command = ("train", tmp_path / name, "--loss", "linear_hinge", "--model")
    assert dimargin(*command, tmp_path / "a")[0] == 0
    assert dimargin(*command, tmp_path / "b", "--on-disk", tmp_path / "disk")[0] == 0
    assert not list((tmp_path / "disk").iterdir())
    a, b = (dm.load(tmp_path / model) for model in "ab")
    np.testing.assert_array_equal(a[-1].coef_, b[-1].coef_)
    for flags, message in [
        (("--on-disk", tmp_path / "nowhere"), "on_disk must be a folder, got"),
        (
            ("--on-disk", tmp_path, "--categories"),
            "--on-disk keeps rows of numbers that this computer reads, and cannot",
        ),
        (("--on-disk", tmp_path, "--engine", "spark"), "be used with --engine spark"),
    ]:
        status, _, err = dimargin(*command, tmp_path / "c", *flags)
        assert status == 2 and message in words_of(err) and not (tmp_path / "c").exists()
