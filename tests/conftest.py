"""What every test shares; pytest imports it first, so that scipy sees the variable it reads at import."""

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("dimargin", derandomize=True, deadline=None)
settings.load_profile("dimargin")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Folder with files in LIBSVM format."""
    folder = os.environ.get("DIMARGIN_DATA")
    if not folder:
        pytest.skip("DIMARGIN_DATA names no folder with real data")
    return Path(folder)
