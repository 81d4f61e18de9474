"""Files that commands write: refused before the work where they cannot be written, or would replace what is read."""

import os

import pytest
from text_files import words_of, write_moons

from dimargin.cli.shared import Output, check_output


def refused(path, *read):
    with pytest.raises(ValueError) as found:
        check_output("--model", path, *read)
    return str(found.value)


def test_a_file_that_can_be_written_passes(tmp_path, monkeypatch):
    (tmp_path / "old").touch()
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).startswith(("/dev", "/proc")))  # not to all
    for path in (tmp_path / "new", tmp_path / "old", os.devnull, "/dev/stdout", "/dev/fd/1"):
        check_output("--model", path, tmp_path / "data.csv", None, "hdfs:///data")


def test_a_folder_that_is_not_there_or_takes_no_file(tmp_path, monkeypatch):
    path = tmp_path / "no" / "m"
    assert refused(path) == f"--model {path}: the folder {path.parent} does not exist"
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # who is root may write everywhere
    assert refused(tmp_path / "m") == f"--model {tmp_path / 'm'}: the folder {tmp_path} is not writable"


def test_a_current_folder_that_was_removed(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    try:
        assert refused("m") == "--model m: the current folder no longer exists"
        check_output("--model", tmp_path / "m")
    finally:
        os.chdir(tmp_path)


def test_what_is_read_is_not_replaced(tmp_path):
    data, link = tmp_path / "data.csv", tmp_path / "link"
    data.touch()
    link.symlink_to(data)
    for path in (data, link, tmp_path / "." / "data.csv"):
        assert refused(path, None, data) == f"--model {path} would replace an input file; choose another path"


COMMANDS = {
    "train": ("train", "DATA", "--model", "DATA"),
    "train, validate": ("train", "DATA", "--validate", "OTHER", "--model", "OTHER"),
    "tune": ("tune", "DATA", "--model", "DATA"),
    "predict": ("predict", "MODEL", "DATA", "--output", "MODEL"),
    "report": ("report", "MODEL", "DATA", "--output", "DATA"),
    "svm-train": ("svm-train", "LIBSVM", "LIBSVM"),
    "svm-predict": ("svm-predict", "LIBSVM", "MODEL", "LIBSVM"),
    "liblinear-train": ("liblinear-train", "LIBSVM", "LIBSVM"),
    "liblinear-predict": ("liblinear-predict", "LIBSVM", "MODEL", "LIBSVM"),
    "export": ("export", "MODEL", "MODEL"),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_every_command_looks_before_it_works(dimargin, tmp_path, command):
    files = {name: tmp_path / name.lower() for name in ("DATA", "OTHER", "MODEL", "LIBSVM")}
    for path in files.values():
        path.write_text("1 1:1\n-1 2:1\n")
    content = [path.read_text() for path in files.values()]
    status, out, err = dimargin(*(files.get(part, part) for part in command))
    assert (status, out) == (2, "") and "would replace an input file" in words_of(err)
    assert [path.read_text() for path in files.values()] == content


def test_no_result_is_cut_short(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    Output(as_json=False, quiet=False).result({"model": "m" * 100, "relative_duality_gap": 0.5})
    lines = capsys.readouterr().out.splitlines()
    assert "".join(line[22:].strip() for line in lines[:-1]) == "m" * 100 and lines[-1].split() == [
        "relative",
        "duality",
        "gap",
        "0.5",
    ]


def test_memory_that_is_not_there_is_said(dimargin, tmp_path, monkeypatch):
    def none(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr("dimargin.cli.svm_commands.read_file", none)
    data = tmp_path / "data.libsvm"
    data.write_text("1 1:1\n-1 1:2\n")
    assert dimargin("svm-train", data, tmp_path / "m") == (1, "", "dimargin: there is not enough memory\n")


@pytest.mark.slow
def test_long_labels_of_a_confusion_are_whole(dimargin, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    csv, model = write_moons(tmp_path / "train.csv", 60, names=("q" * 80, "z" * 80)), tmp_path / "m"
    assert dimargin("train", csv, "--model", model, "--quiet")[0] == 0
    out = dimargin("evaluate", model, csv)[1]
    assert out.count("q") == out.count("z") == 240, out  # in a column and a row of counts, and in a row of scores
