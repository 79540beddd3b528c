"""Error codes found in responses: wherever the schema has one, in the fields of the version, and no other number."""

import pytest

from kafka_api.handlers.registry import OF_TRANSACTIONS, SERVED
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_scanner import error_scanner
from kafka_api.protocol.message_classes import Message, struct_classes
from kafka_api.protocol.messages import (
    DescribeQuorumResponse,
    FetchResponse,
    FindCoordinatorResponse,
    MetadataResponse,
    OffsetFetchResponse,
    ProduceResponse,
)
from kafka_api.protocol.schema.message_schema import Direction, Struct, schema_of


def _produced(*codes: int) -> ProduceResponse:
    partition = ProduceResponse.PartitionProduceResponse
    results = [partition(index=number, error_code=code, base_offset=7) for number, code in enumerate(codes)]
    topics = [ProduceResponse.TopicProduceResponse(name="t", partition_responses=results)] * 2
    return ProduceResponse(responses=topics)


def test_a_response_without_an_error_has_no_codes() -> None:
    assert not error_scanner(ApiKey.PRODUCE, 9)(_produced(0, 0))


def test_every_partition_of_every_topic_is_looked_at() -> None:
    assert list(error_scanner(ApiKey.PRODUCE, 9)(_produced(0, 3, 6))) == [3, 6, 3, 6]


def test_the_code_of_the_whole_response_is_one_more() -> None:
    partitions = [FetchResponse.PartitionData(partition_index=0, error_code=1, high_watermark=5)]
    responses = [FetchResponse.FetchableTopicResponse(topic="t", partitions=partitions)]
    assert list(error_scanner(ApiKey.FETCH, 12)(FetchResponse(error_code=70, responses=responses))) == [70, 1]


def test_a_field_that_the_version_does_not_have_is_not_looked_at() -> None:
    coordinators = [FindCoordinatorResponse.Coordinator(error_code=15)]
    response = FindCoordinatorResponse(error_code=15, coordinators=coordinators)
    assert list(error_scanner(ApiKey.FIND_COORDINATOR, 3)(response)) == [15]
    assert list(error_scanner(ApiKey.FIND_COORDINATOR, 4)(response)) == [15]


def test_null_arrays_and_absent_structs_have_no_codes() -> None:
    assert not error_scanner(ApiKey.METADATA, 9)(MetadataResponse(brokers=[], topics=[]))
    assert not error_scanner(ApiKey.OFFSET_FETCH, 8)(OffsetFetchResponse(groups=[]))
    assert not error_scanner(ApiKey.DESCRIBE_QUORUM, 1)(DescribeQuorumResponse(topics=[]))


@pytest.mark.parametrize("api_key", [*SERVED, *OF_TRANSACTIONS, ApiKey.API_VERSIONS], ids=lambda key: ApiKey(key).name)
def test_each_error_code_of_each_served_version_is_found(api_key: ApiKey) -> None:
    schema = schema_of(api_key, Direction.RESPONSE)
    classes = struct_classes(schema.name)
    for version in range(schema.versions.low, schema.versions.high + 1):
        counted = [0]
        message = _filled(schema.struct, version, classes, counted)
        assert sorted(error_scanner(api_key, version)(message)) == list(range(1, counted[0] + 1))


def _filled(struct: Struct, version: int, classes: dict[str, type[Message]], counted: list[int]) -> Message:
    """Return a message with one element in each array, and error codes 1, 2, 3 and so on."""
    message = classes[struct.name]()
    for field in struct.fields:
        if not field.versions.has(version):
            continue
        if field.struct is not None:
            inner = _filled(field.struct, version, classes, counted)
            setattr(message, field.name, [inner] if field.is_array else inner)
        elif field.name in ("error_code", "partition_error_code"):
            counted[0] += 1
            setattr(message, field.name, counted[0])
    return message
