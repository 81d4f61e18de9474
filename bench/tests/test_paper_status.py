"""Records of what works of the papers: complete, and naming only commands, tests and names that there are."""

import importlib
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from dimargin_bench.experiments import EXPERIMENTS, experiment
from dimargin_bench.papers.status import NOT, PAPERS, PARTIAL, WORKS, Item, counts, items_of

ROOT = Path(__file__).parents[2]
ITEMS = [pytest.param(item, id=f"{paper}: {item.where}") for paper in PAPERS for item in items_of(paper)]
COMMANDS = ("bench", "datasets", "simulate", "train", "info", "predict")


@cache
def parts_of(name):
    assert name in EXPERIMENTS
    return {part.name for part in experiment(name).parts}


def check_test(path):
    """A test's file, and a function or a class of it, if one is named."""
    name, _, rest = path.partition("::")
    text = (ROOT / name).read_text(encoding="utf-8")
    for part in filter(None, rest.split("::")):
        assert re.search(rf"^ *(?:def|class) {re.escape(part.split('[')[0])}\b", text, re.MULTILINE), path


def check_name(name):
    """A name in Python: a module, or what can be found in one."""
    for at in range(name.count("."), -1, -1):
        head, tail = name.split(".")[: at + 1], name.split(".")[at + 1 :]
        try:
            found = importlib.import_module(".".join(head))
        except ModuleNotFoundError:
            continue
        for part in tail:
            found = getattr(found, part)
        return
    raise AssertionError(f"there is no {name}")


def check(command):
    words = command.split()
    if words[0] == "pytest":
        for path in words[1:]:
            if not path.startswith("-"):
                check_test(path)
    elif words[0] == "dimargin":
        assert words[1] in COMMANDS, command
        if words[1] == "bench":
            parts = {after for word, after in pairwise(words) if word == "--part"}
            assert parts <= parts_of(words[2]), command
    else:
        assert len(words) == 1 and "." in command, f"{command} is neither a command, a test nor a name"
        check_name(command)


@pytest.mark.parametrize("item", ITEMS)
def test_what_a_record_names_is_there(item):
    for command in filter(None, map(str.strip, item.command.split(";"))):
        check(command)


@pytest.mark.parametrize("paper", PAPERS)
def test_records_have_different_places(paper):
    places = [item.where for item in items_of(paper)]
    assert len(set(places)) == len(places)


def test_most_work_or_lack_data_alone():
    all_items = [item for paper in PAPERS for item in items_of(paper)]
    n, works, limited, partial, left_out = counts(all_items)
    assert n == works + limited + partial + left_out == len(all_items) > 130
    assert (works + limited) / n >= 0.75


def test_the_core_set_paper_is_complete():
    """Its figures and its numbered equations, assumptions, remarks, lemma, algorithm and theorem."""
    places = " ".join(item.where for item in items_of("coreset"))
    numbered = [f"({k})" for k in (1, 3, 4, 5, 6, 7, 8)] + [f"Figure {k}" for k in (1, 2)]
    numbered += [f"Remark {name}" for name in ("III.1", "III.2", "IV.2", "IV.3", "IV.6")]
    numbered += ["Assumption II.1", "Assumption IV.4", "Lemma IV.1", "Theorem IV.5", "Algorithm 1", "future work"]
    assert [name for name in numbered if name not in places] == []


def test_the_site_shows_every_paper():
    page = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    assert re.findall(r"^```\{papers\} (\w+)$", page, re.MULTILINE) == list(PAPERS)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"status": "done", "command": "x", "missing": "y"}, "status is missing or wrong"),
        ({"status": WORKS}, "Table 1: command is missing or wrong"),
        ({"status": PARTIAL, "command": "x"}, "missing is missing or wrong"),
        ({"status": NOT}, "missing is missing or wrong"),
        ({"status": WORKS, "command": "x", "limited_by": "data"}, "limited_by is missing or wrong"),
        ({"status": PARTIAL, "command": "x", "missing": "y", "limited_by": "hours"}, "limited_by is missing or wrong"),
        ({"status": WORKS, "command": "x", "what": " "}, "Table 1: what is missing or wrong"),
    ],
)
def test_incomplete_records_are_refused(values, words):
    with pytest.raises(ValueError, match=words):
        Item(**{"where": "Table 1", "what": "data", **values})


def test_counts_add_up():
    items = [
        Item("1", "a", WORKS, "x"),
        Item("2", "a", PARTIAL, "x", "rows", "data"),
        Item("3", "a", PARTIAL, "x", "hours"),
        Item("4", "a", NOT, missing="a drawing"),
    ]
    assert counts(items) == (4, 1, 1, 1, 1)


@pytest.mark.parametrize(
    "command",
    [
        "pytest bench/tests/test_paper_status.py::test_nothing",
        "dimargin.Nothing",
        "dimargin bench coreset --part table-1",
        "dimargin fly",
        "look at it",
    ],
)
def test_what_is_not_there_is_noticed(command):
    with pytest.raises((AssertionError, AttributeError)):
        check(command)
