"""The wire between simulated nodes, their kernels' view of it, and every fault on it."""

import errno
import os
import random
from typing import TYPE_CHECKING

from tests.simulation.world.trace import Trace
from tests.simulation.world.virtual_loop import Scheduler

if TYPE_CHECKING:
    from tests.simulation.world.sim_network import SimListener
    from tests.simulation.world.sim_transport import SimTransport

_EPHEMERAL_PORTS = 32768
_LISTEN_PORTS = 20000


def os_error(number: int) -> OSError:
    """Return the error (and its right subclass) of an errno."""
    return OSError(number, os.strerror(number))


class Link:
    """One direction between two nodes: seconds of delay `base + [0, jitter)`, bytes/s, a slowing factor, a cut.

    `segment_bytes`: no more than so many bytes arrive in one piece. `flips`: for each of the next pieces that are sent,
    where one bit of it flips (a fraction of its length, and which bit).
    """

    __slots__ = ("_busy_until", "bandwidth", "base", "cut_at", "factor", "flips", "jitter", "segment_bytes")

    def __init__(self) -> None:
        self.base = 0.0003
        self.jitter = 0.0007
        self.bandwidth: float | None = None
        self.factor = 1.0
        self.cut_at: float | None = None
        self.segment_bytes: int | None = None
        self.flips: list[tuple[float, int]] = []
        self._busy_until = 0.0

    def flipped(self, piece: bytes) -> bytes:
        """Return what arrives of a piece that is sent now."""
        if not self.flips or not piece:
            return piece
        place, bit = self.flips.pop()
        changed = bytearray(piece)
        changed[int(place * len(piece))] ^= 1 << bit
        return bytes(changed)

    def arrival(self, now: float, rng: random.Random, size: int) -> float:
        """Return when `size` bytes sent at `now` are there."""
        if self.bandwidth is not None:
            now = self._busy_until = max(now, self._busy_until) + size * self.factor / self.bandwidth
        return now + (self.base + self.jitter * rng.random()) * self.factor


class Host:
    """A node's kernel: it outlives processes. `off_at`: since when it has no power."""

    __slots__ = ("address", "endpoints", "listeners", "node_id", "off_at")

    def __init__(self, node_id: int, address: str) -> None:
        self.node_id = node_id
        self.address = address
        self.off_at: float | None = None
        # Dicts for their order: what dies at a crash dies in the same order in every run.
        self.endpoints: dict[SimTransport, None] = {}
        self.listeners: dict[SimListener, None] = {}


class Switch:
    """The wire between all nodes and every fault on it.

    `give_up`: range of seconds after which a connection whose bytes get no answer fails with ETIMEDOUT;
    `retransmit`: range of seconds from a link's healing to the arrival of what was lost.
    """

    def __init__(self, scheduler: Scheduler, rng: random.Random, trace: Trace) -> None:
        self.scheduler = scheduler
        self.rng = rng
        self.trace = trace
        self.give_up = (5.0, 30.0)
        self.retransmit = (0.0, 0.4)
        self.hosts: dict[int, Host] = {}
        self.addresses: dict[str, Host] = {}
        self.listeners: dict[tuple[str, int], SimListener] = {}
        self._links: dict[tuple[int, int], Link] = {}
        self._ports = _EPHEMERAL_PORTS
        self._listen_ports = _LISTEN_PORTS

    def add_host(self, node_id: int) -> Host:
        """Plug a node in, at the address 10.0.0.<node_id>."""
        host = self.hosts[node_id] = Host(node_id, f"10.0.{node_id >> 8}.{node_id & 255}")
        self.addresses[host.address] = host
        return host

    def link(self, source: int, target: int) -> Link:
        """Return the direction from one node to another, to read or to set."""
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = Link()
        return link

    def cut(self, source: int, target: int) -> None:
        """Let nothing pass from `source` to `target` (one way); connects and bytes wait in silence."""
        link = self.link(source, target)
        if link.cut_at is None:
            link.cut_at = self.scheduler.time
            self.trace.record("cut", source, target)

    def cut_both(self, one: int, other: int) -> None:
        self.cut(one, other)
        self.cut(other, one)

    def isolate(self, node_id: int) -> None:
        """Cut a node off from every other node, both ways."""
        for other in self.hosts:
            if other != node_id:
                self.cut_both(node_id, other)

    def heal(self, source: int, target: int) -> None:
        """End a cut; what waited arrives after a retransmission delay."""
        link = self.link(source, target)
        if link.cut_at is not None:
            link.cut_at = None
            self.trace.record("heal", source, target)
            self._retransmit(source, target)

    def heal_all(self) -> None:
        """End all cuts and all slowness."""
        for (source, target), link in self._links.items():
            link.factor = 1.0
            link.segment_bytes = None
            link.flips = []
            self.heal(source, target)

    def slow(self, source: int, target: int, factor: float) -> None:
        """Multiply the delays of one direction (1.0: healthy)."""
        self.link(source, target).factor = factor
        self.trace.record("slow", source, (target, factor))

    def all_arrived_at(self) -> float:
        """Return until when, at most, bytes that have been sent are on their way: a healed link brings what it held.

        What a black hole has taken never comes.
        """
        endpoints = (endpoint for host in self.hosts.values() for endpoint in host.endpoints)
        return max((each.last_arrival for each in endpoints if each.lost_since is None), default=0.0)

    def reset(self, one: int, other: int) -> None:
        """Reset all connections between two nodes now; both sides see ConnectionResetError."""
        self.trace.record("reset", one, other)
        for endpoint in list(self.hosts[one].endpoints):
            if endpoint.peer.host.node_id == other:
                endpoint.peer.fail(os_error(errno.ECONNRESET))
                endpoint.fail(os_error(errno.ECONNRESET))

    def black_hole(self, one: int, other: int) -> None:
        """Lose all bytes of the connections between two nodes from now on, for ever; new connections are well."""
        self.trace.record("black hole", one, other)
        for endpoint in list(self.hosts[one].endpoints):
            if endpoint.peer.host.node_id == other:
                endpoint.lost_since = endpoint.peer.lost_since = self.scheduler.time

    def process_died(self, host: Host, *, power_loss: bool) -> None:
        """Close what the process had open; without power nobody is told."""
        for listener in list(host.listeners):
            listener.close()
        if power_loss:
            host.off_at = self.scheduler.time
        for endpoint in list(host.endpoints):
            endpoint.process_died(tell_peer=not power_loss)

    def power_on(self, host: Host) -> None:
        """The machine answers again: with resets, to connections of its former life."""
        if host.off_at is not None:
            host.off_at = None
            for other in self.hosts:
                self._retransmit(other, host.node_id)

    def new_port(self) -> int:
        self._ports += 1
        return self._ports

    def new_listen_port(self) -> int:
        self._listen_ports += 1
        return self._listen_ports

    def is_silent(self, source: int, target: Host) -> bool:
        """Whether a packet from `source` would get lost on its way or in a dead machine."""
        return self.link(source, target.node_id).cut_at is not None or target.off_at is not None

    def _retransmit(self, source: int, target: int) -> None:
        # Both ends: bytes may have waited for the way back (acknowledgement, RST) as well.
        for near, far in ((source, target), (target, source)):
            for endpoint in list(self.hosts[near].endpoints):
                if endpoint.held and endpoint.peer.host.node_id == far:
                    self.scheduler.at(self.scheduler.time + self.rng.uniform(*self.retransmit), endpoint.retransmit)
