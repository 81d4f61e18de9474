"""Rendering of HTML templates."""

from __future__ import annotations

from typing import Any

from dimargin.display.report import words


def rendered(package: str, **content: Any) -> str:
    """Render ``page.html.j2`` of a package, which may include ``style.css`` of this package.

    The template escapes all content except what it marks as safe, which are the SVG pictures.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name, "") for name in (package, "dimargin.display.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        name: getattr(words, name)
        for name in ("bound", "count", "number", "percent", "plain", "score", "seconds", "size")
    }
    return str(environment.get_template("page.html.j2").render(content))
