"""Rules about what is set: of topics, of brokers, and in which versions they run."""

import re
from collections.abc import Iterator

from raftka.counted import counted
from raftka.health.findings import Finding, Level, listed, ok
from raftka.health.picture import Picture

# What brokers have each for themselves.
_OWN_KEY = re.compile(
    r"(?:^|\.)(?:address|port|hosts|listeners?|id|rack|dirs?|file|seeds|roles|voters|advertised\.listeners?)$"
    r"|ssl\.|sasl\.|\.name$|^listener|^zookeeper"
)


def check_copies(picture: Picture) -> Iterator[Finding]:
    """Name topics with too few replicas."""
    by_count: dict[int, list[str]] = {}
    for topic, count in _fewest_replicas(picture).items():
        by_count.setdefault(count, []).append(topic)
    if len(picture.brokers) > 1 and 1 in by_count:
        yield Finding(
            Level.WARNING,
            "copies",
            f"only one replica, lost with its broker: {listed(by_count[1])}",
            "create topics with -r 3, or add replicas: raftka topic alter-replication"
            f" {by_count[1][0] if len(by_count[1]) == 1 else 'TOPIC'} -r 3"
            if picture.is_raftka
            else "create topics with -r 3, or add replicas (kafka-reassign-partitions)",
            "the topic was created with one replica",
        )
    if picture.is_raftka and 2 in by_count:
        yield Finding(
            Level.WARNING,
            "copies",
            f"two replicas, and writes need both: {listed(by_count[2])}",
            "use one replica, or three: raftka topic alter-replication"
            f" {by_count[2][0] if len(by_count[2]) == 1 else 'TOPIC'} -r 3",
            "a majority of two is two",
        )
    if picture.is_raftka and not picture.lost and len(picture.brokers) == 2:
        yield Finding(
            Level.WARNING,
            "copies",
            "like one broker, two brokers tolerate no failure, and they fail twice as often",
            "run three: a broker with an empty data.dir joins (docs/operations/joining.md)",
            "a majority of two is two",
        )


def check_settings(picture: Picture) -> Iterator[Finding]:
    """Name topics whose settings risk records or writes."""
    caching = [each.name for each in picture.topics if each.has_write_caching]
    if caching:
        yield Finding(
            Level.NOTE,
            "settings",
            f"acks=all is answered before the fsync: {listed(caching)}",
            "set write.caching=false, unless a power cut of several brokers may cost the newest records",
            "write.caching is true",
        )
    fewest = _fewest_replicas(picture)
    strict = [
        each.name
        for each in picture.topics
        if each.min_isr is not None and 1 < fewest.get(each.name, 0) == each.min_isr
    ]
    if strict and len(picture.brokers) > 2:
        yield Finding(
            Level.NOTE,
            "settings",
            f"acks=all needs every replica, so one broker that is away stops producers: {listed(strict)}",
            "set min.insync.replicas to one less than the number of replicas",
            "min.insync.replicas is the number of replicas",
        )
    by_numbers: dict[tuple[int, int], list[str]] = {}
    for each in picture.topics:
        if each.min_isr is not None and each.name in fewest and each.min_isr > fewest[each.name]:
            by_numbers.setdefault((each.min_isr, fewest[each.name]), []).append(each.name)
    for (min_isr, count), names in sorted(by_numbers.items()):
        lower = f"{names[0] if len(names) == 1 else 'TOPIC'} --set min.insync.replicas={count // 2 + 1}"
        yield Finding(
            Level.NOTE,
            "settings",
            f"min.insync.replicas is {min_isr}, and acks=all waits for {counted(count, 'replica')}, the most there are:"
            f" {listed(names)}",
            f"add replicas, or lower it: raftka topic alter-config {lower}; where a topic sets it, its other keys"
            " cannot be changed before",
            "min.insync.replicas is above the number of replicas",
        )
    unclean = [each.name for each in picture.topics if each.has_unclean_elections]
    if unclean:
        yield Finding(
            Level.WARNING,
            "settings",
            f"a replica that lacks acknowledged records may be elected: {listed(unclean)}",
            "set unclean.leader.election.enable=false",
            "unclean.leader.election.enable is true",
        )


def check_configs(picture: Picture) -> Iterator[Finding]:
    """Name keys in which brokers differ that should be equal.

    A value that was set on one broker while it runs is wanted: the other brokers are compared without it.
    """
    values: dict[str, dict[str | None, list[int]]] = {}
    wanted: dict[str, list[int]] = {}
    known = [each for each in picture.brokers if each.configs is not None]
    for broker in known:
        for key, value in (broker.configs or {}).items():
            if key in broker.own_configs:
                wanted.setdefault(key, []).append(broker.node_id)
            elif not _OWN_KEY.search(key):
                values.setdefault(key, {}).setdefault(value, []).append(broker.node_id)
    different = {key: found for key, found in sorted(values.items()) if len(found) > 1}
    for key, found in different.items():
        each = ", ".join(f"{value} on {','.join(map(str, nodes))}" for value, nodes in found.items())
        yield Finding(
            Level.WARNING,
            "config",
            f"brokers differ in {key}: {each}",
            "give all brokers the same value, and restart them",
            "the files, RAFTKA_* variables or flags of the brokers differ",
        )
    if known and not different:
        each = ", ".join(f"{key} on {','.join(map(str, nodes))}" for key, nodes in sorted(wanted.items()))
        but = f", but for what was set on single ones: {each}" if wanted else ""
        yield ok("config", f"the same for all brokers{but}")


def check_versions(picture: Picture) -> Iterator[Finding]:
    """Say that brokers run different versions."""
    by_version: dict[str, list[int]] = {}
    for broker in picture.brokers:
        if broker.version:
            by_version.setdefault(broker.version, []).append(broker.node_id)
    if len(by_version) > 1:
        each = ", ".join(f"{version} on {','.join(map(str, nodes))}" for version, nodes in sorted(by_version.items()))
        yield Finding(
            Level.NOTE,
            "versions",
            f"brokers run different versions: {each}",
            "finish the upgrade: restart the other brokers with the newer version, one after the other"
            " (docs/operations/upgrade.md)",
            "an upgrade is under way, or was not finished",
        )


def _fewest_replicas(picture: Picture) -> dict[str, int]:
    fewest: dict[str, int] = {}
    for each in picture.partitions or ():
        count = len(each.replicas)
        if count < fewest.get(each.topic, count + 1):
            fewest[each.topic] = count
    return fewest
