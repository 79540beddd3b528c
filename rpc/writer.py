"""The only place that writes to a transport."""

import asyncio
from collections.abc import Sequence

from rpc.framing import Buffer, frame_prefix

# Below this the payload is joined with its header: one system call instead of two.
_JOIN_BYTES = 16 << 10


class FrameWriter:
    """Writes frames in call order."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    @property
    def unsent_bytes(self) -> int:
        """What the kernel has not taken yet."""
        return self._transport.get_write_buffer_size()

    def write(self, header: bytes, buffers: Sequence[Buffer] = ()) -> None:
        """Write one frame; the payload is the concatenation of `buffers` (one-dimensional, of bytes).

        Raises:
            FrameTooLargeError: Nothing was written.
        """
        payload_bytes = sum(map(len, buffers))
        prefix = frame_prefix(header, payload_bytes)
        if payload_bytes <= _JOIN_BYTES:
            self._transport.write(b"".join((prefix, header, *buffers)))
            return
        self._transport.writelines((prefix, header, *buffers))
