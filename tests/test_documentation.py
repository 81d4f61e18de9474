"""References of pages and code lead somewhere, and docstrings tell the defaults of the code."""

import ast
import importlib
import importlib.util
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import dimargin

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").glob("*.md")])
CODE = sorted(path for folder in ("src", "tests", "bench", "examples") for path in (ROOT / folder).rglob("*.py"))


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


def commands(page):
    """Return the command lines of a page that readers paste, as `.ci/markdown.py` runs them."""
    blocks = re.findall(r"^```console\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return re.findall(r"^\$ (.*)$", "".join(blocks), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_of_pages_read_data_that_the_repository_has(page):
    inputs = re.sub(r"--output \S+", "", "\n".join(commands(page)))
    read = re.findall(r"[\w./-]+\.(?:csv|tsv|libsvm|parquet)\b", inputs)
    assert [name for name in read if not (ROOT / name).is_file()] == []


def test_readme_begins_with_the_two_commands_that_set_everything_up():
    first_block = re.search(r"^```\w+\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)[1]
    assert [line.split("#")[0].strip() for line in first_block.splitlines()] == ["make demo", "make test"]
    assert len(commands(ROOT / "README.md")) == 2


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


# ---- docstrings ------------------------------------------------------------------------------------------------------


def described_defaults(package=dimargin):
    """Objects of all modules with a parameter, its default in the docstring, where that is a literal, and its own."""
    seen = set()
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if module.name.startswith(("dimargin.__main__", "dimargin._core")):  # which runs; and has no signatures
            continue
        if module.name == "dimargin.gossip.flower" and importlib.util.find_spec("flwr") is None:
            continue
        for kind in vars(importlib.import_module(module.name)).values():
            if not (inspect.isclass(kind) or inspect.isfunction(kind)) or not kind.__doc__ or kind in seen:
                continue
            if kind.__module__ != module.name or (inspect.isclass(kind) and issubclass(kind, BaseException)):
                continue
            seen.add(kind)
            for name, parameter in inspect.signature(kind).parameters.items():
                said = re.search(rf"^ *(?:\w+, )*{name}(?:, \w+)* : .*\bdefault=(.+)$", kind.__doc__, re.MULTILINE)
                try:
                    value = said and ast.literal_eval(said[1])
                except (SyntaxError, ValueError):  # such as 2 GiB
                    continue
                if said and parameter.default is not parameter.empty:
                    yield kind, name, value, parameter.default


def test_docstrings_tell_the_defaults_of_the_code():
    found = list(described_defaults())
    wrong = [(kind.__qualname__, name, said, value) for kind, name, said, value in found if said != value]
    assert not wrong and len(found) > 240


# ---- extensions of the site ------------------------------------------------------------------------------------------


def extension(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "_ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_menu_of_versions_has_every_release_of_the_changelog_and_marks_the_newest_as_stable():
    switcher = extension("version_switcher")
    released = "# Changelog\n\n## 0.2.0 (2027-01-31)\n\n## 0.1.0 (2026-12-01)\n"
    coming = released.replace("## 0.2.0", "## 0.3.0 (unreleased)\n\n## 0.2.0")
    root = switcher.root_of("https://example.org/dimargin/stable/")
    assert [switcher.current(text) for text in (coming, released)] == ["dev", "0.2.0"]
    for text in (coming, released):
        entries = switcher.versions(text, root)
        assert [(entry["version"], entry["url"], entry.get("preferred", False)) for entry in entries] == [
            ("dev", "https://example.org/dimargin/dev/", False),
            ("0.2.0", "https://example.org/dimargin/stable/", True),
            ("0.1.0", "https://example.org/dimargin/0.1.0/", False),
        ]
    before = switcher.versions(released[: released.index("##")] + "## 0.1.0 (unreleased)\n", root)
    assert [entry["version"] for entry in before] == ["dev"]
    assert switcher.current(switcher.CHANGELOG.read_text(encoding="utf-8"))  # The real one has such headings.


@pytest.fixture
def pictures():
    pytest.importorskip("matplotlib")
    return extension("time_and_accuracy")


def test_picture_of_readme_shows_the_numbers_of_its_table(pictures):
    image = pytest.importorskip("PIL.Image").open(ROOT / "docs" / "images" / "seconds.png")
    tables = pictures.front_page()
    assert image.text["Description"] == "\n".join(pictures.described(title, rows) for title, rows in tables)
    figure = pictures.picture_of_readme(tables)
    figure.draw_without_rendering()
    shown = [[dot[0] for dot in ax.collections[0].get_offsets()] for ax in figure.axes]
    assert shown == [[float(seconds) for _, seconds, _ in rows] for _, rows in tables]
    pictures.plt.close(figure)


def test_readme_is_short():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 80 and len(text.split()) <= 650


def test_picture_of_the_first_page_shows_every_machine_with_its_numbers(pictures):
    tables = pictures.front_page()
    assert [len(rows) for _, rows in tables] == [7, 7] and all(rows[0][0] == "SVMClassifier" for _, rows in tables)
    for title, rows in tables:
        figure = pictures.picture(title, rows, pictures.decades(tables), "black")
        figure.draw_without_rendering()
        (ax,), numbers = figure.axes, figure.axes[0].child_axes[0]
        dots = ax.collections[0].get_offsets()
        low, high = ax.get_xlim()
        assert ax.get_xscale() == "log" and not ax.patches
        assert dots[:, 1].tolist() == list(range(len(rows)))
        assert dots[:, 0].tolist() == [float(seconds) for _, seconds, _ in rows]
        assert (dots[:, 0] > 1.1 * low).all() and (dots[:, 0] < high / 1.1).all()
        labels = [label.get_text().split() for label in numbers.get_yticklabels()]
        assert labels == [[seconds, "s", f"{accuracy}%"] for _, seconds, accuracy in rows]
        boxes = [label.get_window_extent() for label in (*ax.get_yticklabels(), *numbers.get_yticklabels())]
        assert min(box.x0 for box in boxes) >= 0 and max(box.x1 for box in boxes) <= figure.bbox.x1
        pictures.plt.close(figure)
