"""What is loaded for a command, and the command line of a plain installation."""

import subprocess
import sys

import pytest
import typer

import dimargin
from dimargin.cli.app import app as app_of_all
from dimargin.cli.root import all_commands, overview
from dimargin.system.extras import EXTRA_OF

PLAIN = f"""
import sys
sys.modules.update(dict.fromkeys({[*EXTRA_OF]!r}))  # as if they were not installed
from dimargin.cli import main
main()
"""
PEERS = 'needs the extra "peers": pip install "dimargin[peers]"\n'


def plain(*arguments):
    done = subprocess.run([sys.executable, "-c", PLAIN, *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "train.csv"
    path.write_text("a,class\n" + "".join(f"{k % 2 + k / 99},{('ham', 'spam')[k % 2]}\n" for k in range(40)))
    return path


@pytest.mark.slow
def test_the_help_lists_all_commands():
    status, out, err = plain("--help")
    assert status == 0 and not err
    for name in ("train", "predict", "evaluate", "info", "tune", "svm-train", "svm-scale", "site", "simulate"):
        assert f"│ {name} " in out, out


def test_commands_that_need_no_extra_work(csv, tmp_path):
    model = tmp_path / "m"
    status, _, err = plain("train", csv, "--model", model, "--validate", csv)
    assert status == 0, err
    assert plain("predict", model, csv, "--quiet")[:2] == (0, "ham\nspam\n" * 20)


@pytest.mark.slow
def test_commands_say_which_extra_they_need(csv, tmp_path):
    data = ("site", "--name", "north", "--data", csv)
    assert plain(*data, "--folder", tmp_path / "f") == (2, "", f"dimargin: dimargin site {PEERS}")
    assert not (tmp_path / "f").exists()
    for command in (("gossip", csv), ("coreset",)):
        needed = f"dimargin: dimargin simulate {command[0]} {PEERS}"
        assert plain("simulate", *command) == (2, "", needed)


def test_a_site_says_what_it_is_and_how_it_is_without_the_extra(tmp_path):
    status, out, err = plain("site", "--help")
    assert status == 0 and "Usage: dimargin site" in out.replace("-c site", "dimargin site"), err
    status, _, err = plain("site", "--name", "north", "--folder", tmp_path, "--status")
    assert status == 1 and "extra" not in err  # there is none


@pytest.mark.slow
@pytest.mark.parametrize("command", [["tune"], ["simulate", "gossip"], ["evaluate", "MODEL"]])
def test_pictures_are_refused_before_the_work(csv, tmp_path, command):
    model, picture = tmp_path / "m", tmp_path / "p.png"
    if "MODEL" in command:
        assert plain("train", csv, "--model", model, "--quiet")[0] == 0
        command = ["evaluate", model]
    status, out, err = plain(*command, csv, "--plot", picture, *(["--model", model] if command == ["tune"] else []))
    extra = "peers" if command[0] == "simulate" else "report"
    assert (status, out) == (2, "") and err.endswith(f'needs the extra "{extra}": pip install "dimargin[{extra}]"\n')
    assert not picture.exists() and model.exists() == (command[0] == "evaluate")


# ---- a command waits for no other ------------------------------------------------------------------------------------

LOADED = """
import sys
from dimargin.cli import main
sys.argv = ["dimargin", *sys.argv[1:]]
try:
    main()
finally:
    print("loaded:", *sorted({"sklearn", "pyarrow", "dimargin.cli.train", "dimargin.cli.tune"} & set(sys.modules)))
"""


def loaded(*arguments):
    done = subprocess.run([sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True)
    before, _, names = done.stdout.rpartition("loaded:")
    return done.returncode, before, done.stderr, names.split()


@pytest.mark.parametrize("arguments", [["--help"], [], ["--version"], ["trian"], ["site", "--help"]])
def test_what_trains_nothing_loads_nothing_that_trains(arguments):
    status, out, err, names = loaded(*arguments)
    assert not names and status == (0 if "--" in "".join(arguments) else 2)
    if arguments == ["--version"]:
        assert out == f"dimargin {dimargin.__version__}\n"
    if arguments == ["trian"]:
        assert "No such command 'trian'. Did you mean 'train'?" in err


def test_a_command_is_loaded_without_the_others():
    status, out, _, names = loaded("tune", "--help")
    assert status == 0 and "dimargin tune [OPTIONS]" in out and names == ["dimargin.cli.tune", "pyarrow", "sklearn"]
    assert "svm-scale [OPTIONS]" in loaded("svm_scale", "--help")[1]


def helps(app):
    """The first sentence, or all before a colon, that each command says of itself, in the order of the list."""
    return {
        name: " ".join((command.help or "").split("\n\n")[0].split())
        for name, command in typer.main.get_command(app).commands.items()
    }


def test_the_list_says_what_commands_say_of_themselves():
    own = helps(app_of_all)
    assert helps(overview()) == {name: own[name] for name in all_commands()} and own.keys() == all_commands().keys()
