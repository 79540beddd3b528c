"""The group coordinator of one broker: which groups it keeps, since when, and what it says to requests about them."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence

from cluster.commands import BrokerRecord
from cluster.groups.offsets_log_state import OffsetsLogState
from cluster.groups.offsets_topic import OFFSETS_TOPIC, offsets_partition
from cluster.groups.records import CommittedOffset, OffsetKey
from cluster.node import Node
from cluster.partition import Partition
from cluster.topic_table import Topic
from kafka_api.groups.coordinated_partition import CoordinatedPartition
from kafka_api.groups.group_events import Identity, Join, JoinResult, Sync, SyncResult
from kafka_api.groups.held_group import new_group_bytes
from kafka_api.groups.lag import GroupLags
from kafka_api.groups.member_memory import MemberMemory
from kafka_api.groups.offsets_creation import OffsetsCreation
from kafka_api.groups.options import GroupOptions
from kafka_api.options import OptionsInForce
from kafka_api.protocol.error_codes import ErrorCode
from model.ids import GroupId
from raft.consensus import Consensus
from runtime.gate import Gate

_logger = logging.getLogger("kafka.groups")
# A replica that took office while it was being opened is found so late.
_LOOK_INTERVAL = 0.5


class GroupCoordinator:
    """See the module. Requests are answered with a code where this broker is not the one to ask."""

    def __init__(self, node: Node, in_force: OptionsInForce) -> None:
        self._in_force = in_force
        options = self.options
        self._is_changed = asyncio.Event()
        self._node = node
        self._gate = Gate("group coordinator")
        self._memory = MemberMemory(options.member_bytes_max)
        self._creation = OffsetsCreation(node, options.topic_partitions, self._gate)
        self._active: dict[GroupId, CoordinatedPartition] = {}
        self._leadership_news = asyncio.Event()
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
        """Begin to take over what this broker leads. The node has started."""
        self._node.groups.add_leadership_listener(self._on_leadership)
        self._node.controller.topics.add_delete_listener(self._on_deleted)
        self._node.leadership.add_listener(self._on_leadership_news)
        self._gate.spawn(self._look(), name="look")
        self._gate.spawn(self._expire(), name="expire offsets")
        self._gate.spawn(self.lags.run(), name="measure lags")

    async def stop(self) -> None:
        """Keep no group any more; whoever waits is told to look for the next coordinator."""
        for active in self._active.values():
            active.end()
        self._active.clear()
        await self._gate.close()

    # -- who keeps what -----------------------------------------------------------------------------------------

    def find_coordinator(self, group_id: str) -> BrokerRecord | None:
        """Return the broker that keeps a group; None while nobody does. Asking creates the topic."""
        topic = self._node.controller.topics.get(OFFSETS_TOPIC)
        if topic is None:
            self._creation.request()
            return None
        number = offsets_partition(group_id, len(topic.replicas))
        leader = self._node.leadership.leader_of(topic.group(number))
        if leader is None or not self._node.is_alive(leader.node_id):
            return None
        return self._node.controller.members.get(leader.node_id)

    async def wait_for_first_leader(self, group_id: str) -> None:
        """Wait until somebody keeps the group, for at most `first_leader_wait_ms`, if nobody ever has.

        librdkafka 2.16 asks three times within 0.3 s for an administrative request. After that it neither asks again
        nor fails: the request hangs until its time is over. So the first request of a new cluster waits here. Later
        elections are not waited for, because answers to other requests of the same connection would wait, too.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.options.first_leader_wait_ms / 1000):
                while self.find_coordinator(group_id) is None and self._awaits_first_leader(group_id):
                    await self._leadership_news.wait()

    def _awaits_first_leader(self, group_id: str) -> bool:
        topic = self._node.controller.topics.get(OFFSETS_TOPIC)
        if topic is None:
            return not self._gate.is_closed
        return self._node.leadership.newest_term(topic.group(offsets_partition(group_id, len(topic.replicas)))) < 0

    def _on_leadership_news(self) -> None:
        # Whoever waits now is woken; whoever comes later waits for the next news.
        self._leadership_news.set()
        self._leadership_news.clear()

    def locate(self, group_id: str) -> CoordinatedPartition | ErrorCode:
        """Return the partition that keeps a group, if this broker leads it and knows its members."""
        topic = self._node.controller.topics.get(OFFSETS_TOPIC)
        if topic is None or self._gate.is_closed:
            return ErrorCode.NOT_COORDINATOR
        group = topic.group(offsets_partition(group_id, len(topic.replicas)))
        partition = self._node.partitions.get(group)
        if partition is None or partition.failure is not None:
            return ErrorCode.NOT_COORDINATOR
        if not partition.is_in_office:
            is_leader = partition.is_leader
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_leader else ErrorCode.NOT_COORDINATOR
        active = self._active_of(partition)
        return active if active is not None and active.is_loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def all_here(self) -> list[CoordinatedPartition] | ErrorCode:
        """Return every partition that is kept here; an error while one of them is not known yet."""
        found = []
        for partition in self._led_here():
            active = self._active_of(partition) if partition.is_in_office else None
            if active is None or not active.is_loaded:
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            found.append(active)
        return found

    def _led_here(self) -> list[Partition]:
        """Return what this broker was elected for, in office yet or not."""
        topic = self._node.controller.topics.get(OFFSETS_TOPIC)
        numbers = range(0 if topic is None else len(topic.replicas))
        partitions = [self._node.partitions.get(topic.group(number)) for number in numbers if topic is not None]
        whole = [each for each in partitions if each is not None and each.failure is None]
        return [partition for partition in whole if partition.is_leader]

    def _active_of(self, partition: Partition) -> CoordinatedPartition | None:
        """Return the groups of a partition that is led here, from the term's first look on."""
        group = partition.group
        active = self._active.get(group)
        if active is not None and active.term == partition.leader_epoch and active.partition is partition:
            return active
        if active is not None:
            active.end()
        if not isinstance(partition.log_state, OffsetsLogState):
            return None
        active = CoordinatedPartition(
            partition, partition.log_state, self._in_force, self._node.env.wall_clock, self._memory
        )
        self._active[group] = active
        self._gate.spawn(active.load(), name=f"load {group}")
        return active

    def _on_leadership(self, consensus: Consensus) -> None:
        active = self._active.get(consensus.group)
        if active is not None and not active.is_current:
            consensus.logger_of(_logger.name).info("no coordinator any more, term %d is over", active.term)
            active.end()
            del self._active[consensus.group]
        if not consensus.is_in_office or self._gate.is_closed:
            return
        partition = self._node.partitions.get(consensus.group)
        if partition is not None and partition.topic.name == OFFSETS_TOPIC:
            self._active_of(partition)

    async def _look(self) -> None:
        while True:
            for partition in self._led_here():
                if partition.is_in_office:
                    self._active_of(partition)
            await asyncio.sleep(_LOOK_INTERVAL)

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
