"""Shell completion: the script that a shell loads, and names of topics and groups from the cluster."""

import os
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

# A person waits for the key that was pressed.
_SECONDS = 1.0
# A shell names in it what it wants of `raftka`; the name follows from that of the command.
COMPLETE_VARIABLE = "_RAFTKA_COMPLETE"


class Shell(StrEnum):
    """A shell that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="Which shell the script is for.")]) -> None:
    """Print a script that completes commands, options, topics and groups: source <(raftka completion bash)."""
    # Only typer's own options reach it otherwise, and these would edit somebody's ~/.bashrc.
    from typer._completion_shared import get_completion_script

    print(get_completion_script(prog_name="raftka", complete_var=COMPLETE_VARIABLE, shell=shell.value))


def prepare_to_complete() -> None:
    """Let a process that a shell started to complete a line know the shells."""
    if COMPLETE_VARIABLE in os.environ:
        from typer._completion_classes import completion_init

        completion_init()


def complete_topics(context: typer.Context, incomplete: str) -> list[str]:
    """Return the topics that begin so; none where no cluster answers."""
    from raftka import kafka_client

    return _names(context, incomplete, lambda brokers: list(kafka_client.read_cluster(brokers, _SECONDS).topics))


def complete_groups(context: typer.Context, incomplete: str) -> list[str]:
    """Return the groups that begin so; none where no cluster answers."""
    from raftka import kafka_groups

    return _names(context, incomplete, lambda brokers: [each.name for each in kafka_groups.list_groups(brokers)])


def _names(context: Any, incomplete: str, read: Callable[[str], list[str]]) -> list[str]:
    from raftka.kafka_client import DEFAULT_BROKERS, KafkaClientError

    brokers = context.params.get("brokers") or os.environ.get("RAFTKA_BROKERS") or DEFAULT_BROKERS
    try:
        return [name for name in read(brokers) if name.startswith(incomplete)]
    except KafkaClientError:
        return []
