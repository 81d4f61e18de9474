"""The records of what works of the papers, as tables of docs/papers.md.

The directive ``papers`` makes them from bench/dimargin_bench/papers/status_*.toml when the site is built.
"""

from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from targets_table import shown

from dimargin_bench.papers.status import NOT, PAPERS, WORKS, counts, items_of

FOLDER = Path(__file__).parents[2] / "bench" / "dimargin_bench" / "papers"


def table(headings, rows):
    """Return a table of Markdown cells as HTML."""
    head = "".join(f"<th>{heading}</th>" for heading in headings)
    body = "\n".join(f"<tr>{''.join(f'<td>{shown(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<table class="table papers"><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>'


def row(item):
    """Return the cells of a record."""
    code = "; ".join(f"`{command.strip()}`" for command in item.command.split(";") if command.strip())
    said = {WORKS: code, NOT: item.missing}.get(item.status, f"{code} {item.missing}")
    return item.where, item.what, f"**{item.status}**", said


def of_paper(name):
    """Return the records of a paper."""
    items = items_of(name)
    if not items:
        return "<p>No records yet.</p>"
    return table(("in the paper", "what it is", "status", "how to see it, or what is missing"), map(row, items))


def shares():
    """Return how much of each paper, and of all, works or is limited by data alone."""
    sums = {PAPERS[name]: counts(items) for name in PAPERS if (items := items_of(name))}
    sums["all"] = tuple(map(sum, zip(*sums.values(), strict=True)))
    rows = [
        (title, *map(str, found), f"{100 * (found[1] + found[2]) / found[0]:.0f}%") for title, found in sums.items()
    ]
    headings = ("paper", "items", "work", "limited by data alone", "partial", "left out", "work or limited by data")
    return table(headings, rows)


class Papers(SphinxDirective):
    """The records of the paper of that name; without one, the shares of all."""

    optional_arguments = 1

    def run(self):
        for path in sorted(FOLDER.glob("status_*.toml")):
            self.env.note_dependency(str(path))
        html = of_paper(self.arguments[0]) if self.arguments else shares()
        return [nodes.raw("", html, format="html")]


def setup(app):
    app.add_directive("papers", Papers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
