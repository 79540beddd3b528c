"""Brokers join a founded cluster, with an empty directory and with one that replaces a lost disk."""

import asyncio
import shutil
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest

from cluster.broker_changes import ChangeBrokerRequest
from cluster.commands import BrokerRecord
from cluster.errors import (
    BrokerInUseError,
    FeatureLevelError,
    InvalidReplicationFactorError,
    PermanentStartupError,
    RefusedDirectoryError,
    StartupError,
    UnknownBrokerError,
)
from cluster.founding_words import Seed
from model.features import OFFERED
from model.ids import RAFT0, NodeId
from raft.errors import RaftError
from rpc.handshake import FORMAT_VERSION
from tests.unit.cluster.cluster_nodes import Cluster, free_port, run, seeds_of, until


def _configuration(cluster, node):
    return cluster[node].groups.get(RAFT0).configuration


def voters_of(cluster, node):
    return set(_configuration(cluster, node).voter_ids)


def learners_of(cluster, node):
    return {learner.node_id for learner in _configuration(cluster, node).learners}


class Growing(Cluster):
    """Three founders that have the feature, and addresses for more brokers."""

    def __init__(self, directory, founders=3, **options):
        super().__init__(directory, founders, **options)
        self.seeds = seeds_of(founders)
        self.addresses = {seed.node_id: seed for seed in self.seeds}

    def address(self, number):
        if number not in self.addresses:
            host = self.seeds[0].host.rpartition(".")[0] + f".{number}"
            self.addresses[number] = Seed(number, host, free_port(host))
        return self.addresses[number]

    def options(self, number):
        seeds = self.seeds
        self.seeds = [*seeds, *(self.address(each) for each in range(len(seeds) + 1, number + 1))]
        try:
            found = super().options(number)
        finally:
            self.seeds = seeds
        return replace(found, seeds=seeds)

    def make(self, number, **changes):
        self.durable.setdefault(number, {})
        return super().make(number, **{"features": OFFERED, **changes})

    async def join(self, number, **changes):
        """Start a broker that is no founder, and wait until it serves."""
        node = self.make(number, **changes)
        await node.start()
        rpc = node.options.rpc_host, node.options.rpc_port
        node.register(BrokerRecord(number, node.replica.directory_id, "k", 9000 + number, *rpc, "a", 2))
        async with asyncio.timeout(20):
            await node.is_registered.wait()
        return node

    def wipe(self, number):
        """The disk of a stopped node is lost."""
        shutil.rmtree(self.data_dir(number))
        self.durable[number] = {}

    async def change(self, node_id, change, through=1, **more):
        await until(self.has_controller)
        return await self[through].broker_changes.change(
            ChangeBrokerRequest(node_id, change, more.pop("directory_id", ""), False, 10.0, **more)
        )


@asynccontextmanager
async def growing(directory, founders=3, **options):
    cluster = Growing(directory, founders, **options)
    try:
        await cluster.start()
        yield cluster
    finally:
        await cluster.stop()


def test_a_broker_joins_learns_raft0_and_serves(tmp_path):
    async def test():
        async with growing(tmp_path) as cluster:
            await cluster.create_topic("before", 1, 3)
            four = await cluster.join(4)
            assert four.controller.topics.get("before") is not None
            await until(lambda: all(learners_of(cluster, node) == {4} for node in cluster.nodes))
            assert all(voters_of(cluster, node) == {1, 2, 3} for node in cluster.nodes)
            await cluster.create_topic("after", 1, assignment=[[4, 1, 2]])
            await until(lambda: cluster.has_leaders("after"))
            members = cluster[1].controller.members.admitted()
            assert [member.node_id for member in members] == [1, 2, 3, 4]
            assert members[3].epoch > members[0].epoch

    run(test, seconds=60)


def test_a_broker_that_joined_starts_again_like_any_other(tmp_path):
    async def test():
        async with growing(tmp_path) as cluster:
            four = await cluster.join(4)
            directory = four.replica.directory_id
            await cluster.stop(4)
            # Any of the others will do to ask, or none at all.
            again = await cluster.join(4, seeds=[])
            assert again.replica.directory_id == directory
            await cluster.create_topic("t", 1, assignment=[[4, 1]])

    run(test, seconds=60)


def test_a_broker_with_another_address_is_found_again(tmp_path):
    async def test():
        async with growing(tmp_path) as cluster:
            await until(cluster.has_controller)
            leader = int(cluster.controller.options.node_id)
            moved = next(node for node in (1, 2, 3) if node != leader)
            await cluster.stop(moved)
            port = free_port(cluster.address(moved).host)
            # The others dial where it was. It dials them, and asks any of them to tell raft0's leader.
            await cluster.join(moved, rpc_port=port)
            others = [cluster[node] for node in cluster.nodes if node != moved]
            await until(lambda: all(node.links.is_up(NodeId(moved)) for node in others))
            # Whoever starts after that knows it from its own disk.
            other = next(node for node in (1, 2, 3) if node not in (moved, leader))
            await cluster.stop(other)
            again = await cluster.join(other)
            assert {link.address.port for link in again.links.outgoing() if link.node_id == moved} == {port}

    run(test, seconds=60)


