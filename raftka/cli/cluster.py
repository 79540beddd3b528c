"""`raftka cluster`: what there is, and whether it is well."""

from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit

from raftka.cli import cluster_config, cluster_features, cluster_log_level
from raftka.cli.exit_codes import FAILED, CommandError
from raftka.cli.lazy_group import CommandGroup
from raftka.cli.options import Format, brokers_option, format_option
from raftka.cli.output import node_list, print_json, print_table
from raftka.cli.param_types import BoundedFloat
from raftka.counted import brokers, counted
from raftka.kafka import client as kafka_client
from raftka.kafka.client import ClusterInfo
from raftka.kafka.errors import KafkaClientError

if TYPE_CHECKING:
    from raftka.health.findings import Finding
    from raftka.kafka.reassigned import Moves

_LISTED_MAX = 20


@click.group("cluster", cls=CommandGroup)
def app() -> None:
    """Show brokers, health and configuration of a cluster."""


app.add_command(cluster_config.app)
app.add_command(cluster_features.app)
app.add_command(cluster_log_level.log_level)


@app.command()
@brokers_option
@format_option
def info(brokers: str, output: Format) -> None:
    """Show the brokers, the controller and the number of topics."""
    cluster = kafka_client.read_cluster(brokers)
    partitions = sum(map(len, cluster.topics.values()))
    if output is Format.JSON:
        print_json(
            {
                "cluster_id": cluster.cluster_id,
                "controller": cluster.controller,
                "brokers": [{"node_id": node, "kafka": address} for node, address in cluster.brokers.items()],
                "topics": len(cluster.topics),
                "partitions": partitions,
            }
        )
        return
    print(f"cluster:    {cluster.cluster_id or '-'}")
    print(f"controller: {cluster.controller}")
    print(f"topics:     {len(cluster.topics)} with {counted(partitions, 'partition')}")
    print()
    print_table(["NODE", "KAFKA"], list(cluster.brokers.items()))


@app.command()
@brokers_option
@click.option(
    "--timeout", type=BoundedFloat(0.1, 60.0), default=2.0, metavar="N", help="Timeout per broker, in seconds."
)
@format_option
def health(brokers: str, timeout: float, output: Format) -> None:
    """Exit with 1 if a broker does not answer, a partition has no leader, or a replica is out of sync."""
    # Imported here, for the sake of `--help`.
    from raftka.kafka import reassigned

    cluster, moves = reassigned.see(brokers, kafka_client.read_cluster(brokers), timeout)
    if moves:
        moves = reassigned.with_origins(moves, _origins(brokers, timeout))
    report = examine(cluster, kafka_client.addresses(brokers), timeout, moves)
    if report["brokers_missing"]:
        retired = _retired(cluster, report["brokers_missing"], timeout)
        report["brokers_retired"] = [node for node in report["brokers_missing"] if node in retired]
        report["brokers_missing"] = [node for node in report["brokers_missing"] if node not in retired]
    # Metadata of a broker that does not hold a partition names the last leader that it has heard of, so a group that
    # can decide nothing may look well there.
    if not report["healthy"] or moves:
        report["without_quorum"] = _without_quorum(brokers, timeout)
        report["healthy"] = report["healthy"] and not report["without_quorum"]
    if output is Format.JSON:
        print_json(report)
    else:
        _print_report(report)
    if not report["healthy"]:
        raise Exit(FAILED)


def examine(cluster: ClusterInfo, bootstrap: list[str], timeout: float, moves: "Moves | None" = None) -> dict[str, Any]:
    """Return brokers_missing (node ids), leaderless and under_replicated ({topic, partition, ...}), and healthy.

    `without_quorum` and `brokers_retired` are empty: the caller asks admin ports for them.

    A broker is missing if Metadata names it and it does not answer, or if a replica is on it and Metadata does not name
    it. Where nothing is placed on it, Metadata cannot tell: bootstrap_unreachable has the addresses that the caller
    gave and where no broker serves clients. `hanging` has what the doctor finds of brokers and of such addresses whose
    connections only the kernel takes.

    Args:
        cluster: What Metadata tells.
        bootstrap: The addresses that the caller gave.
        timeout: How many seconds a broker has to take a connection, and then to answer. All are asked side by side.
        moves: The partitions that are being moved: replicas that only come need not be in sync.
    """
    # Imported here, for the sake of `--help`.
    from raftka.health.findings import to_json
    from raftka.kafka.probe import Reply, probe_all
    from raftka.kafka.reassigned import is_under_replicated

    moves = {} if moves is None else moves
    replies = probe_all([*cluster.brokers.values(), *bootstrap], timeout)
    placed = {node for partitions in cluster.topics.values() for each in partitions for node in each.replicas}
    lost = {node for node, address in cluster.brokers.items() if replies[address] is not Reply.KAFKA}
    missing = sorted(placed - set(cluster.brokers) | lost)
    known = set(cluster.brokers.values())
    strangers = {each: replies[each] for each in bootstrap if each not in known and replies[each] is not Reply.KAFKA}
    silent = [each for each, reply in strangers.items() if reply is not Reply.NOTHING]
    hanging = _hanging(
        {node: address for node, address in cluster.brokers.items() if replies[address] is Reply.NOTHING},
        [each for each, reply in strangers.items() if reply is Reply.NOTHING],
    )
    leaderless = [
        {"topic": name, "partition": each.partition, "replicas": each.replicas}
        for name, partitions in cluster.topics.items()
        for each in partitions
        if each.leader < 0
    ]
    lagging = [
        {"topic": name, "partition": each.partition, "replicas": each.replicas, "in_sync": each.in_sync}
        for name, partitions in cluster.topics.items()
        for each in partitions
        if is_under_replicated(each, moves.get((name, each.partition)))
    ]
    return {
        "healthy": not missing and not leaderless and not strangers and not lagging,
        "brokers": sorted(cluster.brokers),
        "brokers_missing": missing,
        "brokers_retired": [],
        "bootstrap_unreachable": silent,
        "hanging": [to_json(each) for each in hanging],
        "leaderless": leaderless,
        "under_replicated": lagging,
        "without_quorum": [],
    }


