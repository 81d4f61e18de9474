"""The records of bench/targets as tables, and README's table of time and accuracy as a picture.

The directives ``targets`` and ``front-page-picture`` make them when the site is built, so that no figure stands twice.
"""

import html
import re
import tomllib
from pathlib import Path

import matplotlib.pyplot as plt
from docutils import nodes
from markdown_it import MarkdownIt
from sphinx.util.docutils import SphinxDirective
from time_and_accuracy import COLOURS, README, decades, described, front_page, picture

TARGETS = Path(__file__).parents[2] / "bench" / "targets"
SHOWN = {"claim": "Claim", "ours": "Ours", "theirs": "Rival", "ratio": "Ratio", "verdict": "Verdict"}
FOLDED = {
    "promise": "Promise",
    "value": "Measured",
    "rival": "Rival",
    "equal": "Equal",
    "not_equal": "Not equal",
    "command": "Command",
    "commit": "Commit",
    "machine": "Machine",
    "notes": "Notes",
}
CODE = re.compile("(?<=<code>)[^<]*")
MARKDOWN = MarkdownIt("commonmark")
FILTER = """
<form class="targets-filter" role="search">
<input type="search" name="word" placeholder="Search the records" aria-label="Search the records">
<label><input type="radio" name="verdict" value="" checked> all {all}</label>
<label><input type="radio" name="verdict" value="met"> met {met}</label>
<label><input type="radio" name="verdict" value="met in part"> met in part {part}</label>
<label><input type="radio" name="verdict" value="NOT MET"> NOT MET {missed}</label>
<output aria-live="polite"></output>
</form>
"""


def records(path):
    """Return the records of a file of targets."""
    return tomllib.loads(path.read_text(encoding="utf-8"))["target"]


def shown(text):
    """Return the text of a field, which is Markdown, as HTML."""
    rendered = MARKDOWN.renderInline(" ".join(text.split())).replace("NOT MET", "<strong>NOT MET</strong>")
    return CODE.sub(lambda code: re.sub("(?<=[/_=])", "<wbr>", code[0]), rendered)  # Long code may be broken there.


class TargetsFilter(SphinxDirective):
    """A form that limits the tables of the page to a verdict, and to records that have some words."""

    def run(self):
        paths = sorted(TARGETS.glob("*.toml"))
        for path in paths:
            self.env.note_dependency(str(path))
        verdicts = [record["verdict"] for path in paths for record in records(path)]
        met, part, missed = (verdicts.count(verdict) for verdict in ("met", "met in part", "NOT MET"))
        form = FILTER.format(all=len(verdicts), met=met, part=part, missed=missed)
        return [nodes.raw("", form, format="html")]


class Targets(SphinxDirective):
    """The records of a file of targets: a line for each, below which the rest of its fields folds out."""

    required_arguments = 1

    def run(self):
        path = TARGETS / f"{self.arguments[0]}.toml"
        self.env.note_dependency(str(path))
        head = "".join(f"<span>{label}</span>" for label in SHOWN.values())
        parts = [f'<div class="targets"><div class="targets-head" aria-hidden="true">{head}</div>']
        for record in records(path):
            cells = "".join(
                f'<span data-label="{label}">{shown(record.get(field, ""))}</span>' for field, label in SHOWN.items()
            )
            fields = "".join(
                f"<dt>{label}</dt><dd>{shown(record[field])}</dd>" for field, label in FOLDED.items() if field in record
            )
            parts.append(
                f'<details class="target" data-verdict="{record["verdict"]}">'
                f"<summary>{cells}</summary><dl>{fields}</dl></details>"
            )
        parts.append("</div>")
        return [nodes.raw("", "\n".join(parts), format="html")]


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
    if 'class="targets-filter"' in context.get("body", ""):
        app.add_js_file("targets.js", loading_method="defer")


def setup(app):
    app.add_directive("targets", Targets)
    app.add_directive("targets-filter", TargetsFilter)
    app.add_directive("front-page-picture", FrontPagePicture)
    app.connect("html-page-context", add_script)
    app.connect("build-finished", draw)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
