"""The files that start sites as services: the command line takes their flags, and systemd their unit."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

PACKAGING = Path(__file__).parents[1] / "packaging"
UNIT = PACKAGING / "systemd" / "dimargin-site@.service"
COMPOSE = (PACKAGING / "container" / "compose.yaml").read_text()


def command_of_unit():
    text = UNIT.read_text()
    flags = re.search(r"^#   FLAGS=(.*)$", text, re.MULTILINE)[1].replace("/srv/dimargin/north.csv", "rows.csv")
    command = re.search(r"^ExecStart=\S+ (.*)$", text, re.MULTILINE)[1]
    return command.replace("%i", "north").replace("${STATE_DIRECTORY}", "state").replace("$FLAGS", flags)


@pytest.mark.parametrize("command", [command_of_unit(), *re.findall(r"^ +command: (.*)$", COMPOSE, re.MULTILINE)])
def test_flags_are_those_of_the_command_line(dimargin, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").touch()
    status, _, err = dimargin(*command.split(), "--status")
    assert status == 1 and "no site has run in this folder" in err


def test_sites_in_containers_have_names_and_rows_of_their_own():
    services = re.findall(
        r"^  (\w+):\n    <<: \*site\n    command: .*--name (\w+) .*\n    volumes: \[\"./(\w+):/data\"]", COMPOSE, re.M
    )
    assert [set(names) for names in services] == [{"north"}, {"south"}, {"east"}]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_the_unit(tmp_path):
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/dimargin/bin/dimargin", shutil.which("true")))  # It must be there.
    found = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
