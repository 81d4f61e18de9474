"""Checks of the sizes that a Parquet file claims, before Arrow allocates memory for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet

from dimargin.io.data.chunks import LEFT_OUT, DataFileError, short
from dimargin.io.data.thrift import INT32, INT64, LIST, STRUCT, TRUE, Parser, Struct
from dimargin.system.memory import memory_of_process, out_of_memory

_DATA, _DICTIONARY, _DATA_2 = 0, 2, 3  # These are the types of pages with values.
_DELTA_LENGTHS, _DELTA_TEXTS = 6, 7  # In these encodings, the content of a page repeats the number of its texts.


class _Page(NamedTuple):
    """Page: the place of its content in the file, its sizes in bytes, and its type's header."""

    kind: int
    encoding: int
    begin: int
    compressed: int
    decompressed: int
    n_values: int
    header: Struct


def footer_of(path: Path, source: pa.NativeFile) -> bytes:
    """Return the footer; raises DataFileError if it is missing or may need too much memory."""
    size = source.size()
    end = source.read_at(8, max(0, size - 8))
    length = int.from_bytes(end[:4], "little")
    if end[4:] != b"PAR1" or length > size - 8:
        raise DataFileError(f"{path}: not Parquet, or damaged: it does not end with the footer of an unencrypted file")
    if 250 * length > memory_of_process():  # Arrow took 230 bytes per byte of a footer that was made to be costly.
        raise DataFileError(f"{path}: {out_of_memory('its footer')}")
    return source.read_at(length, size - 8 - length)  # type: ignore[no-any-return]


def check_pages(
    path: Path, source: pa.NativeFile, footer: bytes, schema: pyarrow.parquet.ParquetSchema, names: Sequence[str]
) -> int:
    """Return the number of rows; raises DataFileError for impossible sizes in the named columns.

    The file must have as many rows as its row groups, and every column one value per row. The pages
    of a column chunk must lie within it, contain these values, and decompress to a plausible size.
    """
    wanted, lengths = set(names), {len(name) for name in names}
    leaves = [(k, schema.column(k)) for k in range(len(schema))]
    leaves = [(k, leaf) for k, leaf in leaves if _is_read(leaf.path, wanted, lengths)]
    for _, leaf in leaves:
        if leaf.max_repetition_level:
            name = max((name for name in names if f"{leaf.path}.".startswith(f"{name}.")), key=len)
            raise DataFileError(f"{path}: column {short(name)!r} holds lists; expected single values{LEFT_OUT}")
    what, n_rows, largest = "its footer", 0, 0
    try:
        fields = Parser(footer).struct()
        for k, group in enumerate(fields[4, LIST]):
            rows, pages = group[3, INT64], 0
            for index, leaf in leaves:
                what = f"row group {k}, column {short(leaf.path)!r}"
                pages += _Chunk(source, group[1, LIST][index][3, STRUCT], leaf, rows).largest()
            n_rows, largest, what = n_rows + rows, max(largest, pages), "its footer"
        if n_rows != fields[3, INT64]:
            raise ValueError(f"it claims {fields[3, INT64]} rows, but {n_rows} in its row groups")
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError, OSError) as error:
        raise DataFileError(f"{path} is damaged: {what}: {error or 'it is truncated'}") from error
    if largest + 8 * n_rows * len(names) > memory_of_process():
        raise DataFileError(f"{path}: {out_of_memory('its content')}")
    return n_rows


def _is_read(path: str, names: set[str], lengths: set[int]) -> bool:
    """Return whether Arrow reads a leaf of the schema when it reads the columns of these names."""
    return path in names or any(path[k : k + 1] == "." and path[:k] in names for k in lengths)


