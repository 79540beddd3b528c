"""Which keys and versions are served, and by whom. What is not here is not advertised and closes the connection."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from kafka_api.handlers.acls import handle_create_acls, handle_delete_acls, handle_describe_acls
from kafka_api.handlers.add_offsets_to_txn import handle_add_offsets_to_txn
from kafka_api.handlers.add_partitions_to_txn import handle_add_partitions_to_txn
from kafka_api.handlers.alter_configs import handle_alter_configs, handle_incremental_alter_configs
from kafka_api.handlers.alter_partition_reassignments import handle_alter_partition_reassignments
from kafka_api.handlers.client_quotas import handle_alter_client_quotas, handle_describe_client_quotas
from kafka_api.handlers.create_partitions import handle_create_partitions
from kafka_api.handlers.create_topics import handle_create_topics
from kafka_api.handlers.delete_groups import handle_delete_groups
from kafka_api.handlers.delete_records import handle_delete_records
from kafka_api.handlers.delete_topics import handle_delete_topics
from kafka_api.handlers.describe_cluster import handle_describe_cluster
from kafka_api.handlers.describe_configs import handle_describe_configs
from kafka_api.handlers.describe_groups import handle_describe_groups
from kafka_api.handlers.describe_log_dirs import handle_describe_log_dirs
from kafka_api.handlers.describe_producers import handle_describe_producers
from kafka_api.handlers.describe_quorum import handle_describe_quorum
from kafka_api.handlers.describe_topic_partitions import handle_describe_topic_partitions
from kafka_api.handlers.elect_leaders import handle_elect_leaders
from kafka_api.handlers.end_txn import handle_end_txn
from kafka_api.handlers.fetch import handle_fetch
from kafka_api.handlers.find_coordinator import handle_find_coordinator
from kafka_api.handlers.heartbeat import handle_heartbeat
from kafka_api.handlers.init_producer_id import handle_init_producer_id
from kafka_api.handlers.join_group import handle_join_group
from kafka_api.handlers.leave_group import handle_leave_group
from kafka_api.handlers.list_config_resources import handle_list_config_resources
from kafka_api.handlers.list_groups import handle_list_groups
from kafka_api.handlers.list_offsets import handle_list_offsets
from kafka_api.handlers.list_partition_reassignments import handle_list_partition_reassignments
from kafka_api.handlers.metadata import handle_metadata
from kafka_api.handlers.offset_commit import handle_offset_commit
from kafka_api.handlers.offset_delete import handle_offset_delete
from kafka_api.handlers.offset_fetch import handle_offset_fetch
from kafka_api.handlers.offset_for_leader_epoch import handle_offset_for_leader_epoch
from kafka_api.handlers.produce import handle_produce
from kafka_api.handlers.sasl_handshake import handle_sasl_handshake
from kafka_api.handlers.scram_credentials import (
    handle_alter_user_scram_credentials,
    handle_describe_user_scram_credentials,
)
from kafka_api.handlers.sync_group import handle_sync_group
from kafka_api.handlers.transactions import handle_describe_transactions, handle_list_transactions
from kafka_api.handlers.txn_offset_commit import handle_txn_offset_commit
from kafka_api.handlers.update_features import handle_update_features
from kafka_api.handlers.write_txn_markers import handle_write_txn_markers
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
    ApiKey.OFFSET_COMMIT: Served(2, 2, 9, handle_offset_commit),
    ApiKey.OFFSET_FETCH: Served(1, 1, 9, handle_offset_fetch),
    ApiKey.FIND_COORDINATOR: Served(0, 0, 6, handle_find_coordinator),
    ApiKey.JOIN_GROUP: Served(0, 0, 9, handle_join_group),
    ApiKey.HEARTBEAT: Served(0, 0, 4, handle_heartbeat),
    ApiKey.LEAVE_GROUP: Served(0, 0, 5, handle_leave_group),
    ApiKey.SYNC_GROUP: Served(0, 0, 5, handle_sync_group),
    ApiKey.DESCRIBE_GROUPS: Served(0, 0, 6, handle_describe_groups),
    ApiKey.LIST_GROUPS: Served(0, 0, 5, handle_list_groups),
    ApiKey.SASL_HANDSHAKE: Served(0, 0, 1, handle_sasl_handshake),
    ApiKey.CREATE_TOPICS: Served(2, 2, 7, handle_create_topics),
    ApiKey.DELETE_TOPICS: Served(1, 1, 6, handle_delete_topics),
    ApiKey.DELETE_RECORDS: Served(0, 0, 2, handle_delete_records),
    ApiKey.INIT_PRODUCER_ID: Served(0, 0, 5, handle_init_producer_id),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Served(2, 2, 4, handle_offset_for_leader_epoch),
    ApiKey.DESCRIBE_ACLS: Served(1, 1, 3, handle_describe_acls),
    ApiKey.CREATE_ACLS: Served(1, 1, 3, handle_create_acls),
    ApiKey.DELETE_ACLS: Served(1, 1, 3, handle_delete_acls),
    ApiKey.DESCRIBE_CONFIGS: Served(1, 1, 4, handle_describe_configs),
    ApiKey.ALTER_CONFIGS: Served(0, 0, 2, handle_alter_configs),
    ApiKey.DESCRIBE_LOG_DIRS: Served(1, 1, 5, handle_describe_log_dirs),
    ApiKey.CREATE_PARTITIONS: Served(0, 0, 3, handle_create_partitions),
    ApiKey.DELETE_GROUPS: Served(0, 0, 2, handle_delete_groups),
    ApiKey.ELECT_LEADERS: Served(0, 0, 2, handle_elect_leaders),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Served(0, 0, 1, handle_incremental_alter_configs),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Served(0, 0, 1, handle_alter_partition_reassignments),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Served(0, 0, 0, handle_list_partition_reassignments),
    ApiKey.OFFSET_DELETE: Served(0, 0, 0, handle_offset_delete),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Served(0, 0, 1, handle_describe_client_quotas),
    ApiKey.ALTER_CLIENT_QUOTAS: Served(0, 0, 1, handle_alter_client_quotas),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Served(0, 0, 0, handle_describe_user_scram_credentials),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Served(0, 0, 0, handle_alter_user_scram_credentials),
    ApiKey.DESCRIBE_QUORUM: Served(0, 0, 2, handle_describe_quorum),
    ApiKey.UPDATE_FEATURES: Served(0, 0, 2, handle_update_features),
    ApiKey.DESCRIBE_CLUSTER: Served(0, 0, 2, handle_describe_cluster),
    ApiKey.DESCRIBE_PRODUCERS: Served(0, 0, 0, handle_describe_producers),
    ApiKey.DESCRIBE_TRANSACTIONS: Served(0, 0, 0, handle_describe_transactions),
    ApiKey.LIST_TRANSACTIONS: Served(0, 0, 2, handle_list_transactions),
    ApiKey.LIST_CONFIG_RESOURCES: Served(0, 0, 1, handle_list_config_resources),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Served(0, 0, 0, handle_describe_topic_partitions),
}

# These, too, from level 1 of `transaction.version` on.
OF_TRANSACTIONS: dict[int, Served] = {
    ApiKey.ADD_PARTITIONS_TO_TXN: Served(0, 0, 5, handle_add_partitions_to_txn),
    ApiKey.ADD_OFFSETS_TO_TXN: Served(0, 0, 4, handle_add_offsets_to_txn),
    ApiKey.END_TXN: Served(0, 0, 5, handle_end_txn),
    ApiKey.WRITE_TXN_MARKERS: Served(1, 1, 2, handle_write_txn_markers),
    ApiKey.TXN_OFFSET_COMMIT: Served(0, 0, 5, handle_txn_offset_commit),
}

API_VERSIONS_RANGE = (0, 4)


def _ranges(served: dict[int, Served]) -> dict[int, tuple[int, int]]:
    return {int(key): (each.advertised_min, each.last_version) for key, each in served.items()}


ADVERTISED: dict[int, tuple[int, int]] = {**_ranges(SERVED), int(ApiKey.API_VERSIONS): API_VERSIONS_RANGE}
# Where the cluster uses transactions.
ADVERTISED_WITH_TRANSACTIONS: dict[int, tuple[int, int]] = {**ADVERTISED, **_ranges(OF_TRANSACTIONS)}


def find_served(key: int, has_transactions: Callable[[], bool]) -> Served | None:
    """Return who serves a key; None: nobody does. Only keys that others lack cost a look at `has_transactions`."""
    served = SERVED.get(key)
    return OF_TRANSACTIONS.get(key) if served is None and has_transactions() else served


def advertised(*, has_transactions: bool) -> dict[int, tuple[int, int]]:
    """Return what ApiVersions says: the first and the last version of each key."""
    return ADVERTISED_WITH_TRANSACTIONS if has_transactions else ADVERTISED
