import linear_sites
import pytest


@pytest.fixture(scope="module")
def rows():
    """Rows of two overlapping classes, and their labels."""
    return linear_sites.overlapping(600)


@pytest.fixture(scope="module")
def optimum(rows):
    """The least objective of a machine on these rows."""
    return linear_sites.optimum(*rows)
