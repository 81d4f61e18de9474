"""Parquet files whose footer and page headers, in Thrift's compact protocol, claim what is not true.

A value is a type and its content: that of a struct is a dict of values by their numbers, that of a
list the type of the elements and their contents.
"""

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _STRUCT = 1, 2, 3, 7, 8, 9, 12
_WHOLE = (4, 5, 6)
MAGIC = b"PAR1"


class _Source:
    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def take(self, count):
        self.at += count
        return self.data[self.at - count : self.at]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def whole(self):
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def content(self, kind):
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _BYTE:
            return self.take(1)
        if kind in _WHOLE:
            return self.whole()
        if kind == _DOUBLE:
            return self.take(8)
        if kind == _BINARY:
            return self.take(self.varint())
        if kind == _LIST:
            head = self.take(1)[0]
            size = self.varint() if head >> 4 == 15 else head >> 4
            inner = head & 15
            return inner, [self.take(1) if inner <= _FALSE else self.content(inner) for _ in range(size)]
        assert kind == _STRUCT, kind
        fields, number = {}, 0
        while head := self.take(1)[0]:
            number = number + (head >> 4) if head >> 4 else self.whole()
            fields[number] = (head & 15, self.content(head & 15))
        return fields


def varint(value):
    """A number that is not negative, in seven bits a byte."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _whole(value):
    return varint((value << 1 ^ value >> 63) & 2**64 - 1)


def _bytes(kind, content):
    if kind in (_TRUE, _FALSE):
        return b""
    if kind in _WHOLE:
        return _whole(content)
    if kind == _BINARY:
        return varint(len(content)) + content
    if kind == _LIST:
        inner, items = content
        head = bytes([len(items) << 4 | inner]) if len(items) < 15 else bytes([240 | inner]) + varint(len(items))
        return head + b"".join(item if inner <= _FALSE else _bytes(inner, item) for item in items)
    if kind == _STRUCT:
        out, last = b"", 0
        for number, (inner, item) in sorted(content.items()):
            inner = (_TRUE if item else _FALSE) if inner in (_TRUE, _FALSE) else inner
            out += bytes([number - last << 4 | inner]) if 0 < number - last < 16 else bytes([inner]) + _whole(number)
            out += _bytes(inner, item)
            last = number
        return out + b"\0"
    return content


def _numbers(kind, content, path=()):
    """Paths to all whole numbers."""
    if kind in _WHOLE:
        yield path
    elif kind == _STRUCT:
        for number, (inner, item) in content.items():
            yield from _numbers(inner, item, (*path, number))
    elif kind == _LIST and content[0] in (*_WHOLE, _STRUCT, _LIST):
        for k, item in enumerate(content[1]):
            yield from _numbers(content[0], item, (*path, k))


def _claim(content, path, number):
    """Put a number in the place of another in a struct's content."""
    kind = _STRUCT
    for step in path:
        holder = content if kind == _STRUCT else content[1]
        kind, content = holder[step] if kind == _STRUCT else (content[0], holder[step])
    holder[step] = (kind, number) if isinstance(holder, dict) else number


class Parquet:
    """A sound file, taken apart into a footer and pages, and made again with claims that are not true."""

    def __init__(self, data):
        length = int.from_bytes(data[-8:-4], "little")
        self.footer = _Source(data, len(data) - 8 - length).content(_STRUCT)
        self.chunks = []  # metadata of each column chunk, and its pages: headers and contents
        for group in self.footer[4][1][1]:
            for chunk in group[1][1][1]:
                about = chunk[3][1]
                begin = about[11][1] if 11 in about else about[9][1]
                source, pages = _Source(data, begin), []
                while source.at < begin + about[7][1]:
                    header = source.content(_STRUCT)
                    pages.append((header, source.take(header[3][1])))
                self.chunks.append((about, pages))

    def names(self):
        """Places of all numbers: ("page", chunk, page, ...) and ("footer", ...)."""
        for k, (_, pages) in enumerate(self.chunks):
            for j, (header, _) in enumerate(pages):
                yield from (("page", k, j, *path) for path in _numbers(_STRUCT, header))
        yield from (("footer", *path) for path in _numbers(_STRUCT, self.footer))

    def replace_page(self, chunk, page, content):
        """Give a page another content, and its header the sizes of that, as if nothing was compressed."""
        header, _ = self.chunks[chunk][1][page]
        header[2] = header[3] = (5, len(content))
        self.chunks[chunk][1][page] = header, content

    def content(self, claims=()):
        """The bytes of the file, in which `claims`, pairs of a place and a number, stand instead of what is true."""
        for (where, *path), number in claims:
            if where == "page":
                _claim(self.chunks[path[0]][1][path[1]][0], path[2:], number)
        out = bytearray(MAGIC)
        for about, pages in self.chunks:
            begin = len(out)
            for header, content in pages:
                offset = 11 if 7 in header else 9  # of the dictionary, or of the first page of data
                if offset == 11 or header is next(one for one, _ in pages if 7 not in one):
                    about[offset] = (6, len(out))
                out += _bytes(_STRUCT, header) + content
            about[7] = (6, len(out) - begin)
        for (where, *path), number in claims:
            if where == "footer":
                _claim(self.footer, path, number)
        footer = _bytes(_STRUCT, self.footer)
        return bytes(out) + footer + len(footer).to_bytes(4, "little") + MAGIC
