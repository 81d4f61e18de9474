"""Pages whose text lies elsewhere in the repository, and links as they work on a code host.

A page may have an include of a file of the repository, from the first line that the option ``start-at`` names to the
one that ``end-before`` names. Links are relative to the file in which they stand: they lead to the page of the site
that shows their file, or else to a copy of the file. A link to a folder becomes its text.
"""

import re
from pathlib import Path

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
PAGES = {
    "README.md": "/get-started.md",
    "CONTRIBUTING.md": "/contributing.md",
    "CHANGELOG.md": "/changelog.md",
    "SECURITY.md": "/security.md",
    "bench/README.md": "/experiments.md",
    "bench/targets": "/benchmarks.md",
    "examples": "/gallery/index.rst",
}
GALLERY = re.compile(r"examples/plot_\w+\.py")
INCLUDE = re.compile(r"^```\{include\} (?P<path>\S+)\n(?P<options>(?::.*\n)*)```$", re.MULTILINE)
CODE = re.compile(r"^(```+).*?^\1$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^()\s]+)\)")


def included(env, page, match):
    path = (page.parent / match["path"]).resolve()
    env.note_dependency(str(path))
    options = dict(re.findall(r"^:([\w-]+): (.*)$", match["options"], re.MULTILINE))
    text = path.read_text(encoding="utf-8")
    for option, line in options.items():
        at = f"\n{text}".find(f"\n{line}\n")
        if at < 0:
            raise ValueError(f"{page}: {path} has no line {line!r}, which {option} names")
        text = text[at:] if option == "start-at" else text[:at]
    return linked(text, path)


def linked(text, path):
    """Return text of a file with its links as the site has them."""

    def target(match):
        where, _, anchor = match["target"].partition("#")
        if not where or ":" in where:
            return match[0]
        there = (path.parent / where).resolve()
        if not there.is_relative_to(ROOT):
            return match[0]
        name = there.relative_to(ROOT).as_posix()
        if GALLERY.fullmatch(name):
            place = f"/gallery/{there.stem}.rst"
        elif name in PAGES:
            place = PAGES[name]
        elif there.is_dir():
            return match["text"]
        elif there.is_relative_to(DOCS):
            place = f"/{there.relative_to(DOCS).as_posix()}"
        else:
            place = Path("/..", name).as_posix()
        return f"{match['image']}[{match['text']}]({place}{'#' if anchor else ''}{anchor})"

    pieces, end = [], 0  # blocks of code stay as they are, but for the empty line with which a doctest ends
    for code in CODE.finditer(text):
        pieces += [LINK.sub(target, text[end : code.start()]), code[0].replace("\n\n```", "\n```")]
        end = code.end()
    return "".join([*pieces, LINK.sub(target, text[end:])])


def read(app, docname, source):
    page = Path(app.env.doc2path(docname))
    if page.suffix != ".md":
        return
    text = linked(source[0], page)
    source[0] = INCLUDE.sub(lambda match: included(app.env, page, match), text)


def setup(app):
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
