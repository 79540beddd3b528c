"""How `raftka doctor` gets its picture of a cluster: any Kafka by clients, a Raftka by its admin ports as well.

A broker's admin port is known by its configuration, by another broker's `/v1/brokers`, or by the file of a dev cluster.
A broker answers if it answers a request: the kernel takes connections for one that is stopped. Brokers are asked side
by side. Clients that wait for long ask only those that answer, so the doctor ends within 5 s.
"""

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from raftka.cli.admin_picture import (
    KnownBroker,
    ToldMoves,
    merge_known,
    read_details,
    read_known_brokers,
    read_moves,
    read_readiness,
)
from raftka.dev.cluster_file import ClusterFolder, default_folder
from raftka.dev.errors import DevError
from raftka.health.picture import (
    RATE_KEYS,
    THROTTLED_KEYS,
    BrokerPicture,
    PartitionPicture,
    Picture,
    TopicPicture,
)
from raftka.kafka import client as kafka_client
from raftka.kafka import configs as kafka_configs
from raftka.kafka import reassigned
from raftka.kafka.client import ClusterInfo
from raftka.kafka.configs import ConfigValue, Owner
from raftka.kafka.errors import KafkaClientError, NotKafkaError
from raftka.kafka.probe import Reply, probe_all

# How long a request may take that many brokers answer at the same time.
_CONFIG_SECONDS = 2.0
_ADMIN_SECONDS = 2.0
# The same of a broker whose Kafka port does not answer: probably the admin port will not either.
_SHORT_ADMIN_SECONDS = 1.0
_AT_A_TIME_MAX = 32
T = TypeVar("T")
R = TypeVar("R")
_ADMIN_LISTENER = "admin.advertised.listener"


def read_picture(brokers: str) -> Picture:
    """Return what is known of the cluster at these addresses.

    Raises:
        KafkaClientError: No broker answers, and no admin port of a broker that runs is known.
    """
    given = kafka_client.addresses(brokers)
    replies = probe_all(given)
    bootstrap = [each for each in given if replies[each] is Reply.KAFKA]
    if not bootstrap and Reply.NOTHING in replies.values():
        # Where one hangs, the others of a dev cluster may know more.
        replies |= probe_all(each.kafka for each in dev_brokers(given))
        bootstrap = [address for address, reply in replies.items() if reply is Reply.KAFKA]
        if not bootstrap:
            return _without_kafka(given, replies)
    try:
        cluster = kafka_client.read_cluster(",".join(bootstrap or given))
        return _with_kafka(",".join(bootstrap or given), given, cluster, replies)
    except NotKafkaError:
        raise
    except KafkaClientError:
        # The controller may also go while the others are asked.
        picture = _without_kafka(given, replies)
        if not any(each.runs for each in picture.brokers):
            raise
        return picture


def _without_kafka(given: list[str], replies: Mapping[str, Reply]) -> Picture:
    """Look at the admin ports of a dev cluster whose Kafka ports answer nobody."""
    known = merge_known([dev_brokers(given)])
    found = {**replies, **probe_all(each.kafka for each in known.values() if each.kafka not in replies)}

    def look(each: KnownBroker) -> BrokerPicture:
        hangs = found.get(each.kafka) is Reply.NOTHING
        broker = BrokerPicture(each.node_id, kafka=each.kafka, answers=False, hangs=hangs)
        broker = read_readiness(each.admin, broker, _SHORT_ADMIN_SECONDS)
        # Why nobody is served may be among the rest: a full disk, a bound.
        return read_details(each.admin, broker)[0] if broker.runs else broker

    brokers = _side_by_side(look, known.values())
    return Picture(brokers=tuple(brokers), hanging=_strangers(given, brokers, found, Reply.NOTHING))


def _with_kafka(brokers: str, given: list[str], cluster: ClusterInfo, replies: Mapping[str, Reply]) -> Picture:
    replies = {**replies, **probe_all(each for each in cluster.brokers.values() if each not in replies)}
    configs = _broker_configs(brokers, [node for node, each in cluster.brokers.items() if replies[each] is Reply.KAFKA])
    told = [
        KnownBroker(node, cluster.brokers.get(node, ""), admin) for node, admin in _admin_addresses(configs).items()
    ]
    others = _side_by_side(lambda each: read_known_brokers(each.admin), told)
    is_raftka = bool(told)
    known = merge_known([told, *others, dev_brokers([*given, *cluster.brokers.values()]) if is_raftka else []])
    replies |= probe_all(each.kafka for each in known.values() if each.kafka and each.kafka not in replies)
    placed = {node for partitions in cluster.topics.values() for each in partitions for node in each.replicas}
    nodes = sorted(placed | set(cluster.brokers) | set(known))
    looks = _side_by_side(
        lambda node: _broker(node, known.get(node, KnownBroker(node)), cluster, configs.get(node), replies), nodes
    )
    admitted = {each.node_id for rows in others for each in rows if each.member is not None}
    # The file of a dev cluster may still have a broker that was removed. While its process runs, it says so itself.
    gone = set(nodes) - admitted - placed - set(cluster.brokers) if admitted else set()
    pictures = [broker for broker, _ in looks if broker.runs or broker.node_id not in gone]
    # librdkafka asks the controller, and waits for it.
    does_controller_answer = replies.get(cluster.brokers.get(cluster.controller, "")) in (Reply.KAFKA, None)
    # Replicas that only come are no reason to find a partition out of sync.
    cluster, moves = reassigned.see(brokers, cluster, _ADMIN_SECONDS)
    topics = _topics(brokers, cluster) if does_controller_answer else ()
    told_moves = _moves(pictures, known)
    if told_moves is not None:
        origins = {(each.topic, each.number): each.origin for each in told_moves.moves if each.origin}
        moves = reassigned.with_origins(moves, origins)
    return Picture(
        brokers=tuple(pictures),
        controller=cluster.controller,
        partitions=_partitions(
            cluster,
            {each.name: each.min_isr for each in topics},
            {each for _, its_stalled in looks for each in its_stalled},
            {} if told_moves is None else told_moves.retired,
            moves,
        ),
        topics=topics,
        moves=None if told_moves is None else told_moves.moves,
        silent=_strangers(given, pictures, replies, Reply.UNREACHED),
        hanging=_strangers(given, pictures, replies, Reply.NOTHING),
        is_raftka=is_raftka,
    )


