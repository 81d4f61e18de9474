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


@pytest.fixture
def swarm():
    """Links on Zenoh, which the test opens and the fixture closes."""
    from zenoh_swarm import Swarm  # skips where Zenoh is not installed

    made = Swarm()
    yield made
    made.close()
