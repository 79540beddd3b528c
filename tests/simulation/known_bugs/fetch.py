"""Bugs where consumers are answered (Kafka's Fetch and ListOffsets)."""

import pytest

import cluster.visible_ends
import kafka_api.groups.lag
import kafka_api.handlers.fetch
import kafka_api.handlers.list_offsets
from cluster.health_counts import HealthCounts
from cluster.partition import Partition
from cluster.partition_reader import PartitionReader
from cluster.readable_end import ReadableEnd
from kafka_api.groups.coordinated_partition import CoordinatedPartition
from kafka_api.handlers.list_offsets import EARLIEST_LOCAL
from kafka_api.handlers.partition_lookup import find_leader
from kafka_api.protocol.error_codes import ErrorCode
from model.ids import Index, Offset
from model.record_batch import read_header
from model.record_codec import RecordPosition
from raft.errors import NotLeaderError
from storage.entry import EntryKind
from tests.engine import consensus_of


def high_watermark_is_the_end_of_the_leaders_log(patch: pytest.MonkeyPatch) -> None:
    """The high watermark is what the leader has written, and consumers are given everything below it."""
    patch.setattr(ReadableEnd, "high_watermark", property(lambda end: end._consensus.log.next_offset))
    fetch_is_not_bounded(patch)


def fetch_is_not_bounded(patch: pytest.MonkeyPatch) -> None:
    """A fetch returns whatever the leader's log holds."""

    async def fetch(reader: PartitionReader, offset, max_bytes, **_how):
        log = reader._log
        first = await log.reader.index_of_offset(offset)
        while first <= log.dirty_index:
            entries = await log.read(first, max_bytes)
            batches = [entry.payload for entry in entries if entry.kind is EntryKind.DATA]
            if batches or not entries:
                return batches
            first = Index(entries[-1].index + 1)
        return []

    patch.setattr(PartitionReader, "fetch", fetch)


def told_high_watermark_is_the_end_of_the_log(patch: pytest.MonkeyPatch) -> None:
    """Fetch tells the end of the leader's log as the high watermark; it returns no more than is visible."""
    tell = kafka_api.handlers.fetch._tell_positions

    def tell_the_end(target, partition: Partition) -> None:
        tell(target, partition)
        target.result.high_watermark = partition.end_offset

    patch.setattr(kafka_api.handlers.fetch, "_tell_positions", tell_the_end)


def empty_fetch_tells_the_start_of_the_log(patch: pytest.MonkeyPatch) -> None:
    """A fetch that finds nothing tells the first offset as the high watermark."""
    begin = kafka_api.handlers.fetch._begin

    def begin_and_tell_the_start(target, **options) -> bool:
        is_there = begin(target, **options)
        if not is_there and not target.result.error_code:
            target.result.high_watermark = target.result.log_start_offset
        return is_there

    patch.setattr(kafka_api.handlers.fetch, "_begin", begin_and_tell_the_start)


def fetch_leaves_out_a_batch(patch: pytest.MonkeyPatch) -> None:
    """A fetch that finds several batches leaves out the second one."""
    fetch = PartitionReader.fetch

    async def fetch_with_a_gap(reader: PartitionReader, offset, max_bytes, **how):
        batches = await fetch(reader, offset, max_bytes, **how)
        return batches[:1] + batches[2:]

    patch.setattr(PartitionReader, "fetch", fetch_with_a_gap)


def fetch_begins_behind_the_offset(patch: pytest.MonkeyPatch) -> None:
    """A fetch begins with the batch behind the one that holds the offset, if there is one."""
    fetch = PartitionReader.fetch

    async def fetch_later(reader: PartitionReader, offset, max_bytes, **how):
        later = Offset(offset + 1)
        return await fetch(reader, later if later < reader._end.high_watermark else offset, max_bytes, **how)

    patch.setattr(PartitionReader, "fetch", fetch_later)


def fetch_reads_the_neighbour(patch: pytest.MonkeyPatch) -> None:
    """A fetch reads the next partition of its topic where this broker leads that one as well."""

    def find(context, topic, number, client_epoch=-1):
        found = find_leader(context, topic, number, client_epoch)
        neighbour = find_leader(context, topic, (number + 1) % len(topic.replicas))
        return found if isinstance(found, ErrorCode) or isinstance(neighbour, ErrorCode) else neighbour

    patch.setattr(kafka_api.handlers.fetch, "find_leader", find)


def latest_is_read_from_any_replica(patch: pytest.MonkeyPatch) -> None:
    """ListOffsets is answered by whoever has a replica, by what that one knows."""

    def find(context, topic, number, client_epoch=-1):
        partition = context.node.partitions.get(topic.group(number))
        return find_leader(context, topic, number, client_epoch) if partition is None else partition

    _latest_is_not_confirmed(patch)
    patch.setattr(kafka_api.handlers.list_offsets, "find_leader", find)


