"""Opening of data files: their formats, compressed files, other encodings, and streams.

Sites import this module, which must load neither scikit-learn nor pyarrow.
"""

from __future__ import annotations

import bz2
import codecs
import errno
import gzip
import io
import lzma
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, Literal

from dimargin.io.data.chunks import DataFileError
from dimargin.io.data.lines import LONGEST_LINE, blocks_of_lines, too_long
from dimargin.io.data.named_columns import WantedColumns
from dimargin.io.data.sniffing import SAMPLE_BYTES, beginning, name_format, text_format
from dimargin.io.models.model_format import is_model_file
from dimargin.system.memory import memory_of_process, out_of_memory

KINDS = {"csv": "CSV", "libsvm": "LIBSVM text", "parquet": "Parquet"}
IF_CSV = "; if it is CSV, add --format csv, in Python format='csv'"
BOM = codecs.BOM_UTF8
PARQUET = b"PAR1\x15"
"""Beginning of a Parquet file, and not of a CSV file whose first column is called PAR1."""
_PIPE_ADVICE = "; unpack it, or read its rows from a pipe: {} {} | dimargin ... -"
_BY_PANDAS = "; write its table as CSV or Parquet, by pandas"
UNREAD_KINDS = {
    b"PK\x03\x04": "is a zip archive (a spreadsheet is one, too)" + _PIPE_ADVICE.format("unzip -p", "{path}"),
    b"\x28\xb5\x2f\xfd": "is compressed by zstd" + _PIPE_ADVICE.format("zstd -dc", "{path}"),
    b"\x04\x22\x4d\x18": "is compressed by lz4" + _PIPE_ADVICE.format("lz4 -dc", "{path}"),
    b"\x1f\x9d": "is compressed by compress" + _PIPE_ADVICE.format("uncompress -c", "{path}"),
    b"7z\xbc\xaf\x27\x1c": "is a 7z archive" + _PIPE_ADVICE.format("7z e -so", "{path}"),
    b"\xd0\xcf\x11\xe0": "is an Excel spreadsheet; save it as CSV",
    b"ARROW1\0": "is an Arrow file (Feather); write it as Parquet",
    b"FEA1": "is Feather; write it as Parquet, by pandas.read_feather and to_parquet",
    **dict.fromkeys((b"\x80\x02", b"\x80\x03", b"\x80\x04\x95", b"\x80\x05\x95"), "is a Python pickle" + _BY_PANDAS),
    **dict.fromkeys(
        (b"<stata_dta>", b"s\x01\x01\0", b"s\x02\x01\0", b"r\x01\x01\0", b"r\x02\x01\0"),
        "is a Stata file" + _BY_PANDAS,
    ),
    **dict.fromkeys((b"$FL2", b"$FL3"), "is an SPSS file" + _BY_PANDAS),
    **dict.fromkeys((b"X\n\0\0\0", b"RDX2\n", b"RDX3\n"), "is an R file; write its table as CSV, by write.csv"),
    b"MATLAB 5.0 MAT-file": "is a MATLAB file; write its table as CSV",
    b"\x93NUMPY": "is a NumPy array; save it as CSV, by numpy.savetxt, or train in Python",
    b"\x89HDF": "is HDF5; write its table as Parquet or CSV",
    b"SQLite format 3\0": "is an SQLite database; write its table as CSV",
    b"%PDF-": "is PDF; expected LIBSVM text, CSV or Parquet",
}
"""Kinds of unsupported files, by their first bytes, with advice."""
_UNREAD_TEXTS = {
    rb"version https://git-lfs": "is a Git LFS pointer instead of the file, which `git lfs pull` fetches",
    rb"\s*(\{\s*[\"}]|\[\s*[\[{])": "is JSON; write its rows as CSV or Parquet, for example by pandas.read_json",
    rb"(?i:\s*<(!doctype\s+html|html|head|body|table)\b)": "is HTML, perhaps an error page; expected CSV",
    rb"\s*<\?xml\b": "is XML; write its table as CSV",
    rb"\{\\rtf": "is RTF; save it as plain text",
    rb"(---[ \t]*\r?\n)?- [^\n:]*: [^\n]*\n  \S": "is YAML; write its rows as CSV",
    rb"(?i:([ \t]*(%[^\n]*)?\r?\n)*[ \t]*@relation\b)": (
        "is ARFF; read the lines below @data as CSV from a pipe: sed '1,/@[Dd][Aa][Tt][Aa]/d' {path} | dimargin ... -"
    ),
}
"""Kinds of unsupported text, by patterns for their beginning, with advice."""
_MAX_START_BYTES = 2**15  # So many bytes decide what a file is, because ARFF may begin with comments.


