"""What a broker survives when descriptors run out, and how they are shared out before."""

import asyncio
import errno
import logging
import resource
import socket
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web

from raftka.broker.admin_listener import AdminListener
from raftka.broker.file_limits import connection_limits, raise_open_files_limit
from raftka.broker.loop_errors import LoopErrors
from runtime.gate import Gate, report_contained


def refused_accept(number=errno.EMFILE):
    """What asyncio says when accept() has no descriptor left."""
    return {"message": "socket.accept() out of system resource", "exception": OSError(number, "x"), "socket": object()}


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
def test_an_accept_without_descriptors_is_said_once_and_survived(caplog, number):
    deaths = []
    errors = LoopErrors(lambda: deaths.append(1))
    loop = asyncio.new_event_loop()
    try:
        for _ in range(50):
            errors(loop, refused_accept(number))
    finally:
        loop.close()
    assert not deaths
    assert not errors.died
    (line,) = caplog.messages
    assert "ulimit -n" in line


def test_the_real_loop_reports_an_accept_as_we_expect_it(caplog):
    async def test():
        deaths = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(LoopErrors(lambda: deaths.append(1)))
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        clients = []
        try:
            client = socket.socket()
            client.setblocking(False)
            # From here on no descriptor is left.
            resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 1, hard))
            clients.append(client)
            holes = []
            with suppress(OSError):
                while True:
                    holes.append(socket.socket())
            with suppress(BlockingIOError):
                client.connect(server.sockets[0].getsockname())
            for _ in range(200):
                await asyncio.sleep(0.005)
                if caplog.messages:
                    break
            clients += holes
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for each in clients:
                each.close()
            server.close()
        assert not deaths
        assert "ulimit -n" in caplog.text

    asyncio.run(test())


def test_the_death_of_a_task_is_fatal_even_if_descriptors_are_its_reason(caplog):
    async def test():
        deaths = []
        errors = LoopErrors(lambda: deaths.append(1))
        asyncio.get_running_loop().set_exception_handler(errors)

        async def die():
            raise OSError(errno.EMFILE, "no segment can be opened")

        gate = Gate("g")
        gate.spawn(die(), name="task")
        while not deaths:
            await asyncio.sleep(0)
        assert errors.died == ["background task g/task died"]
        await gate.close()

    asyncio.run(test())
    assert caplog.records[0].levelno == logging.CRITICAL


def test_what_ended_one_replica_only_is_said_in_full_and_the_broker_goes_on(caplog):
    async def test():
        deaths = []
        errors = LoopErrors(lambda: deaths.append(1))
        asyncio.get_running_loop().set_exception_handler(errors)
        report_contained("a save of a log failed", AssertionError("a mistake of ours"))
        assert not deaths
        assert not errors.died

    asyncio.run(test())
    assert caplog.records[0].levelno == logging.CRITICAL
    assert "a mistake of ours" in caplog.text


@pytest.mark.parametrize(
    ("open_files", "kafka", "admin", "is_warned"),
    [(65_536, 10_000, 256, False), (20_000, 10_000, 256, False), (1_024, 512, 64, True), (2, 1, 1, True)],
)
def test_half_of_the_descriptors_are_for_clients_and_too_few_are_warned_of(caplog, open_files, kafka, admin, is_warned):
    limits = connection_limits(open_files, 10_000, 256)
    assert limits == (kafka, admin)
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warned) == is_warned
    if is_warned:
        assert "`ulimit -n` to 20000" in warned[0]


def test_the_soft_limit_is_raised_to_the_hard_one_and_never_lowered():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        lowered = min(before[0], 500)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowered, before[1]))
        found = raise_open_files_limit()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert found == soft >= lowered
        assert hard == before[1]
        assert raise_open_files_limit() == soft
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@asynccontextmanager
async def admin_port(**options):
    async def answer(_):
        return web.Response(text="here")

    listener = AdminListener(**options)
    application = web.Application(middlewares=[listener.middleware])
    application.router.add_get("/", answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    await listener.start(runner, "127.0.0.1", 0)
    writers = []

    async def connect():
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writers.append(writer)
        return reader, writer

    try:
        yield connect
    finally:
        for writer in writers:
            writer.transport.abort()
        listener.close()
        await runner.cleanup()


async def get(connection):
    reader, writer = connection
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    head = await reader.readuntil(b"here")
    return head.split(b" ")[1]


async def is_ended(connection):
    reader, _ = connection
    try:
        async with asyncio.timeout(5):
            return await reader.read() == b""
    except ConnectionError:
        return True


def test_one_admin_connection_too_many_is_closed_and_those_with_a_request_are_kept():
    async def test():
        async with admin_port(connections_max=2) as connect:
            one, two = [await connect() for _ in range(2)]
            assert await get(one) == await get(two) == b"200"
            assert await is_ended(await connect())
            assert await get(one) == await get(two) == b"200"
            one[1].close()
            await one[1].wait_closed()
            for _ in range(100):
                await asyncio.sleep(0.002)
            assert await get(await connect()) == b"200"

    asyncio.run(test())


def test_admin_connections_that_ask_nothing_make_room_the_oldest_first():
    async def test():
        async with admin_port(connections_max=3) as connect:
            served = await connect()
            assert await get(served) == b"200"
            strangers = [await connect() for _ in range(30)]
            for stranger in strangers[:-2]:
                assert await is_ended(stranger)
            assert await get(await connect()) == b"200"
            assert await is_ended(strangers[-2])
            assert await get(served) == await get(strangers[-1]) == b"200"

    asyncio.run(test())


@pytest.mark.parametrize("data", [b"", b"GET / HTTP/1.1\r\nHost"])
def test_an_admin_connection_without_a_whole_request_is_ended(data):
    async def test():
        async with admin_port(connections_max=2, idle_timeout=0.2) as connect:
            connection = await connect()
            connection[1].write(data)
            assert await is_ended(connection)

    asyncio.run(test())


def test_an_admin_connection_is_idle_from_the_end_of_its_last_request_on():
    async def test():
        async with admin_port(connections_max=2, idle_timeout=0.3) as connect:
            connection = await connect()
            for _ in range(4):
                assert await get(connection) == b"200"
                await asyncio.sleep(0.15)
            assert await get(connection) == b"200"
            assert await is_ended(connection)

    asyncio.run(test())


def test_a_request_head_without_end_ends_its_admin_connection():
    async def test():
        async with admin_port(connections_max=2) as connect:
            connection = await connect()
            connection[1].write(b"GET / HTTP/1.1\r\n" + b"".join(b"X%d: y\r\n" % number for number in range(20_000)))
            with suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(5):
                    await connection[0].read()
            assert connection[0].at_eof() or connection[0].exception() is not None

    asyncio.run(test())
