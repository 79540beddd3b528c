"""Bytes that no client of good will sends, one by one; tests/fuzz feeds the same decoders with noise and damage."""

import random
import struct
import tracemalloc
from contextlib import suppress

import pytest
from random_messages import MESSAGE_VERSIONS, random_message

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.codec import decode_request, decode_response, encoder
from kafka_api.protocol.errors import MalformedRequestError, ProtocolError
from kafka_api.protocol.message_classes import Message
from kafka_api.protocol.messages import FetchRequest, FetchResponse, ProduceRequest
from kafka_api.protocol.schema.message_schema import Direction, schema_of
from kafka_api.protocol.wire import REQUEST_ELEMENTS_MAX

FLEXIBLE = [entry for entry in MESSAGE_VERSIONS if schema_of(entry[0], entry[1]).flexible.has(entry[2])]
HUGE_COUNTS = ("7fffffff", "ffffffff0f", "8080808008", "fffffffe", "ffffffffff")


def body(key: int, direction: Direction, version: int, seed: int = 0) -> tuple[Message, bytes]:
    message = random_message(schema_of(key, direction), version, random.Random(f"{key} {direction} {version} {seed}"))
    return message, encoded(key, direction, version, message)


def encoded(key: int, direction: Direction, version: int, message: Message) -> bytes:
    out: list[bytes | bytearray | memoryview] = []
    out.append(encoder(key, version, direction)(message, out, bytearray()))
    return b"".join(out)


def decode(key: int, direction: Direction, version: int, data: bytes) -> Message:
    if direction is Direction.REQUEST:
        return decode_request(key, version, data, 0)
    header = b"\0\0\0\7" + b"\0" * (schema_of(key, direction).flexible.has(version) and key != ApiKey.API_VERSIONS)
    return decode_response(key, version, header + data)[1]


def test_a_message_cut_anywhere_is_refused_and_so_is_a_response_with_something_behind() -> None:
    for which in MESSAGE_VERSIONS:
        message, data = body(*which)
        for length in range(min(len(data), 600)):
            with pytest.raises(MalformedRequestError):
                decode(*which, data[:length])
        if which[1] is Direction.REQUEST:
            assert decode(*which, data + b"\0") == message
            continue
        with pytest.raises(MalformedRequestError):
            decode(*which, data + b"\0")


def test_the_null_array_of_four_bytes_that_librdkafka_sends_is_understood() -> None:
    request = decode_request(ApiKey.METADATA, 13, bytes.fromhex("00000000 01 00 00"), 0)
    assert request.topics is None


def test_a_view_into_a_larger_buffer_is_not_read_beyond_its_end() -> None:
    data = body(ApiKey.FETCH, Direction.REQUEST, 12)[1]
    view = memoryview(data + b"\0" * 100)[: len(data) - 1]
    with pytest.raises(MalformedRequestError):
        decode_request(ApiKey.FETCH, 12, view, 0)


