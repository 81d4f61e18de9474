"""benchmarks/TARGETS.md as a table that can be searched, and README's table of time and accuracy as a picture.

The directives ``targets`` and ``front-page-picture`` make them when the site is built, so that no figure stands twice.
"""

import html
import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from docutils import nodes
from markdown_it import MarkdownIt
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[2]
TARGETS = ROOT / "benchmarks" / "TARGETS.md"
README = ROOT / "README.md"
CODE = re.compile("(?<=<code>)[^<]*")
COLOURS = {"light": "#222832", "dark": "#ced6dd"}  # of the text of pages
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
        for at, (name, _) in enumerate(front_page()):
            alt = html.escape(f"Seconds and accuracy on {name}, beside others")
            for theme in COLOURS:
                images.append(f'<img class="only-{theme}" src="_static/front_page_{at}_{theme}.svg" alt="{alt}">')
        return [nodes.raw("", f'<div class="panels">{"".join(images)}</div>', format="html")]


def front_page():
    """Return each data set of README's table with its rows: name of the machine, seconds and accuracy as they stand."""
    text = README.read_text(encoding="utf-8")
    match = re.search(r"^\|[^\n]*\| accuracy, % \|.*?\n\n", text, re.MULTILINE | re.DOTALL)
    if match is None:
        raise ValueError(f"{README} has no table with a column 'accuracy, %'")
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in match[0].strip().splitlines())
    return [
        (head[at].removesuffix(", s"), [(row[0].replace("`", ""), row[at], row[at + 1]) for row in rows])
        for at in range(1, len(head), 2)
    ]


def draw(app, exception):
    """Write the pictures beside the finished pages."""
    if exception or app.builder.format != "html":
        return
    for at, (title, rows) in enumerate(front_page()):
        names, seconds, accuracies = zip(*rows, strict=True)
        values = [float(number) for number in seconds]
        ours = [re.search("ODM|SVMC|landmark", name) for name in names]
        for theme, colour in COLOURS.items():
            style = dict.fromkeys(
                ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), colour
            )
            with plt.rc_context({**style, "font.size": 9, "svg.hashsalt": title}):
                figure, ax = plt.subplots(figsize=(5.2, 2.9), layout="constrained")
                bars = ax.barh(names, values, color=["#4f7fc0" if own else "#9a9a9a" for own in ours])
                labels = [f"{number} s, {accuracy}%" for number, accuracy in zip(seconds, accuracies, strict=True)]
                ax.bar_label(bars, labels, padding=3, fontsize=8, color=colour)
                ax.set(xscale="log", xlim=(0.2, max(values) * 9), xlabel="seconds of a fit, and accuracy")
                ax.set_title(title, fontsize=9)
                ax.invert_yaxis()
                ax.spines[["top", "right"]].set_visible(False)
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
