"""confluent-kafka for the command line, the dev cluster and the story: imported late, quiet, errors of one line.

Importing confluent_kafka takes longer than `raftka --help` may, so it is imported where it is first used. Everything
here works against any Kafka.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from raftka.error_text import short_reason_of
from raftka.kafka.errors import KafkaClientError, NoBrokerError, NotKafkaError, NotServingError, UnansweredError

if TYPE_CHECKING:
    import logging
    from concurrent.futures import Future

    from confluent_kafka import Consumer, KafkaException, Message, Producer
    from confluent_kafka.admin import AdminClient

T = TypeVar("T")

DEFAULT_BROKERS = "127.0.0.1:9092"
REQUEST_SECONDS = 10.0
# Thousands of partitions, each a log on several disks, take longer than an answer does otherwise.
CREATE_SECONDS = 60.0
_POLL_SECONDS = 0.05
_CONNECT_SECONDS = 3.0
# The same with the time in which a name becomes an address.
_REACHED_SECONDS = 4.0
_PROBE_SECONDS = 2.0
# How often somebody who waits for an answer looks whether the cluster still has a quorum.
QUORUM_LOOK_SECONDS = 1.5
# librdkafka wants a group name even where partitions are assigned by hand; nothing is ever committed under it. It asks
# for the coordinator nevertheless and cannot be kept from it, so brokers create __consumer_offsets.
_UNUSED_GROUP = "raftka-cli"
# Names of librdkafka's errors that mean: nobody is there, for now.
UNREACHABLE = frozenset({"_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_RESOLVE"})
# Names of errors that come of how the brokers are; any other one is about what was asked for.
CAUSED_BY_BROKERS = UNREACHABLE | {
    *("BROKER_NOT_AVAILABLE", "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "REPLICA_NOT_AVAILABLE"),
    *("KAFKA_STORAGE_ERROR", "NOT_ENOUGH_REPLICAS", "OFFSET_NOT_AVAILABLE", "REQUEST_TIMED_OUT"),
    *("NOT_CONTROLLER", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"),
}
# The options by which librdkafka refuses a bad list of brokers, as they are known on the command line.
_FLAG_OF_OPTION = {"bootstrap.servers": "--brokers"}


# What brokers keep for themselves. librdkafka's list of topics does not carry Kafka's mark for them.
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """One partition, as Metadata tells; `leader` is -1 while nobody leads, the first replica is the preferred one."""

    partition: int
    leader: int
    replicas: list[int]
    in_sync: list[int]


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """What Metadata tells.

    Attributes:
        cluster_id: Empty where the brokers do not say.
        controller: Node id, or -1.
        brokers: HOST:PORT by node id; only brokers that the answering one believes alive.
        topics: Partitions by name of topic, in order.
    """

    cluster_id: str
    controller: int
    brokers: dict[int, str]
    topics: dict[str, list[PartitionInfo]]

    def topic(self, name: str) -> list[PartitionInfo]:
        """Return the partitions of a topic.

        Raises:
            KafkaClientError: There is no such topic.
        """
        if name not in self.topics:
            raise KafkaClientError(_no_topic(name, self.topics))
        return self.topics[name]


def _no_topic(name: str, topics: Iterable[str]) -> str:
    # Imported here: `raftka --help` imports this module.
    import shlex

    from raftka.suggestions import did_you_mean
    from raftka.topic_names import topic_name_problem

    is_internal = name.startswith("_")
    question = did_you_mean(name, (each for each in topics if is_internal or each not in INTERNAL_TOPICS))
    problem = topic_name_problem(name)
    if question or problem:
        return f"no topic {name!r}: {question or problem}"
    return f"no topic {name!r}; create it: raftka topic create {shlex.quote(name)}"


def addresses(brokers: str) -> list[str]:
    """Return the addresses of a list; a protocol may stand before each, as in PLAINTEXT://127.0.0.1:9092."""
    return [address.strip().rpartition("://")[2] for address in brokers.split(",")]


def client_config(brokers: str, **options: Any) -> dict[str, Any]:
    """Return a librdkafka configuration without log noise; `options` are spelled with `_` for `.`."""
    config: dict[str, Any] = {
        "bootstrap.servers": brokers,
        # librdkafka logs to stderr by itself; what matters of it reaches the caller as an error. Whoever asks for
        # debug lines (7) brings a logger for them.
        "log_level": 7 if "debug" in options else 0,
        "log.connection.close": False,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1000,
    }
    return config | {key.replace("_", "."): value for key, value in options.items()}


