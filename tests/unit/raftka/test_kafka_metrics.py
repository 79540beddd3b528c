"""What the Kafka listener tells of itself on /metrics: requests, latency, errors, traffic."""

import asyncio

from kafka_api.handlers.registry import SERVED
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.messages import ApiVersionsRequest, DeleteTopicsRequest
from model.bounded_names import OTHER
from raftka.broker.kafka_metrics import KafkaCollector
from raftka.broker.metric_rows import Row
from tests.unit.cluster.cluster_nodes import run, until
from tests.unit.kafka_api.wire_client import broker_in, fetch_request, produce_request
from tests.unit.model.record_batches import build_batch


def _rows(broker, name):
    """Return value by labels of a family."""
    now = asyncio.get_running_loop().time()
    return {row.labels: row.value for row in _all(broker, now) if row.name == name}


def _all(broker, now) -> list[Row]:
    return [row for row in KafkaCollector(broker.server).rows(now) if row is not None]


def test_requests_are_counted_by_api_and_version_and_sessions_with_their_memory(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            topic_id = await client.create_topic("t")
            for version in (0, 3, 3, 9):
                await client.call(ApiKey.API_VERSIONS, min(version, 4), ApiVersionsRequest())
            for _ in range(3):
                await client.call(ApiKey.FETCH, 13, fetch_request("t", 0, topic_id=topic_id, session_epoch=0))
            refused = await broker.client()
            refused.send(ApiKey.FETCH, 4, fetch_request("t", 0))
            await refused.receive()
            refused.write(b"\0\0\0\x0b" + b"\0\x01\x00\x63" + b"\0\0\0\1" + b"\xff\xff\0")
            assert await refused.is_closed()
            await asyncio.sleep(0)
            assert _rows(broker, "raftka_kafka_requests_total") == {
                ("Fetch", "4"): 1,
                ("Fetch", "13"): 3,
                ("ApiVersions", "0"): 1,
                ("ApiVersions", "3"): 2,
                ("ApiVersions", "4"): 1,
                ("CreateTopics", "7"): 1,
            }
            assert _rows(broker, "raftka_kafka_connections") == {(): 1}
            assert _rows(broker, "raftka_kafka_fetch_sessions") == {(): 3}
            assert _rows(broker, "raftka_kafka_fetch_session_bytes") == {(): broker.server.fetch_sessions.counted_bytes}

    run(test)


def test_each_answered_request_has_a_duration_those_without_an_answer_too(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            await client.produce("t")
            client.send(ApiKey.PRODUCE, 7, produce_request("t", build_batch(), acks=0))
            await client.call(ApiKey.FETCH, 12, fetch_request("t", 0))
            durations = _rows(broker, "raftka_kafka_request_seconds")
            assert {api: histogram.count for (api,), histogram in durations.items()} == {
                "CreateTopics": 1,
                "Produce": 2,
                "Fetch": 1,
            }
            longest = _rows(broker, "raftka_kafka_request_max_seconds")
            assert all(0 < longest[labels] <= histogram.sum for labels, histogram in durations.items())

    run(test)


def test_a_fetch_is_measured_without_the_wait_that_its_client_chose(tmp_path, monkeypatch):
    served = SERVED[ApiKey.FETCH]
    waits = []

    async def long_wait(context, version, request):
        answer = await served.handler(context, version, request)
        waits.append(context.chosen_wait.seconds)
        context.chosen_wait.seconds += 1000.0
        return answer

    monkeypatch.setitem(SERVED, ApiKey.FETCH, served._replace(handler=long_wait))

    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            await client.call(ApiKey.FETCH, 12, fetch_request("t", 0, max_wait_ms=100))
            await client.call(ApiKey.FETCH, 12, fetch_request("t", 0, max_wait_ms=0))
            assert waits[0] > 0
            # The wait of one request is not that of the next.
            assert waits[1] == 0
            # The requests themselves took a moment: what is taken off is all of the wait.
            fetches = _rows(broker, "raftka_kafka_request_seconds")["Fetch",]
            assert fetches.count == 2
            assert fetches.sum < -1000

    run(test)


def test_error_codes_are_counted_by_api_and_code_for_each_partition(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t", partitions=2)
            request = produce_request("t", build_batch(), build_batch(), build_batch(), build_batch())
            await client.call(ApiKey.PRODUCE, 7, request)
            assert (await client.fetch("t", 99)).error_code == 1
            assert (await client.fetch("unknown", 0)).error_code == 3
            assert _rows(broker, "raftka_kafka_errors_total") == {
                ("Produce", "UNKNOWN_TOPIC_OR_PARTITION"): 2,
                ("Fetch", "OFFSET_OUT_OF_RANGE"): 1,
                ("Fetch", "UNKNOWN_TOPIC_OR_PARTITION"): 1,
            }

    run(test)


def test_bytes_and_records_of_a_topic_are_counted_as_clients_write_and_read_them(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            batch = build_batch(b"a", b"bc", b"")
            assert (await client.produce("t", batch)).error_code == 0
            assert (await client.produce("t", b"nonsense" * 20)).error_code != 0
            assert (await client.produce("unknown", batch)).error_code != 0
            for _ in range(2):
                await client.fetch("t", 0)
            names = ("bytes_in", "records_in", "bytes_out", "records_out")
            found = {name: _rows(broker, f"raftka_topic_{name}_total") for name in names}
            assert found == {
                "bytes_in": {("t",): len(batch)},
                "records_in": {("t",): 3},
                "bytes_out": {("t",): 2 * len(batch)},
                "records_out": {("t",): 6},
            }

    run(test)


def test_a_topic_that_is_deleted_gives_its_series_back(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            await client.produce("t")
            assert ("t",) in _rows(broker, "raftka_topic_bytes_in_total")
            await client.call(ApiKey.DELETE_TOPICS, 1, DeleteTopicsRequest(topic_names=["t"], timeout_ms=10_000))
            await until(lambda: ("t",) not in _rows(broker, "raftka_topic_bytes_in_total"))
            # What ends after the deletion is added to the others.
            broker.server.traffic.count_in("t", 5, 1)
            assert _rows(broker, "raftka_topic_bytes_in_total") == {(OTHER,): 5}

    run(test)
