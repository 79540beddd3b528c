"""A network of a run's own, whose links can be cut and throttled: a Linux network namespace with only a loopback.

The calling thread moves into it, and with it every process and thread that it starts, so that brokers and clients
need not know. Packets are told apart by their addresses: a node link goes from one broker's address to another's, a
client's connection comes from 127.0.0.1 and is known by the broker's port. The namespace has no name: it is gone, with
its rules and queues, as soon as nobody is in it any more.

Links are cut by nftables, in the input hook: the sender learns nothing, as on a wire. They are throttled by tc.
"""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from raftka.chaos.errors import ChaosError

_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)
_OWN_NAMESPACE = "/proc/thread-self/ns/net"

# The loopback's own packets are too long to be queued on a slow link one by one.
_PACKET_BYTES = 1_500
# What a throttled link queues, in seconds of its rate; more is dropped, as a router does.
_QUEUE_SECONDS = 0.25
_PACKAGES = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables"}


class NetworkNamespaceError(ChaosError):
    """This machine does not let this process have a network of its own."""


class NetworkNamespace:
    """The rules and queues of the loopback in the namespace the calling thread is in."""

    def __init__(self) -> None:
        _run("ip", "link", "set", "lo", "mtu", str(_PACKET_BYTES), "gso_max_size", str(2 * _PACKET_BYTES), "up")
        _run("nft", "add", "table", "inet", "links")
        _run("nft", "add", "chain", "inet", "links", "cut", "{ type filter hook input priority 0; }")
        self._classes = 0

    def cut(self, source: str, target: str) -> None:
        """Lose every packet from one address to another, until `heal`; the other direction stays."""
        _run(*_NFT_RULE, "ip", "saddr", source, "ip", "daddr", target, "drop")

    def cut_port(self, port: int) -> None:
        """Lose every packet to and from a TCP port, until `heal`."""
        _run(*_NFT_RULE, "tcp", "dport", str(port), "drop")
        _run(*_NFT_RULE, "tcp", "sport", str(port), "drop")

    def throttle(self, source: str, target: str, bytes_per_second: int) -> None:
        """Let no more than so many bytes through from one address to another, until `heal`.

        A full queue delays its packets by a quarter of a second: that is the link's latency, because not every kernel
        has a queue that only delays (netem).
        """
        if not self._classes:
            # What no filter names goes straight through.
            _run("tc", "qdisc", "add", "dev", "lo", "root", "handle", "1:", "htb", "default", "0")
        self._classes += 1
        name = f"1:{self._classes:x}"
        rate = f"{bytes_per_second * 8}bit"
        _run(*_TC_CLASS, name, "htb", "rate", rate, "burst", str(2 * _PACKET_BYTES))
        queue_bytes = str(int(bytes_per_second * _QUEUE_SECONDS))
        _run("tc", "qdisc", "add", "dev", "lo", "parent", name, "bfifo", "limit", queue_bytes)
        _run(*_TC_FILTER, "u32", "match", "ip", "src", source, "match", "ip", "dst", target, "flowid", name)

    def heal(self) -> None:
        """Let everything through again."""
        _run("nft", "flush", "chain", "inet", "links", "cut")
        if self._classes:
            _run("tc", "qdisc", "delete", "dev", "lo", "root")
            self._classes = 0


_NFT_RULE = ("nft", "add", "rule", "inet", "links", "cut")
_TC_CLASS = ("tc", "class", "add", "dev", "lo", "parent", "1:", "classid")
_TC_FILTER = ("tc", "filter", "add", "dev", "lo", "parent", "1:", "protocol", "ip", "prio", "1")


@contextmanager
def own_network() -> Iterator[NetworkNamespace]:
    """Move the calling thread into a new network, and back at the end.

    Raises:
        NetworkNamespaceError: Not root, or no `ip`, `tc`, `nft` or kernel support for them.
    """
    missing = [tool for tool in _PACKAGES if shutil.which(tool) is None]
    if missing:
        packages = " ".join(sorted({_PACKAGES[tool] for tool in missing}))
        raise NetworkNamespaceError(f"{' and '.join(missing)} not found (apt-get install {packages})")
    outside = os.open(_OWN_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _LIBC.unshare(_CLONE_NEWNET) != 0:
            raise NetworkNamespaceError(f"no network namespace: {os.strerror(ctypes.get_errno())} (needs root)")
        try:
            yield NetworkNamespace()
        finally:
            assert _LIBC.setns(outside, _CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
    finally:
        os.close(outside)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NetworkNamespaceError(f"{' '.join(command)}: {done.stderr.strip()}")
