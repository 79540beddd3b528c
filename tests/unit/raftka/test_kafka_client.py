"""What the command line says of clusters that do not answer, without any broker."""

import json
import socket
import threading
from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka import KafkaError, KafkaException

from raftka import kafka_client
from raftka.cli.root import run
from raftka.kafka_client import NoBrokerError, NotServingError

NOBODY = "127.0.0.1:1"


@pytest.fixture
def hangs_up() -> Iterator[str]:
    """The address of a listener that ends each connection at once, as a broker without a controller does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_brokers_that_take_connections_and_serve_nobody_are_told_from_ones_that_are_away(hangs_up: str) -> None:
    with pytest.raises(NotServingError) as told:
        kafka_client.read_cluster(f"{hangs_up},{NOBODY}", 0.5)
    assert str(told.value).startswith(f"{hangs_up} takes connections, but no Kafka broker serves clients there")
    assert told.value.cure == f"nobody listens at {NOBODY}: start what belongs there"
    with pytest.raises(NotServingError, match="start the other brokers of the cluster"):
        kafka_client.read_cluster(hangs_up, 0.5)
    with pytest.raises(NoBrokerError, match="no Kafka broker answers"):
        kafka_client.read_cluster(NOBODY, 0.5)


def test_any_other_request_says_the_same_where_metadata_is_not_answered_either(hangs_up: str) -> None:
    with pytest.raises(NotServingError), kafka_client.one_line_errors(hangs_up):
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def test_the_doctor_names_what_is_to_be_started(
    hangs_up: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kafka_client, "read_cluster", partial(kafka_client.read_cluster, seconds=0.5))
    assert run(["doctor", "cluster", "--brokers", f"{hangs_up},{NOBODY}", "-f", "json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert (found["what"], found["level"]) == ("brokers", "problem")
    assert "too few brokers of the cluster run" in found["words"]
    assert NOBODY in found["cure"]
