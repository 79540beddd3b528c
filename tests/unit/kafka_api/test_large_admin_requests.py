"""Administrative requests of very many words: a bounded answer, also where another broker decides."""

import pytest

from cluster.commands import CreateTopic, ReplicaRecord, UnknownCommandError, decode_command, encode_command
from cluster.errors import InvalidReplicaAssignmentError
from cluster.topic_changes import check_assignment
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import CreateTopicsRequest
from tests.unit.kafka_api.wire_client import CREATE_TOPICS
from tests.unit.kafka_api.wire_cluster import with_brokers


def _asked(*nodes, configs=0):
    placed = [CreateTopicsRequest.CreatableReplicaAssignment(partition_index=0, broker_ids=list(nodes))]
    topic = CreateTopicsRequest.CreatableTopic(name="u", num_partitions=-1, replication_factor=-1)
    topic.assignments = placed
    topic.configs = [
        CreateTopicsRequest.CreatableTopicConfig(name=f"key-{number}", value="x" * 32_100) for number in range(configs)
    ]
    return CreateTopicsRequest(topics=[topic], timeout_ms=10_000)


def test_a_client_that_names_a_great_many_brokers_gets_an_answer_from_every_broker(tmp_path):
    async def test(brokers):
        for number in brokers.clients:
            # So many numbers would not fit into the string of a response.
            answer = await brokers.clients[number].call(ApiKey.CREATE_TOPICS, CREATE_TOPICS, _asked(*range(9, 15_000)))
            assert answer.topics[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
            assert answer.topics[0].error_message == "unknown brokers [9, 10, 11, 12, 13] and 14986 more"
        controller = int(brokers.cluster.controller.options.node_id)
        other = next(number for number in brokers.clients if number != controller)
        # A request of almost 4 MiB, as a client may send it, makes more than a frame of a link may have.
        largest = _asked(*range(2**31 - 19_000, 2**31), configs=128)
        answer = await brokers.clients[other].call(ApiKey.CREATE_TOPICS, CREATE_TOPICS, largest)
        assert answer.topics[0].error_code == ErrorCode.INVALID_REQUEST
        assert "takes no request of this size" in answer.topics[0].error_message

    with_brokers(tmp_path, test)


@pytest.mark.parametrize("nodes", [(), (1,) * 1000])
def test_no_error_repeats_more_than_a_few_replicas(nodes):
    with pytest.raises(InvalidReplicaAssignmentError) as refused:
        check_assignment([nodes], {1})
    assert len(str(refused.value)) < 100


@pytest.mark.parametrize(
    ("topic_id", "partitions"),
    [
        ("no id", [[1]]),
        ("0" * 33, [[1]]),
        ("0" * 32, []),
        ("0" * 32, [[1], []]),
        ("0" * 32, [[1, 2, 1]]),
    ],
)
def test_a_command_of_a_peer_that_would_end_in_an_assert_is_refused_by_name(topic_id, partitions):
    placed = [[ReplicaRecord(node, "d") for node in nodes] for nodes in partitions]
    with pytest.raises(UnknownCommandError):
        decode_command(encode_command(CreateTopic("t", topic_id, placed, {})))
