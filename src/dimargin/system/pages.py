"""Memory for arrays that are freed one by one: pages of the system, or of a file on disk."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_LARGEST_BLOCK = 2**30  # Every block on disk holds a file descriptor.


class Pages:
    """Memory for arrays, which returns to the system once they are freed; malloc would keep many pages.

    Parameters
    ----------
    folder : path-like or None
        Folder for the arrays, on a disk with enough room. Their file has no name, so that nothing is
        left of it when the process ends. None keeps arrays in memory.

    Examples
    --------
    >>> from tempfile import gettempdir
    >>> array = Pages(gettempdir()).empty((2, 3), float)
    >>> array[:] = 1.0
    >>> float(array.sum())
    6.0
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = None if folder is None else Path(folder)
        self._block: mmap.mmap | None = None  # Block of which a part is free, and how much is taken.
        self._size = self._taken = 0

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return a new array of zeros; raises OSError if the disk has no room for it."""
        size = max(1, int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize)
        if self.folder is None:
            return np.ndarray(shape, dtype, mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        first = -(-self._taken // 64) * 64
        if self._block is None or first + size > self._size:
            # A large array has a block of its own, which is freed with it.
            self._size = max(size, min(max(2**24, 2 * self._size), _LARGEST_BLOCK))
            self._block, first = _block_on_disk(self.folder, self._size), 0
        self._taken = first + size
        return np.ndarray(shape, dtype, self._block, first)

    def copy(self, array: NDArray[Any]) -> NDArray[Any]:
        """Copy an array."""
        copied = self.empty(array.shape, array.dtype)
        copied[...] = array
        return copied


def _block_on_disk(folder: Path, size: int) -> mmap.mmap:
    with TemporaryFile(dir=folder) as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)  # Otherwise a full disk would end the process later on.
        except OSError as error:
            raise OSError(error.errno, f"no room for {size} bytes: {error.strerror}", str(folder)) from None
        return mmap.mmap(file.fileno(), size)
