"""Fences of Mermaid, as code hosts draw them, drawn by a copy of Mermaid that the site holds.

sphinxcontrib-mermaid loads JavaScript modules, which browsers refuse to a page that is opened from a disk.
"""

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


class Diagram(nodes.General, nodes.Element):
    """A diagram, whose source is its attribute ``code``."""


class Mermaid(SphinxDirective):
    has_content = True

    def run(self):
        return [Diagram(code="\n".join(self.content))]


def visit(translator, node):
    translator.body.append(f'<div class="diagram"><pre class="mermaid">{translator.encode(node["code"])}</pre></div>')
    raise nodes.SkipNode


def add_scripts(app, pagename, templatename, context, doctree):
    if doctree and next(doctree.findall(Diagram), None):
        app.add_js_file("mermaid.min.js", loading_method="defer")
        app.add_js_file("diagrams.js", loading_method="defer")


def setup(app):
    app.add_node(Diagram, html=(visit, None))
    app.add_directive("mermaid", Mermaid)
    app.connect("html-page-context", add_scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
