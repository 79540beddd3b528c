"""How `raftka doctor` gets its picture of a cluster: any Kafka by clients, a Raftka by its admin ports as well.

A broker's admin port is known by its configuration, by another broker's `/v1/brokers`, or by the file of a dev cluster.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import replace

from raftka.cli.admin_picture import (
    KnownBroker,
    merge_known,
    read_details,
    read_known_brokers,
    read_readiness,
)
from raftka.cli.cluster import takes_connections
from raftka.dev.cluster_file import ClusterFolder, default_folder
from raftka.dev.errors import DevError
from raftka.health.picture import BrokerPicture, PartitionPicture, Picture, TopicPicture
from raftka.kafka import client as kafka_client
from raftka.kafka import configs as kafka_configs
from raftka.kafka.client import ClusterInfo
from raftka.kafka.configs import ConfigValue, Owner
from raftka.kafka.errors import KafkaClientError, NotKafkaError

_CONNECT_SECONDS = 2.0
_ADMIN_LISTENER = "admin.advertised.listener"


def read_picture(brokers: str) -> Picture:
    """Return what is known of the cluster at these addresses.

    Raises:
        KafkaClientError: No broker answers, and no admin port of a broker that runs is known.
    """
    given = kafka_client.addresses(brokers)
    try:
        cluster = kafka_client.read_cluster(brokers)
    except NotKafkaError:
        raise
    except KafkaClientError:
        picture = _without_kafka(given)
        if not any(each.runs for each in picture.brokers):
            raise
        return picture
    return _with_kafka(brokers, given, cluster)


def _without_kafka(given: list[str]) -> Picture:
    """Look at the admin ports of a dev cluster whose Kafka ports answer nobody."""
    known = merge_known([_dev_brokers(given)])
    brokers = []
    for node, each in known.items():
        broker = read_readiness(each.admin, BrokerPicture(node, kafka=each.kafka, answers=False))
        # Why nobody is served may be among the rest: a full disk, a bound.
        brokers.append(read_details(each.admin, broker)[0] if broker.runs else broker)
    return Picture(brokers=tuple(brokers))


def _with_kafka(brokers: str, given: list[str], cluster: ClusterInfo) -> Picture:
    configs = _broker_configs(brokers, cluster)
    told = [
        KnownBroker(node, cluster.brokers.get(node, ""), admin) for node, admin in _admin_addresses(configs).items()
    ]
    others = [read_known_brokers(each.admin) for each in told]
    is_raftka = bool(told)
    known = merge_known([told, *others, _dev_brokers([*given, *cluster.brokers.values()]) if is_raftka else []])
    placed = {node for partitions in cluster.topics.values() for each in partitions for node in each.replicas}
    nodes = sorted(placed | set(cluster.brokers) | set(known))
    pictures, stalled = [], set()
    for node in nodes:
        each = known.get(node, KnownBroker(node))
        broker, its_stalled = _broker(node, each, cluster, configs.get(node))
        pictures.append(broker)
        stalled.update(its_stalled)
    addresses = {each.kafka for each in pictures}
    topics = _topics(brokers, cluster)
    return Picture(
        brokers=tuple(pictures),
        controller=cluster.controller,
        partitions=_partitions(cluster, {each.name: each.min_isr for each in topics}, stalled),
        topics=topics,
        silent=tuple(each for each in given if each not in addresses and not takes_connections(each, _CONNECT_SECONDS)),
        is_raftka=is_raftka,
    )


def _broker(
    node: int, known: KnownBroker, cluster: ClusterInfo, configs: list[ConfigValue] | None
) -> tuple[BrokerPicture, list[tuple[str, int]]]:
    broker = BrokerPicture(
        node,
        kafka=cluster.brokers.get(node, known.kafka),
        refused=known.refused,
        configs=None if configs is None else {each.key: each.value for each in configs},
    )
    stalled: list[tuple[str, int]] = []
    if known.admin:
        broker = read_readiness(known.admin, broker)
        if broker.runs:
            broker, stalled = read_details(known.admin, broker)
    # A broker that starts takes connections before the others hear that it is back.
    is_served = node in cluster.brokers or broker.is_ready is True
    answers = is_served and bool(broker.kafka) and takes_connections(broker.kafka, _CONNECT_SECONDS)
    return replace(broker, answers=answers), stalled


def _partitions(
    cluster: ClusterInfo, min_isr: Mapping[str, int | None], stalled: set[tuple[str, int]]
) -> tuple[PartitionPicture, ...]:
    return tuple(
        PartitionPicture(
            topic,
            each.partition,
            None if each.leader < 0 else each.leader,
            tuple(each.replicas),
            () if each.leader < 0 else tuple(each.in_sync),
            min_isr.get(topic),
            (topic, each.partition) in stalled,
        )
        for topic, partitions in cluster.topics.items()
        for each in partitions
    )


def _topics(brokers: str, cluster: ClusterInfo) -> tuple[TopicPicture, ...]:
    try:
        configs = kafka_configs.read_topic_configs(brokers, list(cluster.topics))
    except KafkaClientError:
        return ()  # Then the settings are not known. That brokers do not answer is among the findings.
    found = []
    for topic, rows in configs.items():
        values = {each.key: each.value for each in rows}
        min_isr = values.get("min.insync.replicas")
        found.append(
            TopicPicture(
                topic,
                int(min_isr) if min_isr is not None and min_isr.isdigit() else None,
                values.get("write.caching") == "true",
                values.get("unclean.leader.election.enable") == "true",
            )
        )
    return tuple(found)


def _broker_configs(brokers: str, cluster: ClusterInfo) -> dict[int, list[ConfigValue]]:
    found = {}
    for node in cluster.brokers:
        try:
            found[node] = kafka_configs.read_configs(brokers, Owner.BROKER, str(node))
        except KafkaClientError:
            continue  # It does not answer, which is among the findings.
    return found


def _admin_addresses(configs: dict[int, list[ConfigValue]]) -> dict[int, str]:
    return {
        node: (each.value or "").removeprefix("http://")
        for node, values in configs.items()
        for each in values
        if each.key == _ADMIN_LISTENER and each.value
    }


def _dev_brokers(addresses: list[str]) -> list[KnownBroker]:
    """Return the brokers of the dev cluster of this user, if one of these addresses is on loopback and is among them.

    Its file names the admin ports of brokers that are down, too.
    """
    wanted = {each for each in addresses if _is_loopback(each)}
    if not wanted:
        return []
    try:
        state = ClusterFolder(default_folder()).load()
    except (DevError, OSError):
        return []  # It is only a hint. `raftka dev` says what is wrong with the file.
    brokers = [] if state is None else state.brokers
    if not any(_plain(each.addresses.kafka) in {_plain(address) for address in wanted} for each in brokers):
        return []
    return [KnownBroker(each.node_id, each.addresses.kafka, each.addresses.admin) for each in brokers]


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _plain(address: str) -> str:
    """Return an address of loopback in the spelling of a dev cluster's file."""
    host, _, port = address.rpartition(":")
    return f"127.0.0.1:{port}" if host == "localhost" else address
