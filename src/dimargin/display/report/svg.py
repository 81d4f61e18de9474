"""Pictures of matplotlib's as SVG inside a page: in the page's colours and font, with no reference out of it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any
from xml.etree import ElementTree

# Colours in which pictures are drawn, and what of the page's stands in their place: those of dark paper too.
_INK, _PALE, _GREY, _WHITE = "#010203", "#a0a1a2", "#808080", "#ffffff"  # grey and white as the displays have them
_SERIES = ("#1f5fa8", "#c2500a", "#0b7a5c", "#8b4fa3", "#8f6c00")
_OF_PAGE = {
    _INK: "var(--ink)", _PALE: "var(--line)", _GREY: "var(--muted)", _WHITE: "var(--paper)",
    **{color: f"var(--series-{k})" for k, color in enumerate(_SERIES, 1)},
}  # fmt: skip
_STYLE = {
    "svg.fonttype": "none",  # text stays text, in the reader's fonts
    "svg.hashsalt": "dimargin",  # the same picture has the same bytes
    "font.size": 10,
    "axes.titlesize": 10,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _GREY,
    "xtick.color": _GREY,
    "ytick.color": _GREY,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "grid.color": _PALE,
    "legend.facecolor": _WHITE,
    "legend.edgecolor": _PALE,
    "axes.facecolor": _WHITE,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.6,
}


@contextmanager
def page_style(names: bool = False) -> Iterator[None]:
    """Draw in the colours that `inline` exchanges for the page's, whatever the user's settings of matplotlib are.

    In a picture with names of classes, a dollar is a dollar.
    """
    import matplotlib.style
    from matplotlib.rcsetup import cycler

    lines = cycler(color=_SERIES) + cycler(linestyle=["-", "--", "-.", ":", (0, (6, 2))])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # the reader's fonts draw them
        with matplotlib.style.context(
            ["default", {**_STYLE, "axes.prop_cycle": lines, "text.parse_math": not names}], after_reset=True
        ):
            yield


def inline(figure: Any, name: str, described: str) -> str:
    """Return a figure as an SVG element.

    Parameters
    ----------
    figure : matplotlib Figure
        Drawn, and saved, within `page_style`.
    name : str
        Goes before the ids that are used in the picture, which are the page's.
    described : str
        What there is to see, for those who do not.
    """
    file = StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    root = ElementTree.fromstring(file.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.rpartition("}")[2] in ("metadata", "style"):  # a style would be that of the whole page
                parent.remove(child)
    attributes = [(element, key.rpartition("}")[2], value) for element in root.iter() for key, value in element.items()]
    used = {id_ for _, key, value in attributes for id_ in _used_ids(key, value)}
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.attrib.clear()
    for element, key, value in attributes:
        if key != "id":
            element.set(key, _of_page(key, value, name))
        elif value in used:
            element.set("id", f"{name}-{value}")
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": described}
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=False)


def _used_ids(key: str, value: str) -> list[str]:
    """Return the ids that an attribute refers to."""
    return [value[1:]] if key == "href" else re.findall(r"url\(#([^)]+)\)", value)


def _of_page(key: str, value: str, name: str) -> str:
    """Return the value of an attribute with the ids and colours of the page."""
    if key == "href":
        return f"#{name}-{value[1:]}"
    value = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", value)
    return re.sub(r"#[0-9a-f]{6}\b", lambda found: _OF_PAGE.get(found[0], found[0]), value)
