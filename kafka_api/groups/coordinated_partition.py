"""The groups of one partition of `__consumer_offsets`, while this broker leads it in one term.

What is committed is read from the replica's table, which every replica keeps (`cluster.groups.offsets_log_state`).
What is written carries the term, and is refused in another one. So nothing that this object answers outlives its term.
"""

import asyncio
import logging
from collections.abc import Collection, Sequence

from cluster.groups.group_table import GroupTable
from cluster.groups.offsets_log_state import OffsetsLogState
from cluster.groups.offsets_topic import OFFSETS_LEVEL
from cluster.groups.records import GroupKey, Key, OffsetKey, StoredGroup, Value, encode_record
from cluster.partition import Partition
from kafka_api.coordinators.coordinator_errors import coordinator_error
from kafka_api.coordinators.shared_writes import SharedWrites, TransactionalBatch
from kafka_api.groups.deletion_parts import deletion_parts
from kafka_api.groups.expiry import expired_offsets
from kafka_api.groups.group import Group, GroupState
from kafka_api.groups.group_events import Identity
from kafka_api.groups.held_group import HeldGroup
from kafka_api.groups.member_memory import MemberMemory
from kafka_api.groups.options import GroupOptions
from kafka_api.groups.subscription import CONSUMER, consumed_topics
from kafka_api.options import OptionsInForce
from kafka_api.protocol.error_codes import ErrorCode
from model.ids import Index
from model.key_value_batch import KeyValue, encode_key_values
from model.record_batch import BatchProducer
from raft.errors import RaftError
from runtime.clock import WallClock

_GROUPS_PER_STEP = 50
# What a batch and each of its records take beside keys and values, at most.
_BATCH_BYTES = 128
_RECORD_BYTES = 32
_logger = logging.getLogger("kafka.groups")


