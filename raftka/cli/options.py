"""Options that several commands share."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, TypeVar

import click

from raftka.cli.completion import complete_partitions
from raftka.cli.exit_codes import CommandError
from raftka.cli.param_types import PATH, BoundedFloat, BoundedInt, EnumChoice
from raftka.kafka import client as kafka_client
from raftka.kafka.client import DEFAULT_BROKERS, PartitionInfo

F = TypeVar("F", bound=Callable[..., Any])


class Format(StrEnum):
    """How data is printed."""

    TEXT = "text"
    JSON = "json"


def check_brokers(text: str) -> str:
    """Return a list of bootstrap addresses as it is.

    Raises:
        click.BadParameter: One of them is no HOST:PORT.
    """
    # Imported here: `--help` needs the options, and not what checks their values.
    from raftka.config import parse_address

    for address in text.split(","):
        # A bootstrap address may have a protocol before it, as in PLAINTEXT://127.0.0.1:9092.
        try:
            parse_address(address.strip().rpartition("://")[2])
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    return text


def given_brokers(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    """Return the value of an option with bootstrap addresses; raises what `check_brokers` raises."""
    return None if text is None else check_brokers(text)


def given_group(_: click.Context, __: click.Parameter, name: str | None) -> str | None:
    """Return the value of an option or argument that names a group.

    Raises:
        click.BadParameter: It is empty: Kafka has no such group, and librdkafka ends the process that names one.
    """
    if name == "":
        raise click.BadParameter("the name of a group must not be empty")
    return name


def given_groups(context: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of groups; raises what `given_group` raises."""
    for name in names:
        given_group(context, parameter, name)
    return names


def given_transactional_id(_: click.Context, __: click.Parameter, name: str | None) -> str | None:
    """The callback of each option or argument that names a transactional id."""
    if name == "":
        raise click.BadParameter("a transactional id must not be empty")
    # The length of a string in Kafka's protocol.
    if name is not None and len(name.encode()) >= 2**15:
        raise click.BadParameter(f"a transactional id has at most {2**15 - 1} bytes")
    return name


def parse_pairs(texts: Sequence[str], flag: str) -> dict[str, str]:
    """Return what was given as KEY=VALUE.

    Raises:
        click.BadParameter: Something else, or a key that is set twice; `flag` is named.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{flag} {text}: must be KEY=VALUE")
        if key in pairs:
            raise click.BadParameter(f"{flag} {text}: {key} is set twice")
        pairs[key] = value
    return pairs


def existing_partitions(brokers: str, topic: str, chosen: Sequence[int]) -> list[int]:
    """Return the partitions of a topic that were chosen, in order; all of them where none were.

    Raises:
        CommandError: One of them does not exist.
        KafkaClientError: The topic does not exist, or no broker answers.
    """
    return chosen_partitions(topic, kafka_client.read_cluster(brokers).topic(topic), chosen)


def chosen_partitions(topic: str, partitions: Sequence[PartitionInfo], chosen: Sequence[int]) -> list[int]:
    """Return the chosen numbers among the partitions of a topic, in order; all of them where none were chosen.

    Raises:
        CommandError: One of them does not exist.
    """
    known = [each.partition for each in partitions]
    if missing := sorted(set(chosen) - set(known)):
        there_is = "partition 0 only" if len(known) == 1 else f"partitions 0 to {len(known) - 1}"
        raise CommandError(f"topic {topic} has {there_is}, not {missing[0]}")
    return sorted(set(chosen or known))


brokers_option = click.option(
    "--brokers",
    envvar="RAFTKA_BROKERS",
    show_envvar=True,
    metavar="HOST:PORT,...",
    default=DEFAULT_BROKERS,
    callback=given_brokers,
    help="Bootstrap addresses of the cluster.",
)
partitions_option = click.option(
    *("--partition", "-p", "partitions"),
    type=BoundedInt(0),
    multiple=True,
    metavar="N",
    shell_complete=complete_partitions,
    help="Partition; repeat for more. [default: all]",
)
format_option = click.option(
    *("--format", "-f", "output"), type=EnumChoice(Format), default=Format.TEXT.value, help="Output format."
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
data_dir_option = click.option(
    "--data-dir",
    type=PATH,
    metavar="DIR",
    help="Directory of the cluster. [default: raftka/dev in the XDG data directory]",
)

__all__ = [
    "DEFAULT_BROKERS",
    "Format",
    "brokers_option",
    "check_brokers",
    "chosen_partitions",
    "data_dir_option",
    "dry_run_option",
    "existing_partitions",
    "format_option",
    "given_brokers",
    "given_group",
    "given_groups",
    "given_transactional_id",
    "parse_pairs",
    "partitions_option",
]


def timeout_option(seconds: float) -> Callable[[F], F]:
    """Return `--timeout` of a command that waits for what it has begun."""
    return click.option(
        "--timeout",
        type=BoundedFloat(1.0, 7 * 86_400.0),
        default=seconds,
        metavar="SECONDS",
        help="How long to wait; what was begun goes on after that.",
    )