def _moves(brokers: Iterable[BrokerPicture], known: Mapping[int, KnownBroker]) -> ToldMoves | None:
    """Return what the first broker tells that serves; each gathers it from all. None: none tells it."""
    for broker in brokers:
        if broker.runs and (found := read_moves(known[broker.node_id].admin)) is not None:
            return found
    return None


def _strangers(
    given: list[str], brokers: Iterable[BrokerPicture], replies: Mapping[str, Reply], reply: Reply
) -> tuple[str, ...]:
    """Return the addresses with this reply where no known broker is."""
    known = {_plain(each.kafka) for each in brokers}
    return tuple(each for each in given if replies[each] is reply and _plain(each) not in known)


def _side_by_side(look: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return what `look` returns of each; it has time-outs of its own."""
    wanted = list(items)
    if not wanted:
        return []
    with ThreadPoolExecutor(min(len(wanted), _AT_A_TIME_MAX)) as pool:
        return list(pool.map(look, wanted))


def _broker(
    node: int,
    known: KnownBroker,
    cluster: ClusterInfo,
    configs: list[ConfigValue] | None,
    replies: Mapping[str, Reply],
) -> tuple[BrokerPicture, list[tuple[str, int]]]:
    kafka = cluster.brokers.get(node, known.kafka)
    reply = replies.get(kafka)
    broker = BrokerPicture(
        node,
        kafka=kafka,
        hangs=reply is Reply.NOTHING,
        refused=known.refused,
        refused_cure=known.refused_cure,
        refused_age=known.refused_age,
        member=known.member,
        configs=None if configs is None else {each.key: each.value for each in configs},
        own_configs=frozenset(each.key for each in configs or () if each.source == kafka_configs.ON_ONE_AT_RUN_TIME),
        throttles=tuple(key for key in RATE_KEYS if key in _set_at_run_time(configs or ())),
    )
    stalled: list[tuple[str, int]] = []
    if known.admin:
        seconds = _ADMIN_SECONDS if reply is Reply.KAFKA else _SHORT_ADMIN_SECONDS
        broker = read_readiness(known.admin, broker, seconds)
        if broker.runs:
            broker, stalled = read_details(known.admin, broker)
    # A broker that starts answers before the others hear that it is back.
    is_served = node in cluster.brokers or broker.is_ready is True
    return replace(broker, answers=is_served and reply is Reply.KAFKA), stalled


def _set_at_run_time(configs: Iterable[ConfigValue]) -> set[str]:
    return {each.key for each in configs if each.source in kafka_configs.AT_RUN_TIME}


def _partitions(
    cluster: ClusterInfo,
    min_isr: Mapping[str, int | None],
    stalled: set[tuple[str, int]],
    retired: Mapping[tuple[str, int], tuple[int, ...]],
    moves: reassigned.Moves,
) -> tuple[PartitionPicture, ...]:
    return tuple(
        PartitionPicture(
            topic,
            each.partition,
            None if each.leader < 0 else each.leader,
            tuple(reassigned.former(each, moves.get((topic, each.partition)))),
            () if each.leader < 0 else tuple(each.in_sync),
            min_isr.get(topic),
            (topic, each.partition) in stalled,
            retired.get((topic, each.partition), ()),
            tuple(reassigned.target(moves.get((topic, each.partition)))),
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
                tuple(key for key in THROTTLED_KEYS if values.get(key)),
            )
        )
    return tuple(found)


def _broker_configs(brokers: str, nodes: Iterable[int]) -> dict[int, list[ConfigValue]]:
    def read(node: int) -> tuple[int, list[ConfigValue] | None]:
        try:
            return node, kafka_configs.read_configs(brokers, Owner.BROKER, str(node), _CONFIG_SECONDS)
        except KafkaClientError:
            return node, None  # It does not answer, which is among the findings.

    return {node: found for node, found in _side_by_side(read, nodes) if found is not None}


def _admin_addresses(configs: dict[int, list[ConfigValue]]) -> dict[int, str]:
    return {
        node: (each.value or "").removeprefix("http://")
        for node, values in configs.items()
        for each in values
        if each.key == _ADMIN_LISTENER and each.value
    }


def dev_brokers(addresses: list[str]) -> list[KnownBroker]:
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
