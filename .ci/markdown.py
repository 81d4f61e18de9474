"""Run what the given Markdown files show, with the packages that a plain installation and the page's extras have.

Python blocks: doctests where they show a prompt, else plain code. Console blocks: the lines behind "$ ", in a temporary
folder that has the files of examples/data in the same place.

What a page names by `pip install` is there, and other packages that are not installed with dimargin are hidden.
"""

import doctest
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from dimargin.system.extras import EXTRA_OF

ROOT = pathlib.Path(__file__).parents[1]
OTHERS = {"pandas", "polars", "skops", "mlflow", "seaborn", "pytest", "hypothesis"}
HIDE = """
import os, sys
from importlib.machinery import PathFinder

class Hiding(PathFinder):
    hidden = set(os.environ["HIDDEN"].split())

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in cls.hidden else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Hiding
"""


def hidden(text):
    """Packages that nobody has who installed what a page names."""
    extras = {extra for names in re.findall(r"(?:dimargin|\.)\[([\w,]+)\]", text) for extra in names.split(",")}
    named = {word for line in re.findall(r"pip install ([^\n`]*)", text) for word in re.findall(r"[\w-]+", line)}
    if "spark" in extras or "mlflow" in named:  # which need it
        named.add("pandas")
    return {package for package, extra in EXTRA_OF.items() if extra not in extras} - named | (OTHERS - named)


def run_console(text, folder):
    shutil.copytree(ROOT / "examples" / "data", pathlib.Path(folder, "examples", "data"))
    path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
    commands = re.findall(r"^\$ (.*)$", text, re.MULTILINE)
    for command in commands:
        print("$", command, flush=True)
        subprocess.run(command, shell=True, check=True, cwd=folder, env={**os.environ, "PATH": path})
    return len(commands)


def run_page(name):
    """Run the blocks of a page, in this process; returns how many failed."""
    text, failures = pathlib.Path(name).read_text(encoding="utf-8"), 0
    names = {"__name__": "__main__"}  # the blocks of a page share their variables
    blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    for block in blocks:
        line = text.count("\n", 0, block.start(1))
        if block[1].startswith(">>>"):
            test = doctest.DocTestParser().get_doctest(block[1], names, name, name, line)
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
            failures += runner.run(test, clear_globs=False).failed
            names.update(test.globs)
        else:
            exec(compile("\n" * line + block[1], name, "exec"), names)
    consoles = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    with tempfile.TemporaryDirectory() as folder:
        n_commands = run_console("".join(consoles), folder) if consoles else 0
    print(f"{name}: {len(blocks)} python blocks, {n_commands} commands")
    return failures


def run_apart(name):
    """Run a page in a process of its own that lacks what its readers may lack; returns its status and output."""
    page = pathlib.Path(name)
    # readers of CONTRIBUTING.md have what the tests need
    absent = set() if page.name == "CONTRIBUTING.md" else hidden(page.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "sitecustomize.py").write_text(HIDE)
        path = os.pathsep.join([folder, *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
        env = {**os.environ, "PYTHONPATH": path, "HIDDEN": " ".join(absent)}
        done = subprocess.run(
            [sys.executable, __file__, "--here", name],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    return done.returncode, done.stdout


if __name__ == "__main__":
    if sys.argv[1] == "--here":
        sys.exit(run_page(sys.argv[2]) > 0)
    failed = False
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for status, output in pool.map(run_apart, sys.argv[1:]):
            print(output, end="", flush=True)
            failed = failed or status != 0
    sys.exit(failed)