def latest_is_not_confirmed(patch: pytest.MonkeyPatch) -> None:
    """ListOffsets is answered by a leader that may have been deposed without knowing it."""
    _latest_is_not_confirmed(patch)


def _latest_is_not_confirmed(patch: pytest.MonkeyPatch) -> None:
    read = kafka_api.handlers.list_offsets._Read

    def begin(partition, timestamp, result, *, read_committed):
        end, epoch = partition.high_watermark, partition.leader_epoch
        return read(partition, timestamp, result, end, epoch, read_committed, None)

    patch.setattr(kafka_api.handlers.list_offsets, "_begin", begin)


def latest_is_the_last_record(patch: pytest.MonkeyPatch) -> None:
    """ListOffsets latest is the offset of the last record, not the one behind it."""
    whole_begin = kafka_api.handlers.list_offsets._begin

    def begin(partition, timestamp, result, **how):
        found = whole_begin(partition, timestamp, result, **how)
        found.end = Offset(max(partition.start_offset, found.end - 1))
        return found

    patch.setattr(kafka_api.handlers.list_offsets, "_begin", begin)


def latest_is_the_end_of_the_leaders_log(patch: pytest.MonkeyPatch) -> None:
    """ListOffsets latest is what the leader has written, whether or not a majority has it."""
    whole_begin = kafka_api.handlers.list_offsets._begin

    def begin(partition, timestamp, result, **how):
        found = whole_begin(partition, timestamp, result, **how)
        found.end = partition.end_offset
        return found

    patch.setattr(kafka_api.handlers.list_offsets, "_begin", begin)


def local_start_is_that_of_a_batch(patch: pytest.MonkeyPatch) -> None:
    """ListOffsets earliest-local is where the first batch begins, though DeleteRecords may have cut it in two."""
    answer = kafka_api.handlers.list_offsets._answer

    async def answer_whole_batches(context, read) -> None:
        await answer(context, read)
        if read.timestamp == EARLIEST_LOCAL:
            read.result.offset = read.partition._log.start.base_offset

    patch.setattr(kafka_api.handlers.list_offsets, "_answer", answer_whole_batches)


def timestamps_are_found_by_batch(patch: pytest.MonkeyPatch) -> None:
    """ListOffsets by timestamp is answered with the first record of the batch that holds the wanted one."""

    async def first_record(workers, batch, timestamp, start):
        return RecordPosition(read_header(batch).base_offset, read_header(batch).max_timestamp)

    patch.setattr(kafka_api.handlers.list_offsets, "first_record_at", first_record)


def every_epoch_ends_with_the_log(patch: pytest.MonkeyPatch) -> None:
    """OffsetForLeaderEpoch is answered with the high watermark, whatever epoch is asked for: no client truncates."""
    patch.setattr(Partition, "epoch_end", lambda partition, epoch: (partition.leader_epoch, partition.high_watermark))


def followers_serve_what_they_have_written(patch: pytest.MonkeyPatch) -> None:
    """A fetch is served by any replica, up to the end of its log."""

    def find(context, topic, number, client_epoch=-1):
        partition = context.node.partitions.get(topic.group(number))
        return find_leader(context, topic, number, client_epoch) if partition is None else partition

    patch.setattr(kafka_api.handlers.fetch, "find_leader", find)
    patch.setattr(Partition, "is_in_office", property(lambda partition: True))

    async def in_term(reader: PartitionReader, term, read):
        found = await read
        if reader._consensus.term != term:
            raise NotLeaderError(f"epoch {term} ended while the log was read")
        return found

    patch.setattr(PartitionReader, "_in_term", in_term)
    # What the broker reports of itself stays true: the judges of reports would object at once, and nobody would read.
    patch.setattr(HealthCounts, "counts_as_led", staticmethod(lambda partition: consensus_of(partition).is_in_office))

    def visible_end(partition: Partition | None):
        consensus = None if partition is None else consensus_of(partition)
        in_office = consensus is not None and consensus.is_in_office
        return consensus.log.end_offset(consensus.state.visible_index) if in_office else None

    def is_keeper(active: CoordinatedPartition) -> bool:
        return active.is_loaded and active.is_current and consensus_of(active.partition).is_in_office

    patch.setattr(cluster.visible_ends, "_visible_end", visible_end)
    patch.setattr(kafka_api.groups.lag, "_is_keeper", is_keeper)
    high_watermark_is_the_end_of_the_leaders_log(patch)
