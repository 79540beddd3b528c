"""The Kafka listener's metrics: its connections, what they ask in which versions, and the sessions of consumers."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kafka_api.server import KafkaServer


class KafkaCollector(Collector):
    """Reads one listener when it is asked."""

    def __init__(self, server: KafkaServer) -> None:
        self._server = server

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        requests = CounterMetricFamily(
            "raftka_kafka_requests", "Requests handled, by API and version.", labels=["api", "version"]
        )
        for api, version, count in self._server.request_counts:
            requests.add_metric([api, str(version)], count)
        yield requests
        yield GaugeMetricFamily("raftka_kafka_connections", "Open client connections.", self._server.connection_count)
        sessions = self._server.fetch_sessions
        yield GaugeMetricFamily("raftka_kafka_fetch_sessions", "Fetch sessions of consumers.", len(sessions))
        yield GaugeMetricFamily(
            "raftka_kafka_fetch_session_bytes", "Memory counted for fetch sessions.", sessions.counted_bytes
        )
