import sys

import pytest

from dimargin.cli import main


@pytest.fixture
def dimargin(monkeypatch, capsys):
    """Run the command line here; returns exit status, standard output and standard error."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["dimargin", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return stop.value.code or 0, out, err

    return run