class CoordinatedPartition:
    """See the module. A `held_group.Writer`.

    Attributes:
        is_loaded: The members of its groups are known, and their sessions are watched.
    """

    def __init__(
        self,
        partition: Partition,
        state: OffsetsLogState,
        in_force: OptionsInForce,
        wall_clock: WallClock,
        memory: MemberMemory,
    ) -> None:
        self.partition = partition
        self.state = state
        self.term = partition.leader_epoch
        self.is_loaded = False
        self._in_force = in_force
        self._wall_clock = wall_clock
        self._memory = memory
        self._held: dict[str, HeldGroup] = {}
        # Those that may be dropped once the table knows what was written of them.
        self._idle: dict[str, HeldGroup] = {}
        self._is_ended = False
        timeout = self._options.write_timeout_ms / 1000
        self._writes = SharedWrites(partition, self.term, OFFSETS_LEVEL, timeout, self.now_ms, coordinator_error)
        state.on_applied = self._drop_idle

    @property
    def _options(self) -> GroupOptions:
        return self._in_force.current.groups

    @property
    def table(self) -> GroupTable:
        """What is committed."""
        return self.state.table

    @property
    def is_current(self) -> bool:
        """Whether the replica still leads in the term in which this began."""
        return not self._is_ended and self.partition.is_in_office and self.partition.leader_epoch == self.term

    async def load(self) -> None:
        """Wait until the table is as of this term, and begin to watch the sessions of all members."""
        await self.state.wait_applied(self.partition.barrier_index)
        count = 0
        for number, group_id in enumerate(self.table.group_ids(), start=1):
            stored = self.table.group(group_id)
            if stored is not None and stored.members and self.is_current:
                self.hold(group_id)
                count += 1
            if number % _GROUPS_PER_STEP == 0:
                await asyncio.sleep(0)
        self.is_loaded = self.is_current
        if self.is_loaded:
            self.partition.logger_of(_logger.name).info("coordinator of %d groups with members", count)

    def end(self) -> None:
        """The term is over: everybody who waits looks for the next coordinator, and no member is known any more."""
        if self._is_ended:
            return
        self._is_ended = True
        self.is_loaded = False
        for held in self._held.values():
            held.end(ErrorCode.NOT_COORDINATOR)
            self._memory.release(held.counted_bytes)
        self._held.clear()
        self._idle.clear()
        # A newer term may have taken it over already.
        if self.state.on_applied == self._drop_idle:
            self.state.on_applied = lambda: None

    # -- groups -------------------------------------------------------------------------------------------------

    def held(self, group_id: str) -> HeldGroup | None:
        """Return a group with members, waiting requests or writes; None for any other."""
        return self._held.get(group_id)

    def exists(self, group_id: str) -> bool:
        """Whether anything is known of a group."""
        table = self.table
        is_known = group_id in self._held or table.group(group_id) is not None or bool(table.offsets(group_id))
        return is_known or bool(table.pending.places(group_id))

    def hold(self, group_id: str) -> HeldGroup:
        """Return a group; one that is not held is as it was stored, or new and empty."""
        held = self._held.get(group_id)
        if held is None:
            held = HeldGroup(group_id, self._restored(group_id), self)
            self._held[group_id] = held
            self.settled(held)
        # It may have been held since other bounds were in force.
        held.group.set_bounds(*self._bounds())
        return held

    def view(self, group_id: str) -> Group | None:
        """Return a group to look at; None if nothing is known of it."""
        held = self._held.get(group_id)
        if held is not None:
            return held.group
        return self._restored(group_id) if self.exists(group_id) else None

    def group_ids(self) -> list[str]:
        """Return every group that is known."""
        return list(dict.fromkeys((*self._held, *self.table.group_ids())))

    def _bounds(self) -> tuple[float, int]:
        """Return how long a first generation waits for more members, seconds, and how many members there may be."""
        return self._options.initial_rebalance_delay_ms / 1000, self._options.max_size

    def _restored(self, group_id: str) -> Group:
        delay, size = self._bounds()
        stored = self.table.group(group_id)
        if stored is None:
            return Group(delay, size)
        return Group.restored(stored, asyncio.get_running_loop().time(), delay, size)

    # -- Writer -------------------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """Return the wall clock's time."""
        return self._wall_clock.now_ms()

    def settled(self, held: HeldGroup) -> None:
        """Count its memory, and drop it where the table says the same."""
        size = held.size_bytes
        self._memory.change(size - held.counted_bytes)
        held.counted_bytes = size
        if held.is_idle:
            self._idle[held.group_id] = held
            if held.written_index <= self.state.applied_index:
                asyncio.get_running_loop().call_soon(self._drop_idle)
        else:
            self._idle.pop(held.group_id, None)

    def _drop_idle(self) -> None:
        if not self._idle:
            return
        for held in list(self._idle.values()):
            if held.is_idle and held.written_index <= self.state.applied_index:
                self._drop(held)

    def _drop(self, held: HeldGroup) -> None:
        self._idle.pop(held.group_id, None)
        if self._held.pop(held.group_id, None) is not None:
            held.end(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            self._memory.release(held.counted_bytes)

    def write(self, records: Sequence[tuple[Key, Value | None]]) -> "asyncio.Future[Index | ErrorCode]":
        """Append records in this term; the result is their index once they are committed, or a code."""
        encoded = [encode_record(key, value) for key, value in records]
        # Whether the table has room is judged in the order of the log (`cluster.groups.offsets_log_state`).
        if _is_larger(encoded, self._options.record_bytes_max):
            done: asyncio.Future[Index | ErrorCode] = asyncio.get_running_loop().create_future()
            done.set_result(ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
            return done
        return self._writes.write(encoded)

    def transactional_batch(
        self, records: Sequence[tuple[Key, Value | None]], producer: BatchProducer
    ) -> bytearray | ErrorCode:
        """Return the batch of these records as a part of a producer's transaction; a code if it is too large."""
        batch = encode_key_values([encode_record(key, value) for key, value in records], self.now_ms(), producer)
        return ErrorCode.INVALID_COMMIT_OFFSET_SIZE if len(batch) > self._options.record_bytes_max else batch

    def write_in_transaction(self, group_id: str, batch: TransactionalBatch) -> "asyncio.Future[ErrorCode]":
        """Append a batch of a transaction in this term; the result is NONE once it is committed.

        COORDINATOR_LOAD_IN_PROGRESS says that nothing was written, because its guard does not hold.
        """
        return self.hold(group_id).follow(self._writes.write_batch(batch))

    def _is_settled(self, held: HeldGroup | None) -> bool:
        """Whether the table has all that is written of a group."""
        if held is None:
            return True
        return not held.writes and not held.is_uncertain and held.written_index <= self.state.applied_index

    # -- reading ------------------------------------------------------------------------------------------------

    async def confirm(self) -> ErrorCode:
        """Make sure that this broker has led until now, and that the table holds all that was committed before.

        A coordinator that was deposed and does not know it must not answer: neither old offsets, nor that a member
        still has its partitions.
        """
        begun, commit = self.partition.begin_read(), self.partition.commit_index
        try:
            await self.partition.confirm_read(begun)
            async with asyncio.timeout(self._options.write_timeout_ms / 1000):
                await self.state.wait_applied(commit)
        except RaftError as error:
            return coordinator_error(error)
        except TimeoutError:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.NONE if self.is_current else ErrorCode.NOT_COORDINATOR

    # -- deleting -----------------------------------------------------------------------------------------------

    async def delete_group(self, group_id: str) -> ErrorCode:
        """Delete a group without members, and its offsets."""
        if (error := await self._confirm_existence(group_id)) is not ErrorCode.NONE:
            return error
        held = self.hold(group_id)
        if held.group.state is GroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if held.group.state is not GroupState.EMPTY or self.state.is_pending(group_id):
            return ErrorCode.NON_EMPTY_GROUP
        # Nobody commits or joins meanwhile.
        held.pins += 1
        held.call(lambda _: held.group.kill(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        try:
            error = await self._write_deletion(held)
        finally:
            held.pins -= 1
            if error is not ErrorCode.NONE:
                held.group.revive()
            if not self._is_ended:
                self.settled(held)
        return error

    async def _confirm_existence(self, group_id: str) -> ErrorCode:
        """Return GROUP_ID_NOT_FOUND where nothing is known of a group, and a majority confirms that nobody knows more.

        Without that a coordinator that was deposed, or whose table lags, denies what another one has acknowledged
        (seed 20350).
        """
        if not self.exists(group_id) and (error := await self.confirm()) is not ErrorCode.NONE:
            return error
        return ErrorCode.NONE if self.exists(group_id) else ErrorCode.GROUP_ID_NOT_FOUND

    async def _write_deletion(self, held: HeldGroup) -> ErrorCode:
        await held.until_written()
        if self.state.is_pending(held.group_id):
            return ErrorCode.NON_EMPTY_GROUP
        # A write that has timed out may be committed yet, and the table does not know what it holds. Behind a deletion
        # that is committed nothing is in doubt any more: then the table says what else there is.
        if held.is_uncertain and (error := await self._delete_known(held)) is not ErrorCode.NONE:
            return error
        return await self._delete_known(held)

    async def _delete_known(self, held: HeldGroup) -> ErrorCode:
        # From here on the table has all that was committed of it.
        if (error := await self.confirm()) is not ErrorCode.NONE:
            return error
        group_id = held.group_id
        keys: list[Key] = [OffsetKey(group_id, *place) for place in self.table.offsets(group_id)]
        # The group itself goes last: what is left of one that was deleted by half can be deleted again.
        return await self._delete(held, [*keys, GroupKey(group_id)])

    async def _delete(self, held: HeldGroup, keys: Sequence[Key]) -> ErrorCode:
        """Write the deletion of all of these; at an error some of them may be deleted."""
        written = await asyncio.gather(*self._begin_deletion(held, keys))
        return next((error for error in written if error is not ErrorCode.NONE), ErrorCode.NONE)

    def _begin_deletion(self, held: HeldGroup, keys: Sequence[Key]) -> "list[asyncio.Future[ErrorCode]]":
        # In parts: what a group has committed over time may be more than one record batch holds.
        parts = deletion_parts(keys, self._options.record_bytes_max)
        return [held.write([(key, None) for key in part]) for part in parts]

    async def delete_offsets(
        self, group_id: str, places: Sequence[tuple[str, int]]
    ) -> ErrorCode | dict[tuple[str, int], ErrorCode]:
        """Delete positions of topics that no member subscribes to; a code each, or one for all of it."""
        if (error := await self._confirm_existence(group_id)) is not ErrorCode.NONE:
            return error
        held = self.hold(group_id)
        group = held.group
        if group.state is GroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        subscribed: Collection[str] = ()
        if len(group.members):
            if group.protocol_type != CONSUMER:
                return ErrorCode.NON_EMPTY_GROUP
            named = consumed_topics(CONSUMER, [each.metadata(group.protocol) for each in group.members])
            # What cannot be read may be about any topic.
            subscribed = {topic for topic, _ in places} if named is None else named
        free = [place for place in places if place[0] not in subscribed]
        if free:
            error = await self._delete(held, [OffsetKey(group_id, *place) for place in free])
            if error is not ErrorCode.NONE:
                return error
        return {
            place: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if place[0] in subscribed else ErrorCode.NONE for place in places
        }

    async def expire(self) -> None:
        """Delete what has outlived its retention; only of groups of which nothing is on its way."""
        for number, group_id in enumerate(self.table.group_ids(), start=1):
            if number % _GROUPS_PER_STEP == 0:
                await asyncio.sleep(0)
            if not self.is_current:
                return
            held = self._held.get(group_id)
            if self._is_settled(held) and not self.state.is_pending(group_id):
                self._expire_group(group_id, self.table.group(group_id), held)

    def _expire_group(self, group_id: str, stored: StoredGroup | None, held: HeldGroup | None) -> None:
        offsets = self.table.offsets(group_id)
        expired = expired_offsets(self.now_ms(), self._options.offsets_retention_ms, stored, offsets)
        keys: list[Key] = [OffsetKey(group_id, *place) for place in expired]
        is_empty = stored is not None and not stored.members and (held is None or held.is_idle)
        if is_empty and len(expired) == len(offsets):
            keys.append(GroupKey(group_id))
        if keys:
            _logger.info("group %s: %d committed offsets have outlived their retention", group_id[:100], len(expired))
            self._begin_deletion(self.hold(group_id), keys)

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted: delete what was committed of it."""
        for group_id in self.table.group_ids():
            known = [OffsetKey(group_id, *place) for place in self.table.offsets(group_id)]
            keys = [key for key in dict.fromkeys((*known, *self.table.pending.places(group_id))) if key.topic == topic]
            if keys:
                self._begin_deletion(self.hold(group_id), keys)

    def check_commit(self, group_id: str, identity: Identity, *, is_transactional: bool = False) -> ErrorCode:
        """Whether offsets may be committed under this name; a group that nobody knows has no generations."""
        if not self.exists(group_id):
            return ErrorCode.NONE if identity.generation < 0 else ErrorCode.ILLEGAL_GENERATION
        held = self.hold(group_id)
        return held.call(lambda now: held.group.check_commit(now, identity, is_transactional=is_transactional))


def _is_larger(records: Sequence[KeyValue], bytes_max: int) -> bool:
    """Whether the batch of these records has more bytes; only a batch that is close to it is made."""
    at_most = _BATCH_BYTES + sum(_RECORD_BYTES + len(record.key) + len(record.value or b"") for record in records)
    return at_most > bytes_max and len(encode_key_values(records, 0)) > bytes_max
