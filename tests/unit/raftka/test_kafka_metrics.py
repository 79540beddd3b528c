"""What the Kafka listener tells of itself on /metrics."""

import asyncio

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.messages import ApiVersionsRequest
from raftka.broker.kafka_metrics import KafkaCollector
from raftka.broker.loop_watch import LoopWatch
from raftka.broker.metrics import render_metrics
from tests.unit.cluster.cluster_nodes import run
from tests.unit.kafka_api.wire_client import broker_in, fetch_request


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
            text = render_metrics(broker.node, (LoopWatch(), KafkaCollector(broker.server)))
            told = [line for line in text.splitlines() if line.startswith("raftka_kafka_")]
            assert told == [
                'raftka_kafka_requests_total{api="Fetch",version="4"} 1.0',
                'raftka_kafka_requests_total{api="Fetch",version="13"} 3.0',
                'raftka_kafka_requests_total{api="ApiVersions",version="0"} 1.0',
                'raftka_kafka_requests_total{api="ApiVersions",version="3"} 2.0',
                'raftka_kafka_requests_total{api="ApiVersions",version="4"} 1.0',
                'raftka_kafka_requests_total{api="CreateTopics",version="7"} 1.0',
                "raftka_kafka_connections 1.0",
                "raftka_kafka_fetch_sessions 3.0",
                f"raftka_kafka_fetch_session_bytes {float(broker.server.fetch_sessions.counted_bytes)}",
            ]
            assert "raftka_loop_lag_seconds" in text

    run(test)
