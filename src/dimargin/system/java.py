"""Java on this computer, which Spark needs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def find_java() -> str | None:
    """Return the path of the Java that Spark starts: of JAVA_HOME if that is set, else of PATH; None without one."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=None if home is None else str(Path(home) / "bin"))
