"""Headers, framing of answers, records by reference, defaults, and what an encoder refuses."""

import random
import struct

import pytest
from random_messages import MESSAGE_VERSIONS, random_message

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.codec import (
    RequestHeader,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    is_flexible,
    versions,
)
from kafka_api.protocol.errors import InvalidMessageError, MalformedRequestError, UnsupportedVersionError
from kafka_api.protocol.message_classes import Message, struct_classes
from kafka_api.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeTopicPartitionsRequest,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from kafka_api.protocol.schema.message_schema import Direction, Struct, schema_of


def joined(buffers: list) -> bytes:
    return b"".join(buffers)


def produce_request(records) -> ProduceRequest:
    partition = ProduceRequest.PartitionProduceData(index=3, records=records)
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[partition])
    return ProduceRequest(acks=-1, timeout_ms=1500, topic_data=[topic])


def fetch_response(*records) -> FetchResponse:
    partitions = [
        FetchResponse.PartitionData(partition_index=index, high_watermark=7, records=each)
        for index, each in enumerate(records)
    ]
    return FetchResponse(responses=[FetchResponse.FetchableTopicResponse(topic="t", partitions=partitions)])


@pytest.mark.parametrize("client_id", [None, "", "client", "é" * 200])
def test_a_request_and_its_header_come_back(client_id: str | None) -> None:
    for key, direction, version in MESSAGE_VERSIONS:
        if direction is Direction.REQUEST:
            request = random_message(schema_of(key, direction), version, random.Random(f"{key} {version}"))
            frame = joined(encode_request(key, version, -5, client_id, request))
            assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
            header = decode_request_header(frame[4:])
            assert header[:4] == (key, version, -5, client_id)
            assert decode_request(key, version, frame[4:], header.body_position) == request


def test_a_response_comes_back_with_its_correlation_id() -> None:
    for key, direction, version in MESSAGE_VERSIONS:
        if direction is Direction.RESPONSE:
            response = random_message(schema_of(key, direction), version, random.Random(f"{key} {version}"))
            frame = joined(encode_response(key, version, 2**31 - 1, response))
            assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
            assert decode_response(key, version, frame[4:]) == (2**31 - 1, response)


def test_the_client_id_has_a_legacy_length_even_in_a_flexible_header() -> None:
    frame = bytes.fromhex("0003 000c 00000007 0002 6d65 00" + "01 00 00 00")
    assert decode_request_header(frame) == RequestHeader(3, 12, 7, "me", 13)
    assert decode_request(3, 12, frame, 13) == MetadataRequest(topics=[], allow_auto_topic_creation=False)


def test_tags_of_a_request_header_are_skipped() -> None:
    frame = bytes.fromhex("0003 000c 00000007 ffff" + "02 00 01 aa 8101 02 bbcc" + "00 01 00 00")
    header = decode_request_header(frame)
    assert (header.client_id, header.body_position) == (None, 19)
    assert decode_request(3, 12, frame, 19) == MetadataRequest(topics=None)


@pytest.mark.parametrize("version", [0, 3, 4])
def test_the_header_of_an_api_versions_response_is_always_the_oldest(version: int) -> None:
    frame = joined(encode_response(ApiKey.API_VERSIONS, version, 9, ApiVersionsResponse(error_code=35)))
    assert frame[4:10] == bytes.fromhex("00000009 0023")


def test_the_header_of_an_unknown_key_or_version_is_decoded_too() -> None:
    assert decode_request_header(bytes.fromhex("0012 7fff 00000001 0001 61 00 ff"))[:4] == (18, 0x7FFF, 1, "a")
    assert decode_request_header(bytes.fromhex("7fff 0001 00000001 0001 61"))[:4] == (0x7FFF, 1, 1, "a")


@pytest.mark.parametrize(
    "frame", ["", "0003000c00000007", "0003 000c 00000007 0005 6d65", "0003 0001 00000007 0001 ff"]
)
def test_what_is_no_request_header_is_refused(frame: str) -> None:
    with pytest.raises(MalformedRequestError):
        decode_request_header(bytes.fromhex(frame))


def test_versions_and_flexibility_are_those_of_the_schema() -> None:
    assert versions(ApiKey.PRODUCE) == (3, 13)
    assert versions(ApiKey.FETCH) == (4, 18)
    assert [is_flexible(ApiKey.FETCH, version) for version in (11, 12, 99)] == [False, True, True]
    with pytest.raises(UnsupportedVersionError):
        versions(4)


@pytest.mark.parametrize(("key", "version"), [(0, 2), (0, 14), (4, 0), (-1, 0), (3, -1)])
def test_a_version_outside_the_schema_is_refused_by_name(key: int, version: int) -> None:
    with pytest.raises(UnsupportedVersionError):
        decode_request(key, version, b"", 0)
    with pytest.raises(UnsupportedVersionError):
        encode_response(key, version, 1, ApiVersionsResponse())


def test_records_of_a_request_are_views_of_its_frame() -> None:
    frame = bytearray(joined(encode_request(0, 11, 1, "c", produce_request(b"abcd")))[4:])
    request = decode_request(0, 11, frame, decode_request_header(frame).body_position)
    assert isinstance(request, ProduceRequest)
    records = request.topic_data[0].partition_data[0].records
    assert records is not None
    assert records.obj is frame
    frame[frame.index(b"abcd")] = ord("X")
    assert records == b"Xbcd"