def test_no_length_makes_the_decoder_allocate_what_the_message_does_not_hold() -> None:
    for key, direction, version in MESSAGE_VERSIONS[::3]:
        data = next(found for seed in range(50) if len(found := body(key, direction, version, seed)[1]) < 1500)
        tracemalloc.start()
        try:
            for position in range(min(len(data), 150)):
                for huge in HUGE_COUNTS[position % 2 :: 2]:
                    damaged = data[:position] + bytes.fromhex(huge) + data[position + len(huge) // 2 :]
                    with suppress(ProtocolError):
                        decode(key, direction, version, damaged)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 1024 * 1024, f"{key} {direction} v{version}"


def test_a_hundred_megabytes_of_empty_partitions_are_refused_and_take_little_memory() -> None:
    # Each topic and each partition of its own fits a hundred megabytes millions of times.
    topic = struct.pack(">h1si", 1, b"t", 1) + bytes(8)
    one_topic = struct.pack(">hhiih1si", -1, -1, 1, 1, 1, b"t", 100 * 1024 * 1024 // 8)
    for head, element in ((struct.pack(">hhii", -1, -1, 1, 6_500_000), topic), (one_topic, bytes(8))):
        frame = head + element * (100 * 1024 * 1024 // len(element))
        tracemalloc.start()
        try:
            with pytest.raises(MalformedRequestError, match="more than 20000 topics, partitions and other elements"):
                decode_request(ApiKey.PRODUCE, 3, frame, 0)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 64 * 1024 * 1024


def test_all_arrays_of_a_request_count_together() -> None:
    def request(partitions: int) -> bytes:
        topic = struct.pack(">h1si", 1, b"t", partitions) + bytes(8) * partitions
        return struct.pack(">hhii", -1, -1, 1, 100) + topic * 100

    decoded = decode_request(ApiKey.PRODUCE, 3, request(REQUEST_ELEMENTS_MAX // 100 - 1), 0)
    assert isinstance(decoded, ProduceRequest)
    assert sum(1 + len(topic.partition_data) for topic in decoded.topic_data) == REQUEST_ELEMENTS_MAX
    with pytest.raises(MalformedRequestError, match="more than 20000"):
        decode_request(ApiKey.PRODUCE, 3, request(REQUEST_ELEMENTS_MAX // 100), 0)


@pytest.mark.parametrize(("version", "count"), [(1, "7fffffff"), (9, "ffffffff07"), (9, "808080808001")])
def test_an_array_that_cannot_be_there_is_refused_at_once(version: int, count: str) -> None:
    with pytest.raises(MalformedRequestError):
        decode_request(ApiKey.METADATA, version, bytes.fromhex(count) + bytes(20), 0)


def test_a_tag_section_that_cannot_be_there_is_refused() -> None:
    message = bytes.fromhex("01 00 00")  # Metadata v12 up to its tags
    for tags in ("ffffffff0f", "01 00 05 00", "01 00", "02 07 00", "01 ffffffffff01 00", "01 00 ffffffff0f"):
        with pytest.raises(MalformedRequestError):
            decode_request(ApiKey.METADATA, 12, message + bytes.fromhex(tags), 0)


def test_unknown_tags_are_skipped_at_the_end_of_every_flexible_message() -> None:
    for key, direction, version in FLEXIBLE:
        message, _ = body(key, direction, version)
        for field in schema_of(key, direction).struct.fields:
            if field.tagged.has(version):
                setattr(message, field.name, getattr(type(message)(), field.name))
        data = encoded(key, direction, version, message)
        # Without tags of its own it ends in the zero that counts them.
        assert data.endswith(b"\0")
        with_tags = data[:-1] + bytes.fromhex("02 63 03 616263 b960 00")
        assert decode(key, direction, version, with_tags) == message


def test_unknown_tags_are_skipped_in_nested_structs() -> None:
    partition = bytes.fromhex("00000003 03 6162") + bytes.fromhex("01 05 02 ffff")
    topic = bytes.fromhex("02 74 02") + partition + bytes.fromhex("01 8001 00")
    data = bytes.fromhex("00 ffff 00000001 02") + topic + bytes.fromhex("00")
    request = decode_request(ApiKey.PRODUCE, 9, data, 0)
    assert isinstance(request, ProduceRequest)
    assert request.topic_data[0].partition_data[0].records == b"ab"


def test_unknown_tags_may_stand_among_known_ones() -> None:
    partition = (
        bytes.fromhex("00000001 0000")
        + struct.pack(">qqq", 5, 5, 0)
        + bytes.fromhex("00 ffffffff 00")
        # divergingEpoch (0), currentLeader (1), unknown (9)
        + bytes.fromhex("03 00 0d 00000007 0000000000000009 00 01 09 00000002 00000003 00 09 01 ff")
    )
    data = bytes.fromhex("00000007 00 00000000 0000 00000000 02 02 74 02") + partition + bytes.fromhex("00 00")
    _, response = decode_response(ApiKey.FETCH, 12, data)
    assert isinstance(response, FetchResponse)
    found = response.responses[0].partitions[0]
    assert found.diverging_epoch == FetchResponse.EpochEndOffset(epoch=7, end_offset=9)
    assert found.current_leader == FetchResponse.LeaderIdAndEpoch(leader_id=2, leader_epoch=3)
    assert found.snapshot_id is None


def test_a_known_tag_must_have_the_size_of_its_value() -> None:
    fields = bytes.fromhex("00000000 00000000 00000000 00 00000000 ffffffff 01 01 01")
    request = decode_request(ApiKey.FETCH, 15, fields + bytes.fromhex("01 00 02 02 61"), 0)
    assert isinstance(request, FetchRequest)
    assert request.cluster_id == "a"
    for tags in ("01 00 01 02 61", "01 00 03 02 61 00", "01 00 00"):
        with pytest.raises(MalformedRequestError):
            decode_request(ApiKey.FETCH, 15, fields + bytes.fromhex(tags), 0)


def test_a_struct_that_is_neither_null_nor_there_is_refused() -> None:
    assert decode_request(75, 0, bytes.fromhex("01 00000001 ff 00"), 0)
    for marker in ("00", "02", "80"):
        with pytest.raises(MalformedRequestError):
            decode_request(75, 0, bytes.fromhex("01 00000001" + marker + "00"), 0)


def test_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(MalformedRequestError):
        decode_request(ApiKey.METADATA, 1, bytes.fromhex("00000001 0002 ff61"), 0)
