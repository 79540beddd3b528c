"""The log itself, batch by batch, read around Spark: by the wire client that judges brokers elsewhere, too."""

import asyncio
import random
from types import TracebackType

from raftka.chaos.loop_thread import LoopThread
from raftka.kafka import client as kafka_client
from raftka.kafka.errors import KafkaClientError
from raftka.kafka.wire.client import LostError, NotSentError, WireClient
from raftka.kafka.wire.error_codes import NONE, OFFSET_OUT_OF_RANGE
from raftka.kafka.wire.fields import AnswerError
from raftka.kafka.wire.record_batches import read_layout
from raftka.kafka.wire.requests import EARLIEST, fetch, list_offsets
from raftka.pipeline.archive.gaps import Piece

# Of one answer; a batch that is larger comes whole all the same.
_BYTES_MAX = 256 * 1024
_WAIT_MS = 500
# A failover is over by then.
_READ_SECONDS = 30.0
_AGAIN_SECONDS = 0.2


class _RefusedError(Exception):
    """The answer is an error code."""


class LogPieces:
    """A context manager; it speaks plaintext, as all that is beside Spark's own clients."""

    def __init__(self, brokers: str, isolation_level: str) -> None:
        bootstrap = [address.rpartition(":") for address in kafka_client.addresses(brokers)]
        where = [(host.strip("[]"), int(port)) for host, _, port in bootstrap]
        self._client = WireClient(where, random.Random(), "raftka-archive")
        self._is_committed = isolation_level == "read_committed"
        self._loop = LoopThread()

    def __enter__(self) -> "LogPieces":
        self._loop.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._loop.start(self._close()).result()
        self._loop.__exit__(kind, error, at)

    async def _close(self) -> None:
        self._client.close()

    def read(self, topic: str, partition: int, offset: int) -> Piece:
        """Return what a partition has from an offset on.

        Raises:
            KafkaClientError: The brokers do not tell.
        """
        return self._loop.start(self._read(topic, partition, offset)).result()

    async def _read(self, topic: str, partition: int, offset: int) -> Piece:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _READ_SECONDS
        while True:
            is_late = loop.time() >= deadline
            try:
                found = await self._asked(topic, partition, offset)
                # A leader that has just become one may not know yet how far everybody may read.
                if found.end > offset or is_late:
                    return found
            except AnswerError:
                # Bytes that are no batches do not become some by being asked for again.
                return Piece([], offset)
            except (NotSentError, LostError, _RefusedError) as error:
                if is_late:
                    raise KafkaClientError(f"{topic}-{partition} cannot be read at offset {offset}: {error}") from None
            self._client.forget(topic, partition)
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _asked(self, topic: str, partition: int, offset: int) -> Piece:
        _, address = await self._client.leader(topic, partition)
        request = fetch(topic, partition, offset, _WAIT_MS, _BYTES_MAX, is_committed=self._is_committed)
        told = await self._client.call(address, request)
        if told.error == OFFSET_OUT_OF_RANGE:
            begin = await self._client.call(address, list_offsets(topic, partition, EARLIEST))
            if begin.error != NONE:
                raise _RefusedError(f"error {begin.error}")
            # The log begins behind it by now.
            return Piece([], begin.offset, is_gone=True)
        if told.error != NONE:
            raise _RefusedError(f"error {told.error}")
        batches = read_layout(told.batches, told.aborted)
        return Piece(batches, batches[-1].end if batches else offset)
