"""Flags for columns with texts, dates or missing values, and their values."""

from __future__ import annotations

import inspect
import shlex
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import typer

from dimargin.cli.file_flags import file_options, option_words
from dimargin.cli.flags import flags_of, values_taken
from dimargin.estimators.preprocessing.calendar_features import check_format
from dimargin.io.data.labels import NOTHING
from dimargin.io.data.opening import FileOptions


class Missing(StrEnum):
    """Statistics of a column that may replace a missing number."""

    mean = "mean"
    median = "median"
    most_frequent = "most_frequent"


_option = partial(typer.Option, rich_help_panel="Columns that are not numbers")


NaOption = Annotated[
    list[str] | None,
    _option(
        metavar="TEXT",
        help="Another text or number that marks a missing value, such as '#DIV/0!' or -999; may be repeated.",
    ),
]

ThousandsOption = Annotated[
    Literal[",", ".", "'", " "] | None,
    _option(metavar="SEPARATOR", help="Separator of thousands in numbers of CSV: a comma, point, apostrophe or blank."),
]

SkipUnlabelledOption = Annotated[
    bool | None,
    _option("--skip-unlabelled", help="Leave out rows without a label, and say how many.", show_default=False),
]


@dataclass(frozen=True)
class Reading:
    """Values of the flags for reading a file for an existing model."""

    options: FileOptions
    na: NaOption = None
    decimal_comma: Annotated[
        bool | None,
        _option(
            "--decimal-comma/--decimal-point",
            help="Whether numbers in CSV have a decimal comma, 1,5, or a decimal point, 1.5.",
            show_default="as in the training file",
        ),
    ] = None
    thousands: ThousandsOption = None
    skip_unlabelled: SkipUnlabelledOption = None

    @classmethod
    def of(cls, given: dict[str, Any]) -> Self:
        """Remove the flags from `given`; raises ValueError for an unknown encoding."""
        return cls(file_options(**values_taken(file_options, given)), **values_taken(cls, given))


@dataclass(frozen=True)
class ColumnChoices:
    """Values of the flags for columns and for reading a training file."""

    options: FileOptions = FileOptions()  # noqa: RUF009 (frozen)
    missing: Annotated[
        Missing | None,
        _option(
            help=f"Replace missing numbers (empty{', '.join(NOTHING)}, in any case) by this statistic of the column; a "
            "missing text belongs to no category, a missing date becomes the mean.",
            show_default="missing values are refused",
        ),
    ] = None
    categories: Annotated[
        bool | None, _option("--categories", help="One-hot encode the columns of text.", show_default=False)
    ] = None
    category: Annotated[
        list[str] | None, _option(metavar="COLUMN", help="One-hot encode these numbers, too; may be repeated.")
    ] = None
    dates: Annotated[
        str | None,
        _option(
            metavar="FORMAT",
            help="Turn columns of dates into numbers: the day, and the position in the year, week and day. FORMAT is "
            "'iso' or a format of strptime, such as '%d.%m.%Y'.",
        ),
    ] = None
    decimal_comma: Annotated[
        bool | None,
        _option("--decimal-comma", help="Numbers in CSV have a decimal comma: 1,5.", show_default=False),
    ] = None
    thousands: ThousandsOption = None
    na: NaOption = None
    drop: Annotated[list[str] | None, _option(metavar="COLUMN", help="Leave this column out; may be repeated.")] = None
    skip_unlabelled: SkipUnlabelledOption = None

    @classmethod
    def of(cls, given: dict[str, Any]) -> Self:
        """Remove the flags from `given`; raises ValueError for an invalid value."""
        found = cls(file_options(**values_taken(file_options, given)), **values_taken(cls, given))
        if found.dates is not None:
            check_format(found.dates)
        if found.thousands == ("," if found.decimal_comma else "."):
            remedy = "--decimal-comma cannot be used with it" if found.decimal_comma else "add --decimal-comma"
            raise ValueError(f"--thousands {found.thousands} is the decimal mark, too; {remedy}")
        return replace(found, category=[name.strip() for name in found.category or ()])

    def with_flags(self, flags: dict[str, Any]) -> Self:
        """Return the choices with other values of flags, by field; lists are appended."""
        lists = {
            name: list(dict.fromkeys([*(getattr(self, name) or ()), *value]))
            for name, value in flags.items()
            if isinstance(value, list)
        }
        return replace(self, **flags | lists)

    @property
    def words(self) -> list[str]:
        """Return the words of a command line that give these choices."""
        words = option_words(self.options)
        for flag in flags_of(type(self)):
            name, value = f"--{flag.name.replace('_', '-')}", getattr(self, flag.name)
            values = value if isinstance(value, list) else [value] if value else []
            words += [name] if value is True else [word for one in values for word in (name, str(one))]
        return words

    @property
    def given(self) -> list[str]:
        """Return the flags for columns that were given."""
        return [f"--{flag.name.replace('_', '-')}" for flag in flags_of(type(self)) if getattr(self, flag.name)]

    @property
    def first(self) -> str | None:
        """Return the first flag for columns that was given."""
        return next(iter(self.given), None)

    @property
    def are_for_tables(self) -> bool:
        """Return whether columns may be other than plain numbers."""
        return self.first not in (None, "--drop")

    @property
    def reading(self) -> Reading:
        """Return the flags for reading further files; the notes of the model have the other choices."""
        return Reading(self.options, skip_unlabelled=self.skip_unlabelled)

    def resuming(self, data: str, model: Path, method: str | None) -> str:
        """Return the command that resumes training, and calibrates the model by `method` unless that is None."""
        words = ["dimargin", "train", data, "--resume", str(model), "--model", str(model), *option_words(self.options)]
        words += ["--skip-unlabelled"] if self.skip_unlabelled else []
        return shlex.join(words + ([] if method is None else ["--probabilities", "--calibration", method]))

    @property
    def notes(self) -> dict[str, Any]:
        """Return the choices that a model file stores to read other files; empty without flags."""
        if not self.are_for_tables:
            return {}
        return {
            "decimal_comma": bool(self.decimal_comma),
            "missing": None if self.missing is None else str(self.missing),
            **({"na": list(self.na)} if self.na else {}),
            **({"thousands": str(self.thousands)} if self.thousands else {}),
        }


def column_flags() -> list[inspect.Parameter]:
    """Return the flags for reading a training file and choosing its columns."""
    return [*flags_of(file_options), *flags_of(ColumnChoices)]


def reading_flags() -> list[inspect.Parameter]:
    """Return the flags for reading a labelled file for an existing model."""
    return [*flags_of(file_options), *flags_of(Reading)]
