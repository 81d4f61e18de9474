"""``python -m dimargin.accelerate``: programs with our classes in place of scikit-learn's."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import sys
from beside import word
from sklearn.svm import SVC
assert __name__ == "__main__"
print(SVC.__module__, word, sys.argv[1:], sys.argv[0].rpartition("/")[2])
"""


@pytest.fixture
def accelerate(tmp_path):
    """Run it in a folder with a script and a module beside it."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "script.py").write_text(SCRIPT)
    (tmp_path / "scripts" / "beside.py").write_text("word = 'beside'")

    def run(*arguments, folder=".", **environment):
        command = [sys.executable, "-m", "dimargin.accelerate", *arguments]
        given = os.environ | environment
        return subprocess.run(command, cwd=tmp_path / folder, env=given, capture_output=True, text=True, check=False)

    return run


def test_a_script_runs_with_its_arguments_and_folder(accelerate):
    done = accelerate("scripts/script.py", "--flag", "-m", "x y")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "dimargin.svm.libsvm beside ['--flag', '-m', 'x y'] script.py"
    assert done.stderr.startswith("dimargin: dimargin.svm is in the place of sklearn.svm for LinearSVC, ")


def test_a_module_runs(accelerate):
    done = accelerate("-m", "script", "a", "b", folder="scripts")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "dimargin.svm.libsvm beside ['a', 'b'] script.py"


def test_the_switch_leaves_scikit_learns_classes(accelerate):
    done = accelerate("scripts/script.py", DIMARGIN_ACCELERATE="0")
    assert done.stdout.split()[0] == "sklearn.svm._classes" and "nothing is replaced" in done.stderr


@pytest.mark.parametrize(("arguments", "said"), [
    ((), "usage:"), (("-m",), "usage:"), (("--help",), "usage:"), (("scripts",), "scripts is not a file"),
    (("missing.py", "a"), "missing.py is not a file"),
])  # fmt: skip
def test_without_a_program_it_says_how_it_is_used(accelerate, arguments, said):
    done = accelerate(*arguments)
    assert done.returncode == 1 and said in done.stderr and "Traceback" not in done.stderr


@pytest.mark.slow
def test_errors_and_exit_codes_are_those_of_the_program(accelerate, tmp_path):
    (tmp_path / "fails.py").write_text("import sys; sys.exit(3)")
    (tmp_path / "raises.py").write_text("raise RuntimeError('mine')")
    assert accelerate("fails.py").returncode == 3
    done = accelerate("raises.py")
    assert done.returncode == 1 and "RuntimeError: mine" in done.stderr
    assert "No module named" in accelerate("-m", "no_such_module").stderr