class _Chunk:
    """Column chunk: the pages of a leaf of the schema in a row group."""

    def __init__(self, source: pa.NativeFile, about: Struct, leaf: Any, n_rows: int) -> None:
        self._source, self._about, self._leaf, self._n_rows = source, about, leaf, n_rows
        first, dictionary = about[9, INT64], about.get((11, INT64), 0)
        self._begin = min(first, dictionary) if dictionary > 0 else first
        # Old writers left up to 100 bytes out of the size of a column chunk.
        self._end = min(self._begin + about[7, INT64] + 100, source.size())

    def largest(self) -> int:
        """Return the bytes of the largest page; raises ValueError or LookupError if impossible."""
        if not 0 <= self._n_rows == self._about[5, INT64]:
            raise ValueError(f"{self._about[5, INT64]} values claimed for {self._n_rows} rows")
        # The limits on the decompressed bytes of a page suffice for levels and, in byte arrays, for
        # long texts.
        is_byte_array = self._about[1, INT32] == 6
        base, per_value = (2**26, 2**10) if is_byte_array else (2**20, 64)
        n_values = largest = 0
        for page in self._pages():
            if page.kind == _DICTIONARY:
                right = 0 <= page.n_values <= page.decompressed
            else:
                right = 0 <= page.n_values <= self._n_rows - n_values
                n_values += page.n_values
            if not (right and 0 <= page.decompressed <= base + per_value * page.n_values):
                raise ValueError(f"a page claims {page.n_values} values and {page.decompressed} bytes")
            if page.encoding in (_DELTA_LENGTHS, _DELTA_TEXTS):
                self._check_lengths(page)
            largest = max(largest, page.decompressed)
        if n_values != self._n_rows:
            raise ValueError(f"its pages hold {n_values} of {self._n_rows} values")
        return largest

    def _pages(self) -> Iterator[_Page]:
        """Yield the pages that Arrow would read."""
        field_of_header = {_DATA: 5, _DICTIONARY: 7, _DATA_2: 8}
        at, n_values, n_pages = self._begin, 0, 0
        while n_values < self._n_rows and 0 <= at < self._end:
            header, length = self._header(at)
            kind, begin, compressed = header[1, INT32], at + length, header[3, INT32]
            if not 0 <= compressed <= self._end - begin:
                raise ValueError(f"a page claims {compressed} bytes, but {max(0, self._end - begin)} are left")
            if kind in field_of_header:
                own = header[field_of_header[kind], STRUCT]
                encoding, n_own = own[4 if kind == _DATA_2 else 2, INT32], own[1, INT32]
                yield _Page(kind, encoding, begin, compressed, header[2, INT32], n_own, own)
                n_values += n_own if kind != _DICTIONARY else 0
            at, n_pages = begin + compressed, n_pages + 1
            if n_pages > self._n_rows + 2:
                raise ValueError("it has more pages than values")

    def _header(self, at: int) -> tuple[Struct, int]:
        """Return the header of the page that begins at `at`, and its length."""
        length = 2**8  # A longer header is read again.
        while True:
            parser = Parser(self._source.read_at(min(length, self._end - at), at))
            try:
                return parser.struct(), parser.at
            except IndexError:
                if length >= min(2**24, self._end - at):  # Arrow refuses longer headers.
                    raise
                length *= 16

    def _check_lengths(self, page: _Page) -> None:
        """Raise ValueError if a page has more lengths than values; Arrow would allocate all."""
        levels = sum(page.header[number, INT32] for number in (5, 6)) if page.kind == _DATA_2 else 0
        if not 0 <= levels <= page.compressed:
            raise ValueError(f"a page claims {levels} bytes of levels")
        content = self._source.read_at(page.compressed - levels, page.begin + levels)
        if self._about[4, INT32] and page.header.get((7, TRUE), True):
            content = _decompressed(content, self._about[4, INT32], page.decompressed - levels)
        if page.kind == _DATA and self._leaf.max_definition_level:
            content = content[4 + int.from_bytes(content[:4], "little") :]
        parser = Parser(content)
        for _ in range(1 if page.encoding == _DELTA_LENGTHS else 2):  # Delta texts begin with the prefixes' lengths.
            n_lengths = _skip_deltas(parser, page.n_values)
            if n_lengths > page.n_values:
                raise ValueError(f"a page of {page.n_values} values claims {n_lengths} texts")


def _decompressed(content: bytes, codec: int, size: int) -> bytes:
    """Decompress a page; raises ValueError, OSError or LookupError unless it has `size` bytes."""
    if codec != 5:
        name = {1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}[codec]
        return pa.Codec(name).decompress(content, max(0, size), asbytes=True)  # type: ignore[no-any-return]
    # Codec 5 is Hadoop's LZ4, whose blocks each follow their two sizes.
    blocks, at = list[bytes](), 0
    while at < len(content):
        taken, length = (int.from_bytes(content[k : k + 4], "big") for k in (at, at + 4))
        size -= taken
        if size < 0:
            raise ValueError("a page decompresses to more than it claims")
        blocks.append(pa.Codec("lz4_raw").decompress(content[at + 8 : at + 8 + length], taken, asbytes=True))
        at += 8 + length
    return b"".join(blocks)


def _skip_deltas(parser: Parser, max_count: int) -> int:
    """Return the number of values of a sequence of deltas; skip up to `max_count` of them."""
    size, n_parts, count, _ = (parser.varint() for _ in range(4))
    left = count - 1 if count <= max_count else 0
    while left > 0 and size >= n_parts > 0:
        parser.varint()
        for width in parser.skip(n_parts):
            parser.skip(width * (size // n_parts) // 8 if left > 0 else 0)
            left -= size // n_parts
    return count
