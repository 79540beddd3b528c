"""The rows of `raftka partition list`: of the brokers' admin ports, else of what any Kafka tells."""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any, NamedTuple

from raftka.admin_client import AdminError, get_json
from raftka.kafka import client as kafka_client
from raftka.kafka import offsets as kafka_offsets
from raftka.kafka.client import ClusterInfo, PartitionInfo
from raftka.kafka.errors import KafkaClientError, NoQuorumError
from raftka.kafka.groups import Partition
from raftka.partition_health import PartitionHealth, partition_health

# How long one broker may take to say where its admin port is, and that port to answer.
_CONFIG_SECONDS = 2.0
_ADMIN_SECONDS = 5.0
_AT_A_TIME = 8


class PartitionRow(NamedTuple):
    """One partition. Leader and term are -1 where nobody leads or nobody tells; offsets are None where nobody tells.

    `log_end` is the offset of the next record at the leader, `high_watermark` the one after the last visible record.
    """

    topic: str
    partition: int
    leader: int
    term: int
    replicas: list[int]
    in_sync: list[int]
    status: PartitionHealth
    log_end: int | None
    high_watermark: int | None


def read_rows(brokers: str, topic: str | None) -> list[PartitionRow]:
    """Return the partitions of a topic, None: of all topics, in order.

    Raises:
        KafkaClientError: There is no such topic, or no broker answers.
    """
    cluster = kafka_client.read_cluster(brokers)
    topics = cluster.topics if topic is None else {topic: cluster.topic(topic)}
    told = _told(brokers, cluster, topic)
    rows = merged(told) if told else list(_of_metadata(brokers, topics))
    # The broker that leads it has not told, or has no admin port.
    missing = [(row.topic, row.partition) for row in rows if row.leader >= 0 and row.high_watermark is None]
    ends = kafka_offsets.known_ends(brokers, missing)
    return [
        row._replace(high_watermark=ends.get((row.topic, row.partition))) if row.high_watermark is None else row
        for row in sorted(rows, key=lambda row: (row.topic, row.partition))
    ]


def _told(brokers: str, cluster: ClusterInfo, topic: str | None) -> list[dict[str, Any]]:
    """Return the rows of all admin ports that answer; each knows the offsets of what its broker leads."""

    def ask(node: int) -> list[dict[str, Any]]:
        try:
            config = kafka_client.read_broker_config(brokers, node, _CONFIG_SECONDS)
            admin = config.get("admin.advertised.listener", "").removeprefix("http://")
            if not admin:
                return []
            status, body = get_json(admin, _path(topic), _ADMIN_SECONDS)
        except NoQuorumError:
            raise
        except (KafkaClientError, AdminError):
            return []
        # A broker of an older version has no such page.
        found: list[dict[str, Any]] = body["partitions"] if status == HTTPStatus.OK else []
        return found

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return [row for rows in pool.map(ask, cluster.brokers) for row in rows]


def _path(topic: str | None) -> str:
    # Imported here, for the sake of `--help`.
    from urllib.parse import quote

    return "/v1/partitions" if topic is None else f"/v1/partitions?topic={quote(topic, safe='')}"


def merged(told: Iterable[Mapping[str, Any]]) -> list[PartitionRow]:
    """Return one row for each partition that brokers have told of: that of the newest term, the leader's own first."""
    best: dict[Partition, Mapping[str, Any]] = {}
    for row in told:
        where = (row["topic"], row["partition"])
        before = best.get(where)
        if before is None or _weight(row) > _weight(before):
            best[where] = row
    return [
        PartitionRow(
            topic=row["topic"],
            partition=row["partition"],
            leader=row["leader"],
            term=row["term"],
            replicas=row["replicas"],
            in_sync=row["in_sync"],
            status=PartitionHealth(row["status"]),
            log_end=row["leo"],
            high_watermark=row["hw"],
        )
        for row in best.values()
    ]


def _weight(row: Mapping[str, Any]) -> tuple[int, bool]:
    return row["term"], row["leo"] is not None


def _of_metadata(brokers: str, topics: Mapping[str, list[PartitionInfo]]) -> Iterator[PartitionRow]:
    for topic, partitions in topics.items():
        is_lagging = any(len(each.in_sync) < len(each.replicas) for each in partitions)
        needed = _min_in_sync(brokers, topic) if is_lagging else None
        for each in partitions:
            status = partition_health(each.leader, each.replicas, each.in_sync, needed)
            yield PartitionRow(topic, each.partition, each.leader, -1, each.replicas, each.in_sync, status, None, None)


def _min_in_sync(brokers: str, topic: str) -> int | None:
    try:
        return int(kafka_client.read_topic_config(brokers, topic).get("min.insync.replicas", "1"))
    except NoQuorumError:
        raise
    except (KafkaClientError, ValueError):
        return None
