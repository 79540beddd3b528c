"""Whether so many brokers of a cluster answer that it can decide anything.

Every broker is a voter of raft0, so brokers that answer and are no majority cannot elect a controller. A broker that
knows no controller hangs up on Metadata, so that clients ask another one; it still answers DescribeCluster.
"""

import socket
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import NamedTuple

from raftka.config import parse_address
from raftka.kafka.errors import HangingError, NoQuorumError
from raftka.kafka.wire.cluster_requests import ClusterAnswer, describe_cluster
from raftka.kafka.wire.fields import AnswerError, Reader, i8, i16, i32, string

# How long one broker has for its answer. Two rounds are asked at most, so a verdict takes at most twice as long.
ASK_SECONDS = 1.0
_ANSWER_BYTES_MAX = 1 << 20
_AT_A_TIME_MAX = 32
_CORRELATION = 0x51756F72


class _Silence(Enum):
    """Why an address has told nothing: it took no connection, it ended it or spoke otherwise, or it said nothing."""

    AWAY = "away"
    STRANGE = "strange"
    HANGS = "hangs"


class _Round(NamedTuple):
    """What one round of questions brought, by address."""

    answers: dict[str, ClusterAnswer]
    silences: dict[str, _Silence]

    @property
    def hanging(self) -> list[str]:
        return [address for address, silence in self.silences.items() if silence is _Silence.HANGS]


def lost_quorum(addresses: Sequence[str]) -> NoQuorumError | None:
    """Return the error to raise if too few brokers answer for a majority; None if enough do, or nobody tells.

    The brokers that answer must agree that there is no controller. So a client that is cut off from a healthy majority
    does not call it dead.

    Args:
        addresses: HOST:PORT of brokers; any of them may be dead.
    """
    return _lost_quorum(addresses, _ask_all(addresses).answers)


def no_service(addresses: Sequence[str]) -> NoQuorumError | HangingError | None:
    """Return what `lost_quorum` returns, or the error to raise if all that take connections answer nothing.

    A broker that is busy for a second does not count as one that hangs: it is asked twice.

    Args:
        addresses: HOST:PORT of brokers; any of them may be dead.
    """
    first = _ask_all(addresses)
    if first.answers:
        return _lost_quorum(addresses, first.answers)
    # Something that ends connections is no broker, or one that starts.
    if not first.hanging or _Silence.STRANGE in first.silences.values():
        return None
    again = _ask_all(first.hanging)
    return HangingError(first.hanging) if again.hanging == first.hanging else None


def serving(addresses: Sequence[str]) -> list[str]:
    """Return which of these addresses a broker answers at that knows a controller."""
    answers = _ask_all(addresses).answers
    return [address for address in addresses if address in answers and answers[address].controller >= 0]


def serving_elsewhere(addresses: Sequence[str]) -> list[str]:
    """Return where brokers serve that the brokers at these addresses name; empty: none does, or nobody tells."""
    members = _members(_ask_all(addresses).answers).values()
    return serving([address for address in members if address not in addresses])


def known_members(addresses: Sequence[str]) -> tuple[dict[int, str], dict[int, str]]:
    """Return HOST:PORT by node id of the brokers that answer, and of those that they name and that do not.

    Both are empty if nobody answers.
    """
    answers = _ask_all(addresses).answers
    members = _members(answers)
    answers |= _ask_all([address for address in members.values() if address not in addresses]).answers
    answering = {node: address for node, address in members.items() if address in answers}
    return answering, {node: address for node, address in members.items() if node not in answering}


def _lost_quorum(addresses: Sequence[str], answers: dict[str, ClusterAnswer]) -> NoQuorumError | None:
    members = _members(answers)
    answers = answers | _ask_all([address for address in members.values() if address not in addresses]).answers
    if any(each.controller >= 0 for each in answers.values()):
        return None
    silent = sorted(node for node, address in members.items() if address not in answers)
    answering = len(members) - len(silent)
    # Nobody answers where the cluster says that its brokers are: then it is the addresses that are wrong.
    if answering == 0 or answering > len(members) // 2:
        return None
    return NoQuorumError(silent, len(members))


def _members(answers: dict[str, ClusterAnswer]) -> dict[int, str]:
    return {node: f"{host}:{port}" for each in answers.values() for node, (host, port) in each.brokers.items()}


def _ask_all(addresses: Sequence[str]) -> _Round:
    """Ask all addresses at the same time."""
    if not addresses:
        return _Round({}, {})
    with ThreadPoolExecutor(min(len(addresses), _AT_A_TIME_MAX)) as pool:
        found = dict(zip(addresses, pool.map(_ask, addresses), strict=True))
    return _Round(
        {address: each for address, each in found.items() if not isinstance(each, _Silence)},
        {address: each for address, each in found.items() if isinstance(each, _Silence)},
    )


def _ask(address: str) -> ClusterAnswer | _Silence:
    try:
        connection = socket.create_connection(parse_address(address), timeout=ASK_SECONDS)
    except (OSError, ValueError):
        return _Silence.AWAY
    with connection:
        return _answer_of(connection)


def _answer_of(connection: socket.socket) -> ClusterAnswer | _Silence:
    request = describe_cluster()
    head = i16(request.api_key) + i16(request.version) + i32(_CORRELATION) + string("raftka") + i8(0)
    try:
        connection.sendall(i32(len(head) + len(request.body)) + head + request.body)
        size, correlation = struct.unpack(">ii", _read(connection, 8))
        if correlation != _CORRELATION or not 4 <= size <= _ANSWER_BYTES_MAX:
            return _Silence.STRANGE
        return request.read(Reader(_read(connection, size - 4)))
    except TimeoutError:
        return _Silence.HANGS
    except (OSError, EOFError, ValueError, AnswerError):
        # A Kafka that does not know the request, or something else.
        return _Silence.STRANGE


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data
