"""bench/TARGETS.md as a table that can be searched, and README's table of time and accuracy as a picture.

The directives ``targets`` and ``front-page-picture`` make them when the site is built, so that no figure stands twice.
"""

import html
import re
from pathlib import Path

import matplotlib.pyplot as plt
from docutils import nodes
from markdown_it import MarkdownIt
from sphinx.util.docutils import SphinxDirective
from time_and_accuracy import COLOURS, README, decades, described, front_page, picture

ROOT = Path(__file__).parents[2]
TARGETS = ROOT / "bench" / "TARGETS.md"
CODE = re.compile("(?<=<code>)[^<]*")
MARKDOWN = MarkdownIt("commonmark").enable("table")
FILTER = """
<form class="targets-filter" role="search">
<input type="search" name="word" placeholder="Search the rows" aria-label="Search the rows">
<label><input type="radio" name="verdict" value="" checked> all {n}</label>
<label><input type="radio" name="verdict" value="met"> met ({met})</label>
<label><input type="radio" name="verdict" value="not-met"> with NOT MET ({missed})</label>
<output aria-live="polite"></output>
</form>
"""


def table_of(path):
    """Return the cells of the first table of a Markdown file, as Markdown, the head first; and the text before it."""
    text = path.read_text(encoding="utf-8")
    tokens = MARKDOWN.parse(text)
    start = next((at for at, token in enumerate(tokens) if token.type == "table_open"), None)
    if start is None:
        raise ValueError(f"{path} has no table")
    rows = []
    for token in tokens[start:]:
        if token.type == "table_close":
            break
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(token.content)
    return rows, "".join(text.splitlines(keepends=True)[: tokens[start].map[0]])


class Targets(SphinxDirective):
    """The text and the table of TARGETS.md, each row with the class of its verdict."""

    def run(self):
        self.env.note_dependency(str(TARGETS))
        (head, *rows), before = table_of(TARGETS)
        labels = [label or "met?" for label in head]
        missed = sum("NOT MET" in row[-1] for row in rows)
        parts = [
            FILTER.format(n=len(rows), met=len(rows) - missed, missed=missed),
            '<table class="targets"><thead><tr>',
        ]
        parts += [f'<th scope="col">{html.escape(label)}</th>' for label in labels]
        parts.append("</tr></thead><tbody>")
        for row in rows:
            parts.append(f'<tr data-verdict="{"not-met" if "NOT MET" in row[-1] else "met"}">')
            for label, cell in zip(labels, row, strict=True):
                shown = MARKDOWN.renderInline(cell).replace("NOT MET", "<strong>NOT MET</strong>")
                shown = CODE.sub(lambda code: re.sub("(?<=[/_=])", "<wbr>", code[0]), shown)  # where lines may end
                parts.append(f'<td data-label="{html.escape(label)}"><div>{shown}</div></td>')
            parts.append("</tr>")
        parts.append("</tbody></table>")
        text = MARKDOWN.render(re.sub(r"^# .*\n", "", before))
        return [nodes.raw("", text + "\n".join(parts), format="html")]


class FrontPagePicture(SphinxDirective):
    """Seconds and accuracy of README's table, a panel for each data set, for pages of either colour."""

    def run(self):
        self.env.note_dependency(str(README))
        images = []
        for at, (title, rows) in enumerate(front_page()):
            alt = html.escape(described(title, rows))
            for theme in COLOURS:
                images.append(f'<img class="only-{theme}" src="_static/front_page_{at}_{theme}.svg" alt="{alt}">')
        return [nodes.raw("", f'<div class="panels">{"".join(images)}</div>', format="html")]


def draw(app, exception):
    """Write the pictures beside the finished pages."""
    if exception or app.builder.format != "html":
        return
    limits = decades(front_page())
    for at, (title, rows) in enumerate(front_page()):
        for theme, colour in COLOURS.items():
            figure = picture(title, rows, limits, colour)
            path = Path(app.outdir, "_static", f"front_page_{at}_{theme}.svg")
            figure.savefig(path, transparent=True, metadata={"Date": None})
            plt.close(figure)


def add_script(app, pagename, templatename, context, doctree):
    if '<table class="targets">' in context.get("body", ""):
        app.add_js_file("targets.js", loading_method="defer")


def setup(app):
    app.add_directive("targets", Targets)
    app.add_directive("front-page-picture", FrontPagePicture)
    app.connect("html-page-context", add_script)
    app.connect("build-finished", draw)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
