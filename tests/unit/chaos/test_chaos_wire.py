"""The wire client's codec beside the brokers' own, which it shares no line with."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_api.protocol import messages
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.codec import decode_request, encode_response
from model.record_batch import read_header
from raftka.kafka.wire import requests
from raftka.kafka.wire.fields import AnswerError, Reader
from raftka.kafka.wire.record_batches import Producer, build_batch, read_records
from raftka.kafka.wire.requests import Request


def _as_broker_reads_it(request: Request[Any]) -> Any:
    return decode_request(request.api_key, request.version, request.body, 0)


def _read(request: Request[Any], answer: Any) -> Any:
    data = b"".join(encode_response(ApiKey(request.api_key), request.version, 7, answer))
    # Behind the length and the correlation id.
    return request.read(Reader(data[8:]))


def test_a_produce_request_is_what_a_broker_reads():
    batch = build_batch(b"v", 5)
    read = _as_broker_reads_it(requests.produce("t", 2, batch, -1, 4_000))
    assert (read.acks, read.timeout_ms) == (-1, 4_000)
    assert bytes(read.topic_data[0].partition_data[0].records) == batch


def test_a_fetch_request_is_what_a_broker_reads():
    read = _as_broker_reads_it(requests.fetch("t", 2, 10, 50, 1_000))
    asked = read.topics[0].partitions[0]
    assert (read.max_wait_ms, read.session_epoch, read.topics[0].topic) == (50, -1, "t")
    assert (asked.partition, asked.fetch_offset, asked.partition_max_bytes) == (2, 10, 1_000)
    assert (read.isolation_level, asked.current_leader_epoch) == (0, -1)
    read = _as_broker_reads_it(requests.fetch("t", 2, 10, 50, 1_000, epoch=7, is_committed=True))
    assert (read.isolation_level, read.topics[0].partitions[0].current_leader_epoch) == (1, 7)


def test_topics_are_asked_for_without_being_made():
    assert not _as_broker_reads_it(requests.metadata(["t"])).allow_auto_topic_creation
    read = _as_broker_reads_it(requests.create_topic("t", 1, 3, 5_000, validate_only=True))
    assert read.validate_only
    assert read.topics[0].name == "t"
    assert _as_broker_reads_it(requests.delete_topic("t", 5_000)).topic_names == ["t"]


def test_answers_are_read_as_a_broker_writes_them():
    produced = messages.ProduceResponse(
        responses=[
            messages.ProduceResponse.TopicProduceResponse(
                name="t",
                partition_responses=[
                    messages.ProduceResponse.PartitionProduceResponse(index=0, error_code=6, base_offset=12)
                ],
            )
        ]
    )
    assert _read(requests.produce("t", 0, b"", 1, 1), produced) == (6, 12)
    aborted = messages.FetchResponse.AbortedTransaction(producer_id=4, first_offset=7)
    fetched = messages.FetchResponse(
        responses=[
            messages.FetchResponse.FetchableTopicResponse(
                topic="t",
                partitions=[
                    messages.FetchResponse.PartitionData(
                        partition_index=0,
                        high_watermark=9,
                        last_stable_offset=8,
                        aborted_transactions=[aborted],
                        records=b"abc",
                    )
                ],
            )
        ]
    )
    assert _read(requests.fetch("t", 0, 0, 0, 0), fetched) == (0, 9, b"abc", 8, [(4, 7)])


@given(st.binary(max_size=300), st.integers(0, 2**40))
def test_a_batch_is_one_that_brokers_accept_and_is_read_back(value: bytes, timestamp: int):
    batch = build_batch(value, timestamp, Producer(4, 1, 9))
    header = read_header(batch, 0)
    assert (header.size, header.record_count, header.base_sequence) == (len(batch), 1, 9)
    assert [record.value for record in read_records(batch + batch[:40])] == [value]


def test_a_batch_whose_checksum_is_wrong_is_not_read():
    batch = bytearray(build_batch(b"value", 1))
    batch[-2] ^= 1
    with pytest.raises(AnswerError, match="checksum"):
        read_records(bytes(batch))


def test_an_answer_that_is_cut_short_is_not_read():
    with pytest.raises(AnswerError):
        Reader(b"\0\5ab").string()
    with pytest.raises(AnswerError):
        Reader(b"\0").i32()
