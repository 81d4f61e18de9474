"""Check a built site: links within it lead somewhere, and pages load no script, style, font or picture from elsewhere.

python .ci/links.py build/docs
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("image", "href")}


class Page(HTMLParser):
    """What a page has: anchors, links, and what a browser loads for it."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loaded = set(), set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.add(given["href"])
        for name, value in attributes:
            if (tag, name) in LOADED and value:
                self.loaded.add(value)


def faults(site):
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    pages = {path: page for path, page in pages.items() if "_static" not in path.parts}  # templates of the theme
    if not pages:
        yield f"{site} has no pages"
    for path, page in pages.items():
        here = path.relative_to(site)
        for address in sorted(page.loaded | page.links):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if address in page.loaded and parts.scheme != "data":
                    yield f"{here} loads {address}"
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not there.is_file():
                yield f"{here} leads to {address}, which is not there"
            elif parts.fragment and there in pages and unquote(parts.fragment) not in pages[there].anchors:
                yield f"{here} leads to {address}, whose page has no such anchor"
    for path in sorted(site.rglob("*.css")):
        text = path.read_text(encoding="utf-8")
        if "@import" in text and "http" in text.split("@import", 1)[1][:80]:
            yield f"{path.relative_to(site)} imports a style from elsewhere"
        if "url(http" in text or 'url("http' in text or "url(//" in text:
            yield f"{path.relative_to(site)} loads a font or picture from elsewhere"


site = Path(sys.argv[1]).resolve()
found = list(faults(site))
print(*found, sep="\n", end="\n" if found else "")
print(f"{sum(1 for _ in site.rglob('*.html'))} pages, {len(found)} faults")
sys.exit(bool(found))
