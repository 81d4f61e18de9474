"""Text from others (labels, names, messages), made safe for terminals."""

from __future__ import annotations


def printable(text: object, keep: str = "") -> str:
    r"""Return a text with unprintable characters escaped, except those in `keep`.

    Control characters, line breaks included, command the terminal. Marks that reverse the direction
    of writing, and other invisible characters, disguise a text. Bytes that could not be decoded are
    escaped too.

    Examples
    --------
    >>> print(printable("ham\x1b[2J, \u202espam\n"))
    ham\x1b[2J, \u202espam\n
    """
    text = str(text)
    if text.isprintable():
        return text
    # Some scripts and composed emoji need the zero-width joiner and non-joiner.
    keep += "\u200c\u200d"
    return "".join(letter if letter.isprintable() or letter in keep else ascii(letter)[1:-1] for letter in text)


class PrintableError(Exception):
    """Base class of errors with a one-line message that may quote text from others."""

    def __init__(self, message: object = "") -> None:
        super().__init__(printable(str(message).strip("\n").replace("\n", " ")))
