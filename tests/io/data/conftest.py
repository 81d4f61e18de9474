import pytest
from data_files import small_chunks

from dimargin.io.data import growing_file


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    """No wait for other writers of a file that may grow."""
    monkeypatch.setattr(growing_file, "_QUIET_SECONDS", 0)


@pytest.fixture
def written(tmp_path):
    """Writes text or bytes to a file and says where."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.fixture(params=[40, 200, None], ids=lambda size: f"chunks of {size or 'default'} bytes")
def chunk(request, monkeypatch):
    """Chunks so small that a small file has many."""
    if request.param:
        small_chunks(monkeypatch, request.param)
    return request.param
