"""The group coordinator of one broker: which groups it keeps, since when, and what it says to requests about them."""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from cluster.groups.offsets_log_state import OffsetsLogState
from cluster.groups.offsets_topic import OFFSETS_TOPIC, OFFSETS_TOPIC_CONFIGS
from cluster.groups.records import CommittedOffset, OffsetKey
from cluster.node import Node
from cluster.partition import Partition
from cluster.topic_table import Topic
from kafka_api.coordinators.office import CoordinatorOffice
from kafka_api.groups.coordinated_partition import CoordinatedPartition
from kafka_api.groups.group_events import Identity, Join, JoinResult, Sync, SyncResult
from kafka_api.groups.held_group import new_group_bytes
from kafka_api.groups.lag import GroupLags
from kafka_api.groups.member_memory import MemberMemory
from kafka_api.groups.options import GroupOptions
from kafka_api.options import OptionsInForce
from kafka_api.protocol.error_codes import ErrorCode
from runtime.gate import Gate

_logger = logging.getLogger("kafka.groups")


class GroupCoordinator(CoordinatorOffice[CoordinatedPartition]):
    """See the module. Requests are answered with a code where this broker is not the one to ask."""

    def __init__(self, node: Node, in_force: OptionsInForce) -> None:
        self._in_force = in_force
        options = self.options
        self._is_changed = asyncio.Event()
        self._memory = MemberMemory(options.member_bytes_max)
        gate, partitions = Gate("group coordinator"), options.topic_partitions
        super().__init__(node, OFFSETS_TOPIC, OFFSETS_TOPIC_CONFIGS, partitions, gate, _logger)
        self.lags = GroupLags(node, self._active.values, options.lag_interval_ms)

    @property
    def options(self) -> GroupOptions:
        """Those in force now."""
        return self._in_force.current.groups

    def on_options(self) -> None:
        """Options have changed: bounds of sessions, of groups and of what a commit carries hold for the next request,
        times of retention from the next look on.
        """
        self._is_changed.set()

    def start(self) -> None:
        """See `CoordinatorOffice`."""
        super().start()
        self._node.controller.topics.add_delete_listener(self._on_deleted)
        self._gate.spawn(self._expire(), name="expire offsets")
        self._gate.spawn(self.lags.run(), name="measure lags")

    @property
    def _first_leader_wait(self) -> float:
        return self.options.first_leader_wait_ms / 1000

    def _new_kept(self, partition: Partition) -> CoordinatedPartition | None:
        if not isinstance(partition.log_state, OffsetsLogState):
            return None
        return CoordinatedPartition(
            partition, partition.log_state, self._in_force, self._node.env.wall_clock, self._memory
        )

    def _on_deleted(self, topic: Topic) -> None:
        for active in self._active.values():
            if active.is_loaded and active.is_current:
                active.forget_topic(topic.name)

    async def _expire(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self.options.retention_check_interval_ms / 1000):
                    await self._is_changed.wait()
            except TimeoutError:
                pass
            else:
                # The interval may be another one: it begins anew.
                self._is_changed.clear()
                continue
            for active in list(self._active.values()):
                if active.is_loaded:
                    await active.expire()

    # -- members ------------------------------------------------------------------------------------------------

    def join(self, group_id: str, request: Join) -> "JoinResult | asyncio.Future[JoinResult]":
        """Let somebody join; the future is done when the next generation begins."""
        refusal = self._refuse_join(group_id, request)
        if refusal is not None:
            return JoinResult(error=refusal, member_id=request.member_id)
        active = self.locate(group_id)
        if isinstance(active, ErrorCode):
            return JoinResult(error=active, member_id=request.member_id)
        if request.member_id and not active.exists(group_id):
            return JoinResult(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=request.member_id)
        known = active.held(group_id)
        growth = new_group_bytes(group_id, request) if known is None else known.group.growth_bytes(request)
        if not self._memory.has_room(growth):
            return JoinResult(error=ErrorCode.GROUP_MAX_SIZE_REACHED, member_id=request.member_id)
        held = active.hold(group_id)
        return held.ask(lambda now, ticket: held.group.join(now, request, ticket), JoinResult)

    def _refuse_join(self, group_id: str, request: Join) -> ErrorCode | None:
        options = self.options
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        if not options.min_session_timeout_ms <= request.session_timeout_ms <= options.max_session_timeout_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        return None

    async def sync(self, group_id: str, request: Sync) -> "SyncResult | asyncio.Future[SyncResult]":
        """Give a member its assignment; the future is done when that is stored."""
        active = self.locate_named(group_id)
        if active is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # As in Kafka: clients do not expect that code here, and a generation that nobody has stored is over.
            return SyncResult(error=ErrorCode.REBALANCE_IN_PROGRESS)
        if isinstance(active, ErrorCode):
            return SyncResult(error=active)
        held = active.held(group_id)
        if held is None:
            return SyncResult(error=ErrorCode.UNKNOWN_MEMBER_ID)
        group = held.group
        answer = held.ask(lambda now, ticket: group.sync(now, request, ticket), SyncResult)
        if not answer.done() or answer.result().error is not ErrorCode.NONE:
            return answer
        error = await active.confirm()
        return answer.result() if error is ErrorCode.NONE else SyncResult(error=error)

    async def heartbeat(self, group_id: str, identity: Identity) -> ErrorCode:
        """Note that a member is alive."""
        active = self.locate_named(group_id)
        if active is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # Clients do not expect that code here: aiokafka hands it to its user as an error. Kafka says that all is
            # well, which nobody knows before this broker is in office.
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if isinstance(active, ErrorCode):
            return active
        held = active.held(group_id)
        if held is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        group = held.group
        error = held.call(lambda now: group.heartbeat(now, identity))
        return error if error is not ErrorCode.NONE else await active.confirm()

    async def leave(self, group_id: str, identities: Sequence[Identity]) -> list[ErrorCode] | ErrorCode:
        """Let members go; a code each, or one for all of it."""
        active = self.locate_named(group_id)
        if isinstance(active, ErrorCode):
            return active
        held = active.held(group_id)
        if held is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID for _ in identities]
        group = held.group
        errors = held.call(lambda now: [group.leave(now, each) for each in identities])
        error = await active.confirm()
        return errors if error is ErrorCode.NONE else error

    def locate_named(self, group_id: str) -> CoordinatedPartition | ErrorCode:
        """As `locate`, for requests that must name a group."""
        return self.locate(group_id) if group_id else ErrorCode.INVALID_GROUP_ID

    # -- offsets ------------------------------------------------------------------------------------------------

    def commit(
        self, group_id: str, identity: Identity, offsets: Mapping[tuple[str, int], CommittedOffset]
    ) -> "ErrorCode | asyncio.Future[ErrorCode]":
        """Commit positions; the future is done once they are on the disks of a majority."""
        active = self.locate(group_id)
        if isinstance(active, ErrorCode):
            return active
        error = active.check_commit(group_id, identity)
        if error is not ErrorCode.NONE or not offsets:
            return error
        return active.hold(group_id).write([(OffsetKey(group_id, *place), each) for place, each in offsets.items()])

    async def confirmed(self, group_ids: Sequence[str]) -> list[CoordinatedPartition | ErrorCode]:
        """Return what `locate` does for each group, once it is certain that nothing newer is committed elsewhere."""
        located = [self.locate(group_id) for group_id in group_ids]
        asked = list(dict.fromkeys(each for each in located if not isinstance(each, ErrorCode)))
        errors = dict(zip(asked, await asyncio.gather(*(each.confirm() for each in asked)), strict=True))

        def outcome(each: CoordinatedPartition | ErrorCode) -> CoordinatedPartition | ErrorCode:
            return each if isinstance(each, ErrorCode) else errors[each] or each

        return [outcome(each) for each in located]

    async def delete_offsets(
        self, group_id: str, places: Sequence[tuple[str, int]]
    ) -> ErrorCode | dict[tuple[str, int], ErrorCode]:
        """Delete positions of topics that no member subscribes to; a code each, or one for all of it."""
        active = self.locate_named(group_id)
        return active if isinstance(active, ErrorCode) else await active.delete_offsets(group_id, places)

    async def delete_group(self, group_id: str) -> ErrorCode:
        """Delete a group without members."""
        active = self.locate(group_id)
        if isinstance(active, ErrorCode):
            return active
        return await active.delete_group(group_id)
