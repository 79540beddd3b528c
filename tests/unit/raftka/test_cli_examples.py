"""Examples in helps: every command has some, and each is a line that the command takes."""

import re
import shlex

import click
import pytest

from raftka.cli.examples import EXAMPLES, folded, lines_of
from raftka.cli.lazy_group import Command, CommandGroup
from raftka.cli.root import app, run
from tests.command_tree import every_command

LINES = [(path, each.line) for path, examples in EXAMPLES.items() for each in examples]


def test_every_command_has_examples_and_no_example_is_of_another() -> None:
    commands = every_command()
    missing = [path for path, found in commands.items() if not isinstance(found, click.Group) and path not in EXAMPLES]
    assert missing == [], "put examples into raftka/cli/examples.py"
    assert [path for path in EXAMPLES if path not in commands] == []
    assert all(isinstance(each, Command | CommandGroup) for each in commands.values())


@pytest.mark.parametrize(("path", "line"), LINES)
def test_an_example_is_taken_by_its_command(path: str, line: str) -> None:
    typed = re.search(r"raftka [^|)>]*", line)
    assert typed is not None
    arguments = shlex.split(typed[0])[1:]
    assert " ".join(arguments).startswith(path)
    context = click.Context(app, info_name="raftka")
    command: click.Command = app
    while isinstance(command, click.Group) and arguments:
        if arguments[0].startswith("-"):
            break
        name, found, arguments = command.resolve_command(context, arguments)
        assert found is not None
        command, context = found, click.Context(found, info_name=name, parent=context)
    # Raises UsageError if the command does not take these arguments.
    command.make_context(command.name, arguments, parent=context.parent)


@pytest.mark.parametrize("path", ["", *every_command()])
@pytest.mark.parametrize("columns", ["40", "80"])
def test_a_help_ends_with_the_examples_in_lines_that_fit_and_can_be_pasted(
    path: str, columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert run([*path.split(), "--help"]) == 0
    _, _, shown = capsys.readouterr().out.partition("\nExamples:\n")
    pasted = shown.replace("\\\n", " ").splitlines()
    assert [" ".join(each.split()) for each in pasted] == lines_of(path)
    longest = max(map(len, re.findall(r"'[^']*'|\S+", shown)))
    assert max(map(len, shown.splitlines())) <= max(50 if columns == "40" else 78, longest + 6)


def test_the_help_of_a_group_shows_one_example_of_each_command() -> None:
    assert lines_of("cluster config")[:2] == [
        "raftka cluster config list --changed",
        "raftka cluster config get log.retention.ms",
    ]
    assert lines_of("") == [
        *("raftka dev", "raftka topic create orders", "echo hello | raftka produce orders", "raftka consume orders -e"),
    ]


def test_a_line_is_never_folded_inside_of_quotes() -> None:
    line = 'echo \'{"a": "b c"}\' | raftka produce t -f "%k %s"'
    assert folded(line, 24) == ['echo \'{"a": "b c"}\' | \\', "  raftka produce t -f \\", '  "%k %s"']
    assert folded(line, 200) == [line]
