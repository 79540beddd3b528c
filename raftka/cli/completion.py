"""Shell completion: the script that a shell loads, and names of topics, groups, partitions and keys of a cluster."""

import os
import re
from collections.abc import Callable

import click

from raftka.cli.lazy_group import Command

# A person waits for the key that was pressed.
_SECONDS = 1.0
# What stands for itself in every shell; the scripts have a comma between what they are told.
_PLAIN = re.compile(r"[\w@%+=:./-]+")
# A shell names in it what it wants of `raftka`; the name follows from that of the command.
COMPLETE_VARIABLE = "_RAFTKA_COMPLETE"
_SHELLS = ("bash", "zsh", "fish")


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(_SHELLS), metavar="|".join(_SHELLS), help="Shell that loads the script.")
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that completes commands, options and names: source <(raftka completion bash)."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    print(found(context.find_root().command, {}, "raftka", COMPLETE_VARIABLE).source())


def answer_shell(app: click.Command) -> int:
    """Print how a line goes on, for a script of `raftka completion` that asks. Returns the exit code."""
    from click.shell_completion import shell_complete

    return shell_complete(app, {}, "raftka", COMPLETE_VARIABLE, os.environ[COMPLETE_VARIABLE])


def complete_topics(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the topics that begin so; none where no cluster answers."""
    from raftka.kafka import client as kafka_client

    return _names(context, incomplete, lambda brokers: list(kafka_client.read_cluster(brokers, _SECONDS).topics))


def complete_groups(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the groups that begin so; none where no cluster answers."""
    from raftka.kafka import groups as kafka_groups

    return _names(context, incomplete, lambda brokers: [each.name for each in kafka_groups.list_groups(brokers)])


def complete_partitions(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the partitions of the topic that stands in the line."""
    from raftka.kafka import client as kafka_client

    def read(brokers: str) -> list[str]:
        topics = kafka_client.read_cluster(brokers, _SECONDS).topics
        return [str(each.partition) for each in topics.get(_typed_topic(context), [])]

    return _names(context, incomplete, read)


def complete_topic_keys(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the keys of a topic's configuration that begin so."""
    return _names(context, incomplete, lambda brokers: _topic_keys(context, brokers))


def complete_topic_pairs(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return what `complete_topic_keys` returns, each with the `=` behind which its value belongs."""
    return _names(context, incomplete, lambda brokers: [f"{key}=" for key in _topic_keys(context, brokers)])


def complete_broker_keys(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the keys of a broker's configuration that begin so."""
    return _names(context, incomplete, _broker_keys)


def complete_loggers(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the loggers of a broker that begin so."""
    return _names(context, incomplete, _loggers)


def complete_broker_pairs(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return what `complete_broker_keys` returns, each with the `=` behind which its value belongs."""
    return _names(context, incomplete, lambda brokers: [f"{key}=" for key in _broker_keys(brokers)])


def _topic_keys(context: click.Context, brokers: str) -> list[str]:
    from raftka.kafka import client as kafka_client
    from raftka.kafka import configs as kafka_configs

    topics = kafka_client.read_cluster(brokers, _SECONDS).topics
    typed = _typed_topic(context)
    # All topics have the same keys.
    names = [typed] if typed in topics else list(topics)[:1]
    return [each.key for name in names for each in kafka_configs.read_configs(brokers, kafka_configs.Owner.TOPIC, name)]


def _broker_keys(brokers: str) -> list[str]:
    from raftka.kafka import client as kafka_client
    from raftka.kafka import configs as kafka_configs

    nodes = list(kafka_client.read_cluster(brokers, _SECONDS).brokers)[:1]
    owner = kafka_configs.Owner.BROKER
    return [each.key for node in nodes for each in kafka_configs.read_configs(brokers, owner, str(node))]


def _loggers(brokers: str) -> list[str]:
    from raftka.kafka import client as kafka_client
    from raftka.kafka.loggers import read_levels

    nodes = list(kafka_client.read_cluster(brokers, _SECONDS).brokers.items())[:1]
    return [each.name for node, address in nodes for each in read_levels(node, address)]


def _typed_topic(context: click.Context) -> str:
    # Behind an option that still lacks its value, arguments are not told apart.
    typed = context.params.get("topic") or context.params.get("name") or next(iter(context.args), "")
    return str(typed)


def _names(context: click.Context, incomplete: str, read: Callable[[str], list[str]]) -> list[str]:
    from raftka.kafka.client import DEFAULT_BROKERS
    from raftka.kafka.errors import KafkaClientError

    brokers = context.params.get("brokers") or os.environ.get("RAFTKA_BROKERS") or DEFAULT_BROKERS
    try:
        # Shells put what we print into the line as it is: a name that needs quotes would become several words there.
        return [name for name in read(brokers) if name.startswith(incomplete) and _PLAIN.fullmatch(name)]
    except KafkaClientError:
        return []
