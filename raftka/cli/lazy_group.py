"""A group of commands whose modules are imported when they are asked for: `raftka --help` needs their names only."""

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup

from raftka.cli.interrupts import quiet_ctrl_c


class QuickGroup(TyperGroup):
    """A group that does not import pydantic to find out that nobody has asked for its own help."""

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option, with a default that nobody needs to look into."""
        option = super().get_help_option(ctx)
        if option is not None:
            # Newer versions of typer have None here, and validate it; only what is a bool already is left alone.
            option.default = False
        return option


class LazyCommand(NamedTuple):
    """Where a command is.

    Attributes:
        module: Name of the module that has it.
        attribute: A function, or a `typer.Typer` with more commands.
        summary: What it does, in a line of the help.
    """

    module: str
    attribute: str
    summary: str

    def load(self, name: str) -> Any:
        """Import the command and return it as click knows commands."""
        with quiet_ctrl_c():
            found = getattr(importlib.import_module(self.module), self.attribute)
        # What a command of typer's looks like follows from the group that it is in.
        group = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        if isinstance(found, typer.Typer):
            group.add_typer(found, name=name, cls=QuickGroup)
        else:
            group.command(name)(found)
        return typer.main.get_group(group).commands[name]


def lazy_group(commands: Mapping[str, LazyCommand]) -> type[TyperGroup]:
    """Return a class of group that has these commands, in this order, after its own."""

    class LazyGroup(QuickGroup):
        """A group that is asked for a command before it has it."""

        def list_commands(self, ctx: Any) -> list[str]:
            return [*commands, *super().list_commands(ctx)]

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name in commands and cmd_name not in self.commands:
                self.commands[cmd_name] = commands[cmd_name].load(cmd_name)
            return super().get_command(ctx, cmd_name)

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            own = [(name, command.get_short_help_str()) for name, command in self.commands.items()]
            rows = {name: command.summary for name, command in commands.items()}
            with formatter.section("Commands"):
                formatter.write_dl([*rows.items(), *(row for row in own if row[0] not in rows)])

    return LazyGroup
