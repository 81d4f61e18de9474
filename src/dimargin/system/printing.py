"""Text that others have written (labels, names, messages), as a terminal may get it."""

from __future__ import annotations

_JOINING_LETTERS = "\u200c\u200d"  # Some scripts, and pictures of several signs, need these invisible letters.


def printable(text: object, keep: str = "") -> str:
    r"""Return a text with escapes in place of all that cannot be printed, but for the characters to `keep`.

    These are control characters, which a terminal obeys, line breaks among them; marks that turn the direction of
    writing, and other invisible ones, which disguise a text; and bytes that could not be decoded.

    Examples
    --------
    >>> print(printable("ham\x1b[2J, \u202espam\n"))
    ham\x1b[2J, \u202espam\n
    """
    text = str(text)
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in keep or letter in _JOINING_LETTERS else ascii(letter)[1:-1]
        for letter in text
    )


class PrintableError(Exception):
    """Base class of errors whose message, which is one line, may quote what others have written."""

    def __init__(self, message: object = "") -> None:
        super().__init__(printable(str(message).strip("\n").replace("\n", " ")))
