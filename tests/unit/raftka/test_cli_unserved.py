"""What commands say at the port of a broker that serves nobody: its own words, and who serves instead."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from raftka.admin_client import AdminError
from raftka.cli import unserved
from raftka.cli.admin_picture import KnownBroker
from raftka.cli.root import run
from raftka.kafka import quorum
from raftka.kafka.errors import NotServingError
from tests.unit.raftka.foreign_brokers import LonelyBroker

REASON = "the data directory of this broker (3) is retired and never counts again"
CURE = "start broker 3 with an empty data.dir; if it was removed from the cluster, leave it stopped"
OWN, OTHER = "10.0.0.3:9092", "10.0.0.1:9092"
ROWS = [{"node_id": 1, "kafka": OTHER}, {"node_id": 2, "kafka": "10.0.0.2:9092"}, {"node_id": 3, "kafka": OWN}]


def _admin_ports(monkeypatch: pytest.MonkeyPatch, answers: dict[str, tuple[Any, Any]]) -> None:
    def get_json(admin: str, path: str, _: float) -> tuple[int, Any]:
        if admin not in answers:
            raise AdminError(f"admin port {admin}: nobody listens")
        ready, rows = answers[admin]
        return (200 if ready is None else 503, ready) if path.endswith("ready") else (200, rows)

    monkeypatch.setattr(unserved, "get_json", get_json)
    monkeypatch.setattr(unserved, "serving", lambda addresses: [each for each in addresses if each == OTHER])


@pytest.mark.parametrize("admin", ["10.0.0.3:9644", "10.0.0.3:9700"])
def test_a_retired_broker_is_told_in_its_own_words_with_its_cure_and_another_bootstrap(
    monkeypatch: pytest.MonkeyPatch, admin: str
) -> None:
    ready = {"ready": False, "node_id": 3, "reason": REASON, "cure": CURE}
    _admin_ports(monkeypatch, {admin: (ready, ROWS)})
    of_dev = [KnownBroker(3, OWN, admin)] if not admin.endswith("9644") else []
    monkeypatch.setattr(unserved, "dev_brokers", lambda _: of_dev)
    found = unserved.with_own_words(NotServingError([OWN], []))
    assert found.what == (
        f"{OWN} takes connections, but no Kafka broker serves clients there: the broker at {OWN} says: {REASON}"
    )
    assert found.cure == f"{CURE}; name another broker: --brokers {OTHER}"


@pytest.mark.parametrize(
    "rows", [[{"node_id": 3, "kafka": "10.0.0.3:9093"}], [], "nothing"], ids=["another port", "no row", "no rows"]
)
def test_an_admin_port_that_may_be_of_another_broker_does_not_count(
    monkeypatch: pytest.MonkeyPatch, rows: object
) -> None:
    ready = {"ready": False, "node_id": 3, "reason": REASON, "cure": CURE}
    _admin_ports(monkeypatch, {"10.0.0.3:9644": (ready, rows)})
    monkeypatch.setattr(unserved, "dev_brokers", lambda _: [])
    error = NotServingError([OWN], [])
    assert unserved.with_own_words(error) is error
    assert "or the broker was removed from the cluster, or its data directory is retired" in str(error)
    assert "name one that runs (--brokers)" in error.cure


@pytest.fixture
def removed() -> Iterator[tuple[LonelyBroker, LonelyBroker]]:
    """A broker that others are cut off from, and one that it names and that knows a controller."""
    lonely, other = LonelyBroker(), LonelyBroker()
    members = {1: other.address, 3: lonely.address}
    lonely.brokers, other.brokers, other.controller = members, {1: other.address}, 1
    yield lonely, other
    lonely.close()
    other.close()


def test_a_broker_that_still_names_the_others_is_told_with_those_that_serve(
    removed: tuple[LonelyBroker, LonelyBroker],
) -> None:
    lonely, other = removed
    assert quorum.serving_elsewhere([lonely.address]) == [other.address]
    error = NotServingError([lonely.address], [], [other.address])
    assert "so it is cut off from them or was removed" in error.what
    assert error.cure == f"name another broker: --brokers {other.address}"


def test_a_command_says_the_own_words_of_a_broker_that_ends_each_connection(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    listener.accept()[0].close()

        thread = threading.Thread(target=serve)
        thread.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        ready = {"ready": False, "node_id": 3, "reason": REASON, "cure": CURE}
        _admin_ports(monkeypatch, {"127.0.0.1:9644": (ready, [{"node_id": 3, "kafka": address}])})
        assert run(["broker", "list", "--brokers", address]) == 1
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert f"says: {REASON}; {CURE}" in capsys.readouterr().err
