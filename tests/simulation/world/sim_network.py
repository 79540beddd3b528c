"""One process's access to the simulated wire: listening and dialling."""

import asyncio
import errno

from runtime.network import ProtocolFactory
from tests.simulation.world.sim_switch import Host, Switch, os_error
from tests.simulation.world.sim_transport import SimTransport
from tests.simulation.world.virtual_loop import VirtualLoop

# Seconds after which a lost SYN is sent again; after the last the dialler gets ETIMEDOUT.
_SYN_RETRIES = (1.0, 2.0, 4.0, 8.0, 16.0)


class SimListener:
    """`runtime.network.Listener`."""

    def __init__(self, network: "SimNetwork", address: tuple[str, int], factory: ProtocolFactory) -> None:
        self.network = network
        self.address = address
        self._factory = factory

    @property
    def port(self) -> int:
        return self.address[1]

    def close(self) -> None:
        switch = self.network.switch
        if switch.listeners.get(self.address) is self:
            del switch.listeners[self.address]
            del self.network.host.listeners[self]

    def accept(self, remote: tuple[str, int]) -> SimTransport:
        """Establish a connection, as the kernel does, whether or not the process runs just now."""
        network = self.network
        transport = SimTransport(network.switch, network.host, network.loop, self.address, remote)
        network.loop.post(self._hand_over, transport)
        return transport

    def _hand_over(self, transport: SimTransport) -> None:
        if transport.is_open:
            transport.start(self._factory())


class SimNetwork:
    """`runtime.network.Network` of one process of one node."""

    def __init__(self, switch: Switch, host: Host, loop: VirtualLoop) -> None:
        self.switch = switch
        self.host = host
        self.loop = loop

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> SimListener:
        """Listen; a host string seen for the first time becomes an address of this node."""
        if self.loop.dead:
            raise os_error(errno.EBADF)
        if host in ("", "0.0.0.0", "::"):
            host = self.host.address
        owner = self.switch.addresses.setdefault(host, self.host)
        if owner is not self.host:
            raise os_error(errno.EADDRNOTAVAIL)
        address = (host, port or self.switch.new_listen_port())
        if address in self.switch.listeners:
            raise os_error(errno.EADDRINUSE)
        listener = SimListener(self, address, factory)
        self.switch.listeners[address] = listener
        self.host.listeners[listener] = None
        return listener

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory, *, source_host: str | None = None
    ) -> SimTransport:
        """Dial; a dead machine or a cut in either direction is silence."""
        future: asyncio.Future[SimTransport] = self.loop.create_future()
        target = self.switch.addresses.get(host)
        if target is None and (host.startswith("127.") or host == "localhost"):
            target = self.host
        if target is None:
            raise os_error(errno.EHOSTUNREACH)
        local = (source_host or self.host.address, self.switch.new_port())
        self._send_syn(target, local, (host, port), factory, future, 0)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                future.result().abort()
            raise

    def _send_syn(
        self,
        target: Host,
        local: tuple[str, int],
        remote: tuple[str, int],
        factory: ProtocolFactory,
        future: "asyncio.Future[SimTransport]",
        attempt: int,
    ) -> None:
        if future.done() or self.loop.dead:
            return
        switch = self.switch
        now = switch.scheduler.time
        arrival = switch.link(self.host.node_id, target.node_id).arrival(now, switch.rng, 0)

        def at_target() -> None:
            silent = switch.is_silent(self.host.node_id, target) or switch.is_silent(target.node_id, self.host)
            if silent and attempt == len(_SYN_RETRIES):
                self.loop.post(_refuse, future, os_error(errno.ETIMEDOUT))
            elif silent:
                retry_at = switch.scheduler.time + _SYN_RETRIES[attempt]
                switch.scheduler.at(retry_at, self._send_syn, target, local, remote, factory, future, attempt + 1)
            elif not future.done() and not self.loop.dead:
                self._answer(target, local, remote, factory, future)

        switch.scheduler.at(arrival, at_target)

    def _answer(
        self,
        target: Host,
        local: tuple[str, int],
        remote: tuple[str, int],
        factory: ProtocolFactory,
        future: "asyncio.Future[SimTransport]",
    ) -> None:
        switch = self.switch
        back_at = switch.link(target.node_id, self.host.node_id).arrival(switch.scheduler.time, switch.rng, 0)
        listener = switch.listeners.get(remote)
        if listener is None:
            self.loop.post_at(back_at, _refuse, future, os_error(errno.ECONNREFUSED))
            return
        accepted = listener.accept(local)
        dialled = SimTransport(switch, self.host, self.loop, local, remote)
        accepted.join(dialled)
        dialled.join(accepted)
        switch.trace.record("connect", self.host.node_id, (target.node_id, local[1], remote[1]))
        self.loop.post_at(back_at, _establish, dialled, factory, future)


def _refuse(future: "asyncio.Future[SimTransport]", error: OSError) -> None:
    if not future.done():
        future.set_exception(error)


def _establish(transport: SimTransport, factory: ProtocolFactory, future: "asyncio.Future[SimTransport]") -> None:
    if future.done():
        transport.abort()
        return
    if not transport.is_open:
        future.set_exception(os_error(errno.ECONNRESET))
        return
    transport.start(factory())
    future.set_result(transport)
