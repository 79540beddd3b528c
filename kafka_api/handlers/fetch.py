"""Fetch (1): visible batches from an offset on, waiting up to max_wait for min_bytes (long poll)."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from cluster.partition import Partition
from cluster.topic_table import Topic
from cluster.transactions.aborted import CommittedBatches
from kafka_api.error_mapping import error_code
from kafka_api.fetch_memory import FetchLease
from kafka_api.fetch_sessions import NO_SESSION, AskedPartition
from kafka_api.handlers.fetch_context import FetchSessionError, begin_fetch
from kafka_api.handlers.leader_hints import LeaderHints
from kafka_api.handlers.partition_lookup import find_leader, find_topic
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import FetchRequest, FetchResponse
from kafka_api.read_positions import ReadPositions
from kafka_api.request_context import RequestContext
from model.ids import Offset
from raft.errors import NotLeaderError
from storage.entry import Buffer
from storage.errors import StorageError
from storage.file_range import FileRange

_Partition = FetchResponse.PartitionData
_Asked = FetchRequest.FetchPartition
_Aborted = FetchResponse.AbortedTransaction

_READ_COMMITTED = 1
_NOT_KNOWN = -1
# Clients ask for 1 MiB of a partition, and Kafka's largest batch is 12 bytes larger.
_SLACK_BYTES = 64 * 1024
_FIRST_VERSION_WITH_TOPIC_ID = 13
# What a response has of an aborted transaction: two numbers of 8 bytes.
_ABORTED_BYTES = 16


@dataclass(slots=True)
class _Target:
    """One partition to read."""

    named: AskedPartition
    # From where on, and how much.
    asked: _Asked
    found: Partition | ErrorCode
    topic: Topic | ErrorCode
    result: _Partition
    # Only up to the last stable offset, and with the aborted transactions.
    read_committed: bool = False
    # Its read, where it was begun beside those of other partitions.
    begun: asyncio.Task[CommittedBatches] | None = None

    @property
    def offset(self) -> Offset:
        """From where on."""
        return Offset(self.asked.fetch_offset)

    @property
    def end(self) -> Offset:
        """Up to where the client may read, as the result tells."""
        result = self.result
        return Offset(result.last_stable_offset if self.read_committed else result.high_watermark)


async def handle_fetch(context: RequestContext, version: int, request: FetchRequest) -> FetchResponse:
    """Answer at once where there is enough, an error, or no wish to wait; else when something changes."""
    lease = context.fetch_lease
    await lease.begin()
    by_id = version >= _FIRST_VERSION_WITH_TOPIC_ID
    try:
        fetch = begin_fetch(request, context.fetch_sessions, by_id=by_id)
    except FetchSessionError as error:
        return FetchResponse(error_code=error.code, session_id=NO_SESSION, responses=[])
    loop = asyncio.get_running_loop()
    deadline = loop.time() + min(max(request.max_wait_ms / 1000, 0.0), context.options.fetch_wait_max)
    bytes_max = min(max(request.max_bytes, 0), context.options.fetch_bytes_max)
    bytes_min = min(max(request.min_bytes, 0), bytes_max)
    read_committed = request.isolation_level == _READ_COMMITTED
    while True:
        # Watch before reading: what becomes visible in between must not be missed.
        targets = _targets(context, fetch.asked(), by_id=by_id, read_committed=read_committed)
        changed = asyncio.Event()
        watched = [
            (target.found, target.found.watch(changed.set)) for target in targets if isinstance(target.found, Partition)
        ]
        try:
            total, is_final = await _fill(context, targets, bytes_max)
            if is_final or total >= bytes_min or loop.time() >= deadline:
                lease.shrink(sum(map(_bytes_in_memory, targets)))
                _note(context, targets)
                endpoints = _name_leaders(context, targets)
                response = fetch.respond([(target.named, target.result) for target in targets])
                response.node_endpoints = endpoints
                return response
            # Whoever waits holds no memory: what was read is read again.
            targets = []
            lease.drop()
            began = loop.time()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await changed.wait()
            context.chosen_wait.seconds += loop.time() - began
        finally:
            for partition, watcher in watched:
                partition.unwatch(watcher)


def _targets(
    context: RequestContext, asked: Sequence[AskedPartition], *, by_id: bool, read_committed: bool
) -> list[_Target]:
    targets: list[_Target] = []
    for named in asked:
        topic, asked_of = find_topic(context, named.topic, named.topic_id, by_id=by_id), named.fields
        number, epoch = asked_of.partition, asked_of.current_leader_epoch
        found = topic if isinstance(topic, ErrorCode) else find_leader(context, topic, number, epoch)
        # Never null records: librdkafka takes them for a malformed response, error or not, and drops all of it.
        result = _Partition(partition_index=number, high_watermark=-1, records=[], aborted_transactions=None)
        targets.append(_Target(named, asked_of, found, topic, result, read_committed))
    return targets


def _bytes_in_memory(target: _Target) -> int:
    records = target.result.records
    # As in `_note`. What leaves from files holds no memory.
    size = sum(len(each) for each in records if not isinstance(each, FileRange)) if isinstance(records, list) else 0
    return size + _ABORTED_BYTES * len(target.result.aborted_transactions or ())


def _note(context: RequestContext, targets: Sequence[_Target]) -> None:
    """Count what the response has of each topic, and note from where on the connection reads."""
    for target in targets:
        batches = target.result.records
        # `_take` makes lists; anything else has no batches.
        if batches and isinstance(batches, list) and isinstance(target.topic, Topic):
            context.traffic.count_out(target.topic.name, batches)
            context.read_positions.note(_partition(target).group, target.offset)


def _name_leaders(context: RequestContext, targets: Sequence[_Target]) -> list[FetchResponse.NodeEndpoint]:
    """Say in each result that has to whose partition it is; return where these brokers are."""
    hints = LeaderHints(context)
    for target in targets:
        leader = hints.leader_for(target.result.error_code, target.topic, target.asked.partition)
        if leader is not None:
            target.result.current_leader = FetchResponse.LeaderIdAndEpoch(
                leader_id=leader.node_id, leader_epoch=leader.term
            )
    return [
        FetchResponse.NodeEndpoint(node_id=broker.node_id, host=broker.kafka_host, port=broker.kafka_port)
        for broker in hints.brokers()
    ]


async def _fill(context: RequestContext, targets: Sequence[_Target], bytes_max: int) -> tuple[int, bool]:
    """Read for every target; return the bytes found, and whether the response is final, however few they are.

    It is with an error, and where memory did not allow more.
    """
    readable = [target for target in targets if _begin(target)]
    # Where nothing is asked for there is nothing to wait for.
    is_final = not targets or any(target.result.error_code or target.result.diverging_epoch for target in targets)
    if not readable:
        return 0, is_final
    asked = min(bytes_max, sum(max(target.asked.partition_max_bytes, 0) for target in readable))
    lease, positions = context.fetch_lease, context.read_positions
    granted = await lease.reserve(asked)
    if granted == 0:
        return 0, True
    is_final = is_final or granted < asked
    total = 0
    _begin_reads(readable, min(granted, bytes_max), positions)
    try:
        for target in readable:
            room = min(granted, bytes_max) - total
            if room <= 0 and total > 0:
                break
            total += await _read(target, room, total, lease, positions)
            is_final = is_final or target.result.error_code != 0
    finally:
        for target in readable:
            if target.begun is not None:
                target.begun.cancel()
    # RFC 0005 section 3: what is answered is counted until the client has taken it.
    assert total <= lease.granted
    return total, is_final or lease.granted == 0


def _begin(target: _Target) -> bool:
    """Set positions or the error of a target; return whether there is something to read."""
    found, result, asked = target.found, target.result, target.asked
    if isinstance(found, ErrorCode):
        _set_error(result, found)
        return False
    try:
        _tell_positions(target, found)
    except NotLeaderError as error:
        _set_error(result, error_code(error))
        return False
    result.aborted_transactions = [] if target.read_committed else None
    if _has_diverged(found, asked, result):
        return False
    if not found.start_offset <= asked.fetch_offset <= found.end_offset:
        _set_error(result, ErrorCode.OFFSET_OUT_OF_RANGE)
        return False
    # Between what may be seen and the end of the log there is nothing to see yet, and no error.
    return asked.fetch_offset < target.end


def _tell_positions(target: _Target, partition: Partition) -> None:
    """Set the positions as they are now.

    Raises:
        NotLeaderError: The client reads what is committed, and it is not known what is open.
    """
    result = target.result
    result.high_watermark = high_watermark = partition.high_watermark
    stable_end = partition.stable_end(high_watermark)
    if stable_end is None and target.read_committed:
        raise NotLeaderError(f"{partition.name}: it is not known what is open")
    result.last_stable_offset = _NOT_KNOWN if stable_end is None else stable_end
    result.log_start_offset = partition.start_offset


def _has_diverged(partition: Partition, asked: _Asked, result: _Partition) -> bool:
    """Compare the client's last epoch with the leader's; where its log is another, say where they part (KIP-595)."""
    if not 0 <= asked.last_fetched_epoch <= partition.leader_epoch:
        return False
    epoch, end = partition.epoch_end(asked.last_fetched_epoch)
    if epoch == asked.last_fetched_epoch and (asked.fetch_offset <= end or epoch == partition.leader_epoch):
        return False
    result.diverging_epoch = FetchResponse.EpochEndOffset(epoch=epoch, end_offset=end)
    return True


def _begin_reads(readable: Sequence[_Target], room: int, positions: ReadPositions) -> None:
    """Begin the reads that need files side by side, if there are several: one after the other they would add up."""
    if len(readable) < 2:
        return
    from_files = [not _is_in_memory(target) for target in readable]
    if sum(from_files) < 2:
        return
    for target, is_from_file in zip(readable, from_files, strict=True):
        # What the partitions before it may take at most is left to them: later it has this much room, or more.
        size = min(room, max(target.asked.partition_max_bytes, 0))
        room -= size
        partition = _partition(target)
        # A read returns one batch whatever its size. Only where that is no more than its room, memory stays bounded.
        if is_from_file and size + _SLACK_BYTES >= partition.config.max_message_bytes:
            target.begun = asyncio.get_running_loop().create_task(_batches(target, size, positions))
            target.begun.add_done_callback(_note_failure)


def _is_in_memory(target: _Target) -> bool:
    return _partition(target).is_in_memory(target.offset)


def _note_failure(read: asyncio.Task[CommittedBatches]) -> None:
    """Whoever asks for the batches is told; where there is no room for them, nobody is."""
    if not read.cancelled():
        read.exception()


def _partition(target: _Target) -> Partition:
    assert isinstance(target.found, Partition)
    return target.found


async def _batches(target: _Target, size: int, positions: ReadPositions) -> CommittedBatches:
    """Read; only a client that reads forward gets batches that were checked before, and are not checked again.

    At read_uncommitted there are no rows.
    """
    partition, offset = _partition(target), target.offset
    from_files = positions.reads_forward(partition.group, offset)
    if target.read_committed:
        return await partition.fetch_committed(offset, size, from_files=from_files)
    fetch = partition.fetch_to_send if from_files else partition.fetch
    return CommittedBatches(await fetch(offset, size), ())


async def _read(target: _Target, room: int, total: int, lease: FetchLease, positions: ReadPositions) -> int:
    """Read whole batches, and return the bytes of what is answered; `total` were read for targets before."""
    found, result, asked = _partition(target), target.result, target.asked
    room = min(room, asked.partition_max_bytes)
    while True:
        try:
            begun, target.begun = target.begun, None
            read = await (begun or _batches(target, max(room, 1), positions))
            # What became visible while others were read is in the batches: no record may be beyond the end that is
            # told.
            _tell_positions(target, found)
        except (StorageError, NotLeaderError) as error:
            _set_error(result, error_code(error))
            return 0
        size = _take(result, read, room, is_first=total == 0)
        del read
        if await lease.cover(total + size):
            return size
        # Only the first batch of a response, or its aborted transactions, may be larger than what is held: memory
        # first, then once more.
        _take_nothing(result)
        if lease.granted == 0:
            return 0


def _set_error(result: _Partition, code: ErrorCode) -> None:
    """Make the result what Kafka sends with an error: no positions, records of length 0."""
    result.error_code, result.records, result.aborted_transactions = code, [], None
    result.high_watermark = result.last_stable_offset = result.log_start_offset = -1


def _take(result: _Partition, read: CommittedBatches, room: int, *, is_first: bool) -> int:
    """Put whole batches into the result, the response's first one whatever its size (KIP-74).

    With them come the aborted transactions, in the order of their markers as in Kafka (KIP-98).
    """
    taken: list[Buffer | FileRange] = []
    size = 0
    for batch in read.batches:
        if size + len(batch) > room and not (is_first and not taken):
            break
        taken.append(batch)
        size += len(batch)
    result.records = taken
    if taken and read.aborted:
        result.aborted_transactions = [_Aborted(producer_id=each[0], first_offset=each[1]) for each in read.aborted]
        size += _ABORTED_BYTES * len(read.aborted)
    return size


def _take_nothing(result: _Partition) -> None:
    result.records = []
    if result.aborted_transactions:
        result.aborted_transactions = []
