"""The GADGET paper's figures by our names, and its contradictions, which are computed from them."""

import pytest

from dimargin_bench.experiments.gossip_published import contradictions, figures, number, samples
from dimargin_bench.papers import Marked


def test_figures_stand_under_our_names():
    table_2 = figures("Table 2", {"GADGET": "gadget", "Pegasos": "pegasos"}, case=str)
    assert table_2["a9a", "gadget, SGD", "seconds"] == 37.44
    assert table_2["covtype.libsvm.binary", "pegasos, Mini-Batch (b=10)", "accuracy"] == 0.52
    assert table_2["gisette", "gadget, Mini-Batch (b=10)", "accuracy"] == Marked(None, "unreadable")
    assert figures("Table 2", {"GADGET": "pegasos"}, ["speed-up"], case=str)["a9a", "pegasos, GD", "speed_up"] == 10.35
    assert figures("Table 4", {"LIBSVM": "libsvm"})["real-sim", "libsvm", "accuracy"] == 1.0  # printed as 100
    assert number("Table 7", "alpha", data="sido") == 10.5


def test_samples_have_the_rows_of_the_paper():
    names = {sample.name: str(sample) for sample in samples(covertype=20_000)}
    assert names["a9a"] == "a9a, 25,000 rows" and names["covtype.libsvm.binary"].endswith("20,000 rows")
    assert [sample.train_rows for sample in samples()] == [5000, 11_000, 40_000, 100_000, 25_000, 500_000, 60_000]


@pytest.mark.parametrize(
    ("table", "facts"),
    [
        ("Table 2", ["15 of this table's 66", "adult 37.44 and 0.04 s", "covertype 0.092 and 0.81 s",
                     "(b=1000) and Mini-Batch (b=100) of adult are equal",
                     "10617.58, is not the quotient of its times, 8.48"]),
        ("Table 3", ["6 of this table's 28", "quantum 0.04 and 1.24 s", "CHOCO-SGD on covertype (0.08)"]),
        ("Table 4", ["on 6 of 7 data sets", "the table on 4 of 6 that have both figures, and as accurate on 1"]),
    ],
)  # fmt: skip
def test_contradictions_are_named(table, facts):
    said = contradictions(table)
    for fact in facts:
        assert fact in said
    assert "sido" not in said and said.count("not the quotient") == (table == "Table 2")


def test_tables_without_contradictions_have_no_such_sentence():
    assert contradictions("Table 5") == contradictions("Table 6") == ""
