"""Which ports the brokers of a dev cluster take.

Kafka and admin listeners are on 127.0.0.1 with one port per broker; node links are on 127.0.0.(10 + node id), all
with the same port, so that a test can cut links by address.
"""

import random
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from raftka.dev.errors import DevError
from raftka.error_text import short_reason_of

LOOPBACK = "127.0.0.1"
# Below what the system hands out to outgoing connections (32768 and up on Linux): a port that a cluster keeps for
# its next start must not be taken by somebody's client in between.
_FREE_PORTS = range(20_000, 32_000)
_TRIES = 500
_PORT_MAX = 65_535
# 127.0.0.(10 + node id) ends at 254.
_NODE_ID_MAX = 244


@dataclass(frozen=True, slots=True)
class PortRequest:
    """First Kafka and admin port, and the port of the node links; 0: free ones."""

    kafka: int = 9092
    admin: int = 9644
    rpc: int = 33145


@dataclass(frozen=True, slots=True)
class BrokerAddresses:
    """HOST:PORT of one broker's listeners."""

    kafka: str
    rpc: str
    admin: str


def rpc_host(node_id: int) -> str:
    """Return the address of a broker's node links."""
    return f"127.0.0.{10 + node_id}"


def choose_addresses(nodes: int, request: PortRequest) -> list[BrokerAddresses]:
    """Return the addresses of brokers 1 to `nodes`. All are held until every one is found, then released.

    Raises:
        DevError: A port is taken; it names the flag.
    """
    ids = range(1, nodes + 1)
    with ExitStack() as held:
        kafka = _listener_ports(held, "--port", request.kafka, nodes)
        admin = _listener_ports(held, "--admin-port", request.admin, nodes)
        hosts = [rpc_host(node_id) for node_id in ids]
        rpc = _hold_free(held, hosts) if request.rpc == 0 else request.rpc
        if request.rpc != 0:
            for host in hosts:
                _hold(held, "--rpc-port", host, rpc)
    return [
        BrokerAddresses(f"{LOOPBACK}:{kafka[index]}", f"{hosts[index]}:{rpc}", f"{LOOPBACK}:{admin[index]}")
        for index in range(nodes)
    ]


def choose_next(node_id: int, others: Sequence[BrokerAddresses]) -> BrokerAddresses:
    """Return addresses for a broker beside others: the ports behind theirs, or free ones where those are taken.

    Raises:
        DevError: There are no node links for so high a node id, or no free port.
    """
    if node_id > _NODE_ID_MAX:
        raise DevError(f"broker {node_id}: a cluster of `raftka dev` has node ids up to {_NODE_ID_MAX}")
    host = rpc_host(node_id)
    with ExitStack() as held:
        kafka = _hold_next(held, LOOPBACK, 1 + max(_port(each.kafka) for each in others))
        admin = _hold_next(held, LOOPBACK, 1 + max(_port(each.admin) for each in others))
        rpc = _hold_next(held, host, _port(others[-1].rpc))
    return BrokerAddresses(f"{LOOPBACK}:{kafka}", f"{host}:{rpc}", f"{LOOPBACK}:{admin}")


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def _hold_next(held: ExitStack, host: str, port: int) -> int:
    """Hold a port, or another one if it is taken; return which."""
    if port <= _PORT_MAX:
        try:
            held.enter_context(_listening(host, port))
        except OSError:
            pass
        else:
            return port
    return _hold_free(held, [host])


def check_free(addresses: list[BrokerAddresses]) -> None:
    """Make sure that a cluster which comes back finds its ports.

    Raises:
        DevError: Another program has taken one.
    """
    with ExitStack() as held:
        for each in addresses:
            for flag, address in (("--port", each.kafka), ("--admin-port", each.admin), ("--rpc-port", each.rpc)):
                host, _, port = address.rpartition(":")
                _hold(held, flag, host, int(port))


def _listener_ports(held: ExitStack, flag: str, first: int, nodes: int) -> list[int]:
    if first == 0:
        return [_hold_free(held, [LOOPBACK]) for _ in range(nodes)]
    if first + nodes - 1 > _PORT_MAX:
        raise DevError(f"{flag} {first}: {nodes} brokers need the ports up to {first + nodes - 1}")
    for port in range(first, first + nodes):
        _hold(held, flag, LOOPBACK, port)
    return list(range(first, first + nodes))


def _hold(held: ExitStack, flag: str, host: str, port: int) -> None:
    try:
        held.enter_context(_listening(host, port))
    except PermissionError:
        raise DevError(f"{flag}: this user is not allowed to open {host}:{port}; choose another {flag}") from None
    except OSError as error:
        raise DevError(
            f"{flag}: {host}:{port} is taken ({short_reason_of(error)}); choose another {flag}, or 0 for a free one"
        ) from None


def _hold_free(held: ExitStack, hosts: list[str]) -> int:
    """Hold one port that is free on every host and return it."""
    for _ in range(_TRIES):
        port = random.choice(_FREE_PORTS)
        with ExitStack() as attempt:
            try:
                for host in hosts:
                    attempt.enter_context(_listening(host, port))
            except OSError:
                continue
            held.push(attempt.pop_all())
            return port
    raise DevError(f"no free port found between {_FREE_PORTS.start} and {_FREE_PORTS.stop}")


def _listening(host: str, port: int) -> socket.socket:
    """Take a port as a broker would: connections of a former owner that linger do not matter, a listener does."""
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((host, port))
        holder.listen(1)
    except OSError:
        holder.close()
        raise
    return holder
