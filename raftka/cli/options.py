"""Options that several commands share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from raftka.cli.completion import complete_partitions
from raftka.cli.exit_codes import CommandError
from raftka.kafka import client as kafka_client
from raftka.kafka.client import DEFAULT_BROKERS


class Format(StrEnum):
    """How data is printed."""

    TEXT = "text"
    JSON = "json"


def check_brokers(text: str) -> str:
    """Return a list of bootstrap addresses as it is.

    Raises:
        typer.BadParameter: One of them is no HOST:PORT.
    """
    # Imported here: `--help` needs the options, and not what checks their values.
    from raftka.config import parse_address

    for address in text.split(","):
        # A bootstrap address may have a protocol before it, as in PLAINTEXT://127.0.0.1:9092.
        try:
            parse_address(address.strip().rpartition("://")[2])
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    return text


def check_group(name: str | None) -> str | None:
    """Return the name of a group as it is.

    Raises:
        typer.BadParameter: It is empty: Kafka has no such group, and librdkafka ends the process that names one.
    """
    if name == "":
        raise typer.BadParameter("a group's name must not be empty")
    return name


def check_groups(names: list[str]) -> list[str]:
    """Return names of groups as they are; raises what `check_group` raises."""
    for name in names:
        check_group(name)
    return names


def parse_pairs(texts: list[str], flag: str) -> dict[str, str]:
    """Return what was given as KEY=VALUE.

    Raises:
        typer.BadParameter: Something else, or a key that is given twice; `flag` is named.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"{flag} {text}: must be KEY=VALUE")
        if key in pairs:
            raise typer.BadParameter(f"{flag} {text}: {key} is given twice")
        pairs[key] = value
    return pairs


def existing_partitions(brokers: str, topic: str, chosen: list[int] | None) -> list[int]:
    """Return the partitions of a topic that were chosen, in order; all of them where none were.

    Raises:
        CommandError: One of them does not exist.
        KafkaClientError: The topic does not exist, or no broker answers.
    """
    known = [each.partition for each in kafka_client.read_cluster(brokers).topic(topic)]
    if missing := sorted(set(chosen or []) - set(known)):
        raise CommandError(f"topic {topic} has partitions 0 to {len(known) - 1}, and no {missing[0]}")
    return sorted(set(chosen or known))


BrokersOption = Annotated[
    str,
    typer.Option(
        "--brokers",
        envvar="RAFTKA_BROKERS",
        metavar="HOST:PORT,...",
        callback=check_brokers,
        help="Where to find the cluster.",
    ),
]
PartitionsOption = Annotated[
    list[int] | None,
    typer.Option(
        *("--partition", "-p"),
        min=0,
        metavar="N",
        help="Partition; may be repeated. [default: all]",
        autocompletion=complete_partitions,
    ),
]
FormatOption = Annotated[Format, typer.Option("--format", "-f", help="How to print it.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and change nothing.")]
DataDirOption = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", metavar="DIR", help="Folder of the cluster; default: raftka/dev in the XDG data folder."
    ),
]

__all__ = [
    "DEFAULT_BROKERS",
    "BrokersOption",
    "DataDirOption",
    "DryRunOption",
    "Format",
    "FormatOption",
    "PartitionsOption",
    "check_brokers",
    "check_group",
    "check_groups",
    "existing_partitions",
    "parse_pairs",
]
