"""Bounds and defaults of the Kafka listener."""

from dataclasses import dataclass, field

from kafka_api.described_configs import DescribedConfig
from kafka_api.fetch_sessions import FetchSessionOptions
from kafka_api.groups.options import GroupOptions
from kafka_api.transactions.options import TransactionOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOptions:
    """Sizes in bytes, times in seconds.

    Attributes:
        request_bytes_max: A larger frame closes its connection (socket.request.max.bytes).
        other_request_bytes_max: The same for requests other than Produce: decoded they take many times their size.
        fetch_wait_max: Bound on a fetch's own max_wait: it keeps its request in memory.
        fetch_bytes_max: Most record bytes of one fetch response (fetch.max.bytes).
        requests_in_flight: Requests of one connection that wait for their answer before no more are read.
        connections_max: Open connections; one more closes the oldest that has not completed a request, if there is one,
            and is closed at once otherwise.
        produce_timeout_max: Bound on a producer's own timeout.
        num_partitions: Partitions of a topic that does not say.
        default_replication_factor: Replicas of a topic that does not say; None: 3, or as many as there are brokers.
        auto_create_topics: Metadata of an unknown name creates the topic, if the client does not forbid it.
        broker_configs: What this broker tells of its own configuration.
        default_broker_configs: What is set for all brokers while they run.
        slow_client_timeout: A client that takes no byte of a response for this long is disconnected. A fetch waits as
            long for memory, then it is answered without records.
        request_memory_bytes: Memory of all requests that are received or handled and are larger than 16 KiB. Each
            takes its announced size before its body is read, or waits; half of it is for those above 1/16.
        fetch_memory_bytes: Memory of all fetch responses that the kernel has not taken yet. One takes at most 1/16.
        fetch_sessions: Bounds of the sessions of consumers (KIP-227).
        stalled_request_timeout: A client that sends less than 1/16 of a request that it has begun in this time is
            disconnected; looked at six times in it. Where others wait for the memory that such a request has taken, it
            has to come with 16 KiB/s from one look to the next.
        groups: Bounds and times of consumer groups.
        transactions: Bounds and times of transactions.
        idle_timeout: A client without a request for this long is disconnected (connections.max.idle.ms).
    """

    request_bytes_max: int = 100 * 1024 * 1024
    other_request_bytes_max: int = 4 * 1024 * 1024
    fetch_wait_max: float = 60.0
    fetch_bytes_max: int = 55 * 1024 * 1024
    requests_in_flight: int = 64
    connections_max: int = 10_000
    produce_timeout_max: float = 300.0
    num_partitions: int = 1
    default_replication_factor: int | None = None
    auto_create_topics: bool = False
    broker_configs: tuple[DescribedConfig, ...] = ()
    default_broker_configs: tuple[DescribedConfig, ...] = ()
    slow_client_timeout: float = 10.0
    request_memory_bytes: int = 128 * 1024 * 1024
    fetch_memory_bytes: int = 64 * 1024 * 1024
    fetch_sessions: FetchSessionOptions = field(default_factory=FetchSessionOptions)
    stalled_request_timeout: float = 30.0
    idle_timeout: float = 600.0
    groups: GroupOptions = field(default_factory=GroupOptions)
    transactions: TransactionOptions = field(default_factory=TransactionOptions)


@dataclass(slots=True)
class OptionsInForce:
    """The options of one listener as of now: whoever reads through it sees a change."""

    current: KafkaOptions


def automatic_replication_factor(brokers: int) -> int:
    """Return the replicas of a topic where neither its creator nor the configuration says: 3, or one per broker."""
    return max(1, min(3, brokers))
