"""One answer on its way to a client: encoded, or still to come."""

import asyncio
from typing import Any, NamedTuple

from kafka_api.protocol.codec import RequestHeader, encode_response
from kafka_api.protocol.message_classes import Buffer
from kafka_api.request_figures import VersionFigures


class Answer(NamedTuple):
    """To the request of a header: `buffers`, of `size` bytes, or `later`.

    One that comes later has the `figures` in which it is counted, and when its request was taken up (`began`).
    """

    header: RequestHeader
    buffers: list[Buffer]
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
        buffers = encode_response(header.api_key, header.api_version, header.correlation_id, response)
        return cls(header, buffers, sum(map(len, buffers)), None)

    @property
    def is_there(self) -> bool:
        """Whether it can be sent."""
        return self.later is None or self.later.done()

    def encoded(self) -> list[Buffer]:
        """Return its bytes, once it is there.

        Raises:
            ProtocolError: As `of`.
        """
        return self.buffers if self.later is None else Answer.of(self.header, self.later.result()).buffers
