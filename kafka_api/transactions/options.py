"""Bounds and times of transactions."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionOptions:
    """Milliseconds, by Kafka's names where there is one.

    Attributes:
        max_timeout_ms: How long a producer may ask its transactions to stay open (transaction.max.timeout.ms).
        id_expiration_ms: How long an id is kept that has nothing open and is not used (transactional.id.expiration.ms).
        topic_partitions: Partitions of `__transaction_state`, when it is created.
        first_leader_wait_ms: How long a search for a coordinator waits for the first leader of its partition.
        write_timeout_ms: How long a request waits for its record to be committed.
        busy_wait_ms: How long a request waits for another change of its id.
        timeout_check_interval_ms: How often transactions are looked for that are open for too long.
        expiration_check_interval_ms: How often ids are looked for that nobody uses.
        room_idle_ms: A full table forgets ids that were not used for so long, the oldest first.
    """

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 7 * 24 * 3600 * 1000
    topic_partitions: int = 8
    first_leader_wait_ms: int = 1_000
    write_timeout_ms: int = 5_000
    busy_wait_ms: int = 100
    timeout_check_interval_ms: int = 500
    expiration_check_interval_ms: int = 600_000
    room_idle_ms: int = 3_600_000