@dataclass(frozen=True)
class FileOptions:
    """Options for reading a data file, as in `dimargin.io.data.read_data`; None lets its content decide."""

    format: Literal["csv", "libsvm", "parquet"] | None = None
    header: bool | None = None
    encoding: str | None = None
    quotes: bool | None = None
    on_disk: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if self.on_disk is not None and not os.path.isdir(self.on_disk):
            raise ValueError(f"on_disk must be a folder, got {os.fspath(self.on_disk)!r}")
        if self.format not in (None, *KINDS):
            raise ValueError(f"format must be one of {', '.join(KINDS)}, got {self.format!r}")
        if self.encoding is not None:
            try:
                "".encode(self.encoding)
            except (LookupError, UnicodeError):
                raise ValueError(
                    f"encoding must name a text encoding, such as 'cp1252' or 'latin-1', got {self.encoding!r}"
                ) from None

    @property
    def recoded(self) -> str | None:
        """Return the given encoding of text, None for UTF-8."""
        given = self.encoding
        return None if given is None or codecs.lookup(given).name in ("utf-8", "utf-8-sig") else given

    def encoding_of(self, path: Path | str, start: bytes) -> str | None:
        """Return the encoding of text that begins with these bytes, None for UTF-8.

        Raises DataFileError if a byte order mark contradicts the given encoding.
        """
        mark = _marked(start)
        if mark and self.encoding is not None and not codecs.lookup(self.encoding).name.startswith(mark):
            raise DataFileError(
                f"{path} begins with the byte order mark of {mark.upper()}, but encoding {self.encoding!r} was given; "
                "leave --encoding out, in Python encoding="
            )
        return self.recoded or (None if mark == "utf-8" else mark)

    def utf8(self, lines: bytes) -> bytes:
        """Return complete lines as UTF-8."""
        return lines if self.recoded is None else lines.decode(self.recoded).encode()

    def check_lines(self, path: Path | str, start: bytes = b"") -> None:
        """Raise DataFileError for an encoding whose line feeds are not single bytes.

        `start` is the beginning of the file, perhaps with a byte order mark.
        """
        encoding = self.encoding_of(path, start)
        if encoding is not None and "\n".encode(encoding) != b"\n":
            raise DataFileError(
                f"{path}: text in {encoding} can be read only as a whole on one computer; write it as UTF-8"
            )


