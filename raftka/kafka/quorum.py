"""Whether so many brokers of a cluster answer that it can decide anything.

Every broker is a voter of raft0, so brokers that answer and are no majority cannot elect a controller. A broker that
knows no controller hangs up on Metadata, so that clients ask another one; it still answers DescribeCluster.
"""

import socket
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from raftka.config import parse_address
from raftka.kafka.errors import NoQuorumError
from raftka.kafka.wire.cluster_requests import ClusterAnswer, describe_cluster
from raftka.kafka.wire.fields import AnswerError, Reader, i8, i16, i32, string

# How long one broker has for its answer. Two rounds are asked at most, so a verdict takes at most twice as long.
ASK_SECONDS = 1.0
_ANSWER_BYTES_MAX = 1 << 20
_AT_A_TIME_MAX = 32
_CORRELATION = 0x51756F72


def lost_quorum(addresses: Sequence[str]) -> NoQuorumError | None:
    """Return the error to raise if too few brokers answer for a majority; None if enough do, or nobody tells.

    The brokers that answer must agree that there is no controller. So a client that is cut off from a healthy majority
    does not call it dead.

    Args:
        addresses: HOST:PORT of brokers; any of them may be dead.
    """
    answers = _ask_all(addresses)
    members = {node: f"{host}:{port}" for each in answers.values() for node, (host, port) in each.brokers.items()}
    answers |= _ask_all([address for address in members.values() if address not in addresses])
    if any(each.controller >= 0 for each in answers.values()):
        return None
    silent = sorted(node for node, address in members.items() if address not in answers)
    answering = len(members) - len(silent)
    # Nobody answers where the cluster says that its brokers are: then it is the addresses that are wrong.
    if answering == 0 or answering > len(members) // 2:
        return None
    return NoQuorumError(silent, len(members))


def _ask_all(addresses: Sequence[str]) -> dict[str, ClusterAnswer]:
    """Return the answers by address; all are asked at the same time."""
    if not addresses:
        return {}
    with ThreadPoolExecutor(min(len(addresses), _AT_A_TIME_MAX)) as pool:
        found = zip(addresses, pool.map(_ask, addresses), strict=True)
        return {address: answer for address, answer in found if answer is not None}


def _ask(address: str) -> ClusterAnswer | None:
    request = describe_cluster()
    head = i16(request.api_key) + i16(request.version) + i32(_CORRELATION) + string("raftka") + i8(0)
    try:
        with socket.create_connection(parse_address(address), timeout=ASK_SECONDS) as connection:
            connection.sendall(i32(len(head) + len(request.body)) + head + request.body)
            size, correlation = struct.unpack(">ii", _read(connection, 8))
            if correlation != _CORRELATION or not 4 <= size <= _ANSWER_BYTES_MAX:
                return None
            return request.read(Reader(_read(connection, size - 4)))
    except (OSError, EOFError, ValueError, AnswerError):
        # Nobody is there, or a Kafka that does not know the request, or something else.
        return None


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data
