"""How Sphinx builds the site: `make docs` writes it into build/docs."""

import importlib.metadata
import os
import re
import sys
import warnings
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
ASSETS = Path(os.environ.get("DIMARGIN_DOCS_ASSETS", ROOT / "build" / "docs-assets"))  # make docs fetches them
sys.path.insert(0, str(DOCS / "_ext"))

project = "dimargin"
author = "The dimargin developers"
version = release = importlib.metadata.version("dimargin")
language = "en"
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.katex",
    "katex_server",
    "mermaid_diagrams",
    "repository_pages",
    "targets_table",
    "papers_table",
    "version_switcher",
]
root_doc = "index"
exclude_patterns = ["_*", "gallery/**/*.ipynb", "gallery/**/*.py", "gallery/sg_execution_times.rst"]
templates_path = ["_templates"]
nitpicky = True
# What others document has no address on a site that is built offline.
nitpick_ignore_regex = [
    (r"py:obj", r"dimargin\.svm"),  # a module, of which the reference lists the classes
    (r"std:term", r"classes_"),  # of scikit-learn's glossary, in docstrings that the classes of dimargin.svm inherit
    ("py:.*", r"(?!dimargin).*"),
    # Where docstrings send readers of the code.
    ("py:(obj|class)", r"dimargin\.(shards\.partition|solvers|gossip\.messages|gossip\.simulation\.core_set_run)\..*"),
]
suppress_warnings = ["config.cache"]  # what sphinx-gallery is told contains functions

# Markdown
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_fence_as_directive = ["math", "mermaid"]
myst_heading_anchors = 4
myst_links_external_new_tab = True
highlight_language = "python"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Formulas are HTML when they leave the build, and their fonts are ours.
katex_prerender = True
katex_css_path = "katex/katex.min.css"
katex_js_path = str(ASSETS / "node" / "katex.min.js")

# Reference
autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # the docstrings say it in words
toc_object_entries_show_parents = "hide"
autodoc_member_order = "groupwise"
default_role = "autolink"  # a name in backticks is a link where it can be
numpydoc_show_class_members = False  # the templates list them
numpydoc_class_members_toctree = False

# Gallery
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"demo\.py",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "within_subsection_order": "FileNameSortKey",
    "doc_module": ("dimargin",),
    "backreferences_dir": "api/backreferences",
    "inspect_global_variables": False,
    "matplotlib_animations": False,
    "abort_on_example_error": True,
    "thumbnail_size": (400, 280),
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

# Pages
GALLERY = [f"gallery/{path.stem}" for path in sorted((ROOT / "examples").glob("plot_*.py"))]
html_theme = "pydata_sphinx_theme"
html_title = "dimargin"
html_favicon = "_static/logo.svg"
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system
html_static_path = ["_static", str(ASSETS / "static")]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_last_updated_fmt = None
html_theme_options = {
    "logo": {"text": "dimargin", "image_light": "_static/logo.svg", "image_dark": "_static/logo.svg"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": {"**": ["page-toc"]} | {page: [] for page in GALLERY},  # Their code needs the width.
    "show_toc_level": 2,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
html_sidebars = {  # pages without neighbours of their kind
    page: []
    for page in (
        "index",
        "get-started",
        "benchmarks",
        "compare",
        "algorithms",
        "architecture",
        "security",
        "contributing",
    )
} | {"changelog": [], "gallery/index": []}
copyright = author

# Members that scikit-learn adds to estimators and documents at length.
_ROUTING = re.compile(r"get_metadata_routing|set_\w+_request|set_output")


def _skip(app, what, name, obj, skip, options):
    return True if _ROUTING.fullmatch(name) else skip


def _as_rst(app, what, name, obj, options, lines):
    """Mend what a terminal shows well: names that look like references, and references into scikit-learn's guide."""
    for at, line in enumerate(lines):
        line = re.sub(r"(?<![`\w*])n_features_in_(?![`\w*])", r"n_features_in\\_", line)
        lines[at] = re.sub(r":ref:`([^<`]+?) *<[^>]+>`", r"\1", line)


def setup(app):
    """Connect what is too small for an extension."""
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-docstring", _as_rst, priority=900)  # after numpydoc
