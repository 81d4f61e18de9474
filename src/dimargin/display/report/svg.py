"""Conversion of matplotlib figures to inline SVG with the colours and fonts of the page."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from typing import Any
from xml.etree import ElementTree


@dataclass(frozen=True)
class PageColors:
    """Colours that figures are drawn in, which `inline` replaces with CSS variables of the page.

    The page has a light and a dark scheme. Grey and white are the values that the displays use.
    """

    ink: str = "#010203"
    line: str = "#a0a1a2"
    muted: str = "#808080"
    paper: str = "#ffffff"
    series: tuple[str, ...] = ("#1f5fa8", "#c2500a", "#0b7a5c", "#8b4fa3", "#8f6c00")

    @property
    def css_variables(self) -> dict[str, str]:
        """CSS variable of each colour."""
        named = {getattr(self, name): f"var(--{name})" for name in ("ink", "line", "muted", "paper")}
        return named | {color: f"var(--series-{k})" for k, color in enumerate(self.series, 1)}

    @property
    def matplotlib_style(self) -> dict[str, Any]:
        """Settings of matplotlib."""
        return {
            "svg.fonttype": "none",  # Text stays text and is shown in the reader's fonts.
            "svg.hashsalt": "dimargin",  # A fixed salt makes the bytes of a picture reproducible.
            "font.size": 10,
            "axes.titlesize": 10,
            **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), self.ink),
            **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), self.muted),
            **dict.fromkeys(("grid.color", "legend.edgecolor"), self.line),
            **dict.fromkeys(("legend.facecolor", "axes.facecolor"), self.paper),
            **dict.fromkeys(("figure.facecolor", "savefig.facecolor"), "none"),
            **dict.fromkeys(("axes.spines.top", "axes.spines.right"), False),
            "lines.linewidth": 1.6,
        }


@contextmanager
def page_style(names: bool = False) -> Iterator[None]:
    """Apply the style that `inline` expects, regardless of the user's matplotlib settings.

    With `names`, math mode is off, because class names may contain dollar signs.
    """
    import matplotlib.style
    from matplotlib.rcsetup import cycler

    colors = PageColors()
    lines = cycler(color=colors.series) + cycler(linestyle=["-", "--", "-.", ":", (0, (6, 2))])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # The browser has its own fonts.
        settings = {**colors.matplotlib_style, "axes.prop_cycle": lines, "text.parse_math": not names}
        with matplotlib.style.context(["default", settings], after_reset=True):
            yield


def inline(figure: Any, name: str, described: str) -> str:
    """Convert a figure to an SVG element.

    Parameters
    ----------
    figure : matplotlib Figure
        Must be drawn, and converted, within `page_style`.
    name : str
        Prefix that makes the ids of the picture unique on the page.
    described : str
        Description for screen readers.
    """
    file = StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    root = ElementTree.fromstring(file.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.rpartition("}")[2] in ("metadata", "style"):  # A style element would apply to the whole page.
                parent.remove(child)
    attributes = [(element, key.rpartition("}")[2], value) for element in root.iter() for key, value in element.items()]
    used = {id_ for _, key, value in attributes for id_ in _used_ids(key, value)}
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.attrib.clear()
    for element, key, value in attributes:
        if key != "id":
            element.set(key, _page_value(key, value, name))
        elif value in used:
            element.set("id", f"{name}-{value}")
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": described}
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=False)


def _used_ids(key: str, value: str) -> list[str]:
    """Return the ids that an attribute references."""
    return [value[1:]] if key == "href" else re.findall(r"url\(#([^)]+)\)", value)


def _page_value(key: str, value: str, name: str) -> str:
    """Return an attribute value with ids prefixed and colours replaced by CSS variables."""
    if key == "href":
        return f"#{name}-{value[1:]}"
    value = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", value)
    variables = PageColors().css_variables
    return re.sub(r"#[0-9a-f]{6}\b", lambda found: variables.get(found[0], found[0]), value)