class DataFile:
    """Data file that can be read repeatedly; its beginning is read once, and decides its format.

    `options` override what the content says. `start` has the first lines of text in UTF-8 if they
    are known, for a file that this process cannot open or that grows.
    """

    def __init__(self, path: Path, options: FileOptions | None = None, start: bytes | None = None) -> None:
        self.path, self.options = path, options or FileOptions()
        self._start = start

    def opened(self) -> AbstractContextManager[BinaryIO]:
        """Open the file, decompressed and in UTF-8; `open_data` has the details."""
        return open_data(self.path, self.options)

    @cached_property
    def start(self) -> bytes:
        """The first lines of text, which guesses use."""
        if self._start is not None:
            return self._start
        with explained(self.path), self.opened() as stream:
            return beginning(blocks_of_lines(stream, self.path, SAMPLE_BYTES, b"\r\n"))[0]

    @cached_property
    def kind(self) -> str:
        """Format of the file, a key of `KINDS`.

        A file with a suffix of Parquet is read as Parquet, so that the error says what is wrong
        with it.
        """
        if self.options.format is not None:
            return self.options.format
        if self._start is None:
            if name_format(self.path) == "parquet":
                return "parquet"
            with explained(self.path), open(self.path, "rb") as raw:
                if raw.read(len(PARQUET)) == PARQUET:
                    return "parquet"
        return text_format(self.path, self.start, self.options.header is not None)

    def check(self, wanted: WantedColumns) -> None:
        """Raise DataFileError for parameters that do not apply to the format."""
        path, kind, options = self.path, self.kind, self.options
        if kind == "libsvm" and wanted.label is not None:
            raise DataFileError(
                f"{path}: label={wanted.label!r} was given, but LIBSVM text has its labels first in every line{IF_CSV}"
            )
        if kind == "libsvm" and wanted.drop:
            raise DataFileError(
                f"{path}: column {wanted.drop[0]!r} cannot be left out: columns of LIBSVM text have no names{IF_CSV}"
            )
        for name, given in (("header", options.header), ("quotes", options.quotes)):
            if kind != "csv" and given is not None:
                hint = IF_CSV if kind == "libsvm" and name == "header" else ""
                raise DataFileError(
                    f"{path} is {KINDS[kind]}, but {name}={given} was given, which is for CSV only{hint}"
                )


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors of readers and decompressors into DataFileError."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise DataFileError(f"{path} is damaged or truncated: {error}") from error
    except UnicodeError as error:
        raise DataFileError(f"{path}: {error}; --encoding, in Python encoding=, names the encoding") from error
    except (MemoryError, OSError) as error:
        if isinstance(error, MemoryError) or error.errno == errno.ENOMEM:  # Mapping pages fails with ENOMEM.
            raise DataFileError(f"{path}: {out_of_memory('its content')}") from error
        if error.errno is None:  # The error is from bz2 or Parquet's reader, not from the system.
            raise DataFileError(f"{path} is damaged: {error}") from error
        raise


@contextmanager
def open_data(path: Path, options: FileOptions | None = None) -> Iterator[BinaryIO]:
    """Open a file, decompress it if its first bytes say so, and convert text to UTF-8."""
    with open(path, "rb") as raw:
        if not raw.read(1):
            raise DataFileError(f"{path} is empty")
        opener = opener_of(path, raw, options) or nullcontext
        with opener(raw) as stream:
            start = stream.read(_MAX_START_BYTES)
            if stream is not raw:
                refuse_others(path, start, options, ", decompressed,")
            encoding = (options or FileOptions()).encoding_of(path, start)
            stream.seek(0)
            yield stream if encoding is None else io.BufferedReader(_Recoded(path, stream, encoding))


def opener_of(path: Path, file: BinaryIO, options: FileOptions | None = None) -> Callable[..., Any] | None:
    """Return the function that decompresses a file, by its first bytes, or None if uncompressed.

    Raises DataFileError for an unsupported kind of file. The file is at its beginning afterwards.
    """
    file.seek(0)
    start = file.read(_MAX_START_BYTES)
    file.seek(0)
    refuse_others(path, start, options)
    openers: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}
    return next((opener for magic, opener in openers.items() if start.startswith(magic)), None)


def refuse_others(path: Path | str, start: bytes, options: FileOptions | None = None, state: str = "") -> None:
    """Raise DataFileError for an unsupported kind of file; `state` follows the path in messages.

    Text is never refused if `options` has its format.
    """
    kinds = UNREAD_KINDS | ({PARQUET: "is Parquet; unpack it"} if state else {})
    found = [what for magic, what in kinds.items() if start.startswith(magic)]
    if start[257:262] == b"ustar":
        found.append("is a tar archive" + _PIPE_ADVICE.format("tar -xOf", "{path}"))
    if is_model_file(start):
        found.append("is a dimargin model, not data; expected LIBSVM text, CSV or Parquet")
    if options is None or options.format is None:
        text = start.removeprefix(BOM)
        found += [what for pattern, what in _UNREAD_TEXTS.items() if re.match(pattern, text)]
    if found:
        raise DataFileError(f"{path}{state} {found[0].format(path=path)}")


