"""What the command line says of clusters that do not answer, without any broker."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

import pytest
from confluent_kafka import KafkaError, KafkaException

from raftka.cli.root import run
from raftka.kafka import client as kafka_client
from raftka.kafka import configs as kafka_configs
from raftka.kafka import offsets as kafka_offsets
from raftka.kafka.client import ClusterInfo
from raftka.kafka.errors import NoBrokerError, NotKafkaError, NotServingError, UnansweredError

NOBODY = "127.0.0.1:1"


@contextmanager
def listening(answer: bytes) -> Iterator[str]:
    """Yield the address of a listener that says this, or nothing, and ends each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    if answer and connection.recv(1_000):
                        connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.fixture
def hangs_up() -> Iterator[str]:
    """The address of a listener that ends each connection at once, as a broker without a controller does."""
    with listening(b"") as address:
        yield address


@pytest.fixture
def speaks_http() -> Iterator[str]:
    """The address of a server that knows HTTP only, as a broker's admin port does."""
    with listening(b"HTTP/1.0 400 Bad Request\r\n\r\n") as address:
        yield address


def test_brokers_that_take_connections_and_serve_nobody_are_told_from_ones_that_are_away(hangs_up: str) -> None:
    with pytest.raises(NotServingError) as told:
        kafka_client.read_cluster(f"{hangs_up},{NOBODY}", 0.5)
    assert str(told.value).startswith(f"{hangs_up} takes connections, but no Kafka broker serves clients there")
    assert told.value.cure == f"nobody listens at {NOBODY}: start the brokers that use these addresses"
    with pytest.raises(NotServingError, match="start the other brokers of the cluster"):
        kafka_client.read_cluster(hangs_up, 0.5)
    with pytest.raises(NoBrokerError, match="no Kafka broker answers"):
        kafka_client.read_cluster(NOBODY, 0.5)


def test_an_address_where_something_else_than_kafka_is_spoken_is_named(
    speaks_http: str, hangs_up: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = rf"do not speak the Kafka protocol: {speaks_http} \(HTTP\); name the Kafka ports"
    with pytest.raises(NotKafkaError, match=words):
        kafka_client.read_cluster(f"PLAINTEXT://{speaks_http},{NOBODY}", 0.5)
    with pytest.raises(NotServingError, match=f"^{hangs_up} takes connections, but no Kafka broker serves"):
        kafka_client.read_cluster(f"{speaks_http},{hangs_up}", 0.5)
    monkeypatch.setattr(kafka_client, "read_cluster", partial(kafka_client.read_cluster, seconds=0.5))
    assert run(["doctor", "cluster", "--brokers", speaks_http]) == 1
    assert "do not speak the Kafka protocol" in capsys.readouterr().out


def test_what_stands_before_an_address_is_no_part_of_it() -> None:
    assert kafka_client.addresses("PLAINTEXT://a:1, b:2,SSL://[::1]:3") == ["a:1", "b:2", "[::1]:3"]
    with pytest.raises(NoBrokerError):
        kafka_client.read_cluster(f"PLAINTEXT://{NOBODY}", 0.5)


def test_any_other_request_says_the_same_where_metadata_is_not_answered_either(hangs_up: str) -> None:
    with pytest.raises(NotServingError), kafka_client.one_line_errors(hangs_up):
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def unanswered(*_: object, **__: object) -> None:
    raise UnansweredError("no answer")


@pytest.mark.parametrize("name", ["REQUEST_TIMED_OUT", "_TIMED_OUT"])
def test_a_request_that_runs_out_of_time_is_told_from_one_that_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Somebody answers, but not this request.
    monkeypatch.setattr(kafka_client, "read_cluster", lambda *_: None)
    with pytest.raises(UnansweredError), kafka_client.one_line_errors(NOBODY):
        raise KafkaException(KafkaError(getattr(KafkaError, name)))


def test_a_change_that_is_not_answered_in_time_is_said_to_be_under_way(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kafka_client, "read_cluster", lambda *_: ClusterInfo("", 1, {}, {"big": []}))
    monkeypatch.setattr(kafka_client, "create_topic", unanswered)
    monkeypatch.setattr(kafka_configs, "add_partitions", unanswered)
    for arguments in (["create", "big", "-p", "1000"], ["add-partitions", "big", "-n", "1000"]):
        assert run(["topic", *arguments]) == 1
        words = "raftka: no answer; the change may still happen: check with `raftka topic describe big`\n"
        assert capsys.readouterr().err == words


@pytest.mark.parametrize(("name", "is_told"), [("TOPIC_EXCEPTION", False), ("LEADER_NOT_AVAILABLE", True)])
def test_the_health_of_the_cluster_is_pointed_at_where_it_is_the_cause(name: str, is_told: bool) -> None:
    failure = KafkaException(KafkaError(getattr(KafkaError, name)))
    told = str(kafka_offsets._partition_error(NOBODY, ("t", 0), failure))
    assert told.startswith("partition t-0: ")
    assert ("`raftka cluster health`" in told) is is_told


def test_the_doctor_names_what_is_to_be_started(
    hangs_up: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kafka_client, "read_cluster", partial(kafka_client.read_cluster, seconds=0.5))
    assert run(["doctor", "cluster", "--brokers", f"{hangs_up},{NOBODY}", "-f", "json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert (found["what"], found["level"]) == ("brokers", "problem")
    assert "too few brokers of the cluster run" in found["words"]
    assert NOBODY in found["cure"]
