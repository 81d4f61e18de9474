"""The commands of dimargin-bench, in an environment with it and what it needs alone."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

LINES = (
    "datasets list",
    "datasets path phishing",
    "bench dcsvm --quick --only exact --only svc --data rows.csv --label class --output results",
    "bench gossip --quick --only tracked --data rows.csv --label class --output gossip",
)


def run(line, folder):
    """Run a command line, and return what it prints; raises AssertionError with that if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "dimargin", *line.split()], capture_output=True, text=True, cwd=folder, timeout=600,
        env={**os.environ, "COLUMNS": "200", "DIMARGIN_DATA": folder},
    )  # fmt: skip
    assert done.returncode == 0, f"dimargin {line}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def main():
    with tempfile.TemporaryDirectory() as folder:
        rows = [f"{k % 7},{k % 5},{'spam' if k % 7 > k % 5 else 'ham'}" for k in range(300)]
        Path(folder, "rows.csv").write_text("\n".join(["left,right,class", *rows]) + "\n")
        Path(folder, "phishing").write_text("".join(f"{1 - 2 * (k % 2)} 1:{k % 7} 2:{k % 5}\n" for k in range(300)))
        listed = run("--help", folder)
        assert "datasets" in listed and "bench" in listed, listed
        for line in LINES:
            run(line, folder)
    print(f"{len(LINES)} commands of dimargin-bench work")


if __name__ == "__main__":
    main()
