"""One connection to a broker: a request, then its answer."""

import asyncio
import struct
from contextlib import suppress
from typing import Any

from benchmarks.cluster import DEADLINE_SECONDS, BenchmarkError
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.codec import decode_response, encode_request

_LENGTH = struct.Struct(">i")
_CORRELATION_ID = struct.Struct(">i")
_CLIENT_ID = "benchmark"


class WireConnection:
    """Make it with `open`. Whoever calls while a request is under way waits for its answer first."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._turn = asyncio.Lock()
        self._number = 0

    @classmethod
    async def open(cls, address: str) -> "WireConnection":
        """Connect to HOST:PORT.

        Raises:
            BenchmarkError: Nobody is there.
        """
        host, _, port = address.rpartition(":")
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                return cls(*await asyncio.open_connection(host, int(port)))
        except (OSError, TimeoutError) as error:
            raise BenchmarkError(f"no connection to {address}: {error}") from error

    async def call(self, key: ApiKey, version: int, message: Any) -> Any:
        """Return the answer to a request.

        Raises:
            BenchmarkError: The connection ended, no answer came in time, or it is that to a call that was cancelled.
        """
        try:
            async with self._turn, asyncio.timeout(DEADLINE_SECONDS):
                self._number += 1
                self._writer.write(b"".join(encode_request(key, version, self._number, _CLIENT_ID, message)))
                (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
                frame = await self._reader.readexactly(length)
        except (OSError, EOFError, TimeoutError) as error:
            raise BenchmarkError(f"no answer to {key.name}: {error!r}") from error
        (number,) = _CORRELATION_ID.unpack_from(frame)
        if number != self._number:
            raise BenchmarkError(f"the answer to another request than {key.name}: {number}, not {self._number}")
        return decode_response(key, version, frame)[1]

    async def close(self) -> None:
        """End it at once."""
        self._writer.transport.abort()
        with suppress(ConnectionError):
            await self._writer.wait_closed()