def _marked(start: bytes) -> str | None:
    """Return the encoding of a byte order mark, None without a mark."""
    if start.startswith(BOM):
        return "utf-8"
    if start[:4] in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE):
        return "utf-32"
    return "utf-16" if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else None


class _Recoded(io.RawIOBase):
    """Stream of text in another encoding, converted to UTF-8; raises DataFileError for bytes that do not fit."""

    def __init__(self, path: Path, stream: BinaryIO, encoding: str) -> None:
        self._path, self._stream, self._encoding = path, stream, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._ends, self._rest = dict.fromkeys("\n\r", 0), b""  # Line ends so far, and bytes that did not fit.

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            block = self._stream.read(max(1, len(buffer) // 4))  # A character has at most four bytes.
            self._rest = self._decoded(block).encode()
            if not block:
                break
        part, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)

    def _decoded(self, block: bytes) -> str:
        try:
            text = self._decoder.decode(block, not block)
        except UnicodeDecodeError as error:
            self._decoder.errors = "replace"  # The failed call has not changed its state.
            self._count(self._decoder.decode(block, not block).partition("\ufffd")[0])
            line = 1 + (self._ends["\n"] or self._ends["\r"])
            odd = " ".join(f"0x{byte:02x}" for byte in error.object[error.start : error.end][:8])
            raise DataFileError(
                f"{self._path}, line {line}: {odd} is not {self._encoding} text ({error.reason}); name another "
                "encoding by --encoding, or encoding= in Python"
            ) from error
        self._count(text)
        return text

    def _count(self, text: str) -> None:
        for end in self._ends:
            self._ends[end] += text.count(end)


# ---- streams ---------------------------------------------------------------------------------------------------------


class _Copy(type(Path())):  # type: ignore[misc]
    """Path of a copy, which messages call by the name of the original."""

    said = ""

    def __str__(self) -> str:
        return self.said or super().__str__()

    def __fspath__(self) -> str:
        return str(super().__str__())


@contextmanager
def regular(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a path that can be read repeatedly: the path itself, or a copy of a pipe's content."""
    path = path if isinstance(path, Path) else Path(path)
    try:
        mode = path.stat().st_mode
    except OSError:
        mode = stat.S_IFREG  # Opening the file will raise the error.
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        yield path
    else:
        with open(path, "rb") as stream, copied(stream, str(path), path.name) as copy:
            yield copy


@contextmanager
def copied(stream: BinaryIO, said: str, name: str) -> Iterator[Path]:
    """Yield the path of a temporary copy, named `name`, of a stream that messages call `said`.

    Raises DataFileError for a stream that exceeds the memory of this process or has no lines, and
    OSError if the copy cannot be written.
    """
    with TemporaryDirectory(prefix="dimargin-") as folder:
        copy = _Copy(folder, name)
        copy.said = said
        most, length, has_lines = memory_of_process(), 0, False
        try:
            with open(copy, "wb") as file:
                while block := stream.read(2**20):
                    length += file.write(block)
                    has_lines = has_lines or b"\n" in block or b"\r" in block
                    if length > LONGEST_LINE and not has_lines:
                        raise DataFileError(f"{said}, line 1: {too_long()}")
                    if length > most:
                        raise DataFileError(
                            f"{said}: more than {most} bytes, the memory that this process may use; write the rows to "
                            "a file and pass its path"
                        )
        except OSError as error:
            raise OSError(error.errno, f"cannot copy {said} to {folder}: {error.strerror}") from error
        yield copy
