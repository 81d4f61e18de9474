"""What of the papers works here: every table, figure, algorithm, theorem and plan of theirs, in their order.

The records are in ``status_PAPER.toml``, one ``[[item]]`` for each. The page docs/papers.md is drawn
from them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PAPERS = {
    "diodm": "Distributed Optimal margin Distribution Machine (under review at ICLR 2022; two extractions of one text)",
    "dcsvm": "C.-J. Hsieh, S. Si, I. S. Dhillon: A Divide-and-Conquer Solver for Kernel Support Vector Machines, 2014",
    "gadget": "A Consensus Algorithm for Linear Support Vector Machines (earlier: Dutta, Nataraj, arXiv:1812.02261)",
    "coreset": "G. Notarstefano: A core-set approach for distributed quadratic programming in big-data classification",
}
"""Titles of the papers, by the names that files have."""

WORKS, PARTIAL, NOT = "works", "partial", "deliberately not"


@dataclass(frozen=True)
class Item:
    """A table, figure, algorithm, theorem or plan of a paper.

    Attributes
    ----------
    where : str
        As the paper has it: "Table 5", "Theorem IV.5", "Conclusions, future work".
    what : str
        What it shows, in a sentence.
    status : {"works", "partial", "deliberately not"}
    command : str
        How it is seen: a command, a test or a name in Python, or several between semicolons.
    missing : str
        What is missing of it and why, or the reason why it is left out.
    limited_by : {"", "data"}
        "data" for what is only partial because its data are not on this computer: with them, the
        command shows all of it.
    """

    where: str
    what: str
    status: str
    command: str = ""
    missing: str = ""
    limited_by: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError for a record that is not complete."""
        lacking = [name for name, text in (("where", self.where), ("what", self.what)) if not text.strip()]
        if self.status not in (WORKS, PARTIAL, NOT):
            lacking.append("status")
        if self.status != NOT and not self.command.strip():
            lacking.append("command")
        if self.status != WORKS and not self.missing.strip():
            lacking.append("missing")
        if self.limited_by not in ("", "data") or (self.limited_by and self.status != PARTIAL):
            lacking.append("limited_by")
        if lacking:
            raise ValueError(f"{self.where or 'a record'}: {', '.join(lacking)} is missing or wrong")


def items_of(paper: str) -> list[Item]:
    """Return the records of a paper, in its order; none if there is no file yet."""
    path = Path(__file__).with_name(f"status_{paper}.toml")
    if not path.exists():
        return []
    return [Item(**record) for record in tomllib.loads(path.read_text(encoding="utf-8"))["item"]]


def counts(items: Sequence[Item]) -> tuple[int, int, int, int, int]:
    """Return how many there are, work, are limited by data alone, are partial otherwise, and are left out."""
    works, limited = (sum(test) for test in ([i.status == WORKS for i in items], [bool(i.limited_by) for i in items]))
    left_out = sum(item.status == NOT for item in items)
    return len(items), works, limited, len(items) - works - limited - left_out, left_out
