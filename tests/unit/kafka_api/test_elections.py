"""ElectLeaders and DescribeQuorum at three brokers: leaderships move to where they belong, and raft0 is shown."""

import asyncio

import pytest
from wire_client import with_client
from wire_cluster import with_brokers

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import DescribeQuorumRequest, ElectLeadersRequest
from model.ids import NodeId
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import can_take_over, until

PREFERRED, UNCLEAN = 0, 1


def partitions(*topics):
    named = ElectLeadersRequest.TopicPartitions
    return [named(topic=name, partitions=list(numbers)) for name, numbers in topics]


async def elect(client, topics, *, kind=PREFERRED, version=2, timeout_ms=10_000):
    request = ElectLeadersRequest(election_type=kind, topic_partitions=topics, timeout_ms=timeout_ms)
    answer = await client.call(ApiKey.ELECT_LEADERS, version, request)
    assert answer.error_code == 0
    return {
        (topic.topic, each.partition_id): each.error_code
        for topic in answer.replica_election_results
        for each in topic.partition_result
    }


def preferred(cluster, name, number):
    return cluster[1].controller.topics.get(name).replicas[number][0].node_id


def is_led_by(cluster, name, number, node):
    group = cluster[1].controller.topics.get(name).group(number)
    return all(
        (leader := each.leadership.leader_of(group)) is not None and leader.node_id == node
        for each in cluster.nodes.values()
    )


async def move_away(cluster, name, number):
    """Let the last replica lead."""
    replicas = cluster[1].controller.topics.get(name).replicas[number]
    target = NodeId(replicas[-1].node_id)
    consensus = consensus_of(cluster.leader_of(name, number))
    if consensus.state.node_id != target:
        # A leader that has just been elected does not know yet which replicas are in sync.
        await until(lambda: can_take_over(consensus, target))
        await consensus.transfer.run(target)
    group = cluster[1].controller.topics.get(name).group(number)
    await until(lambda: is_led_by(cluster, name, number, target))
    # A leader begins with itself, and its news of others is at most half a second old.
    for node in cluster.nodes.values():
        await until(lambda: len(node.leadership.leader_of(group).in_sync) == len(replicas))  # noqa: B023


@pytest.mark.parametrize("version", range(3))
def test_the_preferred_replicas_lead_again_whichever_broker_is_asked(tmp_path, version):
    async def test(brokers):
        cluster = brokers.cluster
        await cluster.create_topic("many", 3, replication_factor=3)
        for number in range(3):
            await move_away(cluster, "many", number)
        client = brokers.clients[brokers.other]
        asked = partitions(("many", [0, 1, 2, 7, 0]), ("unknown", [0]))
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        moved = {("many", number): 0 for number in range(3)}
        assert await elect(client, asked, version=version) == {**moved, ("many", 7): unknown, ("unknown", 0): unknown}
        for number in range(3):
            await until(lambda: is_led_by(cluster, "many", number, preferred(cluster, "many", number)))  # noqa: B023
        again = await elect(client, partitions(("many", [0, 1, 2])), version=version)
        assert again == dict.fromkeys(moved, ErrorCode.ELECTION_NOT_NEEDED)

    with_brokers(tmp_path, test)


def test_of_all_partitions_only_those_are_told_that_needed_an_election(tmp_path):
    async def test(brokers):
        cluster, client = brokers.cluster, brokers.clients[1]
        # Who leads may still be news to the broker that is asked.
        while await elect(client, None):
            await asyncio.sleep(0.05)
        await move_away(cluster, "t", 0)
        assert await elect(client, None) == {("t", 0): 0}
        assert await elect(client, None, kind=UNCLEAN) == {}

    with_brokers(tmp_path, test)


