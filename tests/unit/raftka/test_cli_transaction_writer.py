"""What is said of a transaction whose end nobody knows, without any broker."""

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from raftka.cli.exit_codes import CommandError, GivenUpError
from raftka.cli.record_input import InputRecord, Place
from raftka.cli.record_writer import WriteRequest
from raftka.cli.transaction_writer import TransactionRequest, TransactionWriter
from raftka.kafka import client as kafka_client

REQUEST = WriteRequest(
    brokers="127.0.0.1:1",
    topic="t",
    count=1,
    partition=-1,
    acks="all",
    compression="none",
    timeout=600.0,
    linger_ms=0,
    headers=[],
)
IN_TIME = KafkaException(KafkaError(KafkaError._TIMED_OUT, "not in time", retriable=True))


FENCED = KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))


class Producer:
    """Brokers have each record at once, and answer no end of a transaction."""

    def __len__(self) -> int:
        return 0

    def init_transactions(self, _: float) -> None:
        pass

    def begin_transaction(self) -> None:
        pass

    def produce(self, topic: str, value: bytes, *, on_delivery, **_) -> None:
        on_delivery(None, Message(topic=topic, partition=0, offset=0, value=value))

    def poll(self, _: float) -> None:
        pass

    def commit_transaction(self, _: float) -> None:
        raise IN_TIME

    abort_transaction = commit_transaction


class FencedProducer(Producer):
    """Its records are under way when another producer begins: confluent-kafka 2.x raises as here."""

    def __len__(self) -> int:
        return 1

    def produce(self, *_: object, **__: object) -> None:
        pass

    def flush(self, _: float) -> None:
        raise SystemError("<method 'offset'> returned a result with an exception set") from FENCED


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("finish", "0 of the 1 lines that were sent are committed before; `raftka txn describe sink` tells"),
        ("cut_short", "0 of the 1 lines that were sent are committed; brokers abort the transaction that is open 60 s"),
    ],
)
def test_who_gives_up_waiting_is_told_what_may_become_of_the_transaction(
    monkeypatch: pytest.MonkeyPatch, end: str, words: str
) -> None:
    monkeypatch.setattr(kafka_client, "new_producer", lambda *_, **__: Producer())
    transaction = TransactionRequest(transactional_id="sink", records_max=None, timeout=60.0)
    arguments = (lambda _: None, lambda _: None, lambda: None, lambda: True)
    writer = TransactionWriter(REQUEST, transaction, "lines", *arguments)
    writer.write(InputRecord(Place("", "line", 1), None, b"x", []))
    with pytest.raises(GivenUpError) as refusal:
        getattr(writer, end)()
    assert words in str(refusal.value)


def test_a_fatal_error_amid_reports_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_client, "new_producer", lambda *_, **__: FencedProducer())
    transaction = TransactionRequest(transactional_id="sink", records_max=None, timeout=60.0)
    arguments = (lambda _: None, lambda _: None, lambda: None, lambda: False)
    writer = TransactionWriter(REQUEST, transaction, "lines", *arguments)
    writer.write(InputRecord(Place("", "line", 1), None, b"x", []))
    with pytest.raises(CommandError, match=r"another producer has begun as 'sink'.*0 of the 1 lines"):
        writer.finish()


def test_another_system_error_stays_one() -> None:
    with pytest.raises(SystemError, match="of its own"), kafka_client.fatal_errors():
        raise SystemError("of its own")
