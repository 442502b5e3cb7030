"""Every mistake on a command line is one clear line, before anything starts."""

from __future__ import annotations

import pytest

from tests.cli.wrong_commands import answer, inputs, wrong_commands

COMMANDS = wrong_commands()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return inputs(tmp_path_factory.mktemp("wrong"))


@pytest.mark.parametrize(
    ("command", "line"),
    [
        pytest.param(command, line, marks=pytest.mark.slow if slow else (), id=command)
        for command, line, slow in COMMANDS
    ],
)
def test_wrong_commands_end_in_their_line(command, line, folder):
    assert answer(command, folder) == f"{line}\n"


def test_the_list_is_long_and_has_each_command_once():
    assert len({each.command for each in COMMANDS}) == len(COMMANDS) >= 150
