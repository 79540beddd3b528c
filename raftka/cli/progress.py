"""Why a partition is neither read nor written: librdkafka tries again in silence, and a person would wait for ever."""

import logging
import re
import socket
import time
from collections.abc import Iterable, Mapping

from raftka.config import parse_address
from raftka.error_text import short_reason_of
from raftka.kafka import client as kafka_client
from raftka.kafka.client import ClusterInfo
from raftka.kafka.errors import KafkaClientError, NoQuorumError

# How long nothing may happen before somebody looks why.
PATIENCE_SECONDS = 10.0
# The same before a writer does: what it then asks takes 2 s at most, and 10 s without progress end it.
WRITE_PATIENCE_SECONDS = 7.0
# The same before a reader that is to end by itself looks whether a quorum is left.
QUORUM_PATIENCE_SECONDS = 2.5
_METADATA_SECONDS = 3.0
_CONNECT_SECONDS = 1.0
_PROBE_SECONDS = 2.0
_POLL_SECONDS = 0.1
# librdkafka names a broker's refusal to read in its debug log only. At its end: HOST:PORT/2: TOPIC [0]: Fetch failed at
# offset 7 (leader epoch 1): NAME, and where an offset is looked up: HOST:PORT/2: Offset reply error for topic TOPIC [0]
# (v2, Broker: WORDS): ACTION.
_FETCH_ERROR = re.compile(r"/(\d+): \S+ \[\d+\]: Fetch failed (?P<offset>at offset \d+) .*: (?P<name>\w+)$")
# What it cannot decode it fetches again and again: HOST:PORT/2: TOPIC [0]: Fetch backoff for 500ms: Local: WORDS
_DECODE_ERROR = re.compile(
    r": \S+ \[\d+\]: Fetch backoff for \d+ms: Local:"
    r" (?P<words>Read underflow|Bad message format|Invalid compressed data|Not implemented)"
)
_OFFSET_ERROR = re.compile(r"/(\d+): Offset reply error for topic \S+ \[\d+\] \(v\d+, (?:Broker: )?(?P<words>.*)\): ")


class Stopwatch:
    """Says when nothing has happened for too long: for `patience` seconds."""

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        self._patience = patience
        self._since = time.monotonic()

    def restart(self) -> None:
        """Something has happened."""
        self._since = time.monotonic()

    @property
    def has_expired(self) -> bool:
        """Whether nothing has happened for so long."""
        return time.monotonic() - self._since >= self._patience


class QuorumWatch:
    """Ends the wait of somebody who waits in vain, because too few brokers answer; asks them now and then."""

    def __init__(self, brokers: str) -> None:
        self._brokers = brokers
        self._since_look = Stopwatch(QUORUM_PATIENCE_SECONDS)

    def look(self) -> None:
        """Raise NoQuorumError if the quorum is lost; to be called while nothing comes, as often as one likes."""
        if self._since_look.has_expired:
            self._since_look.restart()
            kafka_client.check_quorum(self._brokers)
            self._since_look.restart()


def leader_problem(brokers: str, topic: str, partitions: Iterable[int]) -> str:
    """Return in one line which of these partitions nobody can serve just now, and why; empty: none.

    Args:
        brokers: HOST:PORT,...
        topic: Its name.
        partitions: The numbers that matter; ones that do not exist are passed over.

    Raises:
        NoQuorumError: Nobody can serve any partition.
    """
    try:
        cluster = kafka_client.read_cluster(brokers, _METADATA_SECONDS)
        known = {each.partition: each.leader for each in cluster.topic(topic)}
    except NoQuorumError:
        raise
    except KafkaClientError as error:
        return str(error)
    causes: dict[str, list[str]] = {}
    for number in sorted(set(partitions) & set(known)):
        cause = _leader_problem(cluster, known[number])
        if cause:
            causes.setdefault(cause, []).append(f"{topic}-{number}")
    return "; ".join(f"partition {', '.join(names)} {cause}" for cause, names in causes.items())


