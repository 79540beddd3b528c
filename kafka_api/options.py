"""Bounds and defaults of the Kafka listener."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOptions:
    """Sizes in bytes, times in seconds.

    Attributes:
        request_bytes_max: A larger frame closes its connection (socket.request.max.bytes).
        fetch_bytes_max: Most record bytes of one fetch response (fetch.max.bytes).
        requests_in_flight: Requests of one connection that wait for their answer before no more are read.
        connections_max: Open connections; one more is closed at once.
        produce_timeout_max: Bound on a producer's own timeout.
        num_partitions: Partitions of a topic that does not say.
        default_replication_factor: Replicas of a topic that does not say; None: 3, or as many as there are brokers.
        slow_client_timeout: A client that takes no byte of a response for this long is disconnected.
    """

    request_bytes_max: int = 100 * 1024 * 1024
    fetch_bytes_max: int = 55 * 1024 * 1024
    requests_in_flight: int = 64
    connections_max: int = 10_000
    produce_timeout_max: float = 300.0
    num_partitions: int = 1
    default_replication_factor: int | None = None
    slow_client_timeout: float = 10.0
