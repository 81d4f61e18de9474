"""References from one page to another, and from the code to a page, lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")])
CODE = sorted(path for folder in ("src", "tests", "benchmarks", "examples") for path in (ROOT / folder).rglob("*.py"))


def anchors(page):
    """Return the anchors of the headings of a page, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def leads_somewhere(target, page):
    path, _, anchor = target.partition("#")
    there = page if not path else (page.parent / path).resolve()
    return there.exists() and (not anchor or anchor in anchors(there))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_of_pages_lead_somewhere(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    links = [
        link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link and not link.startswith("mailto")
    ]
    assert [link for link in links if not leads_somewhere(link, page)] == []


def test_citations_in_code_lead_somewhere():
    cited = [
        (path.name, citation)
        for path in CODE
        for citation in re.findall(r"\bdocs/[\w/-]+\.md(?:#[\w-]+)?", path.read_text(encoding="utf-8"))
    ]
    assert len(cited) > 20
    assert [(name, citation) for name, citation in cited if not leads_somewhere(citation, ROOT / "here")] == []
    words = ("hand" + "book", "design" + ".md")  # pages that are not in the repository
    sources = {path.name: path.read_text(encoding="utf-8") for path in CODE}
    assert [(name, word) for name, text in sources.items() for word in words if word in text] == []
