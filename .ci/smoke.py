"""Every command and name of the installed package, in an environment without extras: what a wheel must be able to do.

A command works, or it says in one line which extra it needs, with exit status 2. The commands come from the command
line itself: one that is missing in `COMMANDS` fails.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import typer
from typer.testing import CliRunner

import dimargin
from dimargin.cli.app import app
from dimargin.system.extras import EXTRA_OF, MissingExtra

# command: what to try, in this order, and the extra that it needs
COMMANDS = {
    "train": [
        ("train train.csv --label class --model csv.dimargin --validate test.csv", None),
        ("train train.csv --label class --loss hinge --model hinge.dimargin", None),
        ("train train.libsvm --scale none --model libsvm.dimargin", None),
        ("train train.parquet --loss linear_odm --model parquet.dimargin", None),
        ("train people.csv --missing mean --categories --dates iso --drop id --model people.dimargin", None),
        ("train train.csv --label class --model m --engine spark", "spark"),
    ],
    "evaluate": [
        ("evaluate people.dimargin people.csv", None),
        ("evaluate csv.dimargin test.csv", None),
        ("evaluate parquet.dimargin train.parquet --json", None),
    ],
    "predict": [("predict csv.dimargin test.csv --output labels.txt", None)],
    "report": [("report people.dimargin people.csv --output report.html", None)],
    "doctor": [("doctor", None), ("doctor --json", None)],
    "info": [("info csv.dimargin", None), ("info libsvm.dimargin --certify train.libsvm", None)],
    "tune": [("tune train.csv --label class --model t --grid '{\"gamma\": [1, 4]}' --cv 2", None)],
    "svm-scale": [("svm-scale -s ranges train.libsvm", None)],
    "svm-train": [("svm-train -c 4 -g 2 train.libsvm", None), ("svm-train -v 3 -q train.libsvm", None)],
    "svm-predict": [("svm-predict train.libsvm train.libsvm.model svm-labels.txt", None)],
    "liblinear-train": [("liblinear-train -B 1 train.libsvm linear.model", None)],
    "liblinear-predict": [("liblinear-predict train.libsvm linear.model linear-labels.txt", None)],
    "export": [
        ("export libsvm.dimargin exported.model", None),
        ("export csv.dimargin --to c --numbers fixed --data test.csv", None),
        ("export csv.dimargin --to onnx", "onnx"),
    ],
    "simulate gossip": [("simulate gossip train.csv --label class", "peers")],
    "simulate coreset": [("simulate coreset", "peers")],
    "site": [("site --name north --data train.csv", "peers")],
}


def commands(group, path=()):
    """Command lines without arguments and their parameters, of all commands there are."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), {parameter.name for parameter in command.params}


def blobs(n):
    y = np.arange(n) % 2
    return np.random.default_rng(n).normal(size=(n, 2)) + 3 * y[:, None], y


def write_files(folder):
    for name, n in (("train", 300), ("test", 100)):
        X, y = blobs(n)
        rows = [f"{a},{b},{('ham', 'spam')[k]}" for (a, b), k in zip(X.tolist(), y, strict=True)]
        Path(folder, f"{name}.csv").write_text("\n".join(["left,right,class", *rows]) + "\n")
        text = "".join(f"{2 * k - 1} 1:{a!r} 2:{b!r}\n" for (a, b), k in zip(X.tolist(), y, strict=True))
        Path(folder, f"{name}.libsvm").write_text(text)
        people = [
            f"p{k},{k if k % 9 else ''},{'nurse' if k % 2 else 'smith'},2020-01-{1 + k % 31:02},{k % 2}"
            for k in range(n)
        ]
        Path(folder, "people.csv").write_text("\n".join(["id,age,job,since,class", *people]) + "\n")
        table = pa.table({"left": X[:, 0], "right": X[:, 1], "label": y})
        pa.parquet.write_table(table, Path(folder, f"{name}.parquet"))


def run(line, extra, folder):
    """Run a command line; raises AssertionError with its output if it does not end as it should."""
    done = subprocess.run(
        [sys.executable, "-m", "dimargin", *shlex.split(line)], capture_output=True, text=True, cwd=folder, timeout=300,
        env={**os.environ, "COLUMNS": "200", "DIMARGIN_DATA": folder},
    )  # fmt: skip
    said = f"dimargin {line}: status {done.returncode}\n{done.stdout}{done.stderr}"
    if extra is None:
        assert done.returncode == 0 and "Traceback" not in done.stderr, said
    else:
        names_it = rf'dimargin: .+ needs the extra "{extra}": pip install "dimargin\[{extra}\]"\n'
        assert done.returncode == 2 and not done.stdout and re.fullmatch(names_it, done.stderr), said
    return done.stdout


def check_names():
    """Every name that the package offers is there, and what needs an extra says so."""
    for name in dimargin.__all__:
        getattr(dimargin, name)
    X, y = blobs(300)
    model = dimargin.ODMClassifier().fit(X, y)
    accuracy = model.score(X, y)
    print(f"dimargin {dimargin.__version__} from {dimargin.__file__}: accuracy {accuracy:.3f}")
    assert accuracy > 0.95
    for attempt in (
        lambda: dimargin.GossipSVMClassifier().fit(X, y),
        lambda: dimargin.CoreSetSVMClassifier(n_sites=3).fit(X, y),
        lambda: __import__("dimargin.gossip.simulation", fromlist=["Simulator"]).Simulator,
    ):
        try:
            attempt()
        except MissingExtra as error:
            assert 'pip install "dimargin[peers]"' in str(error), error
        else:
            raise AssertionError("no error without the extra")


def main():
    present = [package for package in EXTRA_OF if find_spec(package)]
    assert not present, f"this environment has {present}; without extras expected"
    check_names()
    known = dict(commands(typer.main.get_command(app)))
    assert known.keys() == COMMANDS.keys(), f"COMMANDS lacks or invents {sorted(known.keys() ^ COMMANDS.keys())}"
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        write_files(folder)
        listed = run("--help", None, folder)
        assert all(re.search(rf"^\W*{name.split()[0]}\b", listed, re.MULTILINE) for name in known), listed
        for attempts in COMMANDS.values():
            for line, extra in attempts:
                run(line, extra, folder)
        # with --plot, one that works asks for the extra of pictures
        plots = [
            (f"{line} --plot p.png", extra or "report")
            for name, parameters in known.items() if "plot" in parameters
            for line, extra in COMMANDS[name][:1]
        ]  # fmt: skip
        list(pool.map(lambda plot: run(*plot, folder), plots))
    for name in known:  # in this process: the help loads nothing more
        shown = CliRunner().invoke(app, [*name.split(), "--help"])
        assert shown.exit_code == 0 and "Usage" in shown.output, (name, shown.output, shown.exception)
    print(f"{len(known)} commands and {len(dimargin.__all__)} names work, or name their extra")


if __name__ == "__main__":
    main()
