"""Fetching of data sets from their homes into the cache, by pooch."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dimargin_bench.datasets.access import path
from dimargin_bench.datasets.catalogue import PublicFile, entry_of
from dimargin_bench.datasets.places import Paths, cache_folder, find, folders
from dimargin_bench.datasets.records import read_record, record_path, write_record
from dimargin_bench.datasets.transfer import FetchError, Progress, download


def fetch(name: str, progress: Progress | None = None) -> Paths:
    """Fetch the files of a data set that are neither in DIMARGIN_DATA nor in the cache, and return where all are.

    A file gets its name when it is whole and, where the public checksum is known, has that. Else
    its checksum, size, address and day are recorded beside it, in ``NAME.record.json``: the file is
    unverified, but it cannot change unnoticed, since every later use compares it with the record,
    and so does a later fetch. Interrupted downloads are resumed if the server still has the same
    version. No more is read than the server has stated.

    Parameters
    ----------
    name : str
        A name of `available`.
    progress : callable, optional
        Called during a download with the name of the file, the bytes that have come, and all bytes.

    Returns
    -------
    Paths
        As of `path`.

    Raises
    ------
    ValueError
        If no data set has this name.
    FileNotFoundError
        If a file is missing that is not public; the message says what is known of it, and where to
        put a copy.
    FetchError
        If a file cannot be reached, did not come whole or has another checksum than the public one.
    ChangedFileError
        If a file in the cache is not what it was.

    See Also
    --------
    path : The same without a network.

    Examples
    --------
    >>> from dimargin_bench.datasets import fetch
    >>> fetch("ijcnn1")  # doctest: +SKIP
    Paths(train=...Path('/home/ann/.cache/dimargin/ijcnn1.bz2'), test=...Path('/home/ann/.cache/dimargin/ijcnn1.t.bz2'))
    """
    entry = entry_of(name)
    for file in entry.files:
        if file.address is not None and find(file) is None:
            _fetch_file(file, file.address, progress or (lambda *_: None))
    return path(name)


def _fetch_file(file: PublicFile, address: str, progress: Progress) -> None:
    import pooch

    folder = cache_folder()
    record = read_record(folder / file.name)  # of a file that has been removed since
    known = file.sha256 or (record.sha256 if record else None)

    def downloader(url: str, output: str, _: Any) -> None:
        download(url, folder / f"{file.name}.part", Path(output), progress)

    try:
        with _silent(pooch.get_logger()):
            pooch.retrieve(address, known, fname=file.name, path=folder, downloader=downloader)
    except FetchError as error:
        raise FetchError(f"{error}. Or put a copy of {file.name} into {folders()}") from error
    except ValueError as error:  # of a checksum, by pooch
        recorded = f" {record_path(folder / file.name)} has the expected one; remove it to take what is public now."
        raise FetchError(f"{address}: {error}{recorded if record and not file.sha256 else ''}") from error
    if known is None:
        write_record(folder / file.name, address)


@contextmanager
def _silent(logger: logging.Logger) -> Iterator[None]:
    """Keep pooch from telling what it does, since that is what `progress` is for."""
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)