def write_problem(brokers: str, topic: str, partitions: Iterable[int], *, acks: str) -> str:
    """Return what `leader_problem` returns, or, at acks=all, which of the partitions have too few replicas in sync.

    Raises:
        NoQuorumError: As `leader_problem`.
    """
    why = leader_problem(brokers, topic, partitions)
    if why or acks != "all":
        return why
    try:
        needed = int(kafka_client.read_topic_config(brokers, topic).get("min.insync.replicas", "1"))
        known = kafka_client.read_cluster(brokers, _METADATA_SECONDS).topic(topic)
    except NoQuorumError:
        raise
    except (KafkaClientError, ValueError) as error:
        return str(error)
    wanted = set(partitions)
    short = [each for each in known if each.partition in wanted and len(each.in_sync) < min(needed, len(each.replicas))]
    return "; ".join(
        f"partition {topic}-{each.partition} has {len(each.in_sync)} of {len(each.replicas)} replicas in sync,"
        f" min.insync.replicas is {needed}"
        for each in short
    )


def _leader_problem(cluster: ClusterInfo, leader: int) -> str:
    if leader < 0:
        return "has no leader (`raftka cluster health` shows which brokers are missing)"
    if leader not in cluster.brokers:
        return f"is led by broker {leader}, which is missing from the metadata of the cluster"
    try:
        with socket.create_connection(parse_address(cluster.brokers[leader]), timeout=_CONNECT_SECONDS):
            return ""
    except (OSError, ValueError) as error:
        reason = short_reason_of(error)
        return f"is led by broker {leader}, which does not answer at {cluster.brokers[leader]} ({reason})"


def silence_problem(brokers: str, topic: str, positions: Mapping[int, int]) -> str:
    """Return in one line why nothing comes from partitions that are led; empty: none is waited for.

    Args:
        brokers: HOST:PORT,...
        topic: Its name.
        positions: The next offset of each partition that is waited for, or librdkafka's mark for one, by number.
    """
    for partition, offset in sorted(positions.items()):
        answer = read_problem(brokers, topic, partition, offset)
        if answer:
            return f"partition {topic}-{partition} cannot be read: {answer}"
    if not positions:
        return ""
    names = ", ".join(f"{topic}-{partition}" for partition in sorted(positions))
    return f"partition {names} returned no records for {PATIENCE_SECONDS:.0f} s, and no broker reported an error"


def read_problem(brokers: str, topic: str, partition: int, offset: int) -> str:
    """Read a partition once more and return in one line what is wrong with the answer; empty: nothing, or no answer.

    Args:
        brokers: HOST:PORT,...
        topic: Its name.
        partition: Its number.
        offset: Where to begin; librdkafka's own marks are understood.
    """
    from confluent_kafka import TopicPartition

    lines = _Lines(offset)
    logger = logging.getLogger(__name__)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(lines)
    consumer = kafka_client.new_consumer(brokers, debug="fetch,topic", logger=logger)
    try:
        consumer.assign([TopicPartition(topic, partition, offset)])
        deadline = time.monotonic() + _PROBE_SECONDS
        while not lines.answer and time.monotonic() < deadline:
            consumer.poll(_POLL_SECONDS)
    finally:
        consumer.close()
        logger.removeHandler(lines)
    return lines.answer


class _Lines(logging.Handler):
    """Keeps the first refusal among librdkafka's log lines, in our words."""

    def __init__(self, offset: int) -> None:
        super().__init__()
        self._offset = offset
        self.answer = ""

    def emit(self, record: logging.LogRecord) -> None:
        if not self.answer:
            self.answer = refusal(record.getMessage(), self._offset)


def refusal(line: str, offset: int) -> str:
    """Return why reading from `offset` failed, if a line of librdkafka's debug log says so; empty: it does not."""
    from confluent_kafka import KafkaError

    fetch = _FETCH_ERROR.search(line)
    if fetch is not None:
        code = getattr(KafkaError, fetch["name"], None)
        words = f" ({kafka_client.error_text(KafkaError(code))})" if isinstance(code, int) else ""
        return f"broker {fetch[1]} answered {fetch['name']}{words} {fetch['offset']}"
    undecoded = _DECODE_ERROR.search(line)
    if undecoded is not None:
        where = "" if offset < 0 else f" at offset {offset}"
        return f"the records{where} cannot be decoded ({undecoded['words']}); try a higher --offset to skip them"
    lookup = _OFFSET_ERROR.search(line)
    return "" if lookup is None else f"broker {lookup[1]} answered: {lookup['words']}"
