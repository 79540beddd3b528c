"""`raftka doctor`: what is wrong with this machine or cluster, and the cure."""

import os
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import click
from click.exceptions import Exit

from raftka.cli.exit_codes import FAILED, UsageError
from raftka.cli.lazy_group import Command
from raftka.cli.options import DEFAULT_BROKERS, Format, format_option, given_brokers
from raftka.cli.output import print_json
from raftka.cli.param_types import PATH, EnumChoice
from raftka.counted import counted
from raftka.health.findings import Finding, Level, ok, to_json
from raftka.kafka.errors import HangingError, KafkaClientError, NoQuorumError, NotServingError


class Area(StrEnum):
    """What is looked at."""

    MACHINE = "machine"
    CLUSTER = "cluster"


def _given_admin(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    # Imported here, for the sake of `--help`.
    from raftka.config import parse_address

    if text is None:
        return None
    address = text.strip().removeprefix("http://").rstrip("/")
    try:
        parse_address(address)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return address


@click.command("doctor", cls=Command)
@click.argument(
    "area",
    type=EnumChoice(Area),
    required=False,
    metavar="[machine|cluster]",
    help="Area to check. [default: both]",
)
@click.option("--config", type=PATH, metavar="FILE", help="Configuration file of the broker that will run here.")
@click.option("--data-dir", type=PATH, metavar="DIR", help="Its data directory; overrides the file.")
@click.option(
    "--brokers",
    envvar="RAFTKA_BROKERS",
    show_envvar=True,
    metavar="HOST:PORT,...",
    callback=given_brokers,
    help=f"Bootstrap addresses of the cluster. [default: {DEFAULT_BROKERS}, if a broker answers there]",
)
@click.option(
    "--admin",
    metavar="HOST:PORT",
    callback=_given_admin,
    help="Admin port of one broker: show what that broker finds, for example if its Kafka port does not answer.",
)
@format_option
def doctor(
    area: Area | None,
    config: Path | None,
    data_dir: Path | None,
    brokers: str | None,
    admin: str | None,
    output: Format,
) -> None:
    """Report problems of this machine or cluster and how to fix them. Exit with 1 if something does not work.

    Machine: limits, memory, clock, free space and speed of the disk, ports, configuration. Cluster: brokers that do not
    answer, partitions without a leader or with replicas out of sync, risky topics, differences between brokers.
    """
    if admin is not None and area is Area.MACHINE:
        raise UsageError("--admin names a broker of a cluster: give it without `machine`")
    found: dict[Area, list[Finding]] = {}
    if area in (None, Area.MACHINE):
        found[Area.MACHINE] = list(_machine(config, data_dir))
    if area in (None, Area.CLUSTER):
        is_wanted = area is not None or brokers is not None
        found[Area.CLUSTER] = list(_cluster(brokers, is_wanted=is_wanted) if admin is None else _one_broker(admin))
    counts = Counter(each.level for findings in found.values() for each in findings)
    if output is Format.JSON:
        print_json({"well": not counts[Level.PROBLEM], "findings": _as_json(found)})
    else:
        _print(found, counts)
    if counts[Level.PROBLEM]:
        raise Exit(FAILED)


def _machine(file: Path | None, data_dir: Path | None) -> Iterator[Finding]:
    # Imported here, for the sake of `--help`, as what looks at clusters is below.
    from raftka.cli.machine_checks import check_machine
    from raftka.config import ConfigError, load_config

    flags = {} if data_dir is None else {"data.dir": str(data_dir)}
    # Without a file there is no broker yet: the machine is looked at as one with the defaults would.
    defaults = flags if file is not None else flags | {"node.id": "1"}
    try:
        config = load_config(defaults, os.environ, file)
    except ConfigError as error:
        cure = "`raftka config example` prints every option and its bounds"
        yield Finding(Level.PROBLEM, "configuration", str(error), cure)
        config = load_config(flags | {"node.id": "1"})
    else:
        yield ok("configuration", f"{file}: can be used" if file is not None else "defaults and RAFTKA_* variables")
    yield from check_machine(config)


def _cluster(brokers: str | None, *, is_wanted: bool) -> Iterator[Finding]:
    from raftka.cli.cluster_picture import read_picture
    from raftka.health.rules import judge

    try:
        yield from judge(read_picture(brokers or DEFAULT_BROKERS))
    except NoQuorumError as error:
        cure = (
            f"{error.cure} (`raftka dev restart N`, or their services), restart those that hang, and read their logs if"
            " they end again"
        )
        yield Finding(
            Level.PROBLEM,
            "brokers",
            error.what,
            cure,
            "half of the brokers or more have ended, hang, or cannot be reached",
        )
    except HangingError as error:
        cause = "the process was stopped by a signal, or waits for a disk or a machine that does not answer"
        yield Finding(Level.PROBLEM, "brokers", error.what, error.cure, cause)
    except NotServingError as error:
        cause = "too few brokers run to serve clients, or another program listens there"
        yield Finding(Level.PROBLEM, "brokers", error.what, error.cure, cause)
    except KafkaClientError as error:
        if is_wanted:
            cure = (
                "start the brokers (`raftka dev` runs three), or say where they are: --brokers HOST:PORT;"
                " if one runs, ask its admin port: --admin HOST:PORT"
            )
            cause = "no broker runs there, or the network to it is cut"
            yield Finding(Level.PROBLEM, "brokers", str(error), cure, cause)
        else:
            yield Finding(
                Level.NOTE,
                "brokers",
                f"no broker answers at {DEFAULT_BROKERS}",
                "if the cluster is elsewhere: --brokers HOST:PORT",
            )


def _one_broker(admin: str) -> Iterator[Finding]:
    from raftka.cli.admin_picture import ask_one

    yield from ask_one(admin)


def _as_json(found: dict[Area, list[Finding]]) -> list[dict[str, Any]]:
    return [{"area": area, **to_json(each)} for area, findings in found.items() for each in findings]


def _print(found: dict[Area, list[Finding]], counts: Counter[Level]) -> None:
    for area, findings in found.items():
        print(area)
        for each in findings:
            print(f"  {each.level:<8} {each.what}: {each.words}")
            if each.cause:
                print(f"           cause: {each.cause}")
            if each.cure:
                print(f"           cure: {each.cure}")
    said = [counted(counts[level], level) for level in (Level.PROBLEM, Level.WARNING, Level.NOTE) if counts[level]]
    print("\n" + (", ".join(said) or "nothing is wrong"))
