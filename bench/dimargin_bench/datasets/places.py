"""Where data sets lie: the folder that the environment variable DIMARGIN_DATA names, and then the cache."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pooch

from dimargin_bench.datasets.catalogue import Entry, PublicFile


class Paths(NamedTuple):
    """The files of a data set on this computer.

    Attributes
    ----------
    train : Path
        All rows, where there is no test file.
    test : Path or None
    """

    train: Path
    test: Path | None


@dataclass(frozen=True)
class Found:
    """A file of a data set on this computer; `in_cache` is false for one in DIMARGIN_DATA, which is its owner's."""

    path: Path
    in_cache: bool


def data_folder() -> Path | None:
    """Return the folder that DIMARGIN_DATA names, or None where it is not set."""
    named = os.environ.get("DIMARGIN_DATA")
    return Path(named).expanduser() if named else None


def cache_folder() -> Path:
    """Return the folder for fetched files, DIMARGIN_CACHE or by default pooch's, which need not be there."""
    named = os.environ.get("DIMARGIN_CACHE")
    return Path(named).expanduser() if named else Path(pooch.os_cache("dimargin"))


def find(file: PublicFile) -> Found | None:
    """Return where a file is, compressed in any way or not at all, or None."""
    for folder, in_cache in ((data_folder(), False), (cache_folder(), True)):
        if folder is not None:
            for name in file.names:
                if (folder / name).is_file():
                    return Found(folder / name, in_cache)
    return None


def found_or_missing(entry: Entry) -> list[tuple[PublicFile, Found]]:
    """Return the files of a data set with where they are; raises FileNotFoundError if one is missing."""
    files = [(file, find(file)) for file in entry.files]
    missing = [file for file, found in files if found is None]
    if missing:
        names = " and ".join(file.name for file in missing)
        what = f"{entry.name}: {names} {'is' if len(missing) == 1 else 'are'} missing"
        addresses = [file.address for file in missing if file.address]
        if addresses:
            raise FileNotFoundError(
                f"{what}. `dimargin datasets fetch {entry.name}` gets {' and '.join(addresses)}; "
                f"or put a copy into {folders()}"
            )
        made = f"`dimargin datasets convert {entry.name} {' '.join(entry.raw)}` makes it of them" if entry.raw else ""
        text = f"put LIBSVM text of that name into {folders()}"
        advice = f"{made}; or {text}" if made else text[0].upper() + text[1:]
        raise FileNotFoundError(f"{what}: {entry.note}. {advice}")
    return [(file, found) for file, found in files if found is not None]


def folders() -> str:
    """Return in words the folders in which files of data sets are found."""
    folder = data_folder()
    named = "a folder that DIMARGIN_DATA names" if folder is None else f"{folder} (DIMARGIN_DATA)"
    return f"{named} or {cache_folder()} (the cache)"
