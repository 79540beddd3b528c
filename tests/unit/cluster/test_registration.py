"""A broker that cannot register says why once in its log, and again only if that changes."""

import asyncio
import logging
from types import SimpleNamespace

import pytest

from cluster.commands import BrokerRecord
from cluster.errors import ControllerUnavailableError
from cluster.registration import Registration
from model.ids import DirectoryId, NodeId, Replica
from rpc.errors import HandshakeRefusedError, LinkDownError, RefusalCode

RETIRED = (
    "the data directory d3 of node 3 is retired and never counts again: start node 3 with an empty data.dir, or, if it"
    " was removed from the cluster, leave it stopped"
)


class Refused:
    """The links of node 3, which brokers 1 and 2 refuse, and raft0's leader, whom nobody reaches."""

    def __init__(self, message, rounds):
        self.why = HandshakeRefusedError(RefusalCode.WRONG_DIRECTORY, f"the peer says: {message}", by_peer=True)
        self.rounds = rounds
        self.is_over = asyncio.Event()

    def outgoing(self):
        # Another broker comes first each time.
        nodes = (1, 2) if self.rounds % 2 else (2, 1)
        return [SimpleNamespace(node_id=NodeId(node), address=("h", 1)) for node in nodes]

    def why_down(self, _):
        return self.why

    def send(self, node, *_, timeout):
        future = asyncio.get_running_loop().create_future()
        future.set_exception(LinkDownError(f"no link to node {node}"))
        return future

    async def register_broker(self, _):
        self.rounds -= 1
        if not self.rounds:
            self.is_over.set()
        raise ControllerUnavailableError("raft0 has no leader")


async def _lines(caplog, message):
    refused = Refused(message, rounds=5)
    replica = Replica(NodeId(3), DirectoryId("d3"))
    registration = Registration(
        SimpleNamespace(leader_id=None), refused, refused, SimpleNamespace(is_living=True), replica, lambda: None
    )
    with caplog.at_level(logging.INFO, "cluster"):
        registration.begin(BrokerRecord(3, "d3", "k", 1, "r", 1, "a", 1))
        await refused.is_over.wait()
        await registration.stop()
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def test_a_retired_directory_is_told_once_with_its_own_cure(caplog: pytest.LogCaptureFixture) -> None:
    found = asyncio.run(_lines(caplog, RETIRED))
    assert found == [("INFO", "not registered yet: raft0 has no leader"), ("ERROR", RETIRED)]


def test_a_directory_that_is_known_by_another_one_is_told_with_both_cures(caplog: pytest.LogCaptureFixture) -> None:
    found = asyncio.run(_lines(caplog, "node 3 came with data directory d3, but is registered with another one"))
    errors = {text for level, text in found if level == "ERROR"}
    assert all("it knows node 3 by another one" in text and "raftka broker replace 3" in text for text in errors)
    assert errors
