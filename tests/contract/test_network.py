"""What every Network does; and what only the simulated one can show: cuts, half-open ends, power loss, pauses."""

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from runtime.network import Network, OsNetwork, bound_unsent
from tests.simulation.world.world import SimNode, World

Scenario = Callable[[Network], Awaitable[Any]]
Runner = Callable[[Scenario], Any]

_HOST = "127.0.0.1"


def _run_on_sockets(scenario: Scenario) -> Any:
    async def main() -> Any:
        async with asyncio.timeout(30):
            return await scenario(OsNetwork())

    return asyncio.run(main())


def _run_in_simulation(scenario: Scenario) -> Any:
    with World(3) as world:
        node = world.add_node(1)

        async def main() -> Any:
            return await scenario(node.environment.network)

        return world.run(node, main())


@pytest.fixture(params=[_run_on_sockets, _run_in_simulation], ids=["os", "sim"])
def run(request: pytest.FixtureRequest) -> Runner:
    runner: Runner = request.param
    return runner


class Recorder(asyncio.Protocol):
    """Keeps what it is told; `changed` after each call."""

    def __init__(self, *, keep_open: bool = False, echo: bool = False) -> None:
        self.transport: asyncio.Transport
        self.received = bytearray()
        self.events: list[str] = []
        self.error: BaseException | None = None
        self.changed = asyncio.Event()
        self._keep_open = keep_open
        self._echo = echo

    def _note(self, event: str) -> None:
        self.events.append(event)
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.changed.clear()
            await self.changed.wait()

    async def until_event(self, event: str) -> None:
        await self.until(lambda: event in self.events)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._note("made")

    def data_received(self, data: bytes) -> None:
        assert isinstance(data, bytes)
        self.received += data
        if self._echo:
            self.transport.write(data)
        self.changed.set()

    def eof_received(self) -> bool:
        self._note("eof")
        return self._keep_open

    def pause_writing(self) -> None:
        self._note("pause")

    def resume_writing(self) -> None:
        self._note("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        self._note("lost")


class BufferedEcho(asyncio.BufferedProtocol):
    """Takes three bytes at a time."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.buffer = bytearray(3)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.transport.write(self.buffer[:nbytes])


@asynccontextmanager
async def _pair(
    network: Network, *, keep_open: bool = False, echo: bool = False
) -> AsyncIterator[tuple[Recorder, Recorder]]:
    accepted: list[Recorder] = []

    def accept() -> Recorder:
        accepted.append(Recorder(keep_open=keep_open, echo=echo))
        return accepted[-1]

    listener = await network.listen(_HOST, 0, accept)
    dialler = Recorder()
    transport = await network.connect(_HOST, listener.port, lambda: dialler)
    assert transport is dialler.transport
    while not accepted or not accepted[0].events:
        await asyncio.sleep(0.001)
    yield dialler, accepted[0]
    listener.close()
    for protocol in (dialler, accepted[0]):
        protocol.transport.abort()
        await protocol.until_event("lost")


def test_bytes_come_back_in_order(run: Runner) -> None:
    data = bytes(range(256)) * 4096

    async def scenario(network: Network) -> None:
        async with _pair(network, echo=True) as (dialler, _):
            dialler.transport.write(data[:1000])
            dialler.transport.writelines([data[1000:2000], memoryview(data)[2000:]])
            await dialler.until(lambda: len(dialler.received) == len(data))
            assert dialler.received == data

    run(scenario)


def test_written_bytes_may_be_reused_by_the_writer(run: Runner) -> None:
    async def scenario(network: Network) -> None:
        async with _pair(network) as (dialler, acceptor):
            mutable = bytearray(b"before")
            dialler.transport.write(mutable)
            mutable[:] = b"after!"
            await acceptor.until(lambda: len(acceptor.received) == 6)
            assert acceptor.received == b"before"

    run(scenario)


def test_a_buffered_protocol_gets_its_bytes_in_its_own_buffer(run: Runner) -> None:
    data = bytes(range(200))

    async def scenario(network: Network) -> None:
        listener = await network.listen(_HOST, 0, BufferedEcho)
        dialler = Recorder()
        await network.connect(_HOST, listener.port, lambda: dialler)
        dialler.transport.write(data)
        await dialler.until(lambda: len(dialler.received) == len(data))
        assert dialler.received == data
        listener.close()
        dialler.transport.close()
        await dialler.until_event("lost")
        await asyncio.sleep(0.01)

    run(scenario)


def test_a_reader_that_stops_makes_the_writer_pause_and_loses_nothing(run: Runner) -> None:
    chunk = bytes(64 * 1024)
    chunks = 200

    async def scenario(network: Network) -> None:
        async with _pair(network) as (dialler, acceptor):
            acceptor.transport.pause_reading()
            dialler.transport.set_write_buffer_limits(high=100_000, low=10_000)
            for _ in range(chunks):
                dialler.transport.write(chunk)
            assert dialler.events == ["made", "pause"]
            assert dialler.transport.get_write_buffer_size() > 100_000
            acceptor.transport.resume_reading()
            await dialler.until_event("resume")
            assert dialler.transport.get_write_buffer_size() <= 10_000
            await acceptor.until(lambda: len(acceptor.received) == chunks * len(chunk))

    run(scenario)


def test_the_unsent_bytes_of_any_connection_may_be_bounded(run: Runner) -> None:
    data = bytes(range(256)) * 20_000

    async def scenario(network: Network) -> None:
        async with _pair(network, echo=True) as (dialler, acceptor):
            for end in (dialler, acceptor):
                bound_unsent(end.transport, 4_096)
                end.transport.set_write_buffer_limits(high=0)
            acceptor.transport.pause_reading()
            dialler.transport.write(data)
            assert "pause" in dialler.events
            acceptor.transport.resume_reading()
            await dialler.until_event("resume")
            assert dialler.transport.get_write_buffer_size() == 0
            await dialler.until(lambda: len(dialler.received) == len(data))
            assert dialler.received == data
        bound_unsent(dialler.transport, 4_096)

    run(scenario)


def test_close_delivers_what_was_written_and_ends_in_order_on_both_sides(run: Runner) -> None:
    data = bytes(3_000_000)

    async def scenario(network: Network) -> None:
        async with _pair(network) as (dialler, acceptor):
            dialler.transport.write(data)
            dialler.transport.close()
            assert dialler.transport.is_closing()
            await acceptor.until_event("lost")
            await dialler.until_event("lost")
            assert acceptor.received == data
            assert acceptor.events == ["made", "eof", "lost"]
            assert dialler.error is None
            assert acceptor.error is None

    run(scenario)


def test_after_write_eof_the_other_direction_still_works(run: Runner) -> None:
    async def scenario(network: Network) -> None:
        async with _pair(network, keep_open=True) as (dialler, acceptor):
            dialler.transport.write(b"question")
            dialler.transport.write_eof()
            await acceptor.until_event("eof")
            with pytest.raises(RuntimeError):
                dialler.transport.write(b"more")
            acceptor.transport.write(b"answer")
            await dialler.until(lambda: dialler.received == b"answer")

    run(scenario)


def test_abort_ends_both_sides(run: Runner) -> None:
    async def scenario(network: Network) -> None:
        async with _pair(network) as (dialler, acceptor):
            dialler.transport.abort()
            await dialler.until_event("lost")
            assert dialler.error is None
            await acceptor.until_event("lost")
            # An abort is a FIN or an RST on the wire, according to what lay unread.
            assert acceptor.error is None or isinstance(acceptor.error, ConnectionError)
            dialler.transport.abort()
            dialler.transport.close()
            assert dialler.events.count("lost") == 1

    run(scenario)


def test_writing_to_a_closed_peer_ends_in_an_error(run: Runner) -> None:
    async def scenario(network: Network) -> None:
        async with _pair(network, keep_open=True) as (dialler, acceptor):
            dialler.transport.close()
            await acceptor.until_event("eof")
            async with asyncio.timeout(10):
                while "lost" not in acceptor.events:
                    acceptor.transport.write(b"is anybody there?")
                    await asyncio.sleep(0.001)
            assert isinstance(acceptor.error, ConnectionError)

    run(scenario)


def test_nobody_listening_is_connection_refused(run: Runner) -> None:
    async def scenario(network: Network) -> None:
        listener = await network.listen(_HOST, 0, Recorder)
        port = listener.port
        with pytest.raises(OSError) as caught:
            await network.listen(_HOST, port, Recorder)
        assert caught.value.errno == errno.EADDRINUSE
        listener.close()
        with pytest.raises(ConnectionRefusedError):
            await network.connect(_HOST, port, Recorder)

    run(scenario)


def test_both_ends_know_both_addresses(run: Runner) -> None:
    async def scenario(network: Network) -> None:
        async with _pair(network) as (dialler, acceptor):
            for one, other in ((dialler, acceptor), (acceptor, dialler)):
                assert one.transport.get_extra_info("peername") == other.transport.get_extra_info("sockname")
            assert dialler.transport.get_extra_info("peername")[0] == _HOST
            assert dialler.transport.get_extra_info("nonsense", 5) == 5

    run(scenario)


# The simulated network only.


def _connected(world: World) -> tuple[SimNode, SimNode, Recorder, Recorder]:
    """A connection from node 1 to node 2, both ends keeping open at EOF."""
    one, two = world.add_node(1), world.add_node(2)
    accepted: list[Recorder] = []

    def accept() -> Recorder:
        accepted.append(Recorder(keep_open=True))
        return accepted[-1]

    async def dial() -> Recorder:
        dialler = Recorder(keep_open=True)
        await one.environment.network.connect(two.address, 9000, lambda: dialler)
        return dialler

    world.run(two, two.environment.network.listen(two.address, 9000, accept))
    dialler = world.run(one, dial())
    world.run_until(world.time + 1.0)
    return one, two, dialler, accepted[0]


def test_a_one_way_cut_holds_bytes_until_it_heals() -> None:
    with World(1) as world:
        _, _, dialler, acceptor = _connected(world)
        world.network.cut(1, 2)
        dialler.transport.write(b"there")
        dialler.transport.write(b" and")
        acceptor.transport.write(b"back")
        world.run_until(world.time + 2.0)
        assert (bytes(dialler.received), bytes(acceptor.received)) == (b"back", b"")
        world.network.heal(1, 2)
        dialler.transport.write(b" again")
        world.run_until(world.time + 2.0)
        assert acceptor.received == b"there and again"
        assert "lost" not in dialler.events + acceptor.events


def test_a_long_cut_times_the_sender_out_and_leaves_the_other_end_half_open() -> None:
    with World(1) as world:
        _, _, dialler, acceptor = _connected(world)
        world.network.cut_both(1, 2)
        dialler.transport.write(b"lost")
        world.run_until(world.time + 60.0)
        assert isinstance(dialler.error, TimeoutError)
        assert acceptor.events == ["made"]
        world.network.heal_all()
        world.run_until(world.time + 60.0)
        assert acceptor.events == ["made"]
        acceptor.transport.write(b"anybody?")
        world.run_until(world.time + 1.0)
        assert isinstance(acceptor.error, ConnectionResetError)


def test_a_connect_into_a_cut_is_silence_until_it_heals() -> None:
    with World(1) as world:
        one, two, _, _ = _connected(world)
        world.network.isolate(2)
        task = one.spawn(one.environment.network.connect(two.address, 9000, Recorder))
        world.run_until(world.time + 5.0)
        assert not task.done()
        world.network.heal_all()
        assert world.run_until(task.done, world.time + 10.0)
        assert task.exception() is None


def test_a_reset_reaches_both_ends() -> None:
    with World(1) as world:
        _, _, dialler, acceptor = _connected(world)
        world.network.reset(1, 2)
        world.run_until(world.time + 1.0)
        assert isinstance(dialler.error, ConnectionResetError)
        assert isinstance(acceptor.error, ConnectionResetError)


def test_a_killed_process_ends_its_connections() -> None:
    errors = set()
    for seed in range(10):
        with World(seed) as world:
            one, two, dialler, acceptor = _connected(world)
            two.crash(power_loss=False)
            world.run_until(world.time + 1.0)
            dialler.transport.write(b"x")
            world.run_until(world.time + 1.0)
            errors.add(type(dialler.error))
            assert acceptor.events == ["made"]
            with pytest.raises(ConnectionRefusedError):
                world.run(one, one.environment.network.connect(two.address, 9000, Recorder))
    assert errors == {ConnectionResetError}


def test_a_machine_without_power_is_silent_until_it_is_back() -> None:
    with World(1) as world:
        _, two, dialler, _ = _connected(world)
        two.crash(power_loss=True)
        world.run_until(world.time + 100.0)
        assert dialler.events == ["made"]
        dialler.transport.write(b"x")
        world.run_until(world.time + 1.0)
        assert dialler.events == ["made"]
        two.restart()
        world.run_until(world.time + 2.0)
        assert isinstance(dialler.error, ConnectionResetError)


def test_writing_to_a_machine_that_stays_off_times_out() -> None:
    with World(1) as world:
        _, two, dialler, _ = _connected(world)
        two.crash(power_loss=True)
        dialler.transport.write(b"x")
        world.run_until(world.time + 60.0)
        assert isinstance(dialler.error, TimeoutError)


def test_a_paused_process_reads_when_it_goes_on() -> None:
    with World(1) as world:
        one, two, dialler, acceptor = _connected(world)
        two.pause()
        dialler.transport.write(b"hello")
        task = one.spawn(one.environment.network.connect(two.address, 9000, Recorder))
        world.run_until(world.time + 20.0)
        assert acceptor.received == b""
        # Its kernel accepts for it.
        assert task.done()
        two.resume()
        world.run_until(world.time + 1.0)
        assert acceptor.received == b"hello"


def test_a_slow_link_and_a_narrow_link_delay_bytes() -> None:
    with World(1) as world:
        _, _, dialler, acceptor = _connected(world)
        world.network.slow(1, 2, 1000.0)
        begin = world.time
        dialler.transport.write(b"slow")
        world.network.heal_all()
        arrives_at = world.network.all_arrived_at()
        assert world.run_until(lambda: bool(acceptor.received), begin + 10.0)
        assert world.time - begin >= 0.3, "what was sent before the link healed keeps its delay"
        assert begin < arrives_at <= world.time
        world.network.link(1, 2).bandwidth = 1e6
        begin = world.time
        dialler.transport.write(bytes(2_000_000))
        assert world.run_until(lambda: len(acceptor.received) == 2_000_004, begin + 10.0)
        assert 2.0 <= world.time - begin < 5.0
