"""Checksums recorded at the first download, for files whose public checksum is not known."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from dimargin.system.printing import PrintableError
from dimargin.system.reading import read_json
from dimargin.system.writing import write_file
from dimargin_bench.datasets.catalogue import PublicFile
from dimargin_bench.datasets.places import Found


class ChangedFileError(PrintableError, OSError):
    """Error for a file in the cache that differs from the one that was fetched, or from the public one."""


@dataclass(frozen=True)
class Record:
    """Checksum and size of a file when it was first fetched, and its origin.

    Parameters
    ----------
    sha256 : str
        Its checksum at that time, which could not be verified.
    size : int
        Bytes.
    address : str
        Where it came from.
    day : str
        When, as an ISO 8601 date in UTC.
    """

    sha256: str
    size: int
    address: str
    day: str


_KINDS = {"sha256": str, "size": int, "address": str, "day": str}


def record_path(path: Path) -> Path:
    """Return the path of the record of a file, in the same folder."""
    return path.with_name(f"{path.name}.record.json")


def write_record(path: Path, address: str) -> Record:
    """Record a file that has just been fetched."""
    record = Record(sha256_of(path), path.stat().st_size, address, datetime.now(UTC).date().isoformat())
    write_file(record_path(path), (json.dumps(asdict(record), indent=1) + "\n").encode())
    return record


def read_record(path: Path) -> Record | None:
    """Return the record of a file, or None for one that was put there by hand."""
    where = record_path(path)
    if not where.exists():
        return None
    try:
        record = Record(**read_json(where))
        if not all(isinstance(getattr(record, name), kind) for name, kind in _KINDS.items()):
            raise TypeError("a checksum, a size, an address and a day expected")
    except (ValueError, TypeError) as error:
        raise ChangedFileError(f"{where} is no record of a fetch ({error}); remove it and {path.name}") from error
    return record


def sha256_of(path: Path) -> str:
    """Return the checksum of a file, read in pieces."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check(file: PublicFile, found: Found) -> None:
    """Compare a file in the cache with the checksum that is known, or else that was recorded.

    Raises
    ------
    ChangedFileError
        If it has another one.
    """
    if not found.in_cache:
        return
    record = read_record(found.path)
    # a copy by hand, or one that is compressed otherwise, cannot have the checksum of the public
    # file
    known = file.sha256 if found.path.name == file.name else None
    expected = known or (record.sha256 if record else None)
    if expected is not None and (actual := sha256_of(found.path)) != expected:
        whose = f"recorded when it was fetched on {record.day}" if known is None and record else "of the public file"
        raise ChangedFileError(
            f"{found.path} has the SHA256 checksum {actual}, and the one {whose} is {expected}: "
            "remove the file, and fetch it again"
        )


def trust(file: PublicFile, found: Found) -> str:
    """Return in words where a file is and what is known of it, without reading it."""
    if not found.in_cache:
        return "DIMARGIN_DATA"
    if found.path.name == file.name and file.sha256:
        return "cache"
    try:
        record = read_record(found.path)
    except ChangedFileError:  # `check` says which file that is
        return "cache, with a damaged record"
    if record is None:
        return "cache, put there by hand"
    if record.size != found.path.stat().st_size:
        return f"cache, changed since it was fetched on {record.day}"
    return f"cache, unverified (fetched {record.day})"
