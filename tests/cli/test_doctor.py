"""`dimargin doctor`, compared with what Python, NumPy and the packages themselves say."""

import json
import os
import platform
import subprocess
import sys

import numpy as np
import scipy
import sklearn

import dimargin as dm
from dimargin.system.extras import EXTRA_OF

BROKEN = """
import sys
sys.modules.update(dict.fromkeys(["dimargin._core", "numpy"]))  # as if they could not be loaded
from dimargin.cli import main
main()
"""


def test_the_facts_are_those_of_this_process(dimargin, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("DIMARGIN_SECRET", "hidden")
    status, out, err = dimargin("doctor", "--json")
    facts = json.loads(out)
    assert (status, err) == (0, "") and facts["dimargin"] == dm.__version__
    assert facts["python"] == f"{platform.python_version()}, {sys.executable}"
    versions = {"numpy": np.__version__, "scipy": scipy.__version__, "scikit-learn": sklearn.__version__}
    assert facts["packages"].items() >= versions.items()
    assert facts["instruction_set"]["used"] in facts["instruction_set"]["available"]
    assert facts["threads"]["used"] >= 1 and facts["threads"]["processors"] == os.cpu_count()
    assert 2**28 < facts["memory_in_bytes"] <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert facts["problems"] == [] and not facts["packages"].keys() & facts["extras"]["spark"].keys()
    assert any(line.startswith("numpy has ") for line in facts["linear_algebra"])
    assert facts["extras"].keys() == set(EXTRA_OF.values()) and "matplotlib" in facts["extras"]["report"]
    assert facts["environment"]["OMP_NUM_THREADS"] == "7" and "hidden" not in out
    assert not [name for name, value in facts.items() if "failed" in str(value)]
    lines = dimargin("doctor")[1].splitlines()
    assert lines[-1] == "problems         none"
    assert [line.split("  ")[0].replace(" ", "_") for line in lines] == list(facts)
    assert f"numpy {np.__version__}, " in next(line for line in lines if line.startswith("packages"))


def test_java_is_that_which_spark_starts(dimargin, monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert json.loads(dimargin("doctor", "--json")[1])["java"] is None
    assert "java             not installed" in dimargin("doctor")[1]
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21\"' >&2\necho more >&2\n")
    java.chmod(0o755)
    assert json.loads(dimargin("doctor", "--json")[1])["java"] == f'{java}, openjdk version "21"'


def test_a_broken_installation_is_described(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", BROKEN, "doctor", "--json"], capture_output=True, text=True, check=True
    )
    facts = json.loads(done.stdout)
    assert facts["dimargin"] == dm.__version__ and facts["packages"]["numpy"] == np.__version__
    assert {"instruction set", "linear algebra"} <= {text.partition(" failed: ")[0] for text in facts["problems"]}
    for name in ("instruction_set", "linear_algebra"):
        assert facts[name].startswith("failed: ") and "import" in facts[name]
