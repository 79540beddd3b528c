"""A Kafka client of a few lines on the simulated wire: connections, correlation ids, and where the leaders are."""

import asyncio
import math
import struct
from collections import defaultdict
from random import Random

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.codec import decode_response, encode_request
from kafka_api.protocol.messages import Message, MetadataRequest
from runtime.environment import Environment

Address = tuple[str, int]

_CONNECT_SECONDS = 2.0
_EPOCHS_SINCE, _EPOCHS_TRUSTED_SINCE = 7, 9


class NotSentError(Exception):
    """There is no connection: the request has certainly not reached a broker."""


class LostError(Exception):
    """The request was sent, and there is no answer: nobody knows what became of it."""


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.waiting: dict[int, tuple[ApiKey, int, asyncio.Future[Message]]] = {}
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4:
            (length,) = struct.unpack_from(">i", self._received)
            if len(self._received) < 4 + length:
                return
            frame = bytes(self._received[4 : 4 + length])
            del self._received[: 4 + length]
            key, version, answer = self.waiting.pop(struct.unpack_from(">i", frame)[0])
            if not answer.done():
                answer.set_result(decode_response(key, version, frame)[1])

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        for _, _, answer in self.waiting.values():
            if not answer.done():
                answer.set_exception(LostError(str(error)))


class KafkaWire:
    """One client process: a connection per broker, opened when it is needed and closed when an answer is overdue.

    Some look again who leads before they are told that it is another one (Kafka's metadata.max.age.ms): while the old
    leader hangs, or does not know yet, what they send next goes to the new one.
    """

    def __init__(self, environment: Environment, bootstrap: list[Address], rng: Random, name: str) -> None:
        self._environment = environment
        self._bootstrap = bootstrap
        self._rng = rng
        self._name = name
        self._connections: dict[Address, _Connection] = {}
        # Whoever opens one: what is sent meanwhile waits for it, so that all of it takes one way, in its order.
        self._opening: defaultdict[Address, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._next_id = 0
        self._brokers: dict[int, Address] = {}
        self._leaders: dict[tuple[str, int], tuple[int, int]] = {}
        # The newest epoch that was told of each partition, since it was last told without one.
        self._newest: dict[tuple[str, int], int] = {}
        # How often it was told of an older leader.
        self.refused = 0
        self._learned_at = 0.0
        self._max_age = rng.choice([0.7, 3.0, math.inf, math.inf])

    async def call(
        self, address: Address, key: ApiKey, version: int, message: Message, timeout: float = 5.0
    ) -> Message:
        """Return the answer.

        Raises:
            NotSentError: No connection.
            LostError: No answer; the connection is gone.
        """
        return await self.answer(address, await self.begin(address, key, version, message), timeout)

    async def begin(self, address: Address, key: ApiKey, version: int, message: Message) -> "asyncio.Future[Message]":
        """Send and do not wait: what is begun one after the other leaves in that order.

        Raises:
            NotSentError: No connection.
        """
        connection, number = await self._send(address, key, version, message)
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        connection.waiting[number] = (key, version, answer)
        return answer

    async def answer(self, address: Address, begun: "asyncio.Future[Message]", timeout: float = 5.0) -> Message:
        """Return the answer to what was begun.

        Raises:
            LostError: No answer; the connection is gone.
        """
        try:
            async with asyncio.timeout(timeout):
                return await begun
        except TimeoutError:
            self._drop(address)
            raise LostError(f"no answer in {timeout} s") from None

    async def send_only(self, address: Address, key: ApiKey, version: int, message: Message) -> None:
        """Send what is not answered: Produce with acks=0.

        Raises:
            NotSentError: No connection.
        """
        await self._send(address, key, version, message)

    async def _send(self, address: Address, key: ApiKey, version: int, message: Message) -> tuple[_Connection, int]:
        connection = await self._connected(address)
        self._next_id += 1
        data = b"".join(encode_request(key, version, self._next_id, self._name, message))
        assert connection.transport is not None
        connection.transport.write(data)
        return connection, self._next_id

    async def _connected(self, address: Address) -> _Connection:
        async with self._opening[address]:
            connection = self._connections.get(address)
            if connection is not None and connection.transport is not None and not connection.transport.is_closing():
                return connection
            connection = self._connections[address] = _Connection()
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    await self._environment.network.connect(*address, lambda: connection)
            except (OSError, TimeoutError) as error:
                raise NotSentError(str(error)) from error
            if connection.transport is None:
                raise NotSentError("closed at once")
            return connection

    def _drop(self, address: Address) -> None:
        connection = self._connections.pop(address, None)
        if connection is not None and connection.transport is not None:
            connection.transport.abort()

    def any_broker(self) -> Address:
        """Return a broker to ask anything that any of them can answer."""
        return self._rng.choice(self._bootstrap)

    async def controller(self, version: int = 5) -> Address:
        """Return where admin requests go.

        Raises:
            NotSentError, LostError: Nobody says.
        """
        answer = await self.call(self.any_broker(), ApiKey.METADATA, version, MetadataRequest(topics=[]))
        brokers = {each.node_id: (each.host, each.port) for each in answer.brokers}
        return brokers.get(answer.controller_id) or self.any_broker()

    async def leader(self, topic: str, partition: int) -> tuple[Address, int]:
        """Return where a partition's leader is, and its epoch (-1: not told).

        Raises:
            NotSentError, LostError: Nobody says, or there is none.
        """
        is_old = asyncio.get_running_loop().time() > self._learned_at + self._max_age
        if is_old or (topic, partition) not in self._leaders:
            await self._learn(topic)
        node_id, epoch = self._leaders.get((topic, partition), (-1, -1))
        if node_id not in self._brokers:
            self.forget(topic, partition)
            raise NotSentError("no leader")
        return self._brokers[node_id], epoch

    def forget(self, topic: str, partition: int) -> None:
        """Ask again who leads, the next time."""
        self._leaders.pop((topic, partition), None)

    async def _learn(self, topic: str) -> None:
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        version = self._rng.randrange(5, 13)
        answer = await self.call(self.any_broker(), ApiKey.METADATA, version, request)
        self._learned_at = asyncio.get_running_loop().time()
        self._brokers = {each.node_id: (each.host, each.port) for each in answer.brokers}
        for told in answer.topics:
            for each in told.partitions:
                is_led = not each.error_code
                assert not is_led or version < _EPOCHS_SINCE or each.leader_epoch >= 0, "a leader without an epoch"
                # Clients do not trust what brokers told before they were told it reliably (KAFKA-9212).
                epoch = each.leader_epoch if version >= _EPOCHS_TRUSTED_SINCE else -1
                self._note_leader((told.name, each.partition_index), each.leader_id if is_led else -1, epoch)

    def _note_leader(self, partition: tuple[str, int], node_id: int, epoch: int) -> None:
        """Take what a broker tells; it may be cut off from the others, and its leader be deposed.

        As Java's client does (KIP-320, KAFKA-7738) and librdkafka since 2.8: an older epoch is ignored, and who is told
        none forgets the one that it knew.
        """
        if -1 < epoch < self._newest.get(partition, -1):
            self.refused += 1
            return
        self._leaders[partition] = (node_id, epoch)
        self._newest[partition] = epoch
