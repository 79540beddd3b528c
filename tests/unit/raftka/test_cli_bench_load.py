"""The load of `raftka bench`, without any broker."""

import dataclasses

import pytest

from raftka.cli import bench
from raftka.cli.bench_load import Load, LoadRequest
from raftka.kafka import client as kafka_client
from raftka.kafka.errors import KafkaClientError, UnansweredError
from tests.unit.raftka.test_cli_usage import NOBODY

REQUEST = LoadRequest(
    brokers=NOBODY,
    topic="t",
    ends={},
    producers=2,
    consumers=0,
    size=100,
    rate=10.0,
    warmup=0.0,
    seconds=600.0,
    producer_options={"acks": "all"},
)


def test_a_writer_that_dies_ends_the_load_and_is_counted() -> None:
    # Which makes the interval between two records no number.
    load = Load(dataclasses.replace(REQUEST, rate=1e-320))
    load.start()
    produced, _ = load.join()
    assert list(produced.failures) == ["ValueError: cannot convert float NaN to integer"]


def test_a_reader_that_dies_ends_the_load_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise KafkaClientError("no reader")

    monkeypatch.setattr(kafka_client, "new_consumer", fail)
    load = Load(dataclasses.replace(REQUEST, ends={0: 0}, consumers=1, producers=0))
    load.start()
    _, consumed = load.join()
    assert consumed.failures == {"no reader": 1}
    assert load._stopped.is_set()


def test_a_new_topic_that_may_be_there_though_nobody_has_said_so_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    deleted: list[str] = []

    def create(*_: object, **__: object) -> None:
        raise UnansweredError("no answer")

    monkeypatch.setattr(kafka_client, "create_topic", create)
    monkeypatch.setattr(kafka_client, "delete_topic", lambda _, name: deleted.append(name))
    with pytest.raises(UnansweredError), bench._topic(NOBODY, "new", 1, None, is_new=True):
        pass
    assert deleted == ["new"]
