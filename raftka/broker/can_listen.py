"""Whether a broker's addresses are its to listen at, asked before it has done anything.

A cluster may take long to be founded, and the Kafka and admin ports are opened after that: who named one that is taken
learns it at once, with the option's name.
"""

import socket

from cluster.errors import StartupError
from model.error_text import reason_of
from raftka.config import BrokerConfig


def check_can_listen(config: BrokerConfig) -> None:
    """Bind each address for an instant.

    Raises:
        StartupError: One does not exist here or is taken; names the options.
    """
    listeners = [
        ("kafka", config.kafka_address, config.kafka_port),
        ("admin", config.admin_address, config.admin_port),
    ]
    if config.has_links:
        listeners.append(("rpc", config.rpc_address, config.rpc_port))
    for name, host, port in listeners:
        try:
            _bind(host, port)
        except OSError as error:
            why = error.strerror or reason_of(error)
            raise StartupError(f"{name}.address, {name}.port: cannot listen at {host}:{port}: {why}") from error


def _bind(host: str, port: int) -> None:
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, kind, protocol, _, address in found:
        try:
            probe = socket.socket(family, kind, protocol)
        except OSError:
            continue  # A kernel without this family; asyncio leaves it out, too.
        with probe:
            # As asyncio does: connections of a former process that linger do not matter, a listener does.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind(address)
