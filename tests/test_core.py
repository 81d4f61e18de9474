"""The compiled core as a whole: which instruction set it uses, and what it does without memory."""

import os
import subprocess
import sys

import pytest

from dimargin import _core

SETS = _core.instruction_sets()


def started_with(instructions, script):
    environment = os.environ | {"DIMARGIN_INSTRUCTION_SET": instructions}
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("instructions", SETS)
def test_the_environment_chooses_the_best_instruction_set(instructions):
    done = started_with(
        instructions, "from dimargin import _core\nprint(_core.instruction_set(), *_core.instruction_sets())"
    )
    allowed = SETS[: SETS.index(instructions) + 1]
    assert done.stdout.split() == [instructions, *allowed], done.stderr


def test_an_instruction_set_above_the_chosen_one_is_not_available():
    done = started_with("baseline", "from dimargin import _core\n_core.use_instruction_set('avx2')")
    assert done.returncode == 1
    assert "ValueError: instruction set avx2 is not available; those that are: baseline" in done.stderr


def test_an_empty_variable_is_none(monkeypatch):
    monkeypatch.delenv("DIMARGIN_INSTRUCTION_SET", raising=False)
    script = "from dimargin import _core\nprint(_core.instruction_set())"
    without = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert started_with("", script).stdout == without.stdout != ""


@pytest.mark.slow
@pytest.mark.parametrize("unknown", ["abacus", "AVX2", "avx2,avx512"])
def test_an_unknown_instruction_set_is_an_error_that_says_what_there_is(unknown):
    done = started_with(unknown, "import dimargin\ndimargin.ODMClassifier")
    assert done.returncode == 1
    # where the variable is set, this process itself knows only the sets up to that one
    known = ", ".join(SETS)
    assert done.stderr.splitlines()[-1].startswith(
        f"ImportError: DIMARGIN_INSTRUCTION_SET={unknown}: expected one that this processor can run: {known}"
    )


WITHOUT_MEMORY = """
import resource
import numpy as np
from dimargin import _core
_core.use_instruction_set({instructions!r})
if {sparse}:  # a place for every column, though few occur
    rows = _core.Rows64(np.ones(4), np.arange(5), np.array([0, 5, 7, 2**31 - 2], dtype=np.int32), 2**31 - 1)
else:  # packed columns: as many as a vector is long
    rows = _core.Rows64(np.zeros((4, 25_000_000)))
index, coefficients, out = np.arange(4), np.ones((1, 4)), np.empty((1, 4))
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2 * 10**8, resource.RLIM_INFINITY))
spec = "rbf", 0.0, 1, True, {lowest}
for call in (lambda: _core.block(*spec, rows, index[:1], rows, index, out, 1),
             lambda: _core.multiply(*spec, rows, index, rows, index, coefficients, out, 1)):
    try:
        call()
    except MemoryError:
        print("refused")
"""


@pytest.mark.slow_after(1)
@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space are Linux's")
@pytest.mark.parametrize("instructions", SETS)
@pytest.mark.parametrize("sparse, lowest", [(True, "-np.inf"), (False, "-np.inf"), (False, "-40.0")])
def test_a_lack_of_memory_is_an_error(instructions, sparse, lowest):
    script = WITHOUT_MEMORY.format(instructions=instructions, sparse=sparse, lowest=lowest)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (0, ["refused", "refused"]), done.stderr
