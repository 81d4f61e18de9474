"""Every engine keeps the contract of shards; tests/spark/test_sessions.py has the Spark engine do so."""

import os
import subprocess
import sys
from pathlib import Path


def test_threads_keep_the_contract():
    environment = {name: value for name, value in os.environ.items() if name != "DIMARGIN_SPARK"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "contract.py"]
    ended = subprocess.run(command, env=environment, cwd=Path(__file__).parent, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-20_000:] + ended.stderr[-5_000:]
    assert " passed" in ended.stdout
