"""Refuse a release that is not ready: python check_release.py TAG, in the root of the repository."""

import re
import sys
import tomllib
from pathlib import Path


def faults(tag, folder):
    """Return what is wrong with a release of this tag."""
    project = tomllib.loads(Path(folder, "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changes = Path(folder, "CHANGELOG.md").read_text(encoding="utf-8")
    version = project["version"]
    if tag != f"v{version}":
        yield f"the tag is {tag!r}, but the version in pyproject.toml makes it 'v{version}'"
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", changes, re.MULTILINE):
        yield f"CHANGELOG.md has no heading '## {version} (YYYY-MM-DD)' with the day of the release"
    if not project.get("urls"):
        yield "pyproject.toml has no [project.urls]: where the source, the documentation and the issues are"


if __name__ == "__main__":
    found = list(faults(sys.argv[1], "."))
    for fault in found:
        print(f"Not ready for a release: {fault}.", file=sys.stderr)
    sys.exit(bool(found))
