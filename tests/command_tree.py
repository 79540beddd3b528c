"""Every command of `raftka`, found by a walk through the tree of groups."""

from collections.abc import Iterator

import click

from raftka.cli.root import app


def every_command() -> dict[str, click.Command]:
    """Return the commands and groups by path, without `raftka` itself; new ones are among them by themselves."""
    return dict(_below(app, click.Context(app, info_name="raftka"), ""))


def _below(group: click.Group, context: click.Context, path: str) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        below = f"{path} {name}".strip()
        yield below, command
        if isinstance(command, click.Group):
            yield from _below(command, click.Context(command, info_name=name, parent=context), below)
