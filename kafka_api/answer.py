"""Answers on their way to a client: encoded or still to come, and those that are sent together."""

import asyncio
from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple, cast

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.codec import RequestHeader, encode_response
from kafka_api.protocol.message_classes import Buffer
from kafka_api.request_figures import VersionFigures
from kafka_api.response_pieces import COPIED_BYTES_MAX
from storage.file_range import FileRange, RangeSender, RangeSource


class Outgoing:
    """Answers that are sent together: one of any size, or several small ones.

    Attributes:
        buffers: Their bytes.
        size: How many.
        counted_bytes: How many of them were counted when they were queued.
        has_fetch: One of them answers a Fetch; a connection never has two of those.
    """

    __slots__ = ("buffers", "counted_bytes", "has_fetch", "size")

    def __init__(self) -> None:
        self.buffers: list[Buffer | FileRange] = []
        self.size = self.counted_bytes = 0
        self.has_fetch = False

    def add(self, answer: "Answer", buffers: list[Buffer | FileRange]) -> bool:
        """Take one more; return False if it has to be sent by itself."""
        size = sum(map(len, buffers))
        if self.buffers and self.size + size > COPIED_BYTES_MAX:
            return False
        self.buffers += buffers
        self.size += size
        self.counted_bytes += answer.size
        self.has_fetch = self.has_fetch or answer.header.api_key == ApiKey.FETCH
        return True

    @property
    def has_ranges(self) -> bool:
        """Whether some of its bytes lie in files."""
        return self.has_fetch and any(isinstance(part, FileRange) for part in self.buffers)

    def in_memory(self) -> list[Buffer]:
        """Return its bytes where none lie in files."""
        return cast(list[Buffer], self.buffers)

    def parts(self) -> Iterator[list[Buffer] | RangeSender]:
        """Yield its bytes in order: what is in memory together, and what lies in files of one log together."""
        for _, run in groupby(self.buffers, key=_source_of):
            part = list(run)
            if isinstance(part[0], FileRange):
                yield RangeSender(cast(list[FileRange], part))
            else:
                yield cast(list[Buffer], part)


def _source_of(part: Buffer | FileRange) -> RangeSource | None:
    return part.source if isinstance(part, FileRange) else None


class Answer(NamedTuple):
    """To the request of a header: `buffers`, of `size` bytes, or `later`.

    One that comes later has the `figures` in which it is counted, and when its request was taken up (`began`).
    """

    header: RequestHeader
    buffers: list[Buffer | FileRange]
    size: int
    later: asyncio.Future[Any] | None
    figures: VersionFigures | None = None
    began: float = 0.0

    @classmethod
    def of(cls, header: RequestHeader, response: Any) -> "Answer":
        """Encode a response.

        Raises:
            ProtocolError: Its version cannot say it.
        """
        encoded = encode_response(header.api_key, header.api_version, header.correlation_id, response)
        # Records are in it as they were given.
        buffers = cast(list[Buffer | FileRange], encoded)
        return cls(header, buffers, sum(map(len, buffers)), None)

    @property
    def is_there(self) -> bool:
        """Whether it can be sent."""
        return self.later is None or self.later.done()

    def encoded(self) -> list[Buffer | FileRange]:
        """Return its bytes, once it is there.

        Raises:
            ProtocolError: As `of`.
        """
        return self.buffers if self.later is None else Answer.of(self.header, self.later.result()).buffers
