"""What is measured of clients: their connections and sessions, requests with latency and errors, and their traffic."""

from kafka_api.server import KafkaServer
from raftka.broker.metric_rows import Row, Rows


class KafkaCollector:
    """Reads one listener when it is asked."""

    def __init__(self, server: KafkaServer) -> None:
        self._server = server

    def rows(self, now: float) -> Rows:
        """Yield the rows of the listener."""
        server, figures = self._server, self._server.figures
        for api, version, count in figures.requests:
            yield Row("raftka_kafka_requests_total", count, (api, str(version)))
        durations = figures.durations
        for api, histogram in durations:
            yield Row("raftka_kafka_request_seconds", histogram, (api,))
        for api, histogram in durations:
            yield Row("raftka_kafka_request_max_seconds", histogram.longest(now), (api,))
        for api, code, count in figures.errors:
            yield Row("raftka_kafka_errors_total", count, (api, code))
        yield Row("raftka_kafka_connections", server.connection_count)
        yield Row("raftka_kafka_connections_max", server.connections_max)
        yield Row("raftka_kafka_connections_refused_total", server.refused_connections)
        yield Row("raftka_kafka_fetch_sessions", len(server.fetch_sessions))
        yield Row("raftka_kafka_fetch_session_bytes", server.fetch_sessions.counted_bytes)
        yield from self._topics()

    def _topics(self) -> Rows:
        topics = self._server.traffic.all()
        for name, traffic in topics:
            yield Row("raftka_topic_bytes_in_total", traffic.bytes_in, (name,))
        for name, traffic in topics:
            yield Row("raftka_topic_records_in_total", traffic.records_in, (name,))
        for name, traffic in topics:
            yield Row("raftka_topic_bytes_out_total", traffic.bytes_out, (name,))
        for name, traffic in topics:
            yield Row("raftka_topic_records_out_total", traffic.records_out, (name,))
