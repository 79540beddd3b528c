"""Whoever types `raftka` at a cluster some of whose brokers may be down."""

import subprocess

from tests.process.broker_processes import BrokerCluster
from tests.process.command_line import raftka


class LivingOperator:
    """Types commands at the brokers that run."""

    def __init__(self, cluster: BrokerCluster) -> None:
        self.cluster = cluster

    @property
    def alive(self) -> str:
        """The brokers that run, as `RAFTKA_BROKERS` has them."""
        return ",".join(broker.kafka for broker in self.cluster.running)

    def type(self, *arguments: str, code: int = 0, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        """Type a command; its exit code must be `code`."""
        return raftka(*arguments, code=code, stdin=stdin, RAFTKA_BROKERS=self.alive)
