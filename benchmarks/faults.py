"""Ways to take a leader away, and back: killed, stopped in its tracks, cut off from the other brokers."""

import os
import shutil
import signal
import subprocess
import sys
from typing import Protocol

from benchmarks.cluster import BenchCluster, BenchmarkError

# Node links have an address of their own for each broker, so that they can be cut without the clients'.
_LOCAL_PREFERENCE, _CUT_PREFERENCE = 10, 5


class Fault(Protocol):
    """What is done to a broker."""

    def inflict(self, cluster: BenchCluster, node: int) -> None:
        """Take the broker away."""

    def heal(self, cluster: BenchCluster, node: int) -> None:
        """Bring it back."""


class Kill:
    """SIGKILL: the kernel resets all connections at once."""

    def inflict(self, cluster: BenchCluster, node: int) -> None:
        """Kill the process."""
        os.kill(cluster.pids[node], signal.SIGKILL)

    def heal(self, cluster: BenchCluster, node: int) -> None:
        """Start it again."""
        cluster.restart(node)


class Stop:
    """SIGSTOP: connections stay, and nobody answers."""

    def inflict(self, cluster: BenchCluster, node: int) -> None:
        """Stop the process."""
        os.kill(cluster.pids[node], signal.SIGSTOP)

    def heal(self, cluster: BenchCluster, node: int) -> None:
        """Let it go on."""
        os.kill(cluster.pids[node], signal.SIGCONT)


class Cut:
    """The packets between the broker and the others vanish; clients still reach it.

    Works in a network namespace of its own, which `in_own_network` gives.
    """

    def __init__(self) -> None:
        _ip("link", "set", "lo", "up")
        # The rule for local addresses comes first by default; it has to make room for ours.
        _ip("rule", "add", "pref", str(_LOCAL_PREFERENCE), "lookup", "local")
        _ip("rule", "del", "pref", "0")

    def inflict(self, cluster: BenchCluster, node: int) -> None:
        """Throw away what goes from or to the address of its node links."""
        for way in ("from", "to"):
            _ip("rule", "add", "pref", str(_CUT_PREFERENCE), way, _link_address(cluster, node), "blackhole")

    def heal(self, cluster: BenchCluster, node: int) -> None:
        """Let packets pass again."""
        for _ in ("from", "to"):
            _ip("rule", "del", "pref", str(_CUT_PREFERENCE))


def in_own_network(module: str, *arguments: str) -> list[str] | None:
    """Return the command that runs a module in a network namespace of its own; None where that is not allowed."""
    command = ["unshare", "--net"]
    if any(shutil.which(tool) is None for tool in ("unshare", "ip")):
        return None
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode != 0:
        return None
    return [*command, sys.executable, "-m", module, *arguments]


def _link_address(cluster: BenchCluster, node: int) -> str:
    (found,) = (broker.addresses.rpc for broker in cluster.brokers if broker.node_id == node)
    return found.rpartition(":")[0]


def _ip(*arguments: str) -> None:
    found = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        raise BenchmarkError(f"ip {' '.join(arguments)}: {found.stderr.strip()}")
