"""What `raftka doctor` looks at in a cluster: any Kafka, and more of it where brokers say where their admin port is."""

import re
from collections import Counter
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from raftka.admin_client import AdminError, get_json, not_ready_reason, read_date
from raftka.cli.cluster import examine
from raftka.cli.cluster_config import merged
from raftka.cli.findings import Finding, Level, ok
from raftka.kafka import client as kafka_client
from raftka.kafka import configs as kafka_configs
from raftka.kafka.client import ClusterInfo, PartitionInfo
from raftka.kafka.configs import ConfigValue, Owner
from raftka.kafka.errors import KafkaClientError

_CONNECT_SECONDS = 2.0
# The header has whole seconds.
_SKEW_SECONDS = 2.5
_SHOWN_MAX = 5
# Below this many leaders nobody can speak of balance.
_LEADERS_MIN = 12
# Of a bound: what is fuller is worth a word.
_FULL_SHARE = 0.9
_CURE_MISSING = "start the broker (`raftka dev restart N`, or its service), read its log, and check the network to it"
# What brokers have each for themselves.
_OWN_KEY = re.compile(
    r"(?:^|\.)(?:address|port|hosts|listeners?|id|rack|dirs?|file|seeds|roles|voters|advertised\.listeners?)$"
    r"|ssl\.|sasl\.|\.name$|^listener|^zookeeper"
)


def check_cluster(brokers: str) -> Iterator[Finding]:
    """Yield what is found in the cluster at these addresses.

    Raises:
        KafkaClientError: No broker answers.
    """
    cluster = kafka_client.read_cluster(brokers)
    report = examine(cluster, kafka_client.addresses(brokers), _CONNECT_SECONDS)
    yield from _brokers(cluster, report)
    yield from _leaders(report)
    yield from _replicas(brokers, cluster, report)
    configs = _broker_configs(brokers, cluster)
    admins = _admin_addresses(configs)
    yield from _copies(cluster, len(report["brokers_missing"]), is_raftka=bool(admins))
    yield from _balance(cluster)
    yield from _differences(configs)
    for node, address in admins.items():
        yield from _broker(node, address)


def _brokers(cluster: ClusterInfo, report: dict[str, Any]) -> Iterator[Finding]:
    missing = [
        f"broker {node}{f' at {cluster.brokers[node]}' if node in cluster.brokers else ''} does not answer"
        for node in report["brokers_missing"]
    ]
    # Most likely these are the same ones, by their addresses.
    missing += [f"nobody listens at {address}" for address in report["bootstrap_unreachable"]]
    if missing:
        yield Finding(Level.PROBLEM, "brokers", ", ".join(missing), _CURE_MISSING)
    if cluster.controller < 0:
        yield Finding(
            Level.PROBLEM,
            "controller",
            "there is none, so clients cannot create, change or delete topics",
            "bring a majority of the brokers back",
        )
    if not missing:
        yield ok("brokers", f"{', '.join(map(str, cluster.brokers))} answer; {cluster.controller} is the controller")


def _leaders(report: dict[str, Any]) -> Iterator[Finding]:
    if report["leaderless"]:
        nodes = sorted({node for each in report["leaderless"] for node in each["replicas"]})
        yield Finding(
            Level.PROBLEM,
            "leaders",
            f"no leader for {_named(report['leaderless'])}: no reads and no writes",
            f"bring brokers back until a majority of the replicas runs (they are on {', '.join(map(str, nodes))})",
        )
    else:
        yield ok("leaders", "every partition has one")


def _replicas(brokers: str, cluster: ClusterInfo, report: dict[str, Any]) -> Iterator[Finding]:
    lagging = report["under_replicated"]
    if not lagging:
        yield ok("replicas", "all in sync")
        return
    nodes = sorted({node for each in lagging for node in each["replicas"] if node not in each["in_sync"]})
    names = ", ".join(map(str, nodes))
    away = [node for node in nodes if node in report["brokers_missing"]]
    yield Finding(
        Level.PROBLEM,
        "replicas",
        f"not in sync on broker {names}: {_named(lagging)}",
        "bring the missing brokers back"
        if away
        else f"wait, if broker {names} has just started; else see its log, its disk and its load",
    )
    for topic in sorted({each["topic"] for each in lagging}):
        yield from _refused_writes(brokers, topic, cluster.topics[topic])


def _refused_writes(brokers: str, topic: str, partitions: list[PartitionInfo]) -> Iterator[Finding]:
    values = {each.key: each.value for each in kafka_configs.read_configs(brokers, Owner.TOPIC, topic)}
    needed = int(values.get("min.insync.replicas") or 1)
    short = [each.partition for each in partitions if len(each.in_sync) < min(needed, len(each.replicas))]
    if short:
        yield Finding(
            Level.PROBLEM,
            "writes",
            f"acks=all is refused by {topic}-{', '.join(map(str, short))}: min.insync.replicas is {needed}",
            f"bring replicas back, or lower it: raftka topic alter-config {topic} --set min.insync.replicas=...",
        )


