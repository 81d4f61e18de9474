import matplotlib
import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def no_window():
    """Draw without a screen, and leave no figure open."""
    matplotlib.use("Agg")
    yield
    plt.close("all")