def silent_logger() -> "logging.Logger":
    """Return a logger for clients whose fatal errors librdkafka would write to stderr; they are raised as well."""
    import logging

    logger = logging.getLogger("raftka.kafka.silent")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger


def new_producer(brokers: str, acks: str, **options: Any) -> "Producer":
    """Return a producer; `acks` is 0, 1 or all.

    Raises:
        KafkaClientError: A configuration that librdkafka refuses.
    """
    from confluent_kafka import Producer

    with one_line_errors(brokers):
        return Producer(client_config(brokers, acks=acks, **options))


def new_consumer(brokers: str, **options: Any) -> "Consumer":
    """Return a consumer to which partitions are assigned by hand, and which commits nothing.

    Raises:
        KafkaClientError: A configuration that librdkafka refuses.
    """
    from confluent_kafka import Consumer

    defaults = {"group_id": _UNUSED_GROUP, "enable_auto_commit": False, "auto_offset_reset": "error"}
    with one_line_errors(brokers):
        return Consumer(client_config(brokers, **(defaults | options)))


def new_admin(brokers: str) -> "AdminClient":
    """Return an admin client.

    Raises:
        KafkaClientError: Nobody listens at any of the addresses, or a configuration that librdkafka refuses.
    """
    # librdkafka would go on trying until the request times out.
    _check_reachable(brokers)

    from confluent_kafka.admin import AdminClient

    with one_line_errors(brokers):
        return AdminClient(client_config(brokers))


def read_cluster(brokers: str, seconds: float = REQUEST_SECONDS) -> ClusterInfo:
    """Return what Metadata tells of brokers and topics.

    Raises:
        KafkaClientError: No broker answers.
    """
    with one_line_errors(brokers, is_metadata=True):
        metadata = _list_topics(brokers, seconds)
    # The stubs of confluent-kafka say that it is always None.
    cluster_id: Any = metadata.cluster_id
    topics = {
        name: [
            PartitionInfo(each.id, each.leader, list(each.replicas), sorted(each.isrs))
            for _, each in sorted(topic.partitions.items())
        ]
        for name, topic in sorted(metadata.topics.items())
    }
    nodes = {node: f"{each.host}:{each.port}" for node, each in sorted(metadata.brokers.items())}
    return ClusterInfo(cluster_id or "", metadata.controller_id, nodes, topics)


def _list_topics(brokers: str, seconds: float) -> Any:
    from confluent_kafka import KafkaException

    admin = new_admin(brokers)
    # All topics, not one: to ask for one by name may create it. In one go: an answer with many partitions takes long.
    future = in_background(lambda: admin.list_topics(timeout=seconds), KafkaException)
    return result_of(future, brokers, seconds + QUORUM_LOOK_SECONDS)


def in_background(call: Callable[[], T], *expected: type[Exception]) -> "Future[T]":
    """Return the future result of a call that blocks, for `result_of`; it raises what is expected.

    It runs in a thread for which nobody waits at the end of the process: an answer may never come.
    """
    # Imported here: `raftka --help` imports this module.
    from concurrent.futures import Future
    from threading import Thread

    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except expected as error:
            future.set_exception(error)
        finally:
            # Of no effect if it is done; whoever waits must not wait for a thread that has died.
            future.cancel()

    Thread(target=work, daemon=True).start()
    return future


def check_quorum(brokers: str) -> None:
    """Raise NoQuorumError if so few brokers answer that the cluster can decide nothing; takes 2 s at most."""
    # Imported here: `raftka --help` imports this module.
    from raftka.kafka.quorum import lost_quorum

    error = lost_quorum(addresses(brokers))
    if error is not None:
        raise error


def check_service(brokers: str) -> None:
    """Raise NoQuorumError as `check_quorum`, or HangingError if nothing is answered where connections are taken.

    For the begin of something: brokers that a running client has found may answer where those of its list hang.
    """
    # Imported here: `raftka --help` imports this module.
    from raftka.kafka.quorum import no_service

    error = no_service(addresses(brokers))
    if error is not None:
        raise error


def result_of(future: Any, brokers: str, seconds: float) -> Any:
    """Return the result of a request of an admin client.

    Raises:
        NoQuorumError: It cannot come.
        HangingError: Nothing is answered at the addresses.
        TimeoutError: It has not come in time.
        Exception: What the future raises.
    """
    deadline = time.monotonic() + seconds
    while True:
        left = deadline - time.monotonic()
        try:
            return future.result(max(0.0, min(QUORUM_LOOK_SECONDS, left)))
        except TimeoutError:
            if left <= QUORUM_LOOK_SECONDS:
                raise
            check_service(brokers)


