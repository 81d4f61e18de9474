"""Records of what was promised and measured."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REQUIRED = {"claim", "ours", "verdict", "promise", "command", "value", "commit"}
OPTIONAL = {"theirs", "ratio", "rival", "equal", "not_equal", "machine", "notes"}
FILES = sorted((ROOT / "bench" / "targets").glob("*.toml"))
RECORDS = [record for path in FILES for record in tomllib.loads(path.read_text(encoding="utf-8"))["target"]]


@pytest.mark.parametrize("record", [pytest.param(record, id=record["claim"][:40].strip()) for record in RECORDS])
def test_a_record_is_complete(record):
    assert set(record) >= REQUIRED
    assert set(record) <= REQUIRED | OPTIONAL
    assert all(isinstance(text, str) and text.strip() for text in record.values())
    assert record["verdict"] in {"met", "met in part", "NOT MET"}
    assert record["verdict"] != "met in part" or "notes" in record
    assert ("theirs" in record) <= ("rival" in record)
    for path in re.findall(r"(?:bench/)?(?:tests|scripts)/[\w./]*\w", record["command"]):
        assert (ROOT / path).exists()
    if "cd bench/scripts;" in record["command"]:
        for name in re.findall(r"python (\w+\.py)", record["command"]):
            assert (ROOT / "bench/scripts" / name).exists()


def test_every_commit_of_a_record_is_in_the_history():
    git = ["git", "-C", str(ROOT)]
    found = subprocess.run([*git, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True, check=False)
    if found.stdout.strip() != "false":
        pytest.skip("needs the whole history")
    commits = {commit for record in RECORDS for commit in re.findall(r"\b[0-9a-f]{7}\b", record["commit"])}
    names = "".join(f"{commit}^{{commit}}\n" for commit in sorted(commits))
    answer = subprocess.run(
        [*git, "cat-file", "--batch-check"], input=names, capture_output=True, text=True, check=True
    )
    assert not [line for line in answer.stdout.splitlines() if " commit " not in line]


def test_the_site_shows_every_file_once():
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^```\{targets\} (\w+)$", page, re.MULTILINE)) == [path.stem for path in FILES]
