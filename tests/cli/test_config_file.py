"""``--config``: flags in a file."""

import json

import pytest
from text_files import words_of, write_moons


@pytest.fixture
def simulate(dimargin, tmp_path):
    """Simulate sites with a file of flags; returns the status, the facts and the errors."""
    rows = write_moons(tmp_path / "rows.csv", 120, 0)

    def run(text, *flags):
        (tmp_path / "flags.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
        status, out, err = dimargin("simulate", "gossip", rows, "--config", tmp_path / "flags.toml", "--json", *flags)
        return status, json.loads(out) if status == 0 else out, words_of(err)

    return run


def test_flags_of_the_file_are_defaults(simulate):
    text = 'n-sites = 3\nalgorithm = "admm"\ntopology = "ring"\nmax-iter = 9\nquiet = true\ntol = 1e-9\n'
    status, facts, err = simulate(text, "--n-sites", "4")
    assert (status, facts["sites"], facts["topology"], facts["rounds"]) == (0, 4, "ring", 9)
    assert "on 4 sites" not in err  # It is quiet.
    assert simulate(text)[1]["sites"] == 3


def test_a_file_may_repeat_a_flag_and_give_what_is_required(dimargin, tmp_path):
    for text, refused in (('name = "north"\nallow = ["south", "west"]', "--allow needs"), ("", "Missing option")):
        (tmp_path / "site.toml").write_text(f"{text}\n")
        status, _, err = dimargin("site", "--data", write_moons(tmp_path / "rows.csv", 9, 0), "--config",
                                  tmp_path / "site.toml")  # fmt: skip
        assert status != 0 and refused in words_of(err)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sites = 3", "there is no flag --sites"),
        ("n_sites = 3", "there is no flag --n_sites"),
        ("config = 'x'", "there is no flag --config"),
        ("DATA = 'x'", "there is no flag --DATA"),
        ("n-sites = [3]", "n-sites is [3], expected a text or a number"),
        ("n-sites = true", "n-sites is True, expected a text or a number"),
        ("quiet = 1", "quiet is 1, expected true or false"),
        ("alpha = 2020-01-01", "expected a text or a number"),
        ("n-sites = ", "Invalid value"),
        (b"topology = '\xff'", "can't decode byte 0xff"),
        ("a = " + "[" * 100_000, "it is nested too deeply"),
        ("#" * (2**20 + 1), "it has more than 1048576 bytes"),
        ("n-sites = 'many'", "Invalid value for '--n-sites'"),
    ],
)
def test_files_that_make_no_sense_are_refused(simulate, text, reason):
    status, out, err = simulate(text)
    assert status == 2 and out == "" and reason in err