def create_topic(
    brokers: str,
    name: str,
    partitions: int | None,
    replicas: int | None,
    config: Mapping[str, str] | None = None,
    *,
    seconds: float = REQUEST_SECONDS,
) -> None:
    """Create a topic, and wait so long for the answer; None leaves a number to the brokers.

    Raises:
        UnansweredError: It may be there soon.
        KafkaClientError: Refused, or no answer.
    """
    from confluent_kafka.cimpl import NewTopic

    topic = NewTopic(
        name,
        num_partitions=-1 if partitions is None else partitions,
        replication_factor=-1 if replicas is None else replicas,
        config=dict(config or {}),
    )
    with one_line_errors(brokers):
        # Kept in a variable: a client that nobody holds is destroyed, and its requests with it.
        admin = new_admin(brokers)
        futures = admin.create_topics([topic], operation_timeout=seconds, request_timeout=seconds)
        result_of(futures[name], brokers, 2 * seconds)


def delete_topic(brokers: str, name: str) -> None:
    """Delete a topic.

    Raises:
        KafkaClientError: Refused, or no answer.
    """
    with one_line_errors(brokers):
        # Kept in a variable: a client that nobody holds is destroyed, and its requests with it.
        admin = new_admin(brokers)
        futures = admin.delete_topics([name], operation_timeout=REQUEST_SECONDS, request_timeout=REQUEST_SECONDS)
        result_of(futures[name], brokers, 2 * REQUEST_SECONDS)


def read_broker_config(brokers: str, node_id: int, seconds: float = REQUEST_SECONDS) -> dict[str, str]:
    """Return the configuration of one broker, as DescribeConfigs tells it; wait so long for the answer.

    Raises:
        KafkaClientError: Refused, or no answer.
    """
    return _read_config(brokers, "BROKER", str(node_id), seconds)


def read_topic_config(brokers: str, topic: str) -> dict[str, str]:
    """Return the configuration of one topic, as DescribeConfigs tells it.

    Raises:
        KafkaClientError: Refused, or no answer.
    """
    return _read_config(brokers, "TOPIC", topic, REQUEST_SECONDS)


def _read_config(brokers: str, kind: str, name: str, seconds: float) -> dict[str, str]:
    from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]

    resource = ConfigResource(ConfigResource.Type[kind], name)
    with one_line_errors(brokers):
        # Kept in a variable: a client that nobody holds is destroyed, and its requests with it.
        admin = new_admin(brokers)
        futures = admin.describe_configs([resource], request_timeout=seconds)
        entries = result_of(futures[resource], brokers, 2 * seconds)
    return {name: entry.value for name, entry in entries.items() if entry.value is not None}


def check_writable(brokers: str, topic: str, seconds: float, is_stopped: Callable[[], bool]) -> None:
    """Create a topic, have one record acknowledged at acks=all, and delete the topic.

    Args:
        brokers: HOST:PORT,...
        topic: A name that is not in use.
        seconds: How long all of it may take.
        is_stopped: Asked often; True gives up at once, without an error.

    Raises:
        KafkaClientError: It did not work in time.
    """
    create_topic(brokers, topic, 1, None)
    try:
        outcomes: list[Any] = []
        producer = new_producer(brokers, "all", message_timeout_ms=int(seconds * 1000), linger_ms=0)
        producer.produce(topic, b"ready?", on_delivery=lambda error, _: outcomes.append(error))
        while not outcomes and not is_stopped():
            producer.poll(_POLL_SECONDS)
        if outcomes and outcomes[0] is not None:
            raise KafkaClientError(f"a record at acks=all was not acknowledged: {error_text(outcomes[0])}")
        if not outcomes:
            producer.purge()
    finally:
        delete_topic(brokers, topic)


def delivered_offset(message: "Message") -> int:
    """Return the offset in a delivery report; -1 where the broker was not asked for one (acks=0)."""
    offset = message.offset()
    # Below -1 are librdkafka's own marks for an offset that is not known.
    return -1 if offset is None else max(-1, offset)


def error_text(error: Any) -> str:
    """Return a KafkaError's words in one line."""
    # "Broker: " and "Local: " say on which side an error arose, which is no news to the reader.
    text = " ".join(str(error.str()).split()).rstrip(".")
    return text.removeprefix("Broker: ").removeprefix("Local: ")