def _copies(cluster: ClusterInfo, missing: int, *, is_raftka: bool) -> Iterator[Finding]:
    by_count: dict[int, list[str]] = {}
    for name, partitions in cluster.topics.items():
        by_count.setdefault(min(len(each.replicas) for each in partitions), []).append(name)
    if len(cluster.brokers) > 1 and 1 in by_count:
        yield Finding(
            Level.WARNING,
            "copies",
            f"only one replica, lost with its broker: {_listed(by_count[1])}",
            "create topics with -r 3 (replicas cannot be added yet, so copy what matters to a new topic)"
            if is_raftka
            else "create topics with -r 3, or add replicas (kafka-reassign-partitions)",
        )
    if is_raftka and 2 in by_count:
        yield Finding(
            Level.WARNING,
            "copies",
            f"two replicas, and writes need both: {_listed(by_count[2])}",
            "use one replica, or three: create topics with -r 3",
        )
    if is_raftka and not missing and len(cluster.brokers) == 2:
        yield Finding(
            Level.WARNING,
            "copies",
            "like one broker, two brokers tolerate no failure, and they fail twice as often",
            "run three",
        )


def _balance(cluster: ClusterInfo) -> Iterator[Finding]:
    leaders = Counter(each.leader for partitions in cluster.topics.values() for each in partitions if each.leader >= 0)
    total = leaders.total()
    if len(cluster.brokers) < 2 or total < _LEADERS_MIN:
        return
    node, most = leaders.most_common(1)[0]
    if most > 2 * total / len(cluster.brokers):
        yield Finding(
            Level.NOTE,
            "balance",
            f"broker {node} leads {most} of {total} partitions",
            "let others lead some: raftka partition transfer-leadership TOPIC PARTITION",
        )
    else:
        yield ok("balance", f"no broker leads more than {most} of {total} partitions")


def _broker_configs(brokers: str, cluster: ClusterInfo) -> dict[int, list[ConfigValue]]:
    found = {}
    for node in cluster.brokers:
        try:
            found[node] = kafka_configs.read_configs(brokers, Owner.BROKER, str(node))
        except KafkaClientError:
            continue  # It does not answer, which is among the findings.
    return found


def _differences(configs: dict[int, list[ConfigValue]]) -> Iterator[Finding]:
    values: dict[str, dict[str | None, list[int]]] = {}
    for row in merged(configs):
        values.setdefault(row["key"], {}).setdefault(row["value"], []).extend(row["nodes"])
    different = {key: found for key, found in values.items() if len(found) > 1 and not _OWN_KEY.search(key)}
    for key, found in different.items():
        each = ", ".join(f"{value} on {','.join(map(str, sorted(nodes)))}" for value, nodes in found.items())
        yield Finding(
            Level.WARNING,
            "config",
            f"brokers differ in {key}: {each}",
            "give all brokers the same value, and restart them",
        )
    if configs and not different:
        yield ok("config", "the same for all brokers")


def _admin_addresses(configs: dict[int, list[ConfigValue]]) -> dict[int, str]:
    return {
        node: (each.value or "").removeprefix("http://")
        for node, values in configs.items()
        for each in values
        if each.key == "admin.advertised.listener" and each.value
    }


def _broker(node: int, admin: str) -> Iterator[Finding]:
    """Look at one broker of Raftka's by its admin port."""
    reason = not_ready_reason(admin)
    if reason is not None:
        yield Finding(Level.PROBLEM, f"broker {node}", f"not ready: {reason}", "see its log")
    yield from _bounds(node, admin)
    try:
        seen, here = read_date(admin)
        skew = here - parsedate_to_datetime(seen).timestamp()
    except (AdminError, ValueError):
        return
    if abs(skew) > _SKEW_SECONDS:
        yield Finding(
            Level.WARNING,
            f"broker {node}",
            f"its clock and this machine's are {abs(skew):.0f} s apart",
            "run chrony or systemd-timesyncd on both",
        )
    elif reason is None:
        yield ok(f"broker {node}", "ready; its clock agrees with the clock of this machine")


def _bounds(node: int, admin: str) -> Iterator[Finding]:
    """Look at what has a bound: a broker of an older version says nothing of it."""
    try:
        status, fills = get_json(admin, "/v1/bounds")
    except AdminError:
        return
    if status != HTTPStatus.OK:
        return
    for fill in fills:
        share = fill["used"] / fill["maximum"]
        # An older broker's fills do not say it.
        is_retried = fill.get("is_retried", False)
        refused = f", and {fill['refused']} requests were refused since its start" if fill["refused"] else ""
        if share >= _FULL_SHARE or fill["refused"]:
            yield Finding(
                Level.PROBLEM if share >= 1 or (fill["refused"] and not is_retried) else Level.WARNING,
                f"broker {node}",
                f"{fill['name']} has {fill['used']} of {fill['maximum']} {fill['unit']}{refused}",
                fill["cure"],
            )


def _named(partitions: list[dict[str, Any]]) -> str:
    return _listed([f"{each['topic']}-{each['partition']}" for each in partitions])


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN_MAX} more" if len(names) > _SHOWN_MAX else ""
    return ", ".join(names[:_SHOWN_MAX]) + more