def test_a_cluster_of_level_1_has_links_of_format_4_only(tmp_path):
    async def test():
        async with growing(tmp_path) as cluster:
            formats = {link.peer.link_format for link in cluster[1].links.outgoing() if link.peer is not None}
            assert formats == {FORMAT_VERSION}
            assert all(node.stamp.is_stamped for node in cluster.nodes.values())

    run(test, seconds=60)


def test_a_fourth_and_a_fifth_make_five_voters(tmp_path):
    async def test():
        async with growing(tmp_path) as cluster:
            await cluster.join(4)
            await cluster.join(5)
            await until(lambda: all(voters_of(cluster, node) == {1, 2, 3, 4, 5} for node in cluster.nodes), seconds=30)

    run(test, seconds=60)


def test_an_empty_directory_under_a_known_node_id_is_refused_and_gets_nothing_written(tmp_path):
    async def test():
        async with growing(tmp_path) as cluster:
            await cluster.stop(3)
            cluster.wipe(3)
            with pytest.raises(RefusedDirectoryError, match="raftka broker replace 3"):
                await cluster.make(3).start()

    run(test, seconds=60)


def test_a_lost_disk_is_replaced_and_the_old_one_never_counts_again(tmp_path):
    async def test():
        async with growing(tmp_path) as cluster:
            await cluster.create_topic("t", 1, 3)
            old = cluster[3].replica.directory_id
            with pytest.raises(BrokerInUseError, match="its link"):
                await cluster.change(3, "retire")
            await cluster.stop(3)
            kept = tmp_path / "kept"
            shutil.copytree(cluster.data_dir(3), kept)
            durable = dict(cluster.durable[3])
            cluster.wipe(3)
            await cluster.change(3, "retire")
            # Again: nothing more.
            await cluster.change(3, "retire")
            three = await cluster.join(3)
            assert three.replica.directory_id != old
            group = cluster[1].controller.topics.get("t").group(0)

            def is_whole():
                topic = cluster[1].controller.topics.get("t")
                return (
                    topic.move_of(0) is None
                    and three.replica in topic.replicas[0]
                    and cluster[3].partitions.get(group) is not None
                )

            await until(is_whole, seconds=30)
            await until(lambda: 3 in voters_of(cluster, 1), seconds=30)
            await cluster.stop(3)
            shutil.rmtree(cluster.data_dir(3))
            shutil.copytree(kept, cluster.data_dir(3))
            cluster.durable[3] = durable
            returned = cluster.make(3)
            starting = asyncio.create_task(returned.start())
            await until(lambda: "retired" in str(getattr(returned, "links", None) and returned.links.why_down(1)))
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)

    run(test, seconds=90)


async def replace_disk(cluster, number, through):
    """The disk of a broker is lost, and replaced; return once the broker holds what it held, and votes in raft0."""
    await cluster.stop(number)
    cluster.wipe(number)
    await cluster.change(number, "retire", through=through)
    node = await cluster.join(number)
    topic = cluster[through].controller.topics.get("t")

    def is_whole():
        placed = cluster[through].controller.topics.get("t")
        return placed.move_of(0) is None and node.replica in placed.replicas[0]

    await until(is_whole, seconds=30)
    await until(lambda: number in voters_of(cluster, through), seconds=30)
    group = topic.group(0)
    await until(lambda: node.groups.get(group) is not None and node.groups.get(group).leader_id is not None)
    return node


def test_a_second_disk_is_replaced_while_the_first_one_s_broker_leads(tmp_path):
    async def test():
        async with growing(tmp_path) as cluster:
            await cluster.create_topic("t", 1, 3)
            two = await replace_disk(cluster, 2, through=1)
            for group in (cluster[1].controller.topics.get("t").group(0), RAFT0):

                def leads(group=group):
                    return two.groups.get(group).is_in_office

                while not leads():
                    for node in cluster.nodes.values():
                        consensus = node.groups.get(group)
                        if consensus.is_in_office and node is not two:
                            with suppress(RaftError):
                                await consensus.transfer.run(NodeId(2))
                    await asyncio.sleep(0.01)  # Until the transfer is refused no more, or the new leader is in office.
            # The new replicas begin with voters that name broker 2 by its lost directory.
            await replace_disk(cluster, 3, through=1)

    run(test, seconds=90)


