"""Docstrings of estimators: every parameter is described, also those that several classes share."""

import inspect
import re

import pytest

import dimargin as dm
from dimargin.estimators.docstrings import documented, parameter_texts

ESTIMATORS = [found for name in dm.__all__ if inspect.isclass(found := getattr(dm, name)) and hasattr(found, "fit")]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: estimator.__name__)
def test_every_parameter_is_described_in_the_order_of_the_constructor(estimator):
    assert list(parameter_texts(estimator)) == list(inspect.signature(estimator).parameters)
    assert not re.search(r"%\(", estimator.__doc__)


def test_entries_come_from_the_nearest_base_class():
    class First:
        """First.

        Parameters
        ----------
        a, b : int
            Both.
        c : str
        """

    class Second(First):
        """Second.

        Parameters
        ----------
        c : float
            Second's,
            in two lines.
        """

    @documented
    class Third(Second):
        """Third.

        Parameters
        ----------
        d : int
        %(a, c)s

        Notes
        -----
        None.
        """

    assert Third.__doc__.splitlines()[4:] == [
        "d : int", "a, b : int", "    Both.", "c : float", "    Second's,", "    in two lines.",
        "", "Notes", "-----", "None.",
    ]  # fmt: skip
    with pytest.raises(KeyError, match="e"):
        documented(type("Fourth", (First,), {"__doc__": "Fourth.\n\n%(e)s\n"}))
