"""Writes rows of an archive to a topic, in a Python worker of Spark; it imports this module, and no PySpark with it."""

from collections.abc import Iterable
from typing import Any

from raftka.kafka import client as kafka_client
from raftka.kafka.errors import KafkaClientError

_POLL_SECONDS = 0.1
_DELIVERY_SECONDS = 120
_FULL_POLLS_MAX = round(_DELIVERY_SECONDS / _POLL_SECONDS)


class Replay:
    """Called with the rows of one Spark partition: (partition, key, value, milliseconds, headers), in order."""

    def __init__(self, brokers: str, topic: str, options: dict[str, str]) -> None:
        self._brokers = brokers
        self._topic = topic
        self._options = options

    def __call__(self, rows: Iterable[Any]) -> None:
        """Write them; returns when all are acknowledged.

        Raises:
            KafkaClientError: One was not.
        """
        producer = kafka_client.new_producer(
            self._brokers,
            "all",
            enable_idempotence=True,
            message_timeout_ms=_DELIVERY_SECONDS * 1_000,
            linger_ms=20,
            **self._options,
        )
        failures: list[str] = []

        def note(error: Any, _: Any) -> None:
            if error is not None and not failures:
                failures.append(kafka_client.error_text(error))

        for row in rows:
            self._produce(producer, row, note)
            producer.poll(0)
            if failures:
                break
        if not failures and (left := producer.flush(_DELIVERY_SECONDS)):
            failures.append(f"{left} records were not acknowledged in time")
        if failures:
            producer.purge()
            raise KafkaClientError(f"topic {self._topic}: {failures[0]}")

    def _produce(self, producer: Any, row: Any, note: Any) -> None:
        headers = [(each.key, None if each.value is None else bytes(each.value)) for each in row.headers or []]
        for _ in range(_FULL_POLLS_MAX):
            try:
                producer.produce(
                    self._topic,
                    value=_bytes(row.value),
                    key=_bytes(row.key),
                    partition=row.partition,
                    timestamp=row.milliseconds,
                    headers=headers,
                    on_delivery=note,
                )
            except BufferError:
                producer.poll(_POLL_SECONDS)
            else:
                return
        raise KafkaClientError(f"topic {self._topic}: nothing was acknowledged for {_DELIVERY_SECONDS} s")


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
