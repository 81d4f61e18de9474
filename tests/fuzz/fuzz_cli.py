"""Arguments of the command line, in this process, with files that may be damaged: no traceback, status 0, 1 or 2."""

import contextlib
import functools
import io
import json
import os
import sys
import warnings
from unittest import mock

from dimargin.cli import dispatch

from . import fuzz_csv, fuzz_libsvm, fuzz_libsvm_model, fuzz_model, fuzz_ranges
from .inputs import SOME_NUMBERS, file, folder

_READING = ["--header", "--no-header", "--format", "csv", "--encoding", "latin-1"]
_COMMANDS = {
    "train": [
        "DATA",
        "--model",
        "OUT",
        "--loss",
        "--label",
        "--scale",
        "--validate",
        "DATA",
        "--resume",
        "MODEL",
        "--tol",
        "--max-iter",
        "--n-jobs",
        "--kernel",
        "--gamma",
        "--strategy",
        "--strategy-option",
        "--memory-limit",
        "--json",
        "--quiet",
        "--spark-conf",
        "--C",
        "--class-weight",
        "--n-levels",
        "--degree",
        "--lam",
        "--missing",
        "--categories",
        "--na",
        "--drop",
        *_READING,
    ],
    "predict": ["MODEL", "DATA", "--output", "OUT", "--decision-values", "--label", "--quiet", "--na", *_READING],
    "evaluate": ["MODEL", "DATA", "--label", "--json", "--quiet", *_READING],
    "info": ["MODEL", "--certify", "DATA", "--label", "--json", *_READING],
    "export": ["MODEL", "OUT", "--to", "--numbers", "--data", "DATA"],
    "svm-train": ["DATA", "OUT", "-s", "-t", "-d", "-g", "-r", "-c", "-e", "-m", "-v", "-w1", "-q", "-b", "-n", "-h"],
    "svm-predict": ["DATA", "TEXT", "OUT", "-q", "-b"],
    "liblinear-train": ["DATA", "OUT", "-s", "-c", "-e", "-B", "-R", "-v", "-w1", "-q", "-C", "-p", "-n"],
    "liblinear-predict": ["DATA", "TEXT", "OUT", "-q"],
    "svm-scale": ["DATA", "-l", "-u", "-y", "-s", "OUT", "-r", "RANGES"],
}
_VALUES = [
    "odm",
    "hinge",
    "linear_odm",
    "rbf",
    "linear",
    "poly",
    "minmax",
    "none",
    "standard",
    "exact",
    "diodm",
    "label",
    "y",
    "0",
    "-1",
    "a=b",
    "1",
    "0.5",
    "median",
    "parquet",
    "utf-16",
    "scale",
    "auto",
    "balanced",
    "",
    "--",
    "{}",
    "/",
    "no/such/file",
]
_FILES = ["rows.svm", "rows.csv", "rows.parquet", "model.dimargin", "text.model", "ranges", "empty.csv", "rows.csv.gz"]
_GOOD = {
    "rows.svm": b"1 1:1 2:3\n-1 1:2\n1 2:4 3:1\n-1 1:1 3:1\n",
    "rows.csv": b"a,b,label\n1,2,x\n3,4,y\n5,1,x\n0,0,y\n",
    "ranges": b"x\n-1 1\n1 0 2\n2 0 4\n",
}


@functools.cache
def _model():
    from dimargin.io.models import model_format

    return [model_format.file_content(*source) for source in fuzz_model.sources()[:2]]


def generate(rng):
    command = rng.choice(list(_COMMANDS)) if rng.random() < 0.98 else rng.choice(["tune", "no-such", "--help", ""])
    words = _COMMANDS.get(command, ["DATA", "--help", "--json"])
    arguments = [word for word in words if word.isupper() and (rng.random() < 0.95)][: rng.choice([1, 2, 2, 3])]
    if command == "train":
        arguments += ["--model", "OUT", "--max-iter", "2"]
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        arguments.append(rng.choice(words))
        if rng.random() < 0.7:
            arguments.append(rng.choice(_VALUES if rng.random() < 0.6 else SOME_NUMBERS))
    rows = rng.choice(["rows.svm", "rows.csv"]) if rng.random() < 0.9 else rng.choice(_FILES)
    index = {"DATA": rows, "OUT": "out", "MODEL": "model.dimargin", "TEXT": "text.model", "RANGES": "ranges"}
    arguments = [index.get(word, word) for word in arguments]
    files = dict(_GOOD) | {"model.dimargin": rng.choice(_model()), "text.model": fuzz_libsvm_model.generate(rng)}
    damage = {"rows.svm": fuzz_libsvm, "rows.csv": fuzz_csv, "model.dimargin": fuzz_model, "ranges": fuzz_ranges}
    if rng.random() < 0.4:
        name = rng.choice(sorted(damage))
        files[name] = damage[name].generate(rng)
    files = {name: content.hex() for name, content in files.items() if name in arguments}
    return json.dumps({"arguments": [command, *arguments], "files": files}).encode()


def check(data):
    given = json.loads(data)
    arguments = given["arguments"]
    for name, content in given["files"].items():
        file(name, bytes.fromhex(content))
    before, here = sys.argv, os.getcwd()
    os.chdir(folder)
    sys.argv = ["dimargin", *(word.replace("\0", "") for word in arguments)]
    said, status = io.StringIO(), None
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            warnings.simplefilter("ignore")
            with mock.patch.object(dispatch, "_app", lambda: fuzz_model.command):  # made once
                dispatch.main()
    except SystemExit as end:
        status = end.code
    finally:
        sys.argv = before
        os.chdir(here)
        for name in os.listdir(folder):
            if name not in _FILES and (folder / name).is_file():
                (folder / name).unlink()
    assert status in (0, 1, 2), f"status {status!r} of {arguments}"
    assert "Traceback" not in said.getvalue(), said.getvalue()