def _retired(cluster: ClusterInfo, missing: list[int], timeout: float) -> set[int]:
    """Return the brokers whose data directory is retired, and which have not joined again; none of another Kafka.

    The first broker that answers tells it.
    """
    # Imported here, for the sake of `--help`.
    from raftka.cli.admin_picture import read_known_brokers

    for node, address in cluster.brokers.items():
        if node in missing:
            continue
        try:
            told = kafka_client.read_broker_config(address, node, timeout)
        except KafkaClientError:
            continue
        admin = told.get("admin.advertised.listener", "").removeprefix("http://")
        rows = read_known_brokers(admin) if admin else []
        return {each.node_id for each in rows if each.member is not None and each.member.is_retired}
    return set()


def _origins(brokers: str, timeout: float) -> dict[tuple[str, int], list[int]]:
    """Return the replicas that partitions had before their moves; nothing of another Kafka, or an older version."""
    from raftka.cli.admin_verbs import ask_verb

    try:
        rows = ask_verb(brokers, "/v1/moves", seconds=timeout)["moves"]
    except (CommandError, KafkaClientError):
        return {}
    return {(row["topic"], row["partition"]): row["origin"] for row in rows if "origin" in row}


def _without_quorum(brokers: str, timeout: float) -> list[dict[str, Any]]:
    """Return the partitions whose voters cannot decide anything; nothing of another Kafka.

    Of partitions that are not moved, those of which retired data directories leave no majority.
    """
    from raftka.cli.admin_verbs import ask_verb

    try:
        told = ask_verb(brokers, "/v1/moves", seconds=timeout)
    except (CommandError, KafkaClientError):
        return []  # That there are partitions without a leader is reported in any case.
    keys = ("topic", "partition", "lost_voter_sets", "away", "retired")
    moving = [{key: row.get(key, []) for key in keys} for row in told["moves"] if row["lost_voter_sets"]]
    # A broker of an older version does not tell it.
    stuck = [
        {**{key: row.get(key, []) for key in keys}, "lost_voter_sets": [row["replicas"]]}
        for row in told.get("cannot_move", ())
    ]
    return [{**row, "is_moving": True} for row in moving] + [{**row, "is_moving": False} for row in stuck]


def _hanging(brokers: dict[int, str], strangers: list[str]) -> "list[Finding]":
    """Return what the doctor says of brokers that hang, and of addresses of which no more is known."""
    # Imported here, for the sake of `--help`.
    from raftka.health.broker_rules import check_hanging
    from raftka.health.picture import BrokerPicture, Picture

    pictures = [BrokerPicture(node, kafka=address, answers=False, hangs=True) for node, address in brokers.items()]
    return list(check_hanging(Picture(brokers=tuple(pictures), hanging=tuple(strangers))))


def _print_report(report: dict[str, Any]) -> None:
    print("healthy" if report["healthy"] else "NOT HEALTHY")
    for title, key in (
        ("brokers", "brokers"),
        ("missing brokers", "brokers_missing"),
        ("nobody listens at", "bootstrap_unreachable"),
    ):
        print(f"{title}: {', '.join(map(str, report[key])) or 'none'}")
    for node in report["brokers_retired"]:
        print(f"to be replaced: its data directory is retired: start broker {node} with an empty data.dir")
    for title, key in (("partitions without a leader", "leaderless"), ("under-replicated", "under_replicated")):
        found = [f"{each['topic']}-{each['partition']}" for each in report[key]]
        more = f" and {len(found) - _LISTED_MAX} more" if len(found) > _LISTED_MAX else ""
        print(f"{title}: {', '.join(found[:_LISTED_MAX]) or 'none'}{more}")
    for each in report["without_quorum"]:
        print(f"no quorum: {_in_words(each)}")
    for each in report["hanging"]:
        print(f"{each['what']}: {each['words']}")
        print(f"  cure: {each['cure']}")


def _in_words(partition: dict[str, Any]) -> str:
    """Return what is said of a partition of `without_quorum`: as the doctor says it, but for the cures."""
    # Imported here, for the sake of `--help`.
    from raftka.health.move_rules import NO_FORCE, retired_directories

    sets = " and ".join(node_list(voters) for voters in partition["lost_voter_sets"])
    name = f"{partition['topic']}-{partition['partition']}{' is being moved, and' if partition['is_moving'] else ':'}"
    away = partition["away"]
    what = f"start {brokers(away)}" if away else f"{retired_directories(partition['retired'])}; {NO_FORCE}"
    return f"{name} no majority of the voters {sets} answers: {what}"
