"""A page that `dimargin report` wrote, as a parser of HTML sees it."""

import re
from html.parser import HTMLParser

_VOID = {"meta", "link", "br", "img", "hr"}


class Page(HTMLParser):
    """Texts by the ids of elements, rows of tables, and what would ask something of another place."""

    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.source = path.read_text(encoding="utf-8")
        self.tags, self.ids, self.references, self.handlers = set(), [], [], []
        self.texts, self.tables = {}, {}
        self._open, self._table = [], None
        self.feed(self.source)
        self.close()
        assert not self._open, f"{self._open} not closed"

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.add(tag)
        self.references += [attributes[key] for key in ("src", "href", "xlink:href", "data") if key in attributes]
        self.handlers += [key for key in attributes if key.startswith("on")]
        id_ = attributes.get("id")
        if id_ is not None:
            self.ids.append(id_)
            self.texts[id_] = ""
        if tag not in _VOID:
            self._open.append((tag, id_))
        if tag == "table" and id_ is not None:
            self._table = self.tables[id_] = []
        elif tag == "tr" and self._table is not None:
            self._table.append([])
        elif tag in ("td", "th") and self._table is not None:
            self._table[-1].append("")

    def handle_endtag(self, tag):
        opened, _ = self._open.pop()
        assert opened == tag, f"</{tag}> closes <{opened}>"
        if tag == "table":
            self._table = None

    def handle_data(self, text):
        for tag, id_ in self._open:
            if id_ is not None:
                self.texts[id_] += text
            if tag in ("style", "script"):
                return
        if self._table and any(tag in ("td", "th") for tag, _ in self._open):
            self._table[-1][-1] += text

    @property
    def styles(self):
        return "".join(re.findall(r"<style>(.*?)</style>", self.source, re.DOTALL))


def check_alone(page):
    """Raise AssertionError if a page asks anything of another place, runs anything or has two elements of one id."""
    assert not page.tags & {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
    assert page.references and all(reference.startswith("#") for reference in page.references), page.references
    assert {reference[1:] for reference in page.references} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert not page.handlers and "://" not in page.source and "@import" not in page.styles
    used = set(re.findall(r"url\((.*?)\)", page.source))
    assert all(reference[1:] in page.ids for reference in used), used