@pytest.mark.parametrize("version", [11, 12])
def test_records_of_a_response_are_sent_by_reference(version: int) -> None:
    one, two, three = b"1" * 200, memoryview(b"2" * 3), bytearray(b"3" * 70_000)
    buffers = encode_response(1, version, 1, fetch_response(one, [two, three], [], b"", None))
    assert [buffer for buffer in buffers if buffer is one or buffer is two or buffer is three] == [one, two, three]
    frame = joined(buffers)
    assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
    _, response = decode_response(1, version, frame[4:])
    assert isinstance(response, FetchResponse)
    sent = [partition.records for partition in response.responses[0].partitions]
    assert sent == [one, bytes(two) + three, b"", b"", None]


def test_a_field_that_a_version_lacks_is_left_out_and_read_as_its_default() -> None:
    partition = ProduceResponse.PartitionProduceResponse(
        index=1, log_start_offset=5, error_message="why", current_leader=ProduceResponse.LeaderIdAndEpoch(leader_id=2)
    )
    response = ProduceResponse(
        responses=[ProduceResponse.TopicProduceResponse(name="t", partition_responses=[partition])]
    )

    def after(version: int) -> ProduceResponse.PartitionProduceResponse:
        _, message = decode_response(0, version, joined(encode_response(0, version, 1, response))[4:])
        assert isinstance(message, ProduceResponse)
        return message.responses[0].partition_responses[0]

    assert (after(4).log_start_offset, after(4).error_message, after(4).current_leader) == (-1, None, None)
    assert (after(8).log_start_offset, after(8).error_message, after(8).current_leader) == (5, "why", None)
    assert after(10).current_leader == ProduceResponse.LeaderIdAndEpoch(leader_id=2, leader_epoch=-1)


def test_a_tagged_struct_of_defaults_is_not_sent() -> None:
    with_default = FetchRequest(replica_state=FetchRequest.ReplicaState())
    assert joined(encode_request(1, 15, 1, None, with_default)) == joined(
        encode_request(1, 15, 1, None, FetchRequest())
    )


def test_a_nullable_struct_is_announced_by_a_byte() -> None:
    cursor = DescribeTopicPartitionsRequest.Cursor(topic_name="t", partition_index=2)
    for value, tail in ((None, "ff 00"), (cursor, "01 02 74 00000002 00 00")):
        frame = joined(encode_request(75, 0, 1, None, DescribeTopicPartitionsRequest(cursor=value)))[4:]
        assert frame.endswith(bytes.fromhex(tail))
        assert decode_request(75, 0, frame, 11) == DescribeTopicPartitionsRequest(cursor=value)


@pytest.mark.parametrize(("key", "direction", "version"), MESSAGE_VERSIONS)
def test_none_where_the_protocol_has_no_null_is_refused(key: int, direction: Direction, version: int) -> None:
    schema = schema_of(key, direction)

    def encode(message: Message) -> list:
        if direction is Direction.REQUEST:
            return encode_request(key, version, 1, None, message)
        return encode_response(key, version, 1, message)

    def refused(message: Message) -> None:
        with pytest.raises(InvalidMessageError):
            encode(message)

    def try_each_field(layout: Struct, root: Message, owner: Message) -> None:
        for field in layout.fields:
            if not field.versions.has(version):
                continue
            before = getattr(owner, field.name)
            if not field.nullable.has(version) and not field.is_optional_struct:
                setattr(owner, field.name, None)
                refused(root)
            if field.struct is not None:
                nested = struct_classes(schema.name)[field.struct.name]()
                setattr(owner, field.name, [nested] if field.is_array else nested)
                try_each_field(field.struct, root, nested)
            setattr(owner, field.name, before)

    root = struct_classes(schema.name)[schema.name]()
    assert encode(root)
    try_each_field(schema.struct, root, root)


@pytest.mark.parametrize(
    "message",
    [
        MetadataResponse(controller_id=2**31),
        MetadataResponse(controller_id="1"),  # type: ignore[arg-type]
        MetadataResponse(cluster_id="x" * 32_768),
        MetadataResponse(cluster_id="\ud800"),
        MetadataResponse(brokers=[ApiVersionsResponse()]),  # type: ignore[list-item]
    ],
    ids=["too large", "not a number", "too long", "a lone surrogate", "another struct"],
)
@pytest.mark.parametrize("version", [2, 12])
def test_a_value_that_the_protocol_cannot_say_is_refused(message: MetadataResponse, version: int) -> None:
    with pytest.raises(InvalidMessageError):
        encode_response(3, version, 1, message)


@pytest.mark.parametrize("topic_id", ["", "ab", "z" * 32, "0" * 33, "-" * 32])
def test_a_uuid_that_is_not_32_hex_digits_is_refused(topic_id: str) -> None:
    topic = MetadataResponse.MetadataResponseTopic(topic_id=topic_id)
    with pytest.raises(InvalidMessageError):
        encode_response(3, 12, 1, MetadataResponse(topics=[topic]))


def test_a_string_of_the_greatest_length_passes() -> None:
    for version in (2, 12):
        response = MetadataResponse(cluster_id="x" * 32_767)
        assert decode_response(3, version, joined(encode_response(3, version, 1, response))[4:]) == (1, response)


def test_message_classes_behave_like_records() -> None:
    one = ApiVersionsRequest(client_software_name="a")
    assert one == ApiVersionsRequest(client_software_name="a", client_software_version="")
    assert one != ApiVersionsRequest()
    assert one != "a"
    assert repr(one) == "ApiVersionsRequest(client_software_name='a', client_software_version='')"
    with pytest.raises(TypeError):
        ApiVersionsRequest(no_such_field=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        one.no_such_field = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        hash(one)


def test_lists_are_not_shared_between_messages() -> None:
    MetadataResponse().topics.append(MetadataResponse.MetadataResponseTopic())
    assert MetadataResponse().topics == []
