"""Offsets that are committed in a transaction (KIP-447): membership, admission, one batch (RFC 0021, section 8).

member?  ->  guard  ->  coordinator of the transaction  ->  member?  ->  batch with the guard
             only if nothing of the producer is open in the group's partition
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from cluster.groups.records import CommittedOffset, OffsetKey
from cluster.transactions.admission import PartitionName
from kafka_api.coordinators.shared_writes import TransactionalBatch
from kafka_api.groups.coordinated_partition import CoordinatedPartition
from kafka_api.groups.coordinator import GroupCoordinator
from kafka_api.groups.group_events import Identity
from kafka_api.protocol.error_codes import ErrorCode
from model.record_batch import BatchProducer

# A guard that has changed since it was taken is taken once more, before the client is told to come again.
_TRIES = 2

# Asks the coordinator of the transaction whether a partition may belong to it, before a time (loop time).
Ask = Callable[[PartitionName, float], Awaitable[ErrorCode]]


class TransactionalCommit(NamedTuple):
    """Whose offsets they are, and the producer in whose transaction they are committed."""

    group_id: str
    identity: Identity
    offsets: Mapping[tuple[str, int], CommittedOffset]
    producer: BatchProducer

    def check(self, active: CoordinatedPartition) -> ErrorCode:
        """Whether the member may commit now."""
        return active.check_commit(self.group_id, self.identity, is_transactional=True)


async def commit_in_transaction(
    groups: GroupCoordinator, commit: TransactionalCommit, ask: Ask
) -> "ErrorCode | asyncio.Future[ErrorCode]":
    """Write the offsets as pending ones; a future is done once they are on the disks of a majority.

    Whoever opens a transaction in the partition waits here until the batch is in the log or refused.
    """
    error = ErrorCode.NONE
    for _ in range(_TRIES):
        active = groups.locate_named(commit.group_id)
        if isinstance(active, ErrorCode):
            return active
        error = commit.check(active)
        if error is not ErrorCode.NONE or not commit.offsets:
            return error
        records = [(OffsetKey(commit.group_id, *place), each) for place, each in commit.offsets.items()]
        payload = active.transactional_batch(records, commit.producer)
        if isinstance(payload, ErrorCode):
            return payload
        batch = TransactionalBatch(payload, len(records), None)
        if not active.state.opens_transaction(payload):
            return active.write_in_transaction(commit.group_id, batch)
        # Before the question: a marker that comes while the answer is on its way must change it.
        batch = batch._replace(guard=active.state.fences.guard(commit.producer.producer_id))
        error = await _write_admitted(active, commit, batch, ask, groups.options.write_timeout_ms / 1000)
        if error is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return error
    return error


async def _write_admitted(
    active: CoordinatedPartition, commit: TransactionalCommit, batch: TransactionalBatch, ask: Ask, timeout: float
) -> ErrorCode:
    partition = active.partition
    deadline = asyncio.get_running_loop().time() + timeout
    error = await ask((partition.topic.name, partition.partition), deadline)
    if error is not ErrorCode.NONE:
        return error
    if not active.is_current:
        return ErrorCode.NOT_COORDINATOR
    # The group may have gone on meanwhile: a member that was replaced must not commit.
    error = commit.check(active)
    if error is not ErrorCode.NONE:
        return error
    return await active.write_in_transaction(commit.group_id, batch)
