"""Which keys and versions are served, and by whom. What is not here is not advertised and closes the connection."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from kafka_api.handlers.alter_configs import handle_alter_configs, handle_incremental_alter_configs
from kafka_api.handlers.create_partitions import handle_create_partitions
from kafka_api.handlers.create_topics import handle_create_topics
from kafka_api.handlers.delete_records import handle_delete_records
from kafka_api.handlers.delete_topics import handle_delete_topics
from kafka_api.handlers.describe_cluster import handle_describe_cluster
from kafka_api.handlers.describe_configs import handle_describe_configs
from kafka_api.handlers.describe_topic_partitions import handle_describe_topic_partitions
from kafka_api.handlers.fetch import handle_fetch
from kafka_api.handlers.init_producer_id import handle_init_producer_id
from kafka_api.handlers.list_offsets import handle_list_offsets
from kafka_api.handlers.metadata import handle_metadata
from kafka_api.handlers.offset_for_leader_epoch import handle_offset_for_leader_epoch
from kafka_api.handlers.produce import handle_produce
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.request_context import RequestContext

# A response, a response that follows later (the next request may be read meanwhile), or None: no response.
Answer = Any | asyncio.Future[Any] | None
Handler = Callable[[RequestContext, int, Any], Awaitable[Answer]]


class Served(NamedTuple):
    """One API.

    Attributes:
        advertised_min: What ApiVersions says; below `first_version` only for Produce: a broker that advertises a
            minimum above 0 makes librdkafka before 2.11.1 send gzip, snappy and lz4 uncompressed (KAFKA-18659).
        first_version, last_version: What is implemented.
    """

    advertised_min: int
    first_version: int
    last_version: int
    handler: Handler


SERVED: dict[int, Served] = {
    ApiKey.PRODUCE: Served(0, 3, 13, handle_produce),
    ApiKey.FETCH: Served(4, 4, 18, handle_fetch),
    ApiKey.LIST_OFFSETS: Served(1, 1, 11, handle_list_offsets),
    ApiKey.METADATA: Served(0, 0, 13, handle_metadata),
    ApiKey.CREATE_TOPICS: Served(2, 2, 7, handle_create_topics),
    ApiKey.DELETE_TOPICS: Served(1, 1, 6, handle_delete_topics),
    ApiKey.DELETE_RECORDS: Served(0, 0, 2, handle_delete_records),
    ApiKey.INIT_PRODUCER_ID: Served(0, 0, 5, handle_init_producer_id),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Served(2, 2, 4, handle_offset_for_leader_epoch),
    ApiKey.DESCRIBE_CONFIGS: Served(1, 1, 4, handle_describe_configs),
    ApiKey.ALTER_CONFIGS: Served(0, 0, 2, handle_alter_configs),
    ApiKey.CREATE_PARTITIONS: Served(0, 0, 3, handle_create_partitions),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Served(0, 0, 1, handle_incremental_alter_configs),
    ApiKey.DESCRIBE_CLUSTER: Served(0, 0, 2, handle_describe_cluster),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Served(0, 0, 0, handle_describe_topic_partitions),
}

API_VERSIONS_RANGE = (0, 4)

ADVERTISED: dict[int, tuple[int, int]] = {
    **{int(key): (served.advertised_min, served.last_version) for key, served in SERVED.items()},
    int(ApiKey.API_VERSIONS): API_VERSIONS_RANGE,
}
