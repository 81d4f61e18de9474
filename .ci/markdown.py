"""Run what the given Markdown files show.

Python blocks: doctests where they show a prompt, else plain code. Console blocks: the lines behind "$ ", in a temporary
folder with train.csv and test.csv, which have a label column "class", the same rows as LIBSVM text in train.libsvm and
test.libsvm, and people.csv, which has columns of text and dates and a missing value.
"""

import doctest
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from sklearn.datasets import dump_svmlight_file, make_moons


def run_console(text, folder):
    for name, seed in (("train", 0), ("test", 1)):
        X, y = make_moons(500, noise=0.2, random_state=seed)
        rows = "".join(f"{a},{b},{('lower', 'upper')[k]}\n" for (a, b), k in zip(X, y, strict=True))
        pathlib.Path(folder, f"{name}.csv").write_text("left,right,class\n" + rows)
        dump_svmlight_file(X, y, str(pathlib.Path(folder, f"{name}.libsvm")), zero_based=False)
    people = [
        f"p{k},{'NA' if k == 7 else 20 + k % 60},{'nurse' if k % 3 else 'smith'},2020-01-{1 + k % 31:02}"
        for k in range(99)
    ]
    lines = ["id,age,job,since,class", *(f"{row},{('in', 'out')[k % 3 > 0]}" for k, row in enumerate(people))]
    pathlib.Path(folder, "people.csv").write_text("\n".join(lines) + "\n")
    path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
    commands = re.findall(r"^\$ (.*)$", text, re.MULTILINE)
    for command in commands:
        print("$", command, flush=True)
        subprocess.run(command, shell=True, check=True, cwd=folder, env={**os.environ, "PATH": path})
    return len(commands)


failures = 0
for name in sys.argv[1:]:
    text = pathlib.Path(name).read_text(encoding="utf-8")
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
sys.exit(failures > 0)
