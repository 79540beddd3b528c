"""What listens at an address that takes connections, where librdkafka only knows that no Kafka broker has answered."""

import socket
import struct

from raftka.config import parse_address

_SECONDS = 2.0
_CORRELATION = 0x52614674
# ApiVersions, version 0, from a client without a name: every Kafka answers it, before anything else.
_REQUEST = struct.pack(">ihhih", 10, 18, 0, _CORRELATION, -1)


def foreign_protocol(address: str) -> str:
    """Return what is spoken at an address instead of Kafka's protocol; empty: that, or nothing.

    A broker that does not serve yet ends each connection without a word.
    """
    answer = b""
    try:
        with socket.create_connection(parse_address(address), timeout=_SECONDS) as connection:
            connection.sendall(_REQUEST)
            while len(answer) < 8 and (part := connection.recv(8 - len(answer))):
                answer += part
    except (OSError, ValueError):
        # What has come by then counts.
        pass
    if not answer or (len(answer) == 8 and struct.unpack_from(">i", answer, 4)[0] == _CORRELATION):
        return ""
    return "HTTP" if answer.startswith(b"HTTP") else "something else"
