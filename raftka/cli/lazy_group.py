"""Groups of commands: in the order of their source, and such that import a command when it is asked for.

`raftka --help` needs the names of commands only.
"""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from raftka.cli.interrupts import quiet_ctrl_c

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class LazyCommand(NamedTuple):
    """Where a command is.

    Attributes:
        module: Name of the module that has it.
        attribute: A `click.Command`, or a `click.Group` with more commands.
        summary: What it does, in a line of the help.
    """

    module: str
    attribute: str
    summary: str

    def load(self) -> click.Command:
        """Import the command."""
        with quiet_ctrl_c():
            found = getattr(importlib.import_module(self.module), self.attribute)
        assert isinstance(found, click.Command)
        return found


class _WithExamples(click.Command):
    """A command whose help ends with examples."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples of the command."""
        # Imported here: only a help needs it.
        from raftka.cli.examples import folded, lines_of

        _, _, path = ctx.command_path.partition(" ")
        lines = lines_of(path)
        if lines:
            with formatter.section("Examples"):
                columns = formatter.width - formatter.current_indent
                for line in lines:
                    for piece in folded(line, columns):
                        formatter.write(f"{'':{formatter.current_indent}}{piece}\n")


class Command(_WithExamples):
    """A command; of the command line, all are of this class."""


class CommandGroup(_WithExamples, click.Group):
    """A group that lists its commands as they were added; without one of them it is used wrongly, and no help."""

    command_class: type[click.Command] | None = Command

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.no_args_is_help = False

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(self.commands)


class LazyGroup(CommandGroup):
    """A group that is asked for a command before it has it.

    Args:
        lazy_commands: By name; they come before those that are added to the group itself.
        settings: As of `click.Group`.
    """

    def __init__(self, *, lazy_commands: Mapping[str, LazyCommand], **settings: Any) -> None:
        super().__init__(**settings)
        self._lazy_commands = lazy_commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return [*self._lazy_commands, *(name for name in self.commands if name not in self._lazy_commands)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, which is imported now if it was not before."""
        if cmd_name in self._lazy_commands and cmd_name not in self.commands:
            self.add_command(self._lazy_commands[cmd_name].load(), cmd_name)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names and summaries of all commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._summaries(ctx).items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Return commands that begin so, or options: whoever presses Tab does not wait for imports either."""
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name, help=words) for name, words in self._summaries(ctx).items()]
        # Not the group's own: it would import all commands to complete the name of one.
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [each for each in found if each.value.startswith(incomplete)] + options

    def _summaries(self, ctx: click.Context) -> dict[str, str]:
        own = {name: command.get_short_help_str() for name, command in self.commands.items()}
        lazy = {name: command.summary for name, command in self._lazy_commands.items()}
        return {name: lazy.get(name) or own[name] for name in self.list_commands(ctx)}
