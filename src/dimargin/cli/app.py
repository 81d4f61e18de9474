"""The command line with all its commands loaded, for documentation, completion and tests."""

from __future__ import annotations

from dimargin.cli.root import all_commands, new_app, register

app = new_app()

for name in dict.fromkeys(command.module for command in all_commands().values()):
    register(app, name)