def test_a_preferred_replica_that_is_away_is_not_waited_for(tmp_path):
    async def test(brokers):
        cluster = brokers.cluster
        await move_away(cluster, "t", 0)
        gone = int(preferred(cluster, "t", 0))
        await cluster.stop(gone)
        client = brokers.clients[next(iter(cluster.nodes))]
        assert await elect(client, partitions(("t", [0]))) == {("t", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
        assert await elect(client, partitions(("t", [0])), kind=UNCLEAN) == {("t", 0): ErrorCode.ELECTION_NOT_NEEDED}

    with_brokers(tmp_path, test)


def test_a_partition_without_a_majority_gets_no_unclean_leader(tmp_path):
    async def test(brokers):
        cluster = brokers.cluster
        left = next(number for number in cluster.nodes if number != brokers.leader)
        await cluster.stop(*[number for number in cluster.nodes if number != left])
        client = brokers.clients[left]
        found = await elect(client, partitions(("t", [0])), kind=UNCLEAN)
        assert found == {("t", 0): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}
        found = await elect(client, partitions(("t", [0])))
        assert found == {("t", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}

    with_brokers(tmp_path, test)


def test_no_time_for_an_election_is_a_timeout(tmp_path):
    async def test(brokers):
        await move_away(brokers.cluster, "t", 0)
        found = await elect(brokers.clients[1], partitions(("t", [0])), timeout_ms=0)
        assert found == {("t", 0): ErrorCode.REQUEST_TIMED_OUT}

    with_brokers(tmp_path, test)


def test_an_unknown_kind_of_election_is_refused(tmp_path):
    async def test(_, client):
        request = ElectLeadersRequest(election_type=2, topic_partitions=None)
        assert (await client.call(ApiKey.ELECT_LEADERS, 2, request)).error_code == ErrorCode.INVALID_REQUEST

    with_client(tmp_path, test)


def quorum_request(name="__cluster_metadata", *numbers):
    asked = [DescribeQuorumRequest.PartitionData(partition_index=number) for number in numbers or (0,)]
    return DescribeQuorumRequest(topics=[DescribeQuorumRequest.TopicData(topic_name=name, partitions=asked)])


@pytest.mark.parametrize("version", range(3))
def test_every_broker_describes_raft0_as_its_leader_sees_it(tmp_path, version):
    async def test(brokers):
        cluster = brokers.cluster
        leader = cluster.controller
        consensus = leader.controller.consensus
        now_ms = leader.env.wall_clock.now_ms()
        for client in brokers.clients.values():
            answer = await client.call(ApiKey.DESCRIBE_QUORUM, version, quorum_request())
            (partition,) = answer.topics[0].partitions
            assert (answer.error_code, partition.error_code, partition.observers) == (0, 0, [])
            assert (partition.leader_id, partition.leader_epoch) == (leader.options.node_id, consensus.term)
            assert partition.high_watermark == consensus.state.commit_index + 1
            voters = partition.current_voters
            assert [voter.replica_id for voter in voters] == [1, 2, 3]
            assert all(voter.log_end_offset <= consensus.log.dirty_index + 1 for voter in voters)
            if version >= 1:
                assert all(abs(voter.last_caught_up_timestamp - now_ms) < 10_000 for voter in voters)
                assert all(abs(voter.last_fetch_timestamp - now_ms) < 10_000 for voter in voters)
            if version >= 2:
                directories = {node.options.node_id: node.replica.directory_id for node in cluster.nodes.values()}
                assert {voter.replica_id: voter.replica_directory_id for voter in voters} == directories
                nodes = [(node.node_id, [(each.host, each.port) for each in node.listeners]) for node in answer.nodes]
                assert nodes == [(seed.node_id, [(seed.host, seed.port)]) for seed in cluster.seeds]

    with_brokers(tmp_path, test)


def test_a_quorum_without_a_leader_cannot_be_described(tmp_path):
    async def test(brokers):
        cluster = brokers.cluster
        left = next(number for number, node in cluster.nodes.items() if node is not cluster.controller)
        await cluster.stop(*[number for number in cluster.nodes if number != left])
        answer = await brokers.clients[left].call(ApiKey.DESCRIBE_QUORUM, 2, quorum_request())
        assert (answer.error_code, answer.topics) == (ErrorCode.REQUEST_TIMED_OUT, [])
        assert "raft0" in answer.error_message

    with_brokers(tmp_path, test)


def test_nothing_else_has_a_quorum_that_is_described(tmp_path):
    async def test(_, client):
        await client.create_topic("t")
        for request in (quorum_request("t"), quorum_request("__cluster_metadata", 1), quorum_request("t", 0, 1)):
            answer = await client.call(ApiKey.DESCRIBE_QUORUM, 2, request)
            codes = {each.error_code for topic in answer.topics for each in topic.partitions}
            assert (answer.error_code, codes) == (0, {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
        answer = await client.call(ApiKey.DESCRIBE_QUORUM, 2, DescribeQuorumRequest(topics=[]))
        assert answer.topics == []

    with_client(tmp_path, test)
