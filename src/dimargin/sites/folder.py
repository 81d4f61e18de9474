"""Folder of a site, and the files in it."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class SiteFolder:
    """Folder in which a site keeps its files.

    Attributes
    ----------
    path : Path
    """

    path: Path

    @property
    def state(self) -> Path:
        """State file, from which a killed site resumes."""
        return self.path / "state"

    @property
    def status(self) -> Path:
        """Status file in JSON, which is written every second."""
        return self.path / "status.json"

    @property
    def model(self) -> Path:
        """Model file for ``dimargin predict``, which is replaced as a whole."""
        return self.path / "model.dimargin"

    def read_status(self) -> dict[str, Any]:
        """Read the status that the site has written last, and the seconds since then as ``age``.

        Raises
        ------
        OSError
            If no site has run here.
        ValueError
            If the file is damaged.
        """
        try:
            text = self.status.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise FileNotFoundError(f"{self.status} does not exist: no site has run in this folder") from None
        try:
            return {**json.loads(text), "age": max(0.0, time.time() - self.status.stat().st_mtime)}
        except ValueError as error:
            raise ValueError(f"{self.status} is damaged: {error}") from error
