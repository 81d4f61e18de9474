"""Folder of a site, and the files in it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from dimargin.system.reading import read_json


class SiteFolder:
    """Folder in which a site keeps its files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.state = path / "state"  # State from which a killed site resumes.
        self.status = path / "status.json"  # Status, written every second.
        self.model = path / "model.dimargin"  # Model for ``dimargin predict``, replaced atomically.

    def read_status(self) -> dict[str, Any]:
        """Return the last status that the site has written, with the seconds since then as ``age``.

        Raises OSError if no site has run here, and ValueError if the file is damaged.
        """
        try:
            return {**read_json(self.status), "age": max(0.0, time.time() - self.status.stat().st_mtime)}
        except FileNotFoundError:
            raise FileNotFoundError(f"{self.status} does not exist: no site has run in this folder") from None
        except (ValueError, TypeError) as error:
            raise ValueError(f"{self.status} is damaged: {error}") from error
