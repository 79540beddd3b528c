"""Connections to brokers, requests in flight on them, and where the leaders are."""

import asyncio
import random
import struct
from typing import Any, TypeVar

from raftka.error_text import reason_of
from raftka.kafka.wire.fields import AnswerError, Reader, i16, i32, string
from raftka.kafka.wire.requests import Metadata, PartitionState, Request, metadata

T = TypeVar("T")
Address = tuple[str, int]

REQUEST_SECONDS = 5.0
_CONNECT_SECONDS = 2.0
# What a connection is asked at most while its first answer is due; a broker reads no more of it than that.
_REFRESH_SECONDS = 0.1


class NotSentError(Exception):
    """There is no connection: the request has certainly not reached a broker."""


class LostError(Exception):
    """The request was sent, and there is no answer that can be read: nobody knows what became of it."""


class _Connection(asyncio.Protocol):
    """One connection; answers are told apart by their correlation ids."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.waiting: dict[int, asyncio.Future[bytes]] = {}
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 8:
            length, number = struct.unpack_from(">ii", self._received)
            if len(self._received) < 4 + length:
                return
            body = bytes(self._received[8 : 4 + length])
            del self._received[: 4 + length]
            answer = self.waiting.pop(number, None)
            if answer is not None and not answer.done():
                answer.set_result(body)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        for answer in self.waiting.values():
            if not answer.done():
                answer.set_exception(LostError("the broker closed the connection" if exc is None else reason_of(exc)))
        self.waiting.clear()


class WireClient:
    """A client of several processes: one connection per broker, dropped when an answer is overdue.

    To be used from one event loop.
    """

    def __init__(self, bootstrap: list[Address], rng: random.Random, name: str) -> None:
        self._bootstrap = bootstrap
        self._rng = rng
        self._name = name
        self._connections: dict[Address, _Connection] = {}
        self._opening: dict[Address, asyncio.Lock] = {}
        self._next_id = 0
        self._known = Metadata({}, -1, {})
        self._refreshing = asyncio.Lock()
        self._refreshed_at: dict[str, float] = {}
        self._doubted: dict[tuple[str, int], float] = {}

    async def call(self, address: Address, request: Request[T], timeout: float = REQUEST_SECONDS) -> T:
        """Return what the broker answers.

        Raises:
            NotSentError: No connection.
            LostError: No answer in time, or none that can be read; the connection is gone.
        """
        connection, number = await self._send(address, request)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        connection.waiting[number] = answer
        try:
            async with asyncio.timeout(timeout):
                return request.read(Reader(await answer))
        except TimeoutError:
            self._drop(address, connection)
            raise LostError(f"no answer in {timeout:g} s") from None
        except AnswerError as error:
            self._drop(address, connection)
            raise LostError(str(error)) from error

    async def send_only(self, address: Address, request: Request[Any]) -> None:
        """Send what is not answered: Produce with acks=0.

        Raises:
            NotSentError: No connection.
        """
        await self._send(address, request)

    async def _send(self, address: Address, request: Request[Any]) -> tuple[_Connection, int]:
        connection = await self._connected(address)
        self._next_id += 1
        head = i16(request.api_key) + i16(request.version) + i32(self._next_id) + string(self._name)
        assert connection.transport is not None
        connection.transport.write(i32(len(head) + len(request.body)) + head + request.body)
        return connection, self._next_id

    async def _connected(self, address: Address) -> _Connection:
        async with self._opening.setdefault(address, asyncio.Lock()):
            connection = self._connections.get(address)
            if connection is not None and connection.transport is not None and not connection.transport.is_closing():
                return connection
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    _, connection = await asyncio.get_running_loop().create_connection(_Connection, *address)
            except (OSError, TimeoutError) as error:
                raise NotSentError(
                    "no connection in time" if isinstance(error, TimeoutError) else reason_of(error)
                ) from error
            if connection.transport is None:
                raise NotSentError("the broker closed the connection at once")
            self._connections[address] = connection
            return connection

    def _drop(self, address: Address, connection: _Connection) -> None:
        if self._connections.get(address) is connection:
            del self._connections[address]
        if connection.transport is not None:
            connection.transport.abort()

    def close(self) -> None:
        """Close every connection."""
        for address, connection in list(self._connections.items()):
            self._drop(address, connection)

    @property
    def bootstrap(self) -> list[Address]:
        """Where brokers were said to be."""
        return self._bootstrap

    def any_broker(self) -> Address:
        """Return a broker to ask what any of them can answer."""
        return self._rng.choice(self._bootstrap)

    async def controller(self) -> Address:
        """Return where admin requests go, as any broker says.

        Raises:
            NotSentError, LostError: Nobody says.
        """
        told = await self.call(self.any_broker(), metadata([]))
        return told.brokers.get(told.controller) or self.any_broker()

    async def leader(self, topic: str, partition: int) -> tuple[int, Address]:
        """Return the leader's node id and where it is.

        Raises:
            NotSentError: There is none, or nobody who was asked says.
        """
        state = self._known.partitions.get((topic, partition))
        if state is None or state.leader not in self._known.brokers or (topic, partition) in self._doubted:
            await self._refresh(topic)
            state = self._known.partitions.get((topic, partition))
        if state is None or state.leader not in self._known.brokers:
            raise NotSentError("no leader is known")
        return state.leader, self._known.brokers[state.leader]

    def epoch(self, topic: str, partition: int) -> int:
        """Return the epoch of the leader that `leader` has told last, -1 where there is none."""
        state = self._known.partitions.get((topic, partition))
        return -1 if state is None else state.epoch

    def _newer(self, key: tuple[str, int], told: PartitionState) -> PartitionState:
        """Return what is known where its leader is newer: a broker that is cut off tells of old ones.

        As Java's client does (KIP-320, KAFKA-7738) and librdkafka since 2.8, it forgets the epoch when it is told none.
        """
        known = self._known.partitions.get(key)
        return told if known is None or told.epoch < 0 or told.epoch >= known.epoch else known

    def forget(self, topic: str, partition: int) -> None:
        """Ask again who leads, the next time."""
        self._doubted[topic, partition] = asyncio.get_running_loop().time()

    async def _refresh(self, topic: str) -> None:
        """Ask any broker, but not more often than every tenth of a second, however many processes want to know."""
        loop = asyncio.get_running_loop()
        async with self._refreshing:
            wait = self._refreshed_at.get(topic, 0.0) + _REFRESH_SECONDS - loop.time()
            newest = max((at for (name, _), at in self._doubted.items() if name == topic), default=0.0)
            if wait > 0 and newest <= self._refreshed_at.get(topic, 0.0):
                return
            await asyncio.sleep(max(0.0, wait))
            asked_at = loop.time()
            try:
                told = await self.call(self.any_broker(), metadata([topic]), _CONNECT_SECONDS)
            except (NotSentError, LostError) as error:
                raise NotSentError(f"nobody says who leads: {error}") from error
            self._refreshed_at[topic] = asked_at
            partitions = self._known.partitions | {key: self._newer(key, each) for key, each in told.partitions.items()}
            self._known = Metadata(self._known.brokers | told.brokers, told.controller, partitions)
            for key in [key for key, at in self._doubted.items() if key[0] == topic and at <= asked_at]:
                del self._doubted[key]