@contextmanager
def fatal_errors() -> Iterator[None]:
    """Let a fatal error of a producer be what it is: a KafkaException.

    confluent-kafka raises a fatal error amid the reports of records, and goes on with the next report. What that calls
    then seems to have raised it, which Python turns into a SystemError.
    """
    from confluent_kafka import KafkaException

    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, KafkaException):
            raise error.__cause__ from None
        raise


@contextmanager
def one_line_errors(brokers: str, *, is_metadata: bool = False) -> Iterator[None]:
    """Turn what confluent-kafka raises into KafkaClientError; `is_metadata`: any broker could have answered."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise _one_line(error, brokers, is_metadata=is_metadata) from None
    except TimeoutError:
        raise UnansweredError(f"no answer from {brokers} in time") from None


def _check_reachable(brokers: str) -> None:
    """Raise NoBrokerError unless somebody listens at one of the addresses.

    All are tried at the same time: of those that name dead machines, each would take its time-out.
    """
    # Imported here: `raftka --help` imports this module.
    from queue import Empty, SimpleQueue
    from threading import Thread

    problems: SimpleQueue[str | KafkaClientError] = SimpleQueue()

    def look(address: str) -> None:
        try:
            problems.put(_connect_problem(address))
        except KafkaClientError as error:
            problems.put(error)

    given = addresses(brokers)
    for address in given:
        # Nobody waits for those that are left when one has answered.
        Thread(target=look, args=(address,), daemon=True).start()
    reason, deadline = "", time.monotonic() + _REACHED_SECONDS
    for _ in given:
        try:
            found = problems.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            # Nobody tells the address of a name.
            found = "no answer in time"
        if isinstance(found, KafkaClientError):
            raise found
        if not found:
            return
        reason = reason or found
    raise NoBrokerError(f"no Kafka broker answers at {brokers}: {reason}")


def _connect_problem(address: str) -> str:
    """Return why an address takes no connection; empty: it takes one.

    Raises:
        KafkaClientError: It is none.
    """
    # Imported here: `raftka --help` imports this module.
    import socket

    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS):
            return ""
    except ValueError:
        raise KafkaClientError(f"{address!r} is not HOST:PORT") from None
    except OSError as error:
        return short_reason_of(error)


def _unreachable(brokers: str, *, is_metadata: bool) -> KafkaClientError:
    """Return what to say where librdkafka knows no more than that nobody has answered.

    Raises:
        NoQuorumError: Too few brokers answer.
        HangingError: Nothing is answered at the addresses.
    """
    check_service(brokers)
    if not is_metadata and _serves(brokers):
        return UnansweredError(f"a broker of {brokers} has not answered in time (`raftka cluster health` tells more)")
    # Imported here: `raftka --help` imports this module.
    from raftka.kafka.probe import foreign_protocol
    from raftka.kafka.quorum import serving_elsewhere

    given = addresses(brokers)
    silent = [address for address in given if _connect_problem(address)]
    if len(silent) == len(given):
        return NoBrokerError(f"no Kafka broker answers at {brokers}")
    taking = [address for address in given if address not in silent]
    foreign = {address: protocol for address in taking if (protocol := foreign_protocol(address))}
    if len(foreign) == len(taking):
        return NotKafkaError(foreign)
    # A broker that knows no controller hangs up, so that clients ask another one.
    refusing = [address for address in taking if address not in foreign]
    return NotServingError(refusing, silent, serving_elsewhere(refusing))


def _serves(brokers: str) -> bool:
    try:
        read_cluster(brokers, _PROBE_SECONDS)
    except KafkaClientError:
        return False
    return True


def _one_line(failure: "KafkaException", brokers: str, *, is_metadata: bool) -> KafkaClientError:
    from confluent_kafka import KafkaError

    error = failure.args[0]
    # Not every KafkaException carries a KafkaError: some are raised with plain words.
    if not isinstance(error, KafkaError):
        return KafkaClientError(" ".join(str(error).split()))
    if error.name() in UNREACHABLE:
        return _unreachable(brokers, is_metadata=is_metadata)
    text = error_text(error)
    if error.name() in CAUSED_BY_BROKERS:
        check_quorum(brokers)
    if error.name() == "REQUEST_TIMED_OUT":
        return UnansweredError(f"{brokers}: {text}")
    for option, flag in _FLAG_OF_OPTION.items():
        text = text.replace(option, flag)
    return KafkaClientError(text)
