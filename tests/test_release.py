"""A release goes out only when tag, version, changelog and links are in order."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "check_release.py"
PROJECT = '[project]\nversion = "1.2.0"\n[project.urls]\nSource = "https://example.org"\n'
CHANGES = "# Changelog\n\n## 1.2.0 (2026-01-31)\n\n## 1.1.0 (2025-12-24)\n"


def check(folder, tag="v1.2.0", project=PROJECT, changes=CHANGES):
    (folder / "pyproject.toml").write_text(project)
    (folder / "CHANGELOG.md").write_text(changes)
    return subprocess.run([sys.executable, SCRIPT, tag], cwd=folder, capture_output=True, text=True)


def test_a_release_in_order(tmp_path):
    done = check(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tag": "v1.2.1"}, "the tag is 'v1.2.1', but the version in pyproject.toml makes it 'v1.2.0'"),
        ({"tag": ""}, "the tag is ''"),
        ({"changes": CHANGES.replace("2026-01-31", "unreleased")}, r"no heading '## 1.2.0 (YYYY-MM-DD)'"),
        ({"changes": CHANGES.replace("1.2.0", "1x2.0")}, "no heading"),
        ({"project": PROJECT.partition("[project.urls]")[0]}, "no [project.urls]"),
    ],
)
def test_what_is_missing_is_named(tmp_path, given, message):
    done = check(tmp_path, **given)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("Not ready for a release: ") and message in done.stderr


# ---- what builds and publishes ---------------------------------------------------------------------------------------

ROOT = SCRIPT.parents[1]


def test_actions_and_images_are_pinned_by_hash():
    """A tag or a branch can be moved by whoever takes over its owner's account, and the next release would run that."""
    text = "\n".join(path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml"))
    used = re.findall(r"uses:.*", text)
    pinned = re.compile(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+")
    assert len(used) > 10 and [line for line in used if not pinned.fullmatch(line)] == []
    images = [line for line in (ROOT / "Dockerfile").read_text().split("\n") if line.startswith("FROM ")]
    assert len(images) == 2
    assert [line for line in images if not re.match(r"FROM python:[\w.-]+@sha256:[0-9a-f]{64}( |$)", line)] == []
