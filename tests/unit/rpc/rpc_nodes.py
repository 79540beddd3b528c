"""Nodes with real links on loopback, for the tests of this folder."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress

import msgspec

from model.ids import DirectoryId, NodeId, Replica
from rpc.codec import decode_header
from rpc.framing import Frame, FrameReader, encode_frame
from rpc.handshake import FORMAT_WITHOUT_EPOCHS, NONCE_BYTES, Handshake, KnownReplicas, Role
from rpc.identity import Address, LinkIdentity
from rpc.links import Links
from rpc.methods import Method
from rpc.options import LinkOptions
from runtime.environment import system_environment

SECRET = b"s" * 32
HOST = "127.0.0.1"


class Ask(msgspec.Struct, array_like=True, frozen=True):
    number: int


class Told(msgspec.Struct, array_like=True, frozen=True):
    number: int
    payload_bytes: int


ECHO = Method(1, "echo", Ask, Told, takes_payload=True)
HOLD = Method(2, "hold", Ask, Told, takes_payload=True)
URGENT = Method(3, "urgent", Ask, Told, takes_payload=True, urgent=True)
EARLY = Method(4, "early", Ask, Told, before_founding=True)


def run(test: Coroutine[object, object, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await test

    asyncio.run(bounded())


def identity(
    node: int, *, cluster: str | None = "cluster", secret: bytes | None = SECRET, directory: str | None = None
) -> LinkIdentity:
    return LinkIdentity(Replica(NodeId(node), DirectoryId(directory or f"dir-{node}")), cluster, secret)


class Node:
    """Links with an echo handler that remembers, and one that keeps its requests open in `held`."""

    def __init__(self, who: LinkIdentity, options: LinkOptions) -> None:
        self.node_id = who.replica.node_id
        self.links = Links(system_environment(), who, options)
        self.port = 0
        self.seen: list[int] = []
        self.held: asyncio.Queue[asyncio.Future[Told]] = asyncio.Queue()
        self.ups: asyncio.Queue[int] = asyncio.Queue()
        self.resets: asyncio.Queue[int] = asyncio.Queue()
        self.links.add_up_listener(self.ups.put_nowait)
        self.links.add_reset_listener(self.resets.put_nowait)
        for method in (ECHO, URGENT, EARLY):
            self.links.register(method, self._echo)
        self.links.register(HOLD, self._hold)

    @property
    def address(self) -> Address:
        return Address(HOST, self.port)

    def dial(self, *others: "Node") -> None:
        self.links.set_peers({other.node_id: other.address for other in others})

    async def ask(self, other: "Node", value: int, payload: Sequence[bytes] = (), method=ECHO) -> Told:
        return await self.links.send(other.node_id, method, Ask(value), payload, timeout=10)

    def _echo(self, peer, request: Ask, payload: memoryview) -> Told:
        self.seen.append(request.number)
        return Told(request.number, len(payload))

    def _hold(self, peer, request: Ask, payload: memoryview) -> "asyncio.Future[Told]":
        future = asyncio.get_running_loop().create_future()
        self.held.put_nowait(future)
        return future


@asynccontextmanager
async def nodes(*identities: LinkIdentity, options: LinkOptions | None = None) -> AsyncIterator[list[Node]]:
    """Start a node per identity (no peers yet) and close them all."""
    started = [Node(who, options or LinkOptions()) for who in identities]
    try:
        for node in started:
            node.port = await node.links.start(HOST, 0)
        yield started
    finally:
        for node in started:
            await node.links.close()


@asynccontextmanager
async def pair(options: LinkOptions | None = None) -> AsyncIterator[tuple[Node, Node]]:
    """Two nodes; the first has dialled the second."""
    async with nodes(identity(1), identity(2), options=options) as (one, two):
        one.dial(two)
        await one.ups.get()
        yield one, two


class Stranger:
    """A hand-driven connection to a node, or from one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader()
        self.bytes_read = b""

    @classmethod
    async def dial(cls, port: int) -> "Stranger":
        return cls(*await asyncio.open_connection(HOST, port))

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def write_eof(self) -> None:
        self._writer.write_eof()

    def send(self, header: bytes, payload: bytes = b"") -> None:
        self.write(encode_frame(header, [payload]))

    async def receive(self) -> list[object] | None:
        """Return the next header's items; None at the end of the connection."""
        while (frame := self._next()) is None:
            try:
                data = await self._reader.read(4096)
            except ConnectionError:
                return None
            if not data:
                return None
            self.bytes_read += data
            self._frames.buffer()[: len(data)] = data
            self._frames.received(len(data))
        return decode_header(frame.header)

    async def shake(
        self, role: Role, who: LinkIdentity, dialled: int | None = None, link_format: int = FORMAT_WITHOUT_EPOCHS
    ) -> Handshake:
        """Go through a handshake as `who`."""
        node = NodeId(dialled) if dialled is not None else None
        handshake = Handshake(
            role, who, b"n" * NONCE_BYTES, dialled_node=node, known=KnownReplicas({}), link_format=link_format
        )
        for header in handshake.start():
            self.send(header)
        while handshake.peer is None:
            items = await self.receive()
            assert items is not None, "closed in the handshake"
            for header in handshake.receive(items):
                self.send(header)
        return handshake

    async def close(self) -> None:
        self._writer.transport.abort()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    def _next(self) -> Frame | None:
        return self._frames.next_frame()