def test_a_broker_is_emptied_and_removed(tmp_path):
    async def test():
        async with growing(tmp_path) as cluster:
            await cluster.create_topic("t", 3, 3)
            with pytest.raises(InvalidReplicationFactorError, match="t"):
                await cluster.change(1, "decommission")
            await cluster.join(4)
            with pytest.raises(BrokerInUseError, match="votes in raft0"):
                await cluster.change(1, "remove")
            await cluster.change(1, "decommission")
            topics = cluster[4].controller.topics
            await until(lambda: topics.replica_count(1) == 0 and not topics.is_moving, seconds=40)
            await until(lambda: 1 not in voters_of(cluster, 4) and not cluster[4].controller.raft0.move, seconds=30)
            await cluster.change(1, "remove", through=4)
            await until(lambda: cluster[4].controller.members.member(1) is None)
            assert cluster[4].controller.members.get(1) is None
            await cluster.stop(1)
            with pytest.raises(UnknownBrokerError):
                await cluster.change(1, "drain", through=4)

    run(test, seconds=120)


def test_a_draining_broker_leads_nothing_and_gets_nothing(tmp_path):
    async def test():
        async with growing(tmp_path) as cluster:
            await cluster.create_topic("t", 6, 3)
            await cluster.join(4)
            await cluster.change(2, "drain")

            def leads_nothing():
                topic = cluster[1].controller.topics.get("t")
                led = {cluster[1].leadership.leader_of(topic.group(number)) for number in range(6)}
                return None not in led and all(leader.node_id != 2 for leader in led)

            await until(leads_nothing, seconds=30)
            await cluster.create_topic("u", 4, 3)
            placed = {replica.node_id for each in cluster[1].controller.topics.get("u").replicas for replica in each}
            assert placed == {1, 3, 4}
            await cluster.change(2, "activate")

    run(test, seconds=90)


def test_below_level_1_nobody_joins(tmp_path):
    async def test():
        cluster = Growing(tmp_path)
        try:
            nodes = [cluster.make(number, features={}) for number in (1, 2, 3)]
            await asyncio.gather(*(node.start() for node in nodes))
            await until(lambda: any(node.controller.is_in_office for node in nodes))
            with pytest.raises(StartupError, match=r"raftka\.membership"):
                await cluster.make(4).start()
            request = ChangeBrokerRequest(1, "drain", "", validate_only=False, timeout=10.0)
            with pytest.raises(FeatureLevelError):
                await nodes[0].broker_changes.change(request)
        finally:
            await cluster.stop()

    run(test, seconds=60)


def test_who_joins_before_the_first_levels_are_in_force_waits_for_them(tmp_path):
    async def test():
        cluster = Growing(tmp_path)
        try:
            nodes = [cluster.make(number) for number in (1, 2, 3)]
            await asyncio.gather(*(node.start() for node in nodes))
            await until(lambda: any(node.controller.is_in_office for node in nodes))
            four = cluster.make(4)
            joining = asyncio.create_task(four.start())

            def waits_for_levels():
                return joining.done() or (
                    four.joining is not None
                    and "not in force yet" in str([why for _, why in four.joining.unanswered()])
                )

            await until(waits_for_levels)
            assert not joining.done(), joining.exception()
            for node in nodes:
                rpc = node.options.rpc_host, node.options.rpc_port
                node.register(BrokerRecord(node.options.node_id, node.replica.directory_id, "k", 9, *rpc, "a", 2))
            async with asyncio.timeout(20):
                await joining
        finally:
            await cluster.stop()

    run(test, seconds=60)


def test_a_broker_that_was_let_in_and_died_before_it_read_raft0_starts_with_any_seeds(tmp_path):
    async def test():
        async with growing(tmp_path) as cluster:
            four = await cluster.join(4)
            directory = four.replica.directory_id
            await cluster.stop(4)
            # What the process knew when it was let in: raft0's tables had not come yet.
            del cluster.durable[4]["node/brokers"]
            again = await cluster.join(4, seeds=cluster.seeds[:1])
            assert again.replica.directory_id == directory

    run(test, seconds=60)


def test_a_removed_directory_does_not_join(tmp_path):
    async def test():
        async with growing(tmp_path) as cluster:
            four = await cluster.join(4)
            directory = four.replica
            await cluster.stop(4)
            await cluster.change(4, "decommission")
            await cluster.change(4, "remove")
            stored = dict(cluster.durable[4])
            cluster.durable[4] = {key: value for key, value in stored.items() if key == "node/directory"}
            with pytest.raises(PermanentStartupError, match="retired"):
                await cluster.make(4).start()
            assert directory.directory_id in cluster[1].controller.members.retired

    run(test, seconds=90)
