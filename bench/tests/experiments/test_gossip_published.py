"""The GADGET paper's figures by our names, and its contradictions, which are computed from them."""

import pytest

from dimargin_bench.experiments.gossip_published import beyond_profiles, contradictions, figures, number, samples
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
        ("Table 2", ["15 of this table's 66", "The accuracy 0.049 of GADGET on quantum", "adult 37.44 and 0.04 s",
                     "accuracies, in Table 2 and in Table 3: quantum 0.51 and 0.52, covertype 0.49 and 0.41.",
                     "the table Mini-Batch (b=100) (0.0020 s) and Mini-Batch (b=10) (0.0018 s) are faster than SGD "
                     "(0.0022 s), and none of GADGET's 4 other accuracies are above SGD's, 0.98.",
                     "copy of the text, the rows Mini-Batch (b=1000) and Mini-Batch (b=100) of adult are equal",
                     "10617.58 on gisette (GD) is not the quotient of its times, 8.48, but that of the rival's time "
                     "and GADGET's with Mini-Batch (b=1000)."]),
        ("Table 3", ["6 of this table's 28", "quantum 0.04 and 1.24 s",
                     "on adult (1.45; the printed times have the quotient 1.5)",
                     "over ASG SVM on quantum (0.37), CHOCO-SGD on quantum (0.04), ",
                     "excepts ASG SVM on quantum, and CHOCO-SGD on quantum and covertype",
                     "262.49 on real-sim (ASG SVM) is not the quotient of its times, 26,249.87."]),
        ("Table 4", ["The accuracy 0.05 of Dist-ADMM on adult", "on 6 of 7 data sets",
                     "in the tables it is on 4 of 6 that have both figures, and as accurate on 1 (GADGET's accuracies "
                     "on quantum and protein are those of Table 3",
                     "it takes less time on gisette (0.88 s, GADGET 3.91 s)."]),
    ],
)  # fmt: skip
def test_contradictions_are_named(table, facts):
    said = contradictions(table)
    for fact in facts:
        assert fact in said
    assert "sido" not in said and said.count("not the quotient") == (table != "Table 4")
    assert said.index("below 50%") < said.index("contradict one another")  # An accuracy below half is none by itself.


def test_tables_without_contradictions_have_no_such_sentence():
    assert contradictions("Table 5") == contradictions("Table 6") == ""


def test_means_beyond_the_range_of_the_text_are_counted():
    """By hand from Table 2: one of gisette, one of quantum, and all five of adult and of covertype."""
    assert "12 of GADGET's 18 mean accuracies" in beyond_profiles(50, 70)
    assert "gisette 59 to 71%" in beyond_profiles(66, 68)
    assert beyond_profiles(0, 100).count("%:") == 1 and "0 of GADGET's 18" in beyond_profiles(0, 100)
