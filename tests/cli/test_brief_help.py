"""The help of commands with many options: common ones, and all of them."""

import inspect

import pytest
from text_files import words_of

import dimargin as dm
from dimargin.cli import root

COMMANDS = {
    "train": dm.SVMClassifier,
    "tune": dm.ODMClassifierCV,
    "simulate gossip": dm.GossipSVMClassifier,
    "site": None,
}


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_a_few_screens_and_says_where_there_is_more(dimargin, command):
    status, out, _ = dimargin(*command.split(), "--help")
    assert status == 0 and len(out.splitlines()) < 160
    assert "--help-all shows all options" in out
    for of_python in ("<bool>", "None", "callable", "ndarray"):
        assert of_python not in out


@pytest.mark.parametrize("command", [*filter("simulate".__ne__, root.COMMANDS), "simulate gossip", "simulate coreset"])
def test_help_has_an_example(dimargin, command):
    status, out, _ = dimargin(*command.split(), "--help")
    assert status == 0 and f"Example: dimargin {command}" in out


@pytest.mark.parametrize("command", COMMANDS)
def test_all_options_have_their_full_help(dimargin, command):
    brief, (status, out, _) = dimargin(*command.split(), "--help")[1], dimargin(*command.split(), "--help-all")
    assert status == 0 and len(out.splitlines()) > 1.5 * len(brief.splitlines())
    assert "--quotes" in out and "--quotes" not in brief and "<bool>" not in out
    if COMMANDS[command] is not None:
        elsewhere = {"verbose", "warm_start", "estimator", "param_grid"}
        names = set(inspect.signature(COMMANDS[command]).parameters) - elsewhere
        missing = {name for name in names if f"--{name.replace('_', '-')}" not in out}
        assert missing <= {"loss", "algorithm", "conditions", "share_rows", "n_jobs", "cv"}
    assert dimargin(*command.split(), "--help")[1] == brief


@pytest.mark.parametrize("command", ["train", "tune"])
def test_flags_for_messy_files_are_in_the_short_help(dimargin, command):
    brief = dimargin(command, "--help")[1]
    for flag in (
        "missing",
        "categories",
        "category",
        "dates",
        "decimal-comma",
        "thousands",
        "drop",
        "encoding",
        "calibration",
    ):
        assert f"--{flag} " in brief, flag
    assert "ConvergenceWarning" not in dimargin(command, "--help-all")[1]


def test_defaults_that_differ_name_the_loss(dimargin):
    text = words_of(dimargin("train", "--help-all")[1])
    assert "(default: auto; --loss linear_odm: 10000.0)." in text
