"""What others have written is shown, and neither obeyed nor disguised."""

import pickle

import pytest

from dimargin.gossip.links import LinkError
from dimargin.gossip.messages import MessageError, UnsoundError
from dimargin.gossip.state_file import StateError
from dimargin.io.data import DataFileError
from dimargin.io.models import ModelFileError
from dimargin.system.printing import printable

FILES = (DataFileError, ModelFileError, StateError)
PEERS = (MessageError, UnsoundError, LinkError)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ham and spam", "ham and spam"),
        ("Müller, 東京, שלום, 👍", "Müller, 東京, שלום, 👍"),
        (
            "\u0645\u06cc\u200c\u062e 👩\u200d🔬",
            "\u0645\u06cc\u200c\u062e 👩\u200d🔬",
        ),  # Persian needs it, and pictures
        ("\x1b]0;title\x07\x1b[2J", "\\x1b]0;title\\x07\\x1b[2J"),
        ("\x9b31m\x84", "\\x9b31m\\x84"),
        ("a\nb\r\tc\x00\x7f\b", "a\\nb\\r\\tc\\x00\\x7f\\x08"),
        ("\u202eevil\u202c \u2066x\u2069", "\\u202eevil\\u202c \\u2066x\\u2069"),
        ("a\u200b\ufeff\u2028\xad\u00a0", "a\\u200b\\ufeff\\u2028\\xad\\xa0"),
        ("\udc9b31m\U000e0041", "\\udc9b31m\\U000e0041"),
        (3.5, "3.5"),
        ("", ""),
    ],
)
def test_what_cannot_be_printed_is_an_escape(text, shown):
    assert printable(text) == shown == printable(shown)


def test_some_characters_may_be_kept():
    assert printable("a\tb\nc\x1b", keep="\n\t") == "a\tb\nc\\x1b"


@pytest.mark.parametrize("kind", [*FILES, *PEERS])
def test_errors_of_files_and_peers_are_one_line(kind):
    error = kind("x.csv: '\x1b[2J\u202e'\nand more\n")
    assert str(error) == "x.csv: '\\x1b[2J\\u202e' and more"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert isinstance(error, (ValueError, OSError, RuntimeError)) and str(kind()) == ""
