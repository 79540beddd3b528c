"""Brokers with transactions, for tests of `raftka txn`: they take requests as bytes, and answer by the broker's codec."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.codec import decode_request, decode_request_header, encode_response
from kafka_api.protocol.messages import (
    ApiVersionsResponse,
    DescribeProducersResponse,
    DescribeTransactionsResponse,
    FindCoordinatorResponse,
    ListTransactionsResponse,
    WriteTxnMarkersResponse,
)
from raftka.kafka.client import ClusterInfo, PartitionInfo
from raftka.kafka.wire.fields import Reader, i16, i32, string
from raftka.kafka.wire.requests import Request

CLUSTER = ClusterInfo(
    "c",
    1,
    {1: "127.0.0.1:1", 2: "127.0.0.1:2"},
    {
        "__transaction_state": [PartitionInfo(0, 2, [2], [2])],
        "orders": [PartitionInfo(0, 1, [1], [1]), PartitionInfo(1, 2, [2], [2])],
        "payments": [PartitionInfo(0, -1, [3], [])],
    },
)


@dataclass
class Held:
    """A transactional id at its coordinator."""

    state: str
    producer_id: int
    partitions: list[tuple[str, int]] = field(default_factory=list)
    started_ms: int = -1


@dataclass(frozen=True)
class Open:
    """A transaction that is open in a partition."""

    producer_id: int
    start_offset: int
    last_timestamp: int = 1_000
    epoch: int = 5
    coordinator_epoch: int = -1


@dataclass
class TransactionBrokers:
    """Two brokers; the second one coordinates every id.

    Attributes:
        held: By transactional id.
        producers: What is open in each partition.
        offered: Features that each broker offers: (lowest, highest).
        levels: Levels of features that are in force.
        errors: Codes that are answered by API key, the next one last; none are left: no error.
        markers: The aborts that were asked for: (partition, producer id, epoch, coordinator epoch).
        ends_meanwhile: Producers whose transactions end when a coordinator is asked.
        config: The configuration of each broker, as far as it tells.
    """

    held: dict[str, Held] = field(default_factory=dict)
    producers: dict[tuple[str, int], list[Open]] = field(default_factory=dict)
    offered: dict[str, tuple[int, int]] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=dict)
    errors: dict[ApiKey, list[int]] = field(default_factory=dict)
    markers: list[tuple[tuple[str, int], int, int, int]] = field(default_factory=list)
    ends_meanwhile: set[int] = field(default_factory=set)

    def ask(self, node_id: int, address: str, request: Request[Any], _: float = 0.0) -> Any:
        """Answer as `one_broker.ask`."""
        assert CLUSTER.brokers[node_id] == address
        head = i16(request.api_key) + i16(request.version) + i32(7) + string("raftka")
        frame = head + request.body
        where = decode_request_header(frame).body_position
        message = decode_request(request.api_key, request.version, frame, where)
        handlers: Mapping[ApiKey, Callable[[int, Any], Any]] = {
            ApiKey.API_VERSIONS: self._api_versions,
            ApiKey.FIND_COORDINATOR: self._find_coordinator,
            ApiKey.LIST_TRANSACTIONS: self._list,
            ApiKey.DESCRIBE_TRANSACTIONS: self._describe,
            ApiKey.DESCRIBE_PRODUCERS: self._describe_producers,
            ApiKey.WRITE_TXN_MARKERS: self._write_markers,
        }
        answer = handlers[ApiKey(request.api_key)](node_id, message)
        encoded = b"".join(bytes(each) for each in encode_response(request.api_key, request.version, 7, answer))
        return request.read(Reader(encoded[8:]))

    def _error(self, key: ApiKey) -> int:
        errors = self.errors.get(key)
        return errors.pop() if errors else 0

    def _api_versions(self, _: int, __: Any) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=[],
            supported_features=[
                ApiVersionsResponse.SupportedFeatureKey(name=name, min_version=low, max_version=high)
                for name, (low, high) in self.offered.items()
            ],
            finalized_features=[
                ApiVersionsResponse.FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
                for name, level in self.levels.items()
            ],
        )

    def _find_coordinator(self, _: int, request: Any) -> FindCoordinatorResponse:
        assert request.key_type == 1
        error = self._error(ApiKey.FIND_COORDINATOR)
        return FindCoordinatorResponse(error_code=error, node_id=2, host="127.0.0.1", port=2)

    def _list(self, node_id: int, request: Any) -> ListTransactionsResponse:
        for partition, found in self.producers.items():
            self.producers[partition] = [each for each in found if each.producer_id not in self.ends_meanwhile]
        states = [
            ListTransactionsResponse.TransactionState(
                transactional_id=name, producer_id=each.producer_id, transaction_state=each.state
            )
            for name, each in self.held.items()
            if node_id == 2
            and (not request.state_filters or each.state in request.state_filters)
            and (not request.producer_id_filters or each.producer_id in request.producer_id_filters)
        ]
        unknown = [each for each in request.state_filters if each == "PrepareEpochFence"]
        error = self._error(ApiKey.LIST_TRANSACTIONS)
        return ListTransactionsResponse(
            error_code=error, unknown_state_filters=unknown, transaction_states=[] if error else states
        )

    def _describe(self, node_id: int, request: Any) -> DescribeTransactionsResponse:
        assert node_id == 2
        (name,) = request.transactional_ids
        if name not in self.held:
            unknown = DescribeTransactionsResponse.TransactionState(error_code=105, transactional_id=name, topics=[])
            return DescribeTransactionsResponse(transaction_states=[unknown])
        held = self.held[name]
        topics: dict[str, list[int]] = {}
        for topic, number in held.partitions:
            topics.setdefault(topic, []).append(number)
        found = DescribeTransactionsResponse.TransactionState(
            transactional_id=name,
            transaction_state=held.state,
            transaction_timeout_ms=60_000,
            transaction_start_time_ms=held.started_ms,
            producer_id=held.producer_id,
            producer_epoch=5,
            topics=[DescribeTransactionsResponse.TopicData(topic=key, partitions=each) for key, each in topics.items()],
        )
        return DescribeTransactionsResponse(transaction_states=[found])

    def _describe_producers(self, node_id: int, request: Any) -> DescribeProducersResponse:
        topics = []
        for topic in request.topics:
            partitions = []
            for number in topic.partition_indexes:
                assert CLUSTER.topics[topic.name][number].leader == node_id
                # One that has ended its transaction, beside those that have not.
                idle = Open(1, -1)
                error = self._error(ApiKey.DESCRIBE_PRODUCERS)
                known = [] if error else [idle, *self.producers.get((topic.name, number), [])]
                partitions.append(
                    DescribeProducersResponse.PartitionResponse(
                        partition_index=number,
                        error_code=error,
                        active_producers=[
                            DescribeProducersResponse.ProducerState(
                                producer_id=each.producer_id,
                                producer_epoch=each.epoch,
                                last_sequence=0,
                                last_timestamp=each.last_timestamp,
                                coordinator_epoch=each.coordinator_epoch,
                                current_txn_start_offset=each.start_offset,
                            )
                            for each in known
                        ],
                    )
                )
            topics.append(DescribeProducersResponse.TopicResponse(name=topic.name, partitions=partitions))
        return DescribeProducersResponse(topics=topics)

    def _write_markers(self, node_id: int, request: Any) -> WriteTxnMarkersResponse:
        (marker,) = request.markers
        (topic,) = marker.topics
        (number,) = topic.partition_indexes
        assert CLUSTER.topics[topic.name][number].leader == node_id
        assert not marker.transaction_result
        asked = ((topic.name, number), marker.producer_id, marker.producer_epoch, marker.coordinator_epoch)
        self.markers.append(asked)
        result = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(
            partition_index=number, error_code=self._error(ApiKey.WRITE_TXN_MARKERS)
        )
        told = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(name=topic.name, partitions=[result])
        return WriteTxnMarkersResponse(
            markers=[WriteTxnMarkersResponse.WritableTxnMarkerResult(producer_id=marker.producer_id, topics=[told])]
        )
