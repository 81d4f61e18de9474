"""The page of a network: what it shows of a status, and that texts of other sites stay texts."""

import json
import subprocess
import sys

import pytest
from report_page import Page, check_alone

from dimargin.display.network_page.page import MAX_DRAWN, write_network_page

HOSTILE = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "' onload='alert(1)", "</title></style></svg>",
    "{{ 7 * 7 }}{% raw %}", "&lt;b&gt;", "\u202egnp.exe", "a\x00b\nc", "\ud800", "x" * 255, "(others)",
]  # fmt: skip


def traffic(**counts):
    names = "messages_in", "bytes_in", "messages_out", "bytes_out", "lost", "dropped", "undecodable"
    return {**dict.fromkeys(names, 0), "heard": None, **counts}


def status(**changes):
    entry = {"seconds": 6.0, "round": 9, "objective": 0.4, "dual_objective": 0.3, "gap": 0.25}
    found = {
        "site": "north", "program": "admm", "shares": "parameters", "rows_shared": 0, "round": 36, "steps": 36,
        "neighbours": ["east"], "refused": {"west": "alpha is 1 there and 2 here"},
        "certified": {"rows": 30, "sites": 2},
        "features": 4, "labels": [-1, 1], "sites": {"north": 10, "east": 20, "far": 5}, "rows": 35,
        "bytes_in": 2000, "bytes_out": 1000, "converged": True, "trouble": "", "age": 0.5,
        "certificates": [entry, {**entry, "seconds": 9.0, "round": 20, "gap": 0.0009, "dual_objective": 0.39964}],
        "network": {"traffic": {"east": traffic(bytes_in=2000, bytes_out=1000, messages_in=7, heard=0.25)}},
    }  # fmt: skip
    return found | changes


@pytest.fixture
def page(tmp_path):
    def write(without=(), **changes):
        facts = {name: value for name, value in status(**changes).items() if name not in without}
        write_network_page(tmp_path / "network.html", facts)
        found = Page(tmp_path / "network.html")
        assert not found.references  # check_alone expects some
        found.references = ["#gap"]
        check_alone(found)
        return found

    return write


def test_the_page_shows_the_network(page):
    found = page()
    assert found.texts["gap"] == "≤ 0.090%" and found.texts["sites"] == "3" and found.texts["rows-known"] == "35"
    assert [row[0].strip() for row in found.tables["traffic"]] == ["Site", "north", "east", "west", "far"]
    assert found.tables["traffic"][2][1:5] == ["20", "2 kB", "1 kB", "7"]
    assert found.tables["traffic"][2][-1] == "250 ms ago"
    assert found.tables["refused"][1] == ["west", "alpha is 1 there and 2 here"]
    assert "30 rows at 2 sites" in found.source and found.source.count("<polyline") == 3
    assert found.source.count('<line x1="350"') == 1  # Only the neighbour has an edge.
    assert not {"trouble", "age"} & set(found.ids)


def test_texts_of_other_sites_stay_texts(page):
    plain = page()
    found = page(
        site=HOSTILE[0], program=HOSTILE[1], refused=dict(zip(HOSTILE, reversed(HOSTILE), strict=True)),
        sites=dict.fromkeys(HOSTILE, 5), neighbours=HOSTILE[:3], trouble="; ".join(HOSTILE), labels=HOSTILE,
        network={"traffic": {name: traffic(bytes_in=10) for name in HOSTILE}},
    )  # fmt: skip
    assert found.tags == plain.tags and set(found.ids) == {*plain.ids, "trouble"}
    assert all(text in found.texts["refused"] for text in HOSTILE[:3])
    assert not any(mark in found.source for mark in ("\u202e", "\x00", "\ud800"))
    assert "{{ 7 * 7 }}" in found.texts["trouble"]


def test_a_page_of_a_site_that_has_no_certificate_yet(page):
    found = page(certificates=[], neighbours=[], refused={}, sites={"north": 10}, network={})
    assert found.texts["gap"] == "none yet" and "no certificate yet" in found.source
    assert "refused" not in found.tables and "<polyline" not in found.source


def test_estimates_are_not_called_certificates(page):
    found = page(without=["certified"])
    assert found.texts["gap"] == "0.090%" and "Estimated gap" in found.source and "Certified" not in found.source


def test_an_old_status_and_trouble_are_shown_first(page):
    found = page(age=200.0, trouble="the disk is full")
    assert "3.33 min old" in found.texts["age"] and found.texts["trouble"] == "the disk is full"
    assert found.source.index("3.33 min old") < found.source.index("<h2>")


def test_a_large_network_is_listed_whole_and_drawn_in_part(page):
    names = [f"site-{k:04}" for k in range(1023)]
    found = page(sites={"north": 1, **dict.fromkeys(names, 1)}, neighbours=names, refused={}, network={})
    assert len(found.tables["traffic"]) == 1 + 1024
    assert found.source.count('<circle class="neighbour"') == MAX_DRAWN
    assert f"{MAX_DRAWN} of 1,023 other sites are drawn." in found.source


@pytest.mark.parametrize("name", [name for name in status() if name not in ("bytes_in", "certified", "steps")])
def test_a_damaged_status_is_refused(tmp_path, name):
    facts = status()
    del facts[name]
    if name == "certificates":  # A former version writes none.
        return write_network_page(tmp_path / "network.html", facts)
    with pytest.raises(ValueError, match="the status is damaged"):
        write_network_page(tmp_path / "network.html", facts)
    assert not (tmp_path / "network.html").exists()


def test_the_command_writes_the_page_without_scikit_learn(tmp_path):
    (tmp_path / "north").mkdir()
    (tmp_path / "north" / "status.json").write_text(json.dumps(status()))
    script = (
        "import sys\nfrom dimargin.cli import main\ntry: main()\nexcept SystemExit as end: assert not end.code\n"
        "assert not {'sklearn', 'matplotlib', 'dimargin._core'} & set(sys.modules)"
    )
    flags = "site", "--name", "north", "--page", "north/network.html"
    subprocess.run([sys.executable, "-c", script, *flags], cwd=tmp_path, check=True)
    assert Page(tmp_path / "north" / "network.html").texts["sites"] == "3"
