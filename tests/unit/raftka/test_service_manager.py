"""What a service manager such as systemd gets from a broker: ready once, a status, signs of life from the loop."""

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from raftka.broker.service_manager import ServiceManager
from tests.notify_double import Message, NotifyDouble

PID = 4711


@pytest.fixture(params=["path", "abstract"])
def double(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NotifyDouble]:
    found = NotifyDouble(tmp_path if request.param == "path" else None)
    yield found
    found.close()


async def until(double: NotifyDouble, is_enough: Callable[[Message], bool]) -> Message:
    """Let the loop run until such a message came."""
    async with asyncio.timeout(30):
        while True:
            for message in double.take_all():
                if is_enough(message):
                    return message
            await asyncio.sleep(0)


def fill(address: str) -> int:
    """Send as another service, until its buffer or the manager's is full; return how many messages found room."""
    sent = 0
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as other, suppress(BlockingIOError):
        other.connect(address)
        while other.send(b"STATUS=another service"):
            sent += 1
    return sent


def has(line: str) -> Callable[[Message], bool]:
    return lambda message: line in message.lines


def test_ready_is_sent_once_when_clients_are_served_and_the_status_before(double: NotifyDouble) -> None:
    async def scenario() -> None:
        served: list[bool] = []
        status = ["waiting for seeds"]
        manager = ServiceManager({"NOTIFY_SOCKET": double.address, "WATCHDOG_USEC": "20000"}, PID)
        manager.start(lambda: bool(served), lambda: status[0])
        first = await until(double, lambda _: True)
        assert first.lines == ["WATCHDOG=1", "STATUS=waiting for seeds"]
        status[0] = "not ready:\nraft0 has no leader"
        await until(double, has("STATUS=not ready: raft0 has no leader"))
        served.append(True)
        status[0] = "ready"
        assert (await until(double, has("READY=1"))).lines == ["WATCHDOG=1", "READY=1", "STATUS=ready"]
        for _ in range(3):
            assert (await until(double, lambda _: True)).lines == ["WATCHDOG=1"]
        manager.close()
        manager.close()
        await asyncio.sleep(0.05)
        assert double.take_all() == []

    asyncio.run(scenario())
    assert sum("READY=1" in message.lines for message in double.messages) == 1


def test_a_loop_that_is_held_up_sends_no_sign_of_life(double: NotifyDouble) -> None:
    async def scenario() -> None:
        manager = ServiceManager({"NOTIFY_SOCKET": double.address, "WATCHDOG_USEC": "20000"}, PID)
        manager.start(lambda: True, lambda: "ready")
        await until(double, has("WATCHDOG=1"))
        double.take_all()
        # Five times as long as the manager waits: the loop does not run meanwhile.
        time.sleep(0.1)
        assert double.take_all() == []
        await until(double, has("WATCHDOG=1"))
        manager.close()

    asyncio.run(scenario())


def test_a_stop_is_told_once_and_signs_of_life_go_on_without_asking_the_broker(double: NotifyDouble) -> None:
    async def scenario() -> None:
        is_stopped: list[bool] = []

        def status() -> str:
            assert not is_stopped, "parts that are being stopped are asked"
            return "ready"

        manager = ServiceManager({"NOTIFY_SOCKET": double.address, "WATCHDOG_USEC": "20000"}, PID)
        manager.start(lambda: True, status)
        await until(double, has("READY=1"))
        is_stopped.append(True)
        manager.tell_stopping("the data directory is gone")
        manager.tell_stopping("again")
        stopping = await until(double, has("STOPPING=1"))
        assert stopping.lines == ["STOPPING=1", "STATUS=the data directory is gone"]
        assert (await until(double, lambda _: True)).lines == ["WATCHDOG=1"]
        manager.close()

    asyncio.run(scenario())


def test_without_a_service_manager_nothing_is_looked_at_or_sent() -> None:
    def unasked() -> bool:
        raise AssertionError("nobody wants to know")

    async def scenario() -> None:
        manager = ServiceManager({"WATCHDOG_USEC": "20000"}, PID)
        assert manager.watchdog_seconds is None
        manager.start(unasked, lambda: str(unasked()))
        manager.tell_stopping("stopping")
        manager.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({"WATCHDOG_USEC": "90000000"}, 90.0),
        ({"WATCHDOG_USEC": "90000000", "WATCHDOG_PID": str(PID)}, 90.0),
        ({"WATCHDOG_USEC": "90000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "-5"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_is_this_process_s_own_and_the_variables_reach_no_child(
    variables: dict[str, str], seconds: float | None, tmp_path: Path
) -> None:
    double = NotifyDouble(tmp_path)
    environment = {"NOTIFY_SOCKET": double.address, **variables, "HOME": "/"}
    manager = ServiceManager(environment, PID)
    assert manager.watchdog_seconds == seconds
    assert environment == {"HOME": "/"}
    manager.close()
    double.close()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("vsock:2:1234", "neither a path nor @NAME"),
        ("@", "neither a path nor @NAME"),
        ("/nowhere/notify", "No such file or directory"),
        ("/" + "x" * 200, "too long"),
    ],
)
def test_a_socket_that_cannot_be_used_is_a_warning_and_the_broker_runs(
    address: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        manager = ServiceManager({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000000"}, PID)
    assert words in caplog.text
    assert manager.watchdog_seconds is None


def test_a_manager_that_went_away_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    double = NotifyDouble(tmp_path)

    async def scenario() -> None:
        manager = ServiceManager({"NOTIFY_SOCKET": double.address, "WATCHDOG_USEC": "20000"}, PID)
        double.close()
        asked = []
        manager.start(lambda: bool(asked.append(1)), lambda: "starting")
        async with asyncio.timeout(30):
            while len(asked) < 3:
                await asyncio.sleep(0)
        manager.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "does not listen: " in caplog.text


def test_ready_is_repeated_if_the_manager_s_socket_was_full(tmp_path: Path) -> None:
    double = NotifyDouble(tmp_path)

    async def scenario() -> None:
        while fill(double.address):
            pass
        asked = []
        manager = ServiceManager({"NOTIFY_SOCKET": double.address, "WATCHDOG_USEC": "20000"}, PID)
        manager.start(lambda: not asked.append(1), lambda: "ready")
        async with asyncio.timeout(30):
            while len(asked) < 3:
                await asyncio.sleep(0)
        await until(double, has("READY=1"))
        manager.close()

    asyncio.run(scenario())
    double.close()


def test_a_status_is_one_line_that_fits_into_a_datagram(tmp_path: Path) -> None:
    double = NotifyDouble(tmp_path)
    manager = ServiceManager({"NOTIFY_SOCKET": double.address}, PID)
    manager.tell_stopping("€\nREADY=1\n" * 1000)
    message = double.take()
    assert message is not None
    assert len(message.lines) == 2
    assert message.lines[1].startswith("STATUS=€ READY=1 €")
    manager.close()
    double.close()
