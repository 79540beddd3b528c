"""A broker has missed that another one's disk was replaced, and no third one is there to tell it (RFC 0020 section 2)."""

import asyncio

import pytest

from cluster.commands import BrokerRecord
from model.ids import NodeId
from rpc.errors import HandshakeRefusedError, RefusalCode
from rpc.handshake import Handshake
from tests.unit.cluster.cluster_nodes import run, until
from tests.unit.cluster.test_joins import growing, replace_disk

_STORED = "node/brokers"


async def _the_two_serve_without_the_third(cluster):
    """Broker 3's disk was replaced; broker 1 lost its power before it had stored that; broker 2 is dead.

    A majority needs the link between 1 and 3, and 1 knows 3 by the directory that is gone.
    """
    await cluster.create_topic("t", 1, 3)
    await until(lambda: _STORED in cluster.durable[1])
    former, old = cluster.durable[1][_STORED], cluster[3].replica.directory_id
    await replace_disk(cluster, 3, through=1)
    offset = await cluster.produce("t", b"a")
    await cluster.stop()
    assert old.encode() in former
    cluster.durable[1][_STORED] = former
    one, three = cluster.make(1), cluster.make(3)
    await asyncio.gather(one.start(), three.start())
    await until(lambda: one.links.refusals or three.links.refusals or cluster.controller is not None)
    assert not one.links.refusals, str(one.links.refusals[NodeId(3)])
    for node in (one, three):
        rpc = node.options.rpc_host, node.options.rpc_port
        node.register(BrokerRecord(int(node.options.node_id), node.replica.directory_id, "k", 9000, *rpc, "a", 2))
    assert await cluster.produce("t", b"b") == offset + 1
    await until(lambda: one.controller.members.member(NodeId(3)).replica == three.replica)


def test_a_broker_that_missed_a_replaced_disk_takes_the_later_epoch(tmp_path):
    async def test():
        async with growing(tmp_path) as cluster:
            await _the_two_serve_without_the_third(cluster)

    run(test, seconds=90)


def test_a_broker_that_missed_a_replaced_disk_would_refuse_it_if_directories_alone_were_compared(tmp_path, monkeypatch):
    check = Handshake._check_directory

    def checked(handshake, theirs):
        known = handshake._known.by_node.get(theirs.replica.node_id)
        if known is not None and known.directory_id != theirs.replica.directory_id:
            raise HandshakeRefusedError(RefusalCode.WRONG_DIRECTORY, "another directory is known of that node")
        check(handshake, theirs)

    async def test():
        async with growing(tmp_path) as cluster:
            monkeypatch.setattr(Handshake, "_check_directory", _after_the_replacement(cluster, checked, check))
            with pytest.raises(AssertionError, match="another directory is known"):
                await _the_two_serve_without_the_third(cluster)

    run(test, seconds=90)


def _after_the_replacement(cluster, planted, check):
    """The bug counts from when all brokers have stopped: before, broker 2 is there to tell the others."""

    def checked(handshake, theirs):
        (check if 2 in cluster.nodes else planted)(handshake, theirs)

    return checked
